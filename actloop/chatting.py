"""`actloop chat`: a conversation in one thread. Each line is a task; variables and files live on from line to line."""

import asyncio
import io
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import ActloopError
from .graph import Agent
from .nodes.controls import strip_controls
from .running import Setup, check_thread, drive, finish, new_thread
from .terminal import View

HELP = """\
Each line is a task, or the answer to the last question. Variables and files live on.
/vars   names that the interpreter holds
/files  files in the workspace
/help   this
/quit   end the chat; Ctrl-D does so as well
Ctrl-C stops a run, and twice at an empty prompt ends the chat."""


@dataclass(kw_only=True)
class ChatOrder(Setup):
    """One conversation."""

    files: Sequence[Path]
    """For the first task, and there for all later ones."""
    thread: str = field(default_factory=new_thread)


def chat(order: ChatOrder) -> int:
    """Take tasks from stdin until it ends.

    Returns:
        The exit code of the last run; 0 where there was none.

    Raises:
        ActloopError: something that was given cannot be used.
    """
    given = order.checked(order.files)
    check_thread(order.thread)
    agent = order.agent()
    with agent.sessions, asyncio.Runner() as runner:
        talk = Talk(runner, agent, order.thread, given, order.out, View())
        talk.greet()
        read = _reader(talk.view)
        while (line := read(talk.prompt)) is not None:
            if not talk.take(line.strip()):
                break
        talk.view.tell(f"actloop chat --thread {order.thread} goes on with this.")
    return talk.code


class Talk:
    """One conversation.

    Args:
        runner: event loop of all its runs.
        agent: of all its runs, so that they share a box.
        thread: id.
        given: files for the first task: name in the sandbox, and path on the host.
        out: folder for what runs make.
        view: shows them.
    """

    def __init__(
        self, runner: asyncio.Runner, agent: Agent, thread: str, given: dict[str, str], out: Path, view: View
    ) -> None:
        self._runner = runner
        self._agent = agent
        self._thread = thread
        self._given = given
        self._out = out
        self.view = view
        self.code = 0
        """Exit code of the last run."""

    @property
    def prompt(self) -> str:
        """What the person is asked for."""
        return "answer> " if self._values().get("status") == "needs_input" else "> "

    def greet(self) -> None:
        """Say where we are."""
        self.view.tell(f"Thread {self._thread}. Each line is a task; /help says more.")
        state = self._state()
        if state.next:
            self.view.tell(
                "Its last run has not ended: a task begins a new one in its place, "
                f"and `actloop threads resume {self._thread}` goes on with it."
            )

    def take(self, line: str) -> bool:
        """Do what a line says.

        Args:
            line: without space around it.

        Returns:
            Whether the conversation goes on.
        """
        word = line.partition(" ")[0]
        if word == "/quit":
            return False
        if word == "/help":
            print(HELP, flush=True)
        elif word == "/vars":
            self._enumerate(self._values().get("names"), "The interpreter holds no names yet.")
        elif word == "/files":
            values = self._values()
            files = {*(values.get("workspace") or []), *(values.get("inputs") or {}), *self._given}
            self._enumerate(sorted(files), "The workspace holds no files yet.")
        elif word.startswith("/") and "/" not in word[1:]:
            self.view.tell(f"There is no command {word}; /help lists them.")
        elif line:
            self._run(line)
        return True

    def _run(self, task: str) -> None:
        if not self.view.attended:
            self.view.begin(task)
        try:
            step = {"task": task, "files": self._given}
            result = drive(self._runner, self._agent, step, self._thread, self.view)
            if result.get("goal"):
                self._given = {}
            self.code = finish(result, self._out, "", self.view)
        except ActloopError as error:
            # One task failed, and the person may give another one.
            self.view.tell(str(error))
            self.code = 2

    def _enumerate(self, names: Sequence[str] | None, otherwise: str) -> None:
        print("\n".join(map(strip_controls, names)) if names else otherwise, flush=True)

    def _state(self) -> Any:
        return self._agent.get_state({"configurable": {"thread_id": self._thread}})

    def _values(self) -> dict[str, Any]:
        return dict(self._state().values)


def _reader(view: View) -> Callable[[str], str | None]:
    """How lines are read: with history and editing from a terminal, as they are from a pipe."""
    if sys.stdin.isatty():
        return _Terminal(view).read
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    return lambda prompt: sys.stdin.readline() or None


class _Terminal:
    """Lines that a person types.

    Args:
        view: to say how it ends.
    """

    def __init__(self, view: View) -> None:
        # Its import is what gives `input` history and line editing.
        import readline

        self._typed = readline.get_line_buffer
        self._view = view

    def read(self, prompt: str) -> str | None:
        """The next line; None at its end: Ctrl-D, or Ctrl-C twice at an empty prompt."""
        stopped = False
        while True:
            try:
                return self._input(prompt)
            except EOFError:
                print(file=sys.stderr)
                return None
            except KeyboardInterrupt:
                print(file=sys.stderr)
                empty = not self._typed()
                if stopped and empty:
                    return None
                stopped = empty
                if empty:
                    self._view.tell("Ctrl-C once more, or Ctrl-D, ends the chat.")

    def _input(self, prompt: str) -> str:
        if sys.stdout.isatty():
            return input(prompt)
        # Only answers belong into a file or a pipe.
        print(prompt, end="", file=sys.stderr, flush=True)
        return input()
