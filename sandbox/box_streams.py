"""stdin, stdout and stderr of user code. Runs inside the box, in the worker.

stdout and stderr are two pipes, and two pipes have no order between them. So before Python code writes to one, it
waits until the supervisor has emptied the other: the supervisor then sees the writes in the order in which they were
made. Nothing stays in a buffer of the worker's, which may be killed at any moment.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import builtins
import contextlib
import fcntl
import io
import os
import sys
import termios
import time
from _thread import get_native_id
from typing import Any

NO_INPUT = "no input is possible here: nobody can type into this program; put the value into the code"

FIONREAD = termios.FIONREAD
_NOTHING = b"\0\0\0\0"
_LONG = 1 << 16
_HARMLESS = {"file", "flush"}
_write = os.write
_fstat = os.fstat
_ioctl = fcntl.ioctl
_sleep = time.sleep
_yield = os.sched_yield
_clock = time.monotonic
_listdir = os.listdir
_frames = sys._current_frames
_FIRST_OWN = 10
"""Descriptors below are left to user code, which may have closed 0 to 2."""


class Late:
    """Threads that an earlier cell left running; what they print belongs to no later cell.

    They are known by the kernel's numbers: Python's own identities are given again as soon as a thread has ended.
    """

    def __init__(self) -> None:
        self.threads: frozenset[int] = frozenset()
        self.dropped = 0

    def take(self) -> None:
        """Count every thread that runs now, but this one, as late."""
        late: frozenset[int] = frozenset()
        if len(_frames()) > 1:
            try:
                late = frozenset(map(int, _listdir("/proc/self/task"))) - {get_native_id()}
            except OSError:
                return
        # In one step: a thread may write while this one looks.
        self.threads = late

    def here(self) -> bool:
        """Whether the calling thread is one of them."""
        return bool(self.threads) and get_native_id() in self.threads


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
        size = len(data) if type(data) is bytes else memoryview(data).nbytes
        if self._late.threads and self._late.here():
            self._late.dropped += size
            return size
        if self.ordered:
            try:
                if _ioctl(self._other, FIONREAD, _NOTHING) != _NOTHING:
                    self._wait_for_other()
            except OSError:
                self.ordered = False  # the cell has closed the other one, or put something else there
        done = _write(self._number, data)
        if done < size:
            view = memoryview(data).cast("B")[done:]
            while view:
                view = view[_write(self._number, view) :]
        return size

    def close(self) -> None:
        """Stay open: a wrapper that user code put around it closes it when it is thrown away."""

    def _wait_for_other(self) -> None:
        # Long enough for a supervisor that a busy machine keeps waiting.
        deadline = _clock() + 0.5
        tries = 0
        while _ioctl(self._other, FIONREAD, _NOTHING) != _NOTHING:
            tries += 1
            if tries < 50:
                _yield()
            elif _clock() > deadline:
                # User code has put something else there that nobody empties: no order can be had.
                self.ordered = False
                return
            else:
                _sleep(0.00005)


class NoInput(io.TextIOBase):
    """stdin that fails at once."""

    name = "<stdin>"
    encoding = "utf-8"

    @property
    def buffer(self) -> Any:
        """Its bytes, of which there are none either."""
        return self

    def close(self) -> None:
        """Stay open: `exit()` closes it."""

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

    def __next__(self) -> str:  # type: ignore[override]
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
        self._texts = (_text(self._pipes[0]), _text(self._pipes[1]))

    def take(self, pipes: list[int]) -> None:
        """Put new pipes in place.

        Args:
            pipes: their write ends, for 1 and 2; closed after they were copied there.
        """
        # By way of high numbers: where user code closed 1 or 2, the new ends may have been given just these.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_OWN) for fd in pipes]
        for fd in pipes:
            os.close(fd)
        for fd, target in zip(high, (1, 2)):  # noqa: B905 - `strict` came with Python 3.10
            os.dup2(fd, target, inheritable=True)
            os.close(fd)
        null = os.open(os.devnull, os.O_RDONLY)
        if null != 0:
            os.dup2(null, 0, inheritable=True)
            os.close(null)
        self._places = _places()

    def begin(self) -> None:
        """Undo what an earlier cell did to `sys`."""
        out, err = self._texts
        if not (_is_whole(out) and _is_whole(err)):
            self._make()
            out, err = self._texts
        self._pipes[0].ordered = self._pipes[1].ordered = True
        self.late.take()
        sys.stdin = sys.__stdin__ = self._stdin  # type: ignore[assignment,misc]
        sys.stdout = sys.__stdout__ = out  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = err  # type: ignore[misc]

    def rehearse(self) -> None:
        """Write nothing, so that what writing needs is in this process's own memory."""
        if self.in_place:
            for text in self._texts:
                with contextlib.suppress(Exception):  # a cell may have closed it, or detached it
                    text.write("")

    def teach_print(self) -> None:
        """Let `print` write a line of plain values at once instead of piece by piece.

        Lines of several processes stay whole then, and a flood of them takes half the time.
        """
        original = builtins.print

        def print(*values: object, **options: Any) -> None:
            # What is flushed is out already.
            where: Any = options.get("file")
            if where is None:
                where = getattr(sys, "stdout", None)
            ours = where is self._texts[0] or where is self._texts[1]
            if ours and options.keys() <= _HARMLESS and all(map(_is_plain, values)):
                where.write(" ".join(map(str, values)) + "\n")
            else:
                original(*values, **options)

        print.__module__, print.__qualname__, print.__doc__ = "builtins", "print", original.__doc__
        builtins.print = print

    @property
    def in_place(self) -> bool:
        """Whether descriptors 0 to 2 are still the ones that the cell was given."""
        return _places() == self._places

    def end(self) -> None:
        """Flush, and let threads that go on from here write into nothing."""
        text: Any
        put: tuple[Any, ...] = getattr(sys, "stdout", None), getattr(sys, "stderr", None)
        for text in self._texts if put[0] is self._texts[0] and put[1] is self._texts[1] else put + self._texts:
            try:
                text.flush()
            except Exception:  # it may be anything that user code put there
                continue
        self.late.take()

    def dropped(self) -> int:
        """Bytes that threads of earlier cells wrote since this was last asked."""
        dropped, self.late.dropped = self.late.dropped, 0
        return dropped


def _text(pipe: OrderedPipe) -> io.TextIOWrapper:
    return io.TextIOWrapper(pipe, encoding="utf-8", errors="backslashreplace", newline="\n", write_through=True)


def _is_plain(value: object) -> bool:
    """Whether making text of a value runs no code of the user's and takes little memory."""
    kind = type(value)
    return (kind is str and len(value) < _LONG) or kind is int or kind is float or kind is bool  # type: ignore[arg-type]


def _is_whole(text: io.TextIOWrapper) -> bool:
    """Whether user code has neither closed nor detached it."""
    try:
        return not text.closed
    except ValueError:
        return False


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
