"""The sessions of one agent, by thread."""

import atexit
import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from actloop.errors import SessionBusy
from actloop.sandbox.session import BoxSession


class ThreadSessions:
    """Opens a session for a thread when it needs one, and closes all of them at the end.

    Leaving the context, `close()` and the end of the process close every session.

    Args:
        open_session: starts a box for a thread.
        read_facts: Python version, and installed packages in one line, of the boxes to come.
    """

    def __init__(self, open_session: Callable[[str], BoxSession], read_facts: Callable[[], tuple[str, str]]) -> None:
        self._open = open_session
        self._read_facts = read_facts
        self._facts: tuple[str, str] | None = None
        self._lock = threading.Lock()
        self._sessions: dict[str, BoxSession] = {}
        self._opening: dict[str, threading.Lock] = {}
        self._running: set[tuple[str, str]] = set()
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

    def get(self, thread: str) -> BoxSession:
        """The thread's session; see `actloop.nodes.context.Sessions`."""
        with self._lock:
            opening = self._opening.setdefault(thread, threading.Lock())
        with opening:
            session = self._sessions.get(thread)
            if session is not None and session.alive:
                return session
            if session is not None:
                session.close()
            session = self._open(thread)
            self._sessions[thread] = session
            return session

    def has(self, thread: str) -> bool:
        """Whether the thread has a session that answers."""
        session = self._sessions.get(thread)
        return session is not None and session.alive

    def drop(self, thread: str) -> None:
        """Close the thread's session, if it has one, without waiting for its box to be removed."""
        with self._lock:
            session = self._sessions.pop(thread, None)
            self._opening.pop(thread, None)
        if session is not None:
            closer = threading.Thread(target=session.close, name=f"actloop close {session.id}")
            closer.start()
            with self._lock:
                self._closing = [*(thread for thread in self._closing if thread.is_alive()), closer]

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
        """Close every session and remove its box; safe to repeat."""
        with self._lock:
            sessions, self._sessions = list(self._sessions.values()), {}
            under_way, self._closing = self._closing, []
        closers = [threading.Thread(target=session.close) for session in sessions]
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


_ALL: "weakref.WeakSet[ThreadSessions]" = weakref.WeakSet()


def _close_all() -> None:
    for sessions in list(_ALL):
        with contextlib.suppress(Exception):
            sessions.close()


atexit.register(_close_all)
