"""The graph's state, and the small records that its nodes hand on.

State holds only plain data (text, numbers, lists, dicts) and LangChain messages: it goes into a checkpoint after every
step and must come back equal with any serializer. Nodes turn the dicts into the records below when they need them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypeAlias, TypedDict

from langchain_core.messages import AnyMessage
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
    model_calls: int


def merge_messages(state: list[AnyMessage], writes: Sequence[Any]) -> list[AnyMessage]:
    """Apply a batch of message writes; the order and grouping of the batch do not matter."""
    merged: Any = list(state)
    for write in writes:
        merged = add_messages(merged, write)
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
    summary: str
    artifacts: list[Artifact]
    turns: int
    usage: Usage
    messages: list[AnyMessage]


class State(TypedDict, total=False):
    """Everything that flows."""

    messages: Annotated[list[AnyMessage], DeltaChannel(merge_messages, snapshot_frequency=50)]
    task: Annotated[str, EphemeralValue]
    """What the caller gave; gone after the first step, so that it is never taken twice."""
    files: Annotated[Mapping[str, str | Path], EphemeralValue]
    """Likewise."""
    goal: str
    """The task of this run, in words."""
    inputs: dict[str, str]
    """All files that the thread was given: name in the workspace, and absolute path on the host."""
    unplaced: list[str]
    """Those of them that are not in the workspace yet."""
    kernel: str
    """The thread's secret: names its sandbox, and names and signs its snapshots. A copy of the thread shares it."""
    points: list[str]
    """Ids of the last cells, oldest first: the sandbox belongs in the state after the last one, or the nearest before
    it of which there is a snapshot."""
    names: list[str]
    """Variables that the interpreter holds."""
    workspace: list[str]
    """Files that the workspace holds."""
    run: dict[str, Any]
    """Counters of this run: see `nodes/run.py`."""
    action: dict[str, Any]
    """An `Action`, as JSON."""
    verdict: dict[str, Any]
    """A `Verdict`, as JSON."""
    execution: dict[str, Any]
    """The last `Execution`, as JSON, without the bytes of its displays."""
    artifacts: list[Artifact]
    usage: Usage
    turns: int
    status: NotRequired[Status | None]
    answer: NotRequired[str | None]
    answer_type: NotRequired[str | None]
    summary: str
