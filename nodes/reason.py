"""`reason`: ask the model what to do next, given the task, the history and the workspace."""

from typing import cast

from langchain_core.runnables import RunnableConfig

from actloop.errors import ModelError
from actloop.state import State

from .asking import aask, ask
from .context import Context
from .run import begin, note, run_of
from .turn import STOP, Next, Turn, accept, failed, prepare


def reason(state: State, config: RunnableConfig, *, context: Context) -> Next:
    """Begin the run where it is new, and ask the model.

    Returns:
        To `codegen` with the reply, or to the end where the provider failed or the budget is spent.

    Raises:
        ConfigError: there is no task, or an input file cannot be read.
    """
    turn = _prepare(state, config, context)
    if not isinstance(turn, Turn):
        return turn
    try:
        return accept(turn, ask(context.model, turn.prompt, stop=STOP, config=config))
    except ModelError as error:
        return failed(turn, error)


async def areason(state: State, config: RunnableConfig, *, context: Context) -> Next:
    """`reason` for async callers."""
    turn = _prepare(state, config, context)
    if not isinstance(turn, Turn):
        return turn
    try:
        return accept(turn, await aask(context.model, turn.prompt, stop=STOP, config=config))
    except ModelError as error:
        return failed(turn, error)


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
