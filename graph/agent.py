"""The compiled graph, with the sessions of its threads."""

import contextlib
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.graph.state import CompiledStateGraph

from actloop.state import Input, Result, State

from .sessions import ThreadSessions


class Agent(CompiledStateGraph[State, None, Input, Result]):
    """A compiled LangGraph graph: everything that takes one takes this.

    What it adds: a thread has one run at a time, because a second one would lose the messages of the first; and a run
    that belongs to no thread, which nobody could go on with, leaves no box.

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
        with self._one_run(config) as own:
            yield from super().stream(input, own, **options)

    async def astream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> AsyncIterator[Any]:
        """`stream` for async callers."""
        with self._one_run(config) as own:
            async for item in super().astream(input, own, **options):
                yield item

    @contextlib.contextmanager
    def _one_run(self, config: RunnableConfig | None) -> Iterator[RunnableConfig | None]:
        known = merge_configs(self.config, ensure_config(config)).get("configurable") or {}
        thread, part = known.get("thread_id"), known.get("checkpoint_ns") or ""
        if thread is not None:
            with self.sessions.one_run(str(thread), str(part)):
                yield config
        else:
            thread = f"run-{uuid.uuid4().hex[:12]}"
            try:
                yield merge_configs(config, {"configurable": {"thread_id": thread}})
            finally:
                self.sessions.drop_thread(thread)
