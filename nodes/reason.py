"""`reason`: ask the model what to do next, given the task, the history and the workspace."""

from typing import cast

from langchain_core.runnables import RunnableConfig

from actloop.state import State

from .context import Context
from .run import begin, note, run_of
from .turn import Next, Turn, aask_model, ask_model, prepare


def reason(state: State, config: RunnableConfig, *, context: Context) -> Next:
    """Begin the run where it is new, and ask the model.

    Returns:
        To `codegen` with the reply, or to the end where the provider failed or the budget is spent.

    Raises:
        ConfigError: there is no task, or an input file cannot be read.
    """
    return ask_model(_prepare(state, config, context), context, config)


async def areason(state: State, config: RunnableConfig, *, context: Context) -> Next:
    """`reason` for async callers."""
    return await aask_model(_prepare(state, config, context), context, config)


def _prepare(state: State, config: RunnableConfig, context: Context) -> Turn | Next:
    new = begin(state, context)
    if new is None:
        return prepare(state, context, run_of(state), {})
    names, workspace = state.get("names") or [], state.get("workspace") or []
    thread = (config.get("configurable") or {}).get("thread_id")
    if (names or workspace) and not context.sessions.has(str(thread)):
        gone = f"These variables are gone: {', '.join(names)}." if names else "Its imports and functions are gone."
        files = "Of the files, only those that the user gave are there again."
        told = note(f"The interpreter was started anew since the last answer. {gone} {files}", "nudge")
        new = {**new, "messages": [told, *new["messages"]], "names": [], "workspace": []}
    return prepare(cast(State, {**state, **new, "messages": state.get("messages") or []}), context, new["run"], new)
