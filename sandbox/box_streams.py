"""stdin, stdout and stderr of user code. Runs inside the box, in the worker.

stdout and stderr are two pipes, and two pipes have no order between them. So before Python code writes to one, it
waits until the supervisor has emptied the other: the supervisor then sees the writes in the order in which they were
made. Nothing stays in a buffer of the worker's, which may be killed at any moment.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import fcntl
import io
import os
import sys
import termios
import time
from _thread import get_ident
from typing import Any

NO_INPUT = "no input is possible here: nobody can type into this program; put the value into the code"

_write = os.write
_fstat = os.fstat
_ioctl = fcntl.ioctl
_sleep = time.sleep
_clock = time.monotonic


class Late:
    """Threads that an earlier cell left running; what they print belongs to no later cell."""

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self.dropped = 0


class OrderedPipe(io.FileIO):
    """Write end of one output pipe.

    Args:
        fd: 1 or 2.
        other: the other one.
        late: threads whose output is dropped and counted.
    """

    def __init__(self, fd: int, other: int, late: Late) -> None:
        super().__init__(fd, "w", closefd=False)
        self._number = fd
        self._other = other
        self._late = late
        self.ordered = True

    def write(self, data: Any) -> int:
        """Write all of it; a thread of an earlier cell writes into nothing."""
        view = memoryview(data).cast("B")
        size = len(view)
        if self._late.threads and get_ident() in self._late.threads:
            self._late.dropped += size
            return size
        if self.ordered:
            self._wait_for_other()
        while view:
            view = view[_write(self._number, view) :]
        return size

    def _wait_for_other(self) -> None:
        deadline = 0.0
        while True:
            try:
                waiting = _ioctl(self._other, termios.FIONREAD, b"\0\0\0\0")
            except OSError:
                return
            if waiting == b"\0\0\0\0":
                return
            now = _clock()
            if not deadline:
                deadline = now + 0.05
            elif now > deadline:
                # User code has put something else there that nobody empties: no order can be had.
                self.ordered = False
                return
            _sleep(0.00005)


class NoInput(io.TextIOBase):
    """stdin that fails at once."""

    name = "<stdin>"
    encoding = "utf-8"

    def readable(self) -> bool:
        """Reading is what it is for, though each read fails."""
        return True

    def fileno(self) -> int:
        """The descriptor is there: it is /dev/null."""
        return 0

    def isatty(self) -> bool:
        """No person sits here."""
        return False

    def read(self, size: Any = -1) -> str:
        """Fail at once.

        Raises:
            EOFError: always.
        """
        raise EOFError(NO_INPUT)

    def readline(self, size: Any = -1) -> str:  # type: ignore[override]
        """Fail at once.

        Raises:
            EOFError: always.
        """
        raise EOFError(NO_INPUT)

    def __next__(self) -> str:
        raise EOFError(NO_INPUT)


class Streams:
    """The three streams, put in place anew for each cell."""

    def __init__(self) -> None:
        self.late = Late()
        self._stdin = NoInput()
        self._places: list[tuple[int, int]] = []
        self._make()

    def _make(self) -> None:
        self._pipes = (OrderedPipe(1, 2, self.late), OrderedPipe(2, 1, self.late))
        self._texts = tuple(
            io.TextIOWrapper(pipe, encoding="utf-8", errors="backslashreplace", newline="\n", write_through=True)  # type: ignore[type-var]
            for pipe in self._pipes
        )

    def begin(self, pipes: list[int], late_threads: set[int]) -> None:
        """Undo what an earlier cell did to `sys` and to the descriptors.

        Args:
            pipes: write ends of new pipes for 1 and 2, closed after they were copied there; none to keep the old ones.
            late_threads: threads that are running before the cell begins.
        """
        for fd, target in zip(pipes, (1, 2)):  # noqa: B905 - `strict` came with Python 3.10
            os.dup2(fd, target, inheritable=True)
            os.close(fd)
        if pipes:
            null = os.open(os.devnull, os.O_RDONLY)
            if null != 0:
                os.dup2(null, 0, inheritable=True)
                os.close(null)
            self._places = _places()
        if any(text.closed for text in self._texts) or any(pipe.closed for pipe in self._pipes):
            self._make()
        for pipe in self._pipes:
            pipe.ordered = True
        self.late.threads = late_threads
        sys.stdin, sys.stdout, sys.stderr = self._stdin, self._texts[0], self._texts[1]

    @property
    def in_place(self) -> bool:
        """Whether descriptors 0 to 2 are still the ones that the cell was given."""
        return _places() == self._places

    def end(self) -> int:
        """Flush, and let go of the pipes.

        Returns:
            Bytes that threads of earlier cells wrote during this one.
        """
        for text in (sys.stdout, sys.stderr, *self._texts):
            try:
                text.flush()
            except (OSError, ValueError, AttributeError):
                continue
        dropped, self.late.dropped = self.late.dropped, 0
        return dropped


def _places() -> list[tuple[int, int]]:
    """What descriptors 0 to 2 stand for."""
    try:
        return [(facts.st_dev, facts.st_ino) for facts in map(_fstat, (0, 1, 2))]
    except OSError:
        return []


def refuse_input(prompt: object = "", /) -> str:
    """Stand in for `input`.

    Raises:
        EOFError: always, at once, with what to do instead.
    """
    raise EOFError(NO_INPUT)
