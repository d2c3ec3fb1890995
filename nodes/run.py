"""One run: from a task to a status. Its counters, how it begins, and how it ends."""

import re
import secrets
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.graph import END
from langgraph.types import Command

from actloop.config import Limits
from actloop.errors import ConfigError, InputError
from actloop.state import Action, State, Status, Usage

from .asking import add_usage
from .context import Context
from .masking import mask
from .plain import plain

MAX_INTRODUCED = 20
"""Files that are named to the model at the beginning."""
BEGINNING = 400
"""Bytes of a text file that the model is shown at the beginning."""
OURS = "actloop"
"""Key that marks the messages that the loop wrote itself: observations and nudges."""


class Attempt(TypedDict):
    """A cell that failed."""

    key: str
    """Fingerprint of its code and its end."""
    cell: int
    error: str
    """How it failed, in one line."""


class Run(TypedDict):
    """Counters of one run."""

    id: str
    started: float
    """Seconds since the epoch."""
    needs_code: bool
    """Only something that runs can answer the task."""
    turns: int
    """Cells that were executed."""
    repairs: int
    """Failures in a row."""
    nudges: int
    """Replies in a row that could not be used."""
    bad_calls: int
    """Tool calls that could not be used."""
    truncated: int
    """Replies that the token limit cut off."""
    denials: int
    """Cells that the safety check or a person refused."""
    doubted: bool
    """An answer that no cell backs was sent back once."""
    last_ok: bool
    """The last cell reached its end."""
    host_calls: int
    """Calls of cells to functions of the host."""
    seen: dict[str, int]
    """How often the same code has had the same end, for those seen last, oldest first."""
    returned: list[str]
    """Faults for which an answer was sent back; each is told once."""
    usage: Usage
    failed: NotRequired[list[Attempt]]
    """Attempts that failed last, oldest first."""
    planned: NotRequired[bool]
    """The last reply was asked for a plan, for which another model writes the cell."""
    prompt: NotRequired[str]
    """Name and version of the prompt that the last request had."""
    before: Usage
    """What the runs of the thread before this one have spent."""


def new_run(needs_code: bool, before: Usage | None = None) -> Run:
    """Counters at zero.

    Args:
        needs_code: only something that runs can answer the task.
        before: what the thread has spent so far.
    """
    return Run(
        id=uuid.uuid4().hex[:12],
        started=time.time(),
        needs_code=needs_code,
        turns=0,
        repairs=0,
        nudges=0,
        bad_calls=0,
        truncated=0,
        denials=0,
        doubted=False,
        last_ok=False,
        host_calls=0,
        seen={},
        returned=[],
        usage=add_usage(),
        before=add_usage(before),
    )


def run_of(state: State) -> Run:
    """The counters of the run that goes on, to be changed and put back into the state."""
    return cast(Run, {**state["run"], "seen": dict(state["run"]["seen"])})


def note(text: str, kind: str) -> HumanMessage:
    """A message of the loop's own."""
    return HumanMessage(text, additional_kwargs={OURS: kind})


def begin(state: State, context: Context) -> dict[str, Any] | None:
    """What a new run adds to the state; None where the run goes on.

    A run is new when the caller gave a task, or when the last message is a person's.

    Args:
        state: with what the caller gave.
        context: of the agent.

    Raises:
        ConfigError: there is no task.
        InputError: a file that was given cannot be read, or is too large.
    """
    messages: list[AnyMessage] = state.get("messages") or []
    task = state.get("task")
    last = messages[-1] if messages else None
    asked = isinstance(last, HumanMessage) and OURS not in last.additional_kwargs
    if task is None and not asked:
        if state.get("run") and state.get("status") is None:
            return None
        raise ConfigError("There is no task: give {'task': '…'} or {'messages': […]}.")
    text = plain(_text(task, last)).strip()
    if not text:
        raise ConfigError("The task is empty: say in words what is to be done.")
    given = _given(state.get("files"), context.limits)
    told = mask(introduced(given), context.secrets)
    added: list[AnyMessage] = [HumanMessage(text + told)] if task is not None else []
    if told and task is None:
        added = [note(told.strip(), "files")]
    known = {name: str(path) for name, path in given.items()}
    return {
        "messages": added,
        "goal": text,
        "kernel": state.get("kernel") or secrets.token_hex(16),
        "run": new_run(needs_a_run(text, given), _spent(state)),
        "inputs": {**(state.get("inputs") or {}), **known},
        "unplaced": sorted({*(state.get("unplaced") or []), *given}),
        "status": None,
        "answer": None,
        "answer_type": None,
        "answer_data": None,
        "summary": "",
        "turns": 0,
        "usage": add_usage(),
        "artifacts": [],
        "execution": {},
        "verdict": {},
        "action": {},
        "call": {},
    }


def _spent(state: State) -> Usage:
    """What the thread has spent."""
    last = state.get("run") or {}
    return add_usage(last.get("before"), last.get("usage"))


def introduced(files: Mapping[str, Path]) -> str:
    """What the model is told of the caller's files: names, sizes, and how each text begins."""
    if not files:
        return ""
    lines = []
    for name, path in list(files.items())[:MAX_INTRODUCED]:
        with path.open("rb") as file:
            start = file.read(BEGINNING)
        try:
            text = start.decode("utf-8")
        except UnicodeDecodeError as error:
            # A cut within the last character is still text.
            text = start[: error.start].decode("utf-8") if error.start >= len(start) - 3 else ""
        head = "\n".join(line[:200] for line in text.splitlines()[:3]) if text.isprintable() or "\n" in text else ""
        shown = f", which begins\n{head}" if head and "\0" not in head else ""
        lines.append(f"- {name} ({path.stat().st_size} bytes){shown}")
    if len(files) > MAX_INTRODUCED:
        lines.append(f"- and {len(files) - MAX_INTRODUCED} more")
    return "\n\nFiles in the current folder:\n" + "\n".join(lines)


def _text(task: object, last: BaseMessage | None) -> str:
    if task is not None and not isinstance(task, str):
        raise ConfigError(f"The task is a {type(task).__name__}; give it as text.")
    return task if isinstance(task, str) else str(last.text if last is not None else "")


def _given(files: object, limits: Limits) -> dict[str, Path]:
    """The files that the caller gave, each of which was looked at."""
    if not isinstance(files, Mapping):
        if files:
            raise ConfigError("The files are no mapping: give {'files': {'name in the sandbox': 'path on the host'}}.")
        return {}
    given: dict[str, Path] = {}
    for name, place in files.items():
        path = Path(place).absolute()
        try:
            with path.open("rb"):
                size = path.stat().st_size
        except OSError as error:
            why = error.strerror or error
            raise InputError(f"The input file {name} ({path}) cannot be read: {why}; check its path.") from None
        if size > limits.transfer:
            raise InputError(
                f"The input file {name} has {size} bytes, and one that goes into the sandbox may have "
                f"{limits.transfer}; give a smaller one, or raise the limit `transfer`."
            )
        given[str(name)] = path
    return given


def needs_a_run(goal: str, files: object) -> bool:
    """Whether a task can only be answered by running something.

    It errs towards yes: the price of a wrong yes is one more question to the model, that of a wrong no is an answer
    that nothing backs.
    """
    return bool(files) or _WORK.search(goal) is not None


_WORK = re.compile(
    r"\d|\b(plot|draw|chart|graph|figure|compute|calculate|count|sum|average|mean|median|sort|simulate|run|execute|"
    r"test|save|write|create|generate|make|build|fit|train|predict|solve|convert|parse|clean|merge|download|"
    r"how (?:many|much|long|often)|which|csv|xlsx?|json|file|table|data(?:set|frame)?)\b|\.\w{2,5}\b",
    re.IGNORECASE,
)


def reply_to(reply: AIMessage | None, text: str, kind: str) -> list[AnyMessage]:
    """Answer a reply: each of its tool calls by its id, as providers demand, or with a message.

    Args:
        reply: the model's.
        text: what to say.
        kind: `observation` or `nudge`.
    """
    calls = [*reply.tool_calls, *reply.invalid_tool_calls] if reply is not None else []
    ids = [str(call["id"]) for call in calls if call.get("id")]
    if not ids:
        return [note(text, kind)]
    rest = "It was part of the same cell; see the first result." if kind == "observation" else text
    return [
        ToolMessage(text if number == 0 else rest, tool_call_id=id, additional_kwargs={OURS: kind})
        for number, id in enumerate(ids)
    ]


def last_reply(state: State) -> AIMessage | None:
    """The model's last reply."""
    return next((message for message in reversed(state["messages"]) if isinstance(message, AIMessage)), None)


def nudge(state: State, run: Run, text: str) -> dict[str, Any]:
    """Update that tells the model what is wrong with its reply; costs no turn."""
    return {"messages": reply_to(last_reply(state), text, "nudge"), "run": run}


def end(
    status: Status,
    summary: str,
    run: Run | dict[str, Any],
    *,
    answer: str | None = None,
    answer_type: str | None = None,
    answer_data: Any = None,
    **more: Any,
) -> Command[Any]:
    """End the run.

    Args:
        status: how.
        summary: one or two sentences for a person.
        run: its counters.
        answer: text of the answer, where there is one.
        answer_type: type name of the answer; `str` where it is text.
        answer_data: the answer as plain data, where the caller asked for it by a schema.
        more: further updates of the state.
    """
    update: dict[str, Any] = {
        **more,
        "status": status,
        "answer": answer,
        "answer_type": answer_type or ("str" if answer is not None else None),
        "answer_data": answer_data,
        "summary": summary,
        "run": run,
        "turns": run["turns"],
        "usage": run["usage"],
    }
    return Command(goto=END, update=update)


def done_in(run: Run) -> str:
    """How much work it was: `3 cells`."""
    return f"{run['turns']} cell{'s' if run['turns'] != 1 else ''}"


def usable(state: State) -> Action:
    """The action that goes on."""
    return Action.model_validate(state["action"])
