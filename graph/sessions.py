"""The sessions of one agent, by thread."""

import atexit
import contextlib
import hashlib
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Self

from actloop.errors import SessionBusy
from actloop.sandbox.host_functions import HostFunction
from actloop.sandbox.order import Order
from actloop.sandbox.pool import Pool
from actloop.sandbox.session import BoxSession
from actloop.sandbox.snapshots import Snapshots


class ThreadSessions:
    """Opens a session for a thread when it needs one, and closes all of them at the end.

    Leaving the context, `close()` and the end of the process close every session.

    Args:
        open_session: starts a box, or attaches to the one that the thread has.
        read_facts: Python version, and installed packages in one line, of the boxes to come.
        store: folder or URL of the snapshots; None where none are made.
        functions: of the host, that cells may call.
        pool: boxes that are started and wait for a thread; closed with the sessions, for good.
        tidy: called when the first session has been opened; it may not wait for anything.
    """

    def __init__(
        self,
        open_session: Callable[[Order], BoxSession],
        read_facts: Callable[[], tuple[str, str]],
        store: str | None = None,
        functions: Sequence[HostFunction] = (),
        pool: Pool | None = None,
        tidy: Callable[[], None] | None = None,
    ) -> None:
        self._open = open_session
        self._read_facts = read_facts
        self._store = store
        self._functions = functions
        self.pool = pool
        """Boxes that wait for a thread, where any do."""
        self._tidy = tidy
        self._facts: tuple[str, str] | None = None
        self._lock = threading.Lock()
        self._sessions: dict[str, BoxSession] = {}
        self._opening: dict[str, threading.Lock] = {}
        self._running: set[tuple[str, str]] = set()
        self._transient: set[str] = set()
        self._closing: list[threading.Thread] = []
        _ALL.add(self)

    @contextlib.contextmanager
    def one_run(self, thread: str, part: str = "") -> Iterator[None]:
        """Hold a thread for one run.

        Args:
            thread: whose.
            part: of it; a graph within a graph has its own.

        Raises:
            SessionBusy: the thread has a run already.
        """
        with self._lock:
            if (thread, part) in self._running:
                raise SessionBusy(
                    f"The thread {thread} has a run that goes on; wait for its end, or give another thread_id."
                )
            self._running.add((thread, part))
        try:
            yield
        finally:
            with self._lock:
                self._running.discard((thread, part))

    @contextlib.contextmanager
    def transient(self, thread: str) -> Iterator[None]:
        """Let a thread be one that nobody can go on with: its box ends with its run, and with this process."""
        self._transient.add(thread)
        try:
            yield
        finally:
            self.drop(thread)
            self._transient.discard(thread)

    def get(self, thread: str, kernel: str = "") -> BoxSession:
        """The thread's session; see `actloop.nodes.context.Sessions`. Without a kernel, one that is open is taken."""
        open_ones = [] if kernel else self._of(thread, kernel)
        key = open_ones[0][0] if open_ones else box_key(thread, kernel)
        with self._lock:
            opening = self._opening.setdefault(key, threading.Lock())
        with opening:
            session = self._sessions.get(key)
            if session is not None and session.alive:
                return session
            if session is not None:
                session.leave()
            session = self._for(self._order(key, thread, kernel))
            if self._functions:
                session.offer(self._functions)
            self._sessions[key] = session
            return session

    def _for(self, order: Order) -> BoxSession:
        """A box from the pool, where the thread has none yet; else its own, or a new one."""
        session = self.pool.take(order) if self.pool is not None else None
        session = session or self._open(order)
        tidy, self._tidy = self._tidy, None
        if tidy is not None:
            tidy()
        return session

    def _order(self, key: str, thread: str, kernel: str) -> Order:
        if thread in self._transient:
            return Order(thread=thread)
        store = self.snapshots(kernel)
        if store is None:
            return Order(key=key, thread=thread)
        return Order(key=key, thread=thread, snapshots=lambda: store, every_cell=True)

    def snapshots(self, kernel: str) -> Snapshots | None:
        """The snapshots of a thread, or None where none are kept.

        Args:
            kernel: secret of the thread. It stands in the checkpoint, and whoever can read that may read the
                snapshots: so they can be used on any machine that has both stores.
        """
        return None if self._store is None or not kernel else snapshots_of(kernel, self._store)

    def has(self, thread: str, kernel: str = "") -> bool:
        """Whether the thread has a session here that answers; without a kernel, whichever it is."""
        return any(session.alive for _, session in self._of(thread, kernel))

    def drop(self, thread: str, kernel: str = "", wait: bool = False) -> None:
        """Close the thread's session, if it has one here.

        Args:
            thread: its id.
            kernel: its secret; without it, whichever sessions it has.
            wait: until the box is removed.
        """
        for key, session in self._of(thread, kernel):
            with self._lock:
                self._sessions.pop(key, None)
                self._opening.pop(key, None)
            closer = self._close_later(session)
            if wait:
                closer.join()

    def _of(self, thread: str, kernel: str) -> list[tuple[str, BoxSession]]:
        with self._lock:
            if kernel:
                key = box_key(thread, kernel)
                return [(key, self._sessions[key])] if key in self._sessions else []
            return [(key, session) for key, session in self._sessions.items() if key.startswith(_prefix(thread))]

    def _close_later(self, session: BoxSession) -> threading.Thread:
        closer = threading.Thread(target=session.close, name=f"actloop close {session.id}")
        closer.start()
        with self._lock:
            self._closing = [*(thread for thread in self._closing if thread.is_alive()), closer]
        return closer

    def settle(self, thread: str) -> None:
        """Wait until other processes can find the thread's box, and its snapshots that are under way are stored."""
        for _, session in self._of(thread, ""):
            session.settle()

    def interrupt(self) -> None:
        """End every running cell; the sessions go on."""
        for session in list(self._sessions.values()):
            session.interrupt()

    def facts(self) -> tuple[str, str]:
        """Python version, and installed packages in one line, of the boxes to come."""
        if self._facts is None:
            self._facts = self._read_facts()
        return self._facts

    def close(self) -> None:
        """Close every session and remove its box; safe to repeat. Snapshots stay: threads go on from them.

        The box of a cell that waits for a person stays, for the process that has the answer.
        """
        self._end(_close_or_detach)

    def detach(self) -> None:
        """Leave every box, with what runs in it, to the next process that goes on with its thread."""
        self._end(BoxSession.detach)

    def _end(self, how: Callable[[BoxSession], None]) -> None:
        with self._lock:
            sessions, self._sessions = list(self._sessions.values()), {}
            under_way, self._closing = self._closing, []
        closers = [threading.Thread(target=how, args=(session,)) for session in sessions]
        if self.pool is not None:
            closers.append(threading.Thread(target=self.pool.close))
        for closer in closers:
            closer.start()
        for closer in [*under_way, *closers]:
            closer.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _close_or_detach(session: BoxSession) -> None:
    if session.waits:
        session.detach()
    else:
        session.close()


def snapshots_of(kernel: str, store: str) -> Snapshots:
    """The snapshots of the threads that share a kernel."""
    return Snapshots(store, _derived(kernel, "folder")[:32], bytes.fromhex(_derived(kernel, "signature")))


def box_key(thread: str, kernel: str) -> str:
    """Under which name the box of a thread is found, by every process that has the thread's checkpoint.

    Two threads that share a kernel, because one is a copy of the other, have a box each.
    """
    return _prefix(thread) + _derived(kernel, f"box {thread}")[:16]


def _prefix(thread: str) -> str:
    return hashlib.sha256(thread.encode("utf-8", "replace")).hexdigest()[:8]


def _derived(kernel: str, purpose: str) -> str:
    return hashlib.sha256(f"{purpose}\0{kernel}".encode("utf-8", "replace")).hexdigest()


_ALL: "weakref.WeakSet[ThreadSessions]" = weakref.WeakSet()


@contextlib.contextmanager
def hold_everywhere(thread: str) -> Iterator[list[ThreadSessions]]:
    """Hold a thread in all agents of this process, so that none begins a run of it.

    Raises:
        SessionBusy: one of them has a run of the thread that goes on.
    """
    everyone = list(_ALL)
    with contextlib.ExitStack() as held:
        for sessions in everyone:
            held.enter_context(sessions.one_run(thread))
        yield everyone


def _close_all() -> None:
    for sessions in list(_ALL):
        with contextlib.suppress(Exception):
            sessions.close()


atexit.register(_close_all)
