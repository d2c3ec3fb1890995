"""The compiled graph, with the sessions of its threads."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph

from actloop.state import Input, Result, State

from .leases import in_thread
from .sessions import ThreadSessions

_Hold: TypeAlias = Callable[[str, str], AbstractContextManager[None]]
_LENT = "__pregel_checkpointer"
"""Key under which LangGraph hands the saver of a graph, or the lack of one, down to a graph in one of its nodes."""


class Agent(CompiledStateGraph[State, None, Input, Result]):
    """A compiled LangGraph graph: everything that takes one takes this.

    What it adds: a thread has one run at a time, in all processes that share its checkpoints, because a second one
    would lose the messages of the first; each step is stored before the next begins; and a run that belongs to no
    thread, which nobody could go on with, leaves no box.

    Args:
        sessions: of its threads; `sessions.close()`, or leaving `with agent.sessions:`, removes their boxes.
        parts: of the compiled graph.
    """

    def __init__(self, *, sessions: ThreadSessions, **parts: Any) -> None:
        super().__init__(**parts)
        self.sessions = sessions

    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Iterator[Any]:
        """Run the graph and yield what it does; see `CompiledStateGraph.stream`.

        Raises:
            SessionBusy: the thread has a run already.
        """
        with self._one_run(config) as own, self._lease(config):
            yield from super().stream(input, own, **self._durable(config, options))
            # Whoever has the result may rely on it that the thread can be gone on with.
            self.sessions.settle(self._thread(own))

    async def astream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> AsyncIterator[Any]:
        """`stream` for async callers."""
        with self._one_run(config) as own:
            async with in_thread(self._lease(config)):
                async for item in super().astream(input, own, **self._durable(config, options)):
                    yield item
                await asyncio.to_thread(self.sessions.settle, self._thread(own))

    @contextlib.contextmanager
    def _one_run(self, config: RunnableConfig | None) -> Iterator[RunnableConfig | None]:
        known = self._configurable(config)
        thread, part = known.get("thread_id"), known.get("checkpoint_ns") or ""
        if thread is not None:
            with self.sessions.one_run(str(thread), str(part)):
                yield config
        else:
            thread = f"run-{uuid.uuid4().hex[:12]}"
            with self.sessions.transient(thread):
                yield merge_configs(config, {"configurable": {"thread_id": thread}})

    def _lease(self, config: RunnableConfig | None) -> AbstractContextManager[None]:
        """What keeps other processes off the thread; nothing where the saver knows no such thing."""
        known = self._configurable(config)
        thread, part = known.get("thread_id"), known.get("checkpoint_ns") or ""
        hold = getattr(self._own_saver(known), "hold", None)
        return contextlib.nullcontext() if thread is None or hold is None else cast(_Hold, hold)(str(thread), str(part))

    def _durable(self, config: RunnableConfig | None, options: dict[str, Any]) -> dict[str, Any]:
        """The options of a run, which saves in step where the caller did not choose otherwise.

        The checkpoint before a cell must be stored before the cell starts: only then does a crash resume from there
        and find that cell by its id.
        """
        chosen = options.get("durability") is not None or options.get("checkpoint_during") is not None
        if chosen or self._own_saver(self._configurable(config)) is None:
            return options
        return {**options, "durability": "sync"}

    def _own_saver(self, known: Mapping[str, Any]) -> BaseCheckpointSaver[Any] | None:
        """The saver that a run uses, unless it is the one of the graph around it, or there is none."""
        own = self.checkpointer
        return own if isinstance(own, BaseCheckpointSaver) and _LENT not in known else None

    def _thread(self, config: RunnableConfig | None) -> str:
        return str(self._configurable(config).get("thread_id"))

    def _configurable(self, config: RunnableConfig | None) -> Mapping[str, Any]:
        return merge_configs(self.config, ensure_config(config)).get("configurable") or {}
