"""Calls of plain functions as runs in the trace, as LangChain makes them of its tools.

The callbacks are those of the run that the call belongs to: `execute` runs in their context, and a session makes calls
in a copy of it. So any tracer or handler that follows the graph sees the calls as children of that node.
"""

import contextvars
import functools
import inspect
from collections.abc import Callable
from typing import Any

from langchain_core.callbacks import CallbackManager
from langchain_core.callbacks.manager import CallbackManagerForToolRun
from langchain_core.runnables.config import (
    ensure_config,
    get_callback_manager_for_config,
    patch_config,
    set_config_context,
)


def traced(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, each call of which is a run of its own where anything follows the runs.

    Args:
        name: of the run.
        function: plain, or a coroutine function; the result is of the same kind.
    """
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def acall(*args: Any, **kwargs: Any) -> Any:
            run, context = _begin(name, args, kwargs)
            if run is None:
                return await function(*args, **kwargs)
            try:
                with context as inside:
                    # The coroutine runs where the context of its run is set.
                    value = await _in(inside, function, args, kwargs)
            except BaseException as error:
                run.on_tool_error(error)
                raise
            run.on_tool_end(value)
            return value

        return acall

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        run, context = _begin(name, args, kwargs)
        if run is None:
            return function(*args, **kwargs)
        try:
            with context as inside:
                value = inside.run(function, *args, **kwargs)
        except BaseException as error:
            run.on_tool_error(error)
            raise
        run.on_tool_end(value)
        return value

    return call


async def _in(context: contextvars.Context, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    import asyncio

    return await asyncio.get_running_loop().create_task(function(*args, **kwargs), context=context)


def _begin(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[CallbackManagerForToolRun | None, Any]:
    """Begin a run, and give the context for what is called in it; None where nobody follows."""
    config = ensure_config()
    manager = get_callback_manager_for_config(config)
    if not isinstance(manager, CallbackManager) or not manager.handlers:
        return None, None
    inputs = {**{str(number): value for number, value in enumerate(args)}, **kwargs}
    run = manager.on_tool_start({"name": name}, str(inputs), name=name, inputs=inputs)
    return run, set_config_context(patch_config(config, callbacks=run.get_child()))
