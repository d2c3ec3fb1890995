"""`actloop threads …`: tables for a person, lines with tabs or JSON for a program, and one run that goes on."""

import asyncio
import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from langgraph.types import Command
from rich.console import Console
from rich.filesize import decimal
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from .errors import ConfigError
from .graph import threads
from .graph.threads import ThreadInfo, TurnInfo
from .nodes.controls import strip_controls
from .running import Setup, check_thread, drive, finish
from .terminal import View

LONGEST = 60
"""Characters of a task or an answer that a table shows."""


@dataclass(kw_only=True)
class Continuation(Setup):
    """A run that is to go on."""

    thread: str
    """Id, or how it begins."""
    answer: bool | None = None
    """To the question that the run waits with; None asks the person."""
    as_json: bool = False


def list_threads(checkpoints: str | None, as_json: bool) -> None:
    """Print all threads: id, status, turns, time of the last step, bytes, last task.

    Args:
        checkpoints: path or URL of the store; None is the user's own.
        as_json: print JSON.

    Raises:
        ConfigError: the store cannot be used.
    """
    infos = threads.ls(checkpoints)
    if as_json:
        _print_json(infos)
    elif sys.stdout.isatty():
        table = Table(box=None, header_style="bold")
        # An id that was broken could not be copied.
        table.add_column("thread", no_wrap=True, overflow="ignore")
        for heading in ("status", "turns", "updated (UTC)", "size", "task"):
            table.add_column(heading)
        for info in infos:
            size = "" if info.size is None else decimal(info.size)
            row = (info.id, _status(info), str(info.turns), f"{info.updated:%Y-%m-%d %H:%M:%S}", size, _cut(info.goal))
            table.add_row(*(Text(strip_controls(cell)) for cell in row))
        Console(highlight=False).print(table)
    else:
        for info in infos:
            updated = info.updated.isoformat(timespec="seconds")
            _print_line(info.id, _status(info), info.turns, updated, info.size, info.goal)


def show_thread(beginning: str, checkpoints: str | None, *, as_json: bool, code: bool) -> None:
    """Print a thread's history: turn, outcome, exit code, bytes of the observation, status, task, answer, checkpoint.

    Args:
        beginning: of its id.
        checkpoints: the store.
        as_json: print JSON.
        code: print the cells as well; JSON has them in any case.

    Raises:
        ConfigError: there is no such thread.
    """
    turns = threads.show(threads.find(beginning, checkpoints), checkpoints)
    if as_json:
        _print_json(turns)
    elif not sys.stdout.isatty():
        for turn in turns:
            _print_line(*_plain(turn))
            if code:
                print("".join(f"    {line}\n" for line in strip_controls(turn.code or "").splitlines()), end="")
    elif code:
        _show_with_code(turns)
    else:
        table = Table("turn", "outcome", "exit", "observed", "status", "task", "answer", box=None, header_style="bold")
        for turn in turns:
            table.add_row(*(Text(cell) for cell in _row(turn)))
        Console(highlight=False).print(table)


def resume_thread(order: Continuation) -> int:
    """Go on with a run that has not ended, and show it as `run` does.

    Returns:
        The exit code of the run.

    Raises:
        ActloopError: it cannot go on.
    """
    thread = threads.find(order.thread, order.checkpoints)
    order.checked()
    view = View(quiet=order.as_json)
    asked = threads.question(thread, order.checkpoints)
    if asked is None and order.answer is not None:
        raise ConfigError(f"The thread {thread} does not wait for an answer; leave out --approve and --reject.")
    if asked is not None and order.answer is None and not view.attended:
        raise ConfigError(f"The thread {thread} asks whether a cell may run; add --approve or --reject.")
    agent = order.agent()
    values = agent.get_state({"configurable": {"thread_id": thread}}).values
    view.begin(values.get("task") or values.get("goal") or "")
    with agent.sessions, asyncio.Runner() as runner:
        step: Command[Any] | None = None
        if asked is not None:
            view.recall(asked)
            step = Command(resume=view.ask(asked) if order.answer is None else order.answer)
        result = drive(runner, agent, step, thread, view)
    return finish(result, order.out, thread, view, as_json=order.as_json)


def fork_thread(beginning: str, checkpoints: str | None, at: int | None, name: str | None) -> None:
    """Fork a thread and print the id of the new one.

    Args:
        beginning: of its id.
        checkpoints: the store.
        at: turn; None is where the thread stands.
        name: of the new thread; None makes one up.

    Raises:
        ConfigError: there is no such thread or turn, or the name is taken or cannot be used.
    """
    if name is not None:
        check_thread(name)
    print(threads.fork(threads.find(beginning, checkpoints), at, name, checkpoints))


def remove_threads(beginnings: Sequence[str], checkpoints: str | None, *, sure: bool) -> None:
    """Delete threads, after a question at a terminal.

    Args:
        beginnings: of their ids; all of them are looked up before one is deleted.
        checkpoints: the store.
        sure: do not ask.

    Raises:
        ConfigError: there is no such thread, or nobody is there to be asked.
    """
    found = list(dict.fromkeys(threads.find(beginning, checkpoints) for beginning in beginnings))
    names = ", ".join(found)
    if not sure:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise ConfigError(f"Nobody is here to say whether {names} may be deleted; add --yes if so.")
        print(f"Delete {names} for good? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            print("Nothing was deleted.", file=sys.stderr)
            return
    for thread in found:
        threads.rm(thread, checkpoints)
        print(f"deleted {thread}", file=sys.stderr)


def _show_with_code(turns: Sequence[TurnInfo]) -> None:
    console = Console(highlight=False)
    for turn in turns:
        number, outcome, exit_code, size, status, goal, answer = _row(turn)
        if goal:
            console.print(Text(f"Task  {goal}", style="bold"))
        if turn.code is not None:
            console.print(Text(f"turn {number}: {outcome}, exit {exit_code}, {size} observed"))
            code = strip_controls(turn.code)
            console.print(Syntax(code, "python", line_numbers=True, background_color="default", word_wrap=True))
        if status:
            console.print(Text(f"{status}: {answer}" if answer else status, style="bold"))


def _row(turn: TurnInfo) -> tuple[str, ...]:
    """One turn for a person."""
    ran = turn.number is not None
    facts = (turn.number, turn.outcome, turn.exit_code, decimal(turn.size) if ran else None, turn.status)
    return (*("" if fact is None else str(fact) for fact in facts), _cut(turn.goal or ""), _cut(turn.answer or ""))


def _plain(turn: TurnInfo) -> tuple[object, ...]:
    """One turn for a program."""
    size = turn.size if turn.number is not None else None
    told = (turn.status, turn.goal, turn.answer, turn.checkpoint_id)
    return (turn.number, turn.outcome, turn.exit_code, size, *told)


def _status(info: ThreadInfo) -> str:
    return info.status or "unfinished"


def _cut(text: str) -> str:
    line = _one_line(text)
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _one_line(text: str) -> str:
    """A text that neither breaks a line or a column, nor drives the terminal."""
    return " ".join(strip_controls(text).split())


def _print_line(*cells: object) -> None:
    print("\t".join("" if cell is None else _one_line(str(cell)) for cell in cells))


def _print_json(records: Sequence[ThreadInfo] | Sequence[TurnInfo]) -> None:
    def plain(value: object) -> str:
        assert isinstance(value, datetime), value
        return value.isoformat()

    print(json.dumps([dataclasses.asdict(record) for record in records], indent=2, default=plain))
