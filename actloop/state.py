"""The graph's state, and the small records that its nodes hand on.

State holds only plain data (text, numbers, lists, dicts) and LangChain messages: it goes into a checkpoint after every
step and must come back equal with any serializer. Nodes turn the dicts into the records below when they need them.

A checkpoint is written several times a turn, so what is large or grows is not in it: such a value is a `DeltaChannel`,
of which each write is stored once and read again from there. Thus a turn of a long thread costs no more than another.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypeAlias, TypedDict

from langchain_core.messages import AnyMessage, RemoveMessage
from langgraph.channels import DeltaChannel, EphemeralValue
from langgraph.graph.message import add_messages

from .protocols import Record

Status: TypeAlias = Literal[
    "success",
    "unverified",
    "needs_input",
    "denied",
    "refused",
    "truncated",
    "stuck",
    "turn_limit",
    "budget_exceeded",
    "model_unavailable",
    "sandbox_error",
    "cancelled",
]
"""How a run ended. `unverified`: there is an answer, but no cell that backs it, where the task needed one."""


class Action(Record):
    """What a reply asks for."""

    kind: Literal["cell", "answer", "question", "unusable"]
    code: str = ""
    """The cell, for `cell`."""
    text: str = ""
    """The answer or the question; for `cell`, the words around the code."""
    reason: str = ""
    """For `unusable`: what is wrong with the reply, in words that the model can act on."""
    problem: Literal["", "empty", "truncated", "refused", "no_code", "bad_call"] = ""
    """For `unusable`: the kind of problem, which decides how the run may end."""


class Finding(Record):
    """One thing the safety check noticed."""

    rule: str
    line: int
    message: str


class Verdict(Record):
    """What the safety check says of a cell."""

    decision: Literal["allow", "ask", "deny"] = "allow"
    findings: tuple[Finding, ...] = ()


class Artifact(TypedDict):
    """A file that a run made, stored on the host."""

    name: str
    """Path in the workspace, or the name of a figure."""
    path: str
    """Path on the host."""
    media_type: str
    size: int
    sha256: str
    turn: int


class Usage(TypedDict):
    """What a run has spent."""

    input_tokens: int
    output_tokens: int
    """Of a provider that reports no tokens, both are estimates: a token for four characters."""
    model_calls: int
    cost_usd: float | None
    """US dollars; None where the price of a model is not known."""


class Change(TypedDict, total=False):
    """What a node writes to a list in the state that may grow: never the list anew, unless it begins anew."""

    added: list[Any]
    removed: list[str]


def change(before: Iterable[str], after: Iterable[str]) -> Change:
    """What leads from one set of names to another."""
    old, new = set(before), set(after)
    return Change(added=sorted(new - old), removed=sorted(old - new))


def change_names(state: list[str], writes: Sequence[list[str] | Change]) -> list[str]:
    """Apply writes to a sorted list of names: a `Change`, or a list that takes its place."""
    names = set(state)
    for write in writes:
        if isinstance(write, Mapping):
            names = (names - set(write.get("removed", ()))) | set(write.get("added", ()))
        else:
            names = set(write)
    return sorted(names)


def change_artifacts(state: list[Artifact], writes: Sequence[list[Artifact] | Change]) -> list[Artifact]:
    """Apply writes to the artifacts: a `Change`, by which a known name gets a new file, or a list in their place."""
    artifacts = {artifact["name"]: artifact for artifact in state}
    for write in writes:
        if not isinstance(write, Mapping):
            artifacts = {}
        for artifact in write.get("added", ()) if isinstance(write, Mapping) else write:
            artifacts[artifact["name"]] = artifact
    return list(artifacts.values())


def latest(state: Any, writes: Sequence[Any]) -> Any:
    """The last write."""
    return writes[-1] if writes else state


NEVER = 1 << 30
"""Updates between two copies of a channel that grows: a copy would cost the more, the longer the thread. LangGraph
makes one every 5000 steps all the same, which bounds what a reader goes through. It names the steps one by one for each
such channel, and SQLite takes 32766 names: there must not be more than six."""
OFTEN = 10
"""Updates between two copies of a channel of which only the last write counts: so many are read to find it."""


def merge_messages(state: list[AnyMessage], writes: Sequence[Any]) -> list[AnyMessage]:
    """Apply a batch of message writes; how they are grouped does not matter.

    Writes that only add or replace go in by one call for all of them: each call goes through the whole list, and a
    reader of a long thread has a thousand writes to apply.
    """
    merged: Any = list(state)
    added: list[Any] = []
    for write in writes:
        messages = write if isinstance(write, list) else [write]
        if any(isinstance(message, RemoveMessage) for message in messages):
            merged, added = add_messages(add_messages(merged, added), messages), []
        else:
            added += messages
    merged = add_messages(merged, added)
    return list(merged)


class Input(TypedDict, total=False):
    """What a caller gives: a task, or messages, or both."""

    task: str
    files: Mapping[str, str | Path]
    """Name in the workspace, and path on the host."""
    messages: list[AnyMessage]


class Result(TypedDict, total=False):
    """What a caller gets."""

    status: Status
    answer: str | None
    answer_type: str | None
    answer_data: Any
    """The answer as plain data, where the caller gave a schema for it."""
    summary: str
    artifacts: list[Artifact]
    turns: int
    usage: Usage
    messages: list[AnyMessage]


class State(TypedDict, total=False):
    """Everything that flows."""

    messages: Annotated[list[AnyMessage], DeltaChannel(merge_messages, snapshot_frequency=NEVER)]
    task: Annotated[str, EphemeralValue]
    """What the caller gave; gone after the first step, so that it is never taken twice."""
    files: Annotated[Mapping[str, str | Path], EphemeralValue]
    """Likewise."""
    goal: Annotated[str, DeltaChannel(latest, snapshot_frequency=OFTEN)]
    """The task of this run, in words."""
    inputs: dict[str, str]
    """All files that the thread was given: name in the workspace, and absolute path on the host."""
    unplaced: list[str]
    """Those of them that are not in the workspace yet."""
    kernel: str
    """The thread's secret: names its sandbox, and names and signs its snapshots. A copy of the thread shares it."""
    points: Annotated[list[str], DeltaChannel(latest, snapshot_frequency=OFTEN)]
    """Ids of the last cells, oldest first: the sandbox belongs in the state after the last one, or the nearest before
    it of which there is a snapshot."""
    names: Annotated[list[str], DeltaChannel(change_names, snapshot_frequency=NEVER)]
    """Variables that the interpreter holds."""
    workspace: Annotated[list[str], DeltaChannel(change_names, snapshot_frequency=NEVER)]
    """Files that the workspace holds."""
    run: Annotated[dict[str, Any], DeltaChannel(latest, snapshot_frequency=OFTEN)]
    """Counters of this run: see `nodes/run.py`."""
    action: Annotated[dict[str, Any], DeltaChannel(latest, snapshot_frequency=OFTEN)]
    """An `Action`, as JSON."""
    verdict: dict[str, Any]
    """A `Verdict`, as JSON."""
    execution: Annotated[dict[str, Any], DeltaChannel(latest, snapshot_frequency=OFTEN)]
    """The last `Execution`, as JSON, without the bytes of its displays."""
    call: dict[str, Any]
    """A call of a cell that waits in the box for a person: `cell_id`, `number`, `tool`, `arguments`, then `answer`."""
    artifacts: Annotated[list[Artifact], DeltaChannel(change_artifacts, snapshot_frequency=NEVER)]
    usage: Usage
    turns: int
    status: NotRequired[Status | None]
    answer: NotRequired[str | None]
    answer_type: NotRequired[str | None]
    answer_data: NotRequired[Any]
    summary: str
