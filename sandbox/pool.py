"""A pool of boxes that are started and wait for a thread, so that its first cell need not.

A box serves one thread: it leaves the pool when a thread gets it and is removed when the thread is done with it. Those
that wait are held by this process, whose signs of life keep them; after its end they are nobody's, and end by
themselves.
"""

import atexit
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from actloop.errors import SandboxError

from .order import Order
from .session import BoxSession

AT_A_TIME = 2
"""Boxes that are started at once."""
REFILL_AFTER_S = 0.3
"""Seconds between the taking of a box and the start of another, so that the first cell of its thread goes first."""

_log = logging.getLogger("actloop.sandbox")


class Lookup(Protocol):
    """Knows which threads have a box already."""

    def has_box(self, key: str) -> bool:
        """Whether the engine has a box of the thread with this key."""
        ...

    def close(self) -> None:
        """Let go of the engine."""
        ...


class Pool:
    """Boxes that wait; they are started in the background, and each that is taken is replaced.

    Args:
        size: boxes that wait at most.
        start_box: starts a box that no thread has.
        lookup: of the engine where they are.
    """

    def __init__(self, size: int, start_box: Callable[[Order], BoxSession], lookup: Lookup) -> None:
        self.size = size
        self._start_box = start_box
        self._lookup = lookup
        self._lock = threading.Lock()
        self._ready: deque[BoxSession] = deque()
        self._coming = 0
        self._fillers: list[threading.Thread] = []
        self._closed = threading.Event()
        atexit.register(self.close)
        self.fill()

    @property
    def ready(self) -> int:
        """Boxes that wait now."""
        with self._lock:
            return sum(session.alive for session in self._ready)

    def fill(self, after_s: float = 0.0) -> None:
        """Begin to start the boxes that are missing; no more than a few at once.

        Args:
            after_s: seconds to wait before that.
        """
        with self._lock:
            while not self._closed.is_set() and self._coming < AT_A_TIME and self._missing() > 0:
                self._coming += 1
                filler = threading.Thread(target=self._fill, args=(after_s,), name="actloop pool", daemon=True)
                self._fillers = [*(other for other in self._fillers if other.is_alive()), filler]
                filler.start()

    def take(self, order: Order) -> BoxSession | None:
        """A box for a thread that has none.

        Args:
            order: what the thread needs.

        Returns:
            A session in which nothing has run; None where the thread has a box, or none is ready.
        """
        if not self.ready:
            self.fill()
            return None
        try:
            if self._lookup.has_box(order.key):
                return None
        except SandboxError:
            # An engine that does not answer is told by whoever opens a session the long way.
            return None
        while (session := self._next()) is not None:
            try:
                session.adopt(order.key, order.thread, order.snapshots, order.every_cell)
            except SandboxError as error:
                _log.info("the box %s has ended in the pool: %s", session.id, error)
                threading.Thread(target=session.close, name=f"actloop close {session.id}").start()
            else:
                return session
        return None

    def close(self) -> None:
        """Remove the boxes that wait, and start no more; safe to repeat, and done at the end of the process."""
        with self._lock:
            self._closed.set()
            waiting, self._ready = list(self._ready), deque()
            fillers, self._fillers = self._fillers, []
        closers = [threading.Thread(target=session.close) for session in waiting]
        for closer in closers:
            closer.start()
        for thread in [*closers, *fillers]:
            thread.join()
        self._lookup.close()
        atexit.unregister(self.close)

    def _next(self) -> BoxSession | None:
        """Take a box out, whether it lives or not, and see to it that another comes."""
        with self._lock:
            session = self._ready.popleft() if self._ready else None
        self.fill(REFILL_AFTER_S)
        return session

    def _missing(self) -> int:
        return self.size - len(self._ready) - self._coming

    def _fill(self, after_s: float) -> None:
        session: BoxSession | None = None
        try:
            if not self._closed.wait(after_s):
                session = self._start_box(Order(pooled=True))
        except Exception as error:
            # Nobody waits for it. A thread that finds no box opens its own, and is told what is wrong.
            _log.warning("no box could be started for the pool: %s", error)
        with self._lock:
            self._coming -= 1
            kept = session is not None and not self._closed.is_set()
            if session is not None and kept:
                self._ready.append(session)
        if kept:
            self.fill()
        elif session is not None:
            session.close()
