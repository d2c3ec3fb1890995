"""What the worker tells of a cell's end, besides what the cell printed and showed. Runs inside the box.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from typing import Any

from .box_names import changes, user_names
from .box_show import answer_of
from .box_wire import Message

MAX_NAMES = 2000
"""Names of variables that are told."""

_exit = os._exit


class Asked(SystemExit):
    """Ends a cell that asks the user; whoever catches it keeps the cell going, and the question stands all the same."""


Asked.__module__ = "builtins"


class Answer:
    """What the cell gave to `final_answer` or to `ask_user`.

    Args:
        is_late: whether a thread of an earlier cell asks.
    """

    def __init__(self, is_late: Callable[[], bool]) -> None:
        self.begin()
        self._is_late = is_late

    def begin(self) -> None:
        """Forget what the cell before gave."""
        self.given: list[str] | None = None
        self.question: str | None = None

    def tell(self, done: Message) -> None:
        """Say what was given; `done` gets `answer` and `question`."""
        if self.given is not None:
            done["answer"] = self.given
        if self.question is not None:
            done["question"] = self.question

    def final_answer(self, answer: object) -> None:
        """Give the answer to the task; the run ends once the cell has reached its end without an error."""
        if not self._is_late():
            self.given = list(answer_of(answer))

    def ask_user(self, question: str) -> None:
        """Ask the user what only the user can tell; the cell ends here, and the run with it."""
        if not self._is_late():
            self.question = answer_of(question)[0]
        raise Asked(0)


class Variables:
    """The variables as they were when the supervisor was told of them last."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        """As `user_names` gives them."""
        self.told = False
        """Whether all of them have been told."""

    def loaded(self, namespace: dict[str, Any]) -> None:
        """Take those that a snapshot has brought; the next cell tells all of them."""
        self.names, self.told = user_names(namespace), False

    def tell(self, namespace: dict[str, Any], stored: set[str], done: Message) -> None:
        """Say what a cell did to them. What is not told is empty, or for `all` as it was.

        Args:
            namespace: as it is now.
            stored: names that the cell's text stores to.
            done: gets `names`, and `all` where there are more or fewer than before.
        """
        before, self.names = self.names, user_names(namespace)
        changed = changes(before, self.names, namespace, stored)
        if changed:
            done["names"] = changed
        if not self.told or before.keys() != self.names.keys():
            self.told = True
            done["all"] = sorted(self.names)[:MAX_NAMES]


def exit_code(error: SystemExit) -> int:
    """Exit code of the process that `SystemExit` would have ended; a text is written to stderr, as Python does."""
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    try:
        print(code, file=sys.stderr)
    except Exception as failure:
        print(f"<an exit code whose text cannot be made: {type(failure).__name__}>", file=sys.stderr)
    return 1


def end_child(done: Message) -> None:
    """End a child that the cell forked as its own program would have ended.

    Args:
        done: what would be told if it were the worker.
    """
    code = {"ok": 0, "exit": done.get("code", 0)}.get(done["kind"], 1)
    if "error" in done:
        with contextlib.suppress(Exception):
            sys.stderr.write(done["error"]["traceback"])
            sys.stderr.flush()
    _exit(code)
