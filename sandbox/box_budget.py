"""How much a snapshot may take, and an end to what takes more. Runs inside the box, in a fork of the worker.

No variable may take more than half of what is left, of bytes or of time: so one that never ends, or a heap of large
ones, leaves room for those that follow.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import contextlib
import gc
import io
import pickle
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

from .box_pickler import IN_BAND

_ALWAYS = 1 << 20
"""Bytes that a variable may take of what is left even if they are more than half of it."""
_WALL = 5
"""Seconds of the clock that a variable may take for each of processor time: others may use the processor, too."""
_DEEP = 10_000
"""Levels of Python's recursion limit while pickling: each level of the data takes one to three."""


class SaveLimits(NamedTuple):
    """How much a snapshot of the variables may take."""

    variable: int = 64 << 20
    """Bytes that one variable may have."""
    total: int = 256 << 20
    """Bytes of all variables together."""
    cpu_s: float = 20.0
    """Seconds of processor time for all."""


class TooLarge(BaseException):
    """A variable has more bytes than it may; the text says so. Code of the user cannot take it for an error."""


class TooSlow(BaseException):
    """A variable takes longer than it may."""


class Output:
    """What a pickler writes: a stream, and large buffers next to it, which are not copied.

    Args:
        limit: bytes of both.
        words: what to say of more.
    """

    def __init__(self, limit: int, words: str) -> None:
        self.stream = bytearray()
        self.size = 0
        self._buffers: list[Any] = []
        self._limit = limit
        self._words = words

    def write(self, data: Any) -> int:
        """Take a part of the stream."""
        self._grow(len(data))
        self.stream += data
        return len(data)

    def buffer(self, buffer: pickle.PickleBuffer) -> bool:
        """Take a buffer; true if it is to stay in the stream."""
        raw = buffer.raw()
        if raw.nbytes < IN_BAND:
            return True
        self._grow(raw.nbytes)
        self._buffers.append(raw)
        return False

    def _grow(self, size: int) -> None:
        self.size += size
        if self.size > self._limit:
            raise TooLarge(self._words)

    def contents(self) -> list[Any]:
        """The stream and the buffers."""
        return [self.stream, *self._buffers]

    def clear(self) -> None:
        """Begin anew."""
        self.stream, self.size, self._buffers = bytearray(), 0, []


class Budget:
    """What is left of the limits."""

    def __init__(self, limits: SaveLimits) -> None:
        self._limits = limits
        self._bytes = limits.total
        self._seconds = limits.cpu_s

    @contextlib.contextmanager
    def one(self) -> Iterator[Output]:
        """Save one variable.

        Raises:
            TooLarge, TooSlow: it takes too much.
        """
        room = max(self._bytes // 2, min(_ALWAYS, self._bytes))
        if self._limits.variable <= room:
            out = Output(
                self._limits.variable,
                f"it is larger than the {_size(self._limits.variable)} that one variable may have",
            )
        else:
            out = Output(room, f"there is no room for it: the snapshot may have {_size(self._limits.total)} in all")
        with self._timed():
            yield out

    @contextlib.contextmanager
    def again(self) -> Iterator[Output]:
        """Save variables that have been saved before, alone."""
        with self._timed():
            yield Output(self._limits.total, f"the snapshot may have {_size(self._limits.total)} in all")

    def spend(self, out: Output) -> None:
        """Take a saved variable off what is left."""
        self._bytes -= out.size

    @contextlib.contextmanager
    def _timed(self) -> Iterator[None]:
        """Raise `TooSlow` here after half of the seconds that are left, again and again if need be."""
        if self._seconds < 0.02:
            raise TooSlow("the variables before it have taken all the time there is for saving")
        began = time.process_time()
        try:
            signal.setitimer(signal.ITIMER_PROF, self._seconds / 2, 0.1)
            signal.setitimer(signal.ITIMER_REAL, self._seconds / 2 * _WALL, 0.1)
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._seconds -= time.process_time() - began


def _size(count: int) -> str:
    return f"{count / (1 << 20):.0f} MiB" if count >= 1 << 20 else f"{count} bytes"


def _too_slow(_number: int, _frame: object) -> None:
    raise TooSlow("saving it takes too long")


@contextlib.contextmanager
def saving() -> Iterator[None]:
    """Prepare this process for saving; `Budget` can be used in it.

    Code of the user prints nothing, data may be deep, and no garbage is collected, which would write to every page that
    a fork shares.
    """
    limit, collecting = sys.getrecursionlimit(), gc.isenabled()
    numbers = (signal.SIGPROF, signal.SIGALRM)
    handlers = [(number, signal.signal(number, _too_slow)) for number in numbers]
    mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    sys.setrecursionlimit(max(limit, _DEEP))
    gc.disable()
    try:
        with silence():
            yield
    finally:
        sys.setrecursionlimit(limit)
        if collecting:
            gc.enable()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in handlers:
            signal.signal(number, signal.SIG_IGN if handler is None else handler)


class _Nowhere(io.StringIO):
    def write(self, text: str) -> int:
        return len(text)


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Keep what Python code prints, and warnings, from the user's output."""
    before = sys.stdout, sys.stderr
    sys.stdout = sys.stderr = _Nowhere()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.stdout, sys.stderr = before
