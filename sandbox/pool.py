"""A pool of boxes that are started and wait for a thread, so that its first cell need not.

A box serves one thread: it leaves the pool when a thread gets it and is removed when the thread is done with it. Those
that wait are held by this process, whose signs of life keep them; after its end they are nobody's, and end by
themselves.
"""

import atexit
import logging
import threading
import time
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
        self._changed = threading.Condition()
        self._ready: deque[BoxSession] = deque()
        self._coming = 0
        self._not_before = 0.0
        self._failed = False
        self._closed = False
        self._fillers = [
            threading.Thread(target=self._fill, name="actloop pool", daemon=True) for _ in range(min(size, AT_A_TIME))
        ]
        for filler in self._fillers:
            filler.start()
        atexit.register(self.close)

    @property
    def ready(self) -> int:
        """Boxes that wait now."""
        with self._changed:
            return sum(session.alive for session in self._ready)

    def take(self, order: Order) -> BoxSession | None:
        """A box for a thread that has none.

        Args:
            order: what the thread needs.

        Returns:
            A session in which nothing has run; None where the thread has a box, or none is ready.
        """
        try:
            if not self._is_ready() or self._lookup.has_box(order.key):
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
        with self._changed:
            self._closed = True
            waiting, self._ready = list(self._ready), deque()
            self._changed.notify_all()
        closers = [threading.Thread(target=session.close) for session in waiting]
        for closer in closers:
            closer.start()
        for thread in [*closers, *self._fillers]:
            thread.join()
        self._lookup.close()
        atexit.unregister(self.close)

    def _is_ready(self) -> bool:
        """Whether a box waits; where the start of one has failed, another is tried now that somebody asks."""
        with self._changed:
            if self._failed:
                self._failed = False
                self._changed.notify_all()
            return bool(self._ready)

    def _next(self) -> BoxSession | None:
        """Take a box out, whether it lives or not; another will take its place."""
        with self._changed:
            if not self._ready:
                return None
            self._not_before = time.monotonic() + REFILL_AFTER_S
            self._changed.notify()
            return self._ready.popleft()

    def _fill(self) -> None:
        """Start boxes while some are missing."""
        while self._is_wanted():
            session: BoxSession | None = None
            try:
                session = self._start_box(Order(pooled=True))
            except Exception as error:
                # Nobody waits for it. A thread that finds no box opens its own, and is told what is wrong.
                _log.warning("no box could be started for the pool: %s", error)
            with self._changed:
                self._coming -= 1
                self._failed = session is None
                closed = self._closed
                if session is not None and not closed:
                    self._ready.append(session)
            if session is not None and closed:
                session.close()

    def _is_wanted(self) -> bool:
        """Wait until a box is missing, and promise it; False where the pool is closed."""
        with self._changed:
            while not self._closed:
                missing = self.size - len(self._ready) - self._coming
                wait_s = self._not_before - time.monotonic()
                if missing > 0 and not self._failed and wait_s <= 0:
                    self._coming += 1
                    return True
                self._changed.wait(wait_s if missing > 0 and wait_s > 0 else None)
            return False
