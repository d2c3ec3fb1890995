"""What happened in a thread, turn by turn, read from its checkpoints alone: neither a model nor an engine is needed.

Most values of an old checkpoint are costly, because they are put together from what was written before it. So nothing
here asks for them one by one: the checkpoints of a branch are gone through once, and what each step wrote is carried on
to the next. A turn is the step after which its run counts one cell more; its observation is among the writes that led
to it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from actloop.nodes.run import OURS
from actloop.state import Status


@dataclass(frozen=True)
class TurnInfo:
    """One turn, or a run that has none (then only `goal`, `status`, `answer` and `checkpoint_id` say anything)."""

    number: int | None
    """1, 2, … over the whole thread; None for a run without a cell."""
    goal: str | None
    """The task, where a run begins."""
    code: str | None
    """The cell that ran."""
    outcome: str | None
    """Of the execution: `ok`, `error`, `timeout`, …"""
    exit_code: int | None
    """Likewise."""
    status: Status | None
    """How the run ended, on its last turn; None before, and while it has not ended."""
    answer: str | None
    """The answer or the question, where the run ended with one."""
    size: int
    """Bytes of the observation that the model read."""
    checkpoint_id: str
    """State right after the turn, or at the end of a run without a cell."""


@dataclass(frozen=True)
class Facts:
    """The small values of a state that a history needs."""

    run: str = ""
    """Id of the run; empty before the first has begun."""
    cells: int = 0
    """That the run has executed."""
    goal: str = ""
    code: str = ""
    outcome: str | None = None
    exit_code: int | None = None

    def updated(self, values: Mapping[str, Any]) -> "Facts":
        """These with what is among the values of a state."""
        run, action, execution = (values.get(name) or {} for name in ("run", "action", "execution"))
        changes: dict[str, Any] = {"goal": values["goal"]} if "goal" in values else {}
        if "run" in values:
            changes |= {"run": run.get("id", ""), "cells": run.get("turns", 0)}
        if "action" in values:
            changes |= {"code": action.get("code", "")}
        if "execution" in values:
            changes |= {"outcome": execution.get("outcome"), "exit_code": execution.get("exit_code")}
        return replace(self, **changes) if changes else self


_OF_FACTS = ("run", "goal", "action", "execution")


@dataclass(frozen=True)
class Point:
    """One checkpoint of a branch."""

    id: str
    facts: Facts
    task: str | None
    """Given, and not taken up yet."""
    status: Status | None
    answer: str | None
    said: int
    """Bytes of the observation that the step after it wrote."""


@dataclass(frozen=True)
class _Stored:
    """A checkpoint as it lies in the store: what stands in it, and what the step after it wrote."""

    id: str
    parent: str | None
    values: dict[str, Any]
    written: dict[str, Any]
    said: int


def branch_of(saver: BaseCheckpointSaver[Any], thread: str) -> list[Point]:
    """The checkpoints that lead to the thread's present state, oldest first; what an earlier state led to is left out.

    Args:
        saver: that keeps the thread.
        thread: id; one that is unknown has no points.
    """
    wanted: str | None = None
    branch: list[_Stored] = []
    for stored in saver.list({"configurable": {"thread_id": thread, "checkpoint_ns": ""}}):
        if wanted in (None, stored.checkpoint["id"]):
            branch.append(_read(stored))
            wanted = branch[-1].parent
            if wanted is None:
                break
    facts = Facts()
    points: list[Point] = []
    for at in reversed(branch):
        # A value that stands in the checkpoint itself counts for more than what was written before it.
        facts = facts.updated({name: at.values[name] for name in _OF_FACTS if name in at.values})
        task, status, answer = (at.values.get(name) for name in ("task", "status", "answer"))
        points.append(Point(at.id, facts, task, status, answer, at.said))
        facts = facts.updated(at.written)
    return points


def turns_of(points: Sequence[Point]) -> list[TurnInfo]:
    """All turns of a branch, and its runs without one.

    Args:
        points: of the branch, oldest first.
    """
    turns: list[TurnInfo] = []
    number = 0
    for run, group in groupby(points, key=lambda point: point.facts.run):
        if run:
            of_run = _run(list(group), number)
            number += sum(turn.number is not None for turn in of_run)
            turns += of_run
    if points and points[-1].task is not None:
        turns.append(replace(_without_cell(points[-1]), goal=points[-1].task, status=None, answer=None))
    return turns


def count_turns(messages: Iterable[BaseMessage]) -> int:
    """Turns that a conversation shows: a cell's observation may take several messages, one for each tool call."""
    observed = [message.additional_kwargs.get(OURS) == "observation" for message in messages]
    return sum(now and not before for before, now in pairwise([False, *observed]))


def _read(stored: CheckpointTuple) -> _Stored:
    """What a history needs of a checkpoint; the rest, which may be large, is let go at once."""
    kept = (*_OF_FACTS, "task", "status", "answer")
    values = stored.checkpoint["channel_values"]
    parent = (stored.parent_config or {}).get("configurable") or {}
    return _Stored(
        id=stored.checkpoint["id"],
        parent=parent.get("checkpoint_id"),
        values={name: _whole(values[name]) for name in kept if name in values},
        written={channel: value for _, channel, value in stored.pending_writes or () if channel in _OF_FACTS},
        said=sum(len(text.encode("utf-8", "replace")) for text in _observations(stored)),
    )


def _whole(value: Any) -> Any:
    """A value of a checkpoint; LangGraph wraps the copies that it makes of a `DeltaChannel` now and then."""
    return getattr(value, "value", value)


def _observations(stored: CheckpointTuple) -> Iterator[str]:
    for _, channel, value in stored.pending_writes or ():
        if channel == "messages":
            for message in value if isinstance(value, list) else [value]:
                if isinstance(message, BaseMessage) and message.additional_kwargs.get(OURS) == "observation":
                    yield str(message.text)


def _run(points: Sequence[Point], before: int) -> list[TurnInfo]:
    """The turns of one run, of which `before` stand before it; one entry where it has none."""
    turns: list[TurnInfo] = []
    for old, new in pairwise(points):
        if new.facts.cells == old.facts.cells + 1:
            turn = TurnInfo(
                number=before + len(turns) + 1,
                goal=None if turns else new.facts.goal,
                code=new.facts.code,
                outcome=new.facts.outcome,
                exit_code=new.facts.exit_code,
                status=None,
                answer=None,
                size=old.said,
                checkpoint_id=new.id,
            )
            turns.append(turn)
    last = points[-1]
    if not turns:
        return [_without_cell(last)]
    turns[-1] = replace(turns[-1], status=last.status, answer=last.answer)
    return turns


def _without_cell(point: Point) -> TurnInfo:
    return TurnInfo(None, point.facts.goal, None, None, None, point.status, point.answer, 0, point.id)
