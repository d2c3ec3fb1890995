"""The threads in a store of checkpoints: which there are, and the state that each is in."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateSnapshot

from actloop.config import Settings
from actloop.errors import ConfigError
from actloop.nodes.context import Context
from actloop.state import Input, Result, State, Status

from .builder import build_graph
from .checkpoints import open_checkpoints
from .history import count_turns

Saver: TypeAlias = BaseCheckpointSaver[Any]
Checkpoints: TypeAlias = Saver | Path | str | None
"""A saver, a path or URL as `open_checkpoints` takes it, or None for the user's own."""
Graph: TypeAlias = CompiledStateGraph[State, None, Input, Result]
NAMED = 5
"""Threads that a complaint names."""


@dataclass(frozen=True)
class ThreadInfo:
    """One thread at a glance."""

    id: str
    goal: str
    """The last task, as it was given."""
    status: Status | Literal["waiting"] | None
    """How the last run ended; `waiting` for an answer to its question about a cell; None: it has not ended."""
    turns: int
    """Cells that were executed, over all runs."""
    updated: datetime
    """Time of the last step, in UTC."""
    size: int | None
    """Bytes in the store; None where that is not known without reading everything."""


@runtime_checkable
class Sized(Protocol):
    """A saver that knows what its threads take."""

    def sizes(self) -> dict[str, int]:
        """Bytes by thread."""
        ...


@runtime_checkable
class Holding(Protocol):
    """A saver that keeps two processes from running one thread."""

    def hold(self, thread: str, part: str = "") -> contextlib.AbstractContextManager[None]:
        """Hold a thread for as long as the context lasts."""
        ...


@contextlib.contextmanager
def opened(checkpoints: Checkpoints) -> Iterator[Saver]:
    """The store; one that is opened here is closed again.

    Raises:
        ConfigError: it cannot be opened.
    """
    if isinstance(checkpoints, BaseCheckpointSaver):
        yield checkpoints
        return
    with contextlib.closing(open_checkpoints(checkpoints, Settings())) as saver:
        yield saver


def held(saver: Saver, thread: str) -> contextlib.AbstractContextManager[None]:
    """Hold a thread against runs in other processes, where the saver can.

    Raises:
        SessionBusy: a run holds it; the message names its process.
    """
    return saver.hold(thread) if isinstance(saver, Holding) else contextlib.nullcontext()


def reader_of(saver: Saver) -> Graph:
    """The graph, to read states with and never to run: LangGraph knows best what comes next in one."""
    nothing: Any = None
    return build_graph(Context(model=nothing, sessions=nothing, artifacts=nothing)).compile(checkpointer=saver)


def state_of(graph: Graph, thread: str) -> StateSnapshot:
    """The present state of a thread; one that was never made has no `created_at`."""
    return graph.get_state({"configurable": {"thread_id": thread}})


def head_of(graph: Graph, thread: str) -> StateSnapshot:
    """The present state of a thread that is there.

    Raises:
        ConfigError: it is not, or the graph keeps no threads.
    """
    if not isinstance(graph.checkpointer, BaseCheckpointSaver):
        raise ConfigError("This agent keeps no threads; make it with a checkpointer.")
    state = state_of(graph, thread)
    if state.created_at is None:
        raise unknown(graph.checkpointer, thread)
    return state


def kernel_of(saver: Saver, thread: str) -> str:
    """The secret of a thread, from its last checkpoint alone; empty where it has none.

    A whole state would be put together from every message of the thread.
    """
    stored = saver.get_tuple({"configurable": {"thread_id": thread}})
    return str(stored.checkpoint["channel_values"].get("kernel") or "") if stored is not None else ""


def infos_of(saver: Saver) -> list[ThreadInfo]:
    """All threads, the one that was used last first."""
    reader = reader_of(saver)
    sizes = saver.sizes() if isinstance(saver, Sized) else {}
    infos = [_info(id, state, sizes.get(id)) for id in ids_of(saver) if _is_ours(state := state_of(reader, id))]
    return sorted(infos, key=lambda info: info.updated, reverse=True)


def ids_of(saver: Saver) -> list[str]:
    """Ids of all threads, by the one thing that each has once and that every saver can look for: its first step."""
    firsts = (stored.config["configurable"] for stored in saver.list(None, filter={"step": -1}))
    return list(dict.fromkeys(str(first["thread_id"]) for first in firsts if not first.get("checkpoint_ns")))


def unknown(saver: Saver, thread: str) -> ConfigError:
    """The complaint that there is no such thread, with those that there are."""
    known = [info.id for info in infos_of(saver)]
    if not known:
        return ConfigError(f"There is no thread {thread!r}: none is kept here yet; begin one with a task.")
    return ConfigError(f"There is no thread {thread!r}; there are: {enumerated(known)}.")


def enumerated(ids: list[str]) -> str:
    """The first few."""
    more = f" and {len(ids) - NAMED} more" if len(ids) > NAMED else ""
    return ", ".join(ids[:NAMED]) + more


def _is_ours(state: StateSnapshot) -> bool:
    """Whether this graph made the thread: a store may hold those of others."""
    return state.created_at is not None and bool(state.values.get("run") or state.next)


def _info(thread: str, state: StateSnapshot, size: int | None) -> ThreadInfo:
    values = state.values
    going_on: Literal["waiting"] | None = "waiting" if state.interrupts else None
    return ThreadInfo(
        id=thread,
        goal=values.get("task") or values.get("goal") or "",
        status=going_on if state.next else values.get("status"),
        turns=count_turns(values.get("messages") or []),
        updated=datetime.fromisoformat(state.created_at or "").astimezone(UTC),
        size=size,
    )
