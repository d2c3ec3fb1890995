"""The pipes that cells print into, as the supervisor holds them. Runs inside the box.

Two pipes serve one cell after the other, until something else than the worker may hold their other ends: then they are
retired, and the next cell gets new ones. Retired pipes are emptied for as long as somebody holds them, so that whoever
still writes there neither blocks nor gets into a later cell's output.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import os
import selectors

MAX_RETIRED = 32
"""Retired pipes kept open; whoever writes to an older one gets SIGPIPE."""


class Pipes:
    """Read ends of the output pipes.

    Args:
        selector: of the supervisor; pipes of now are registered as `output`, retired ones as `old`.
    """

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._retired: dict[int, None] = {}
        self.now: dict[int, str] = {}
        """Descriptor, and `stdout` or `stderr`."""

    def renew(self) -> tuple[int, ...]:
        """Make pipes where there are none.

        Returns:
            Write ends for the worker, which the caller closes; none where the pipes of the cell before go on.
        """
        if self.now:
            return ()
        ends = []
        for stream in ("stdout", "stderr"):
            read, write = os.pipe()
            os.set_blocking(read, False)
            self.now[read] = stream
            self._selector.register(read, selectors.EVENT_READ, "output")
            ends.append(write)
        return tuple(ends)

    def retire(self) -> None:
        """Let the next cell have new pipes, and go on emptying these."""
        for fd in self.now:
            self._retired[fd] = None
            self._selector.modify(fd, selectors.EVENT_READ, "old")
        self.now = {}
        while len(self._retired) > MAX_RETIRED:
            self.close(next(iter(self._retired)))

    def close(self, fd: int) -> None:
        """Close a pipe whose other end nobody holds any more."""
        self.now.pop(fd, None)
        self._retired.pop(fd, None)
        self._selector.unregister(fd)
        os.close(fd)

    def empty(self, fd: int) -> bool:
        """Throw away what came while no cell was there to take it.

        Returns:
            Whether something came.
        """
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return False
        if not data:
            self.close(fd)
        return bool(data)
