"""Processes that cells leave behind. Runs inside the box, in PID 1, which inherits all of them.

A few may live on, as a server does that the next cell talks to; they are told of. More are ended. Listing processes is
slow, so a count of the box's tasks, which is one read, tells first whether there is anything to list.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

from .box_proc import end_all_but, is_zombie, pids, task_counter

MAX_SURVIVORS = 8


class Processes:
    """What runs in the box besides the supervisor and its interpreters."""

    def __init__(self) -> None:
        self._tasks = task_counter()
        self._count = -1
        self._threads = 0
        self._others = True
        self.known: set[int] = set()
        """Processes that were there when stock was taken."""
        self.dying: set[int] = set()
        """Processes that were killed and have not been collected yet."""

    def take_stock(self, own: set[int]) -> None:
        """Count the tasks and list the processes, before a cell.

        Args:
            own: the supervisor and its interpreters.
        """
        self._count = self._tasks.read()
        self.known = pids()
        self._others = bool(self.known - own)

    def forget_stock(self) -> None:
        """The box has changed since stock was taken."""
        self._count = -1

    @property
    def stock_taken(self) -> bool:
        """Whether `known` is what runs now, as far as the supervisor can tell."""
        return self._count >= 0

    def begin(self, threads: int) -> None:
        """Note how many threads of its own the worker has as the cell begins."""
        self._threads = threads

    def unchanged(self, threads: int) -> bool:
        """Whether nothing but the interpreters runs now, as before the cell.

        A process that begins and a thread that ends leave the count of tasks as it was; so the threads count, too.
        """
        return not self._others and self._count == self._tasks.read() and threads == self._threads

    def survivors(self, own: set[int]) -> tuple[list[str], bool]:
        """Look for what the cell left behind.

        Args:
            own: the supervisor and its interpreters.

        Returns:
            Notes for the record; and whether so many were ended that the worker must collect its children.
        """
        self.collect(own)
        left = pids() - own
        if len(left) > MAX_SURVIVORS:
            return [f"{end_all_but(own)} processes that the cell left running were ended"], True
        left = {pid for pid in left - self.dying if not is_zombie(pid)}
        new = left - self.known
        if new:
            return [f"{len(new)} processes that the cell started are still running"], False
        return (["processes that an earlier cell started are still running"] if left else []), False

    def collect(self, own: Iterable[int]) -> None:
        """Collect ended processes, except the interpreters, whose ends are news."""
        for pid in pids() - set(own):
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    self.dying.discard(pid)
