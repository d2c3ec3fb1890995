"""LangChain tools and plain functions, as functions of the host that cells may call."""

import inspect
from collections.abc import Callable
from typing import Any

from langchain_core.tools import BaseTool

from actloop.errors import ConfigError
from actloop.sandbox.host_functions import HostFunction

RESERVED = ("display", "final_answer", "input", "print")


def host_function(tool: Callable[..., Any] | BaseTool | HostFunction) -> HostFunction:
    """Make a function of the host.

    A plain function is idempotent where its attribute `idempotent` is true, a LangChain tool where its `metadata` say
    so: a call whose outcome nobody knows is then made again.

    Raises:
        ConfigError: it cannot be called by a name.
    """
    if isinstance(tool, HostFunction):
        made = tool
    elif isinstance(tool, BaseTool):
        made = _of_tool(tool)
    elif callable(tool):
        made = _of_function(tool)
    else:
        raise ConfigError(f"A tool is a {type(tool).__name__}; give functions or LangChain tools.")
    if not made.name.isidentifier() or made.name in RESERVED:
        raise ConfigError(f"The tool {made.name!r} cannot be called by this name; give it one that is a Python name.")
    return made


def _of_function(function: Callable[..., Any]) -> HostFunction:
    try:
        signature = str(inspect.signature(function))
    except (TypeError, ValueError):
        signature = "(...)"
    return HostFunction(
        name=getattr(function, "__name__", type(function).__name__),
        function=function,
        signature=signature,
        doc=inspect.getdoc(function) or "",
        idempotent=bool(getattr(function, "idempotent", False)),
    )


def _of_tool(tool: BaseTool) -> HostFunction:
    names = list(tool.args)

    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(names):
            raise TypeError(f"{tool.name} takes {len(names)} arguments, {len(args)} were given")
        return tool.invoke({**dict(zip(names, args, strict=False)), **kwargs})

    described = (f"{name}: {facts.get('type', 'Any')}" for name, facts in tool.args.items())
    return HostFunction(
        name=tool.name,
        function=call,
        signature=f"({', '.join(described)})",
        doc=tool.description,
        idempotent=bool((tool.metadata or {}).get("idempotent")),
    )
