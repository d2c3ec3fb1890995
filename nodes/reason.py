"""`reason`: ask the model what to do next, given the task, the history and the workspace."""

import asyncio
from typing import Any, cast

from langchain_core.runnables import RunnableConfig

from actloop.errors import SandboxError
from actloop.state import State

from .context import Context, thread_of
from .place import Place, take_place
from .run import begin, end, note, run_of
from .turn import Next, Turn, aask_model, ask_model, prepare


def reason(state: State, config: RunnableConfig, *, context: Context) -> Next:
    """Begin the run where it is new, and ask the model.

    Returns:
        To `codegen` with the reply, or to the end where the provider or the sandbox failed or the budget is spent.

    Raises:
        ConfigError: there is no task, or an input file cannot be read.
    """
    return ask_model(_prepare(state, config, context), context, config)


async def areason(state: State, config: RunnableConfig, *, context: Context) -> Next:
    """`reason` for async callers."""
    return await aask_model(await asyncio.to_thread(_prepare, state, config, context), context, config)


def _prepare(state: State, config: RunnableConfig, context: Context) -> Turn | Next:
    update: dict[str, Any] = begin(state, context) or {}
    now = cast(State, {**state, **update, "messages": state.get("messages") or []})
    run = update.get("run") or run_of(state)
    thread, kernel = thread_of(now, config)
    if (state.get("names") or state.get("workspace")) and not context.sessions.has(thread, kernel):
        # The model must not build on variables that are gone: what is there is found out before it is asked.
        try:
            _, place = take_place(now, thread, kernel, context)
        except SandboxError as error:
            return end("sandbox_error", str(error), run, kernel=kernel)
        told = [note(text, "nudge")] if (text := _missing(place)) else []
        update = {
            **update,
            "messages": [*told, *update.get("messages", [])],
            "names": sorted(place.names),
            "workspace": sorted(place.files),
            "points": place.points,
            "unplaced": [],
        }
    return prepare(now, context, run, update)


def _missing(place: Place) -> str:
    """What the model must know of a sandbox that was started anew; nothing where all is as it was."""
    if place.became == "kept" or not (place.missing or place.missing_files or place.changed or place.became == "lost"):
        return ""
    gone = f"These variables are gone: {', '.join(place.missing)}." if place.missing else ""
    if place.became == "lost":
        files = "Of the files, only those that the user gave are there again."
        return f"The interpreter was started anew since the last answer. {gone or 'Its imports are gone.'} {files}"
    rest = "Everything else was restored from a snapshot."
    return " ".join(part for part in ("The sandbox was started anew.", gone, *place.notes(), rest) if part)
