"""LangChain tools and plain functions, as functions of the host that cells may call."""

import builtins
import dataclasses
import inspect
import re
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool, Tool

from actloop.errors import ConfigError
from actloop.sandbox.host_functions import HostFunction

from .signatures import is_name, of_function, of_schema, order_of
from .tracing import traced

RESERVED = frozenset({*dir(builtins), "ask_user", "display", "final_answer", "HostCallError"})
"""What a cell knows by these names already."""


def now() -> str:
    """The time now, with its zone, as ISO 8601."""
    return datetime.now().astimezone().isoformat(timespec="seconds")


BUILT_IN = (HostFunction("now", now, "() -> str", now.__doc__ or "", idempotent=True),)


def host_functions(
    tools: Sequence[Callable[..., Any] | BaseTool | HostFunction], approve: Collection[str] = ()
) -> list[HostFunction]:
    """Make functions of the host from an agent's tools, and add those that every agent has.

    Args:
        tools: of the agent.
        approve: names of those whose calls a person has to approve.

    Raises:
        ConfigError: one cannot be called by a name, two have the same, or there is none of a name in `approve`.
    """
    made = [host_function(tool) for tool in tools]
    names = [function.name for function in made]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"Two tools are called {', '.join(twice)}; give each a name of its own.")
    made += [function for function in BUILT_IN if function.name not in names]
    unknown = sorted(set(approve) - {function.name for function in made})
    if unknown:
        raise ConfigError(
            f"There is no tool {', '.join(unknown)} to approve; the tools are {', '.join(names) or 'none'}."
        )
    return [
        dataclasses.replace(function, needs_approval=True) if function.name in approve else function
        for function in made
    ]


def host_function(tool: Callable[..., Any] | BaseTool | HostFunction) -> HostFunction:
    """Make a function of the host.

    A plain function is idempotent, or needs approval, where its attribute `idempotent` or `needs_approval` is true, a
    LangChain tool where its `metadata` say so. A call of an idempotent one whose outcome nobody knows is made again.

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
    if not is_name(made.name) or made.name in RESERVED:
        raise ConfigError(
            f"The tool {made.name!r} cannot be called by this name; give it one that is a Python name, and no builtin."
        )
    return made


def _of_function(function: Callable[..., Any]) -> HostFunction:
    name = getattr(function, "__name__", type(function).__name__)
    return HostFunction(
        name=name,
        function=traced(name, function),
        signature=of_function(function),
        doc=inspect.getdoc(function) or "",
        idempotent=bool(getattr(function, "idempotent", False)),
        needs_approval=bool(getattr(function, "needs_approval", False)),
    )


def _of_tool(tool: BaseTool) -> HostFunction:
    """LangChain makes each call of a tool a run of its own in the trace."""
    # A cell wants an error as an error: not as a text in place of the result, as a model that calls tools does.
    tool = tool.model_copy(update={"handle_tool_error": False})
    schema = _schema(tool)
    names = order_of(schema)
    facts = tool.metadata or {}

    def given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if len(args) > len(names):
            raise TypeError(f"{tool.name} takes {len(names)} arguments, {len(args)} were given")
        both = [name for name in names[: len(args)] if name in kwargs]
        if both:
            raise TypeError(f"{tool.name} got several values for {both[0]}")
        return {**dict(zip(names, args, strict=False)), **kwargs}

    def call(*args: Any, **kwargs: Any) -> Any:
        return _plain(tool.invoke(given(args, kwargs)))

    async def acall(*args: Any, **kwargs: Any) -> Any:
        return _plain(await tool.ainvoke(given(args, kwargs)))

    return HostFunction(
        name=re.sub(r"\W", "_", tool.name),
        function=acall if _only_async(tool) else call,
        signature=of_schema(schema),
        doc=tool.description,
        idempotent=bool(facts.get("idempotent")),
        needs_approval=bool(facts.get("needs_approval")),
    )


def _only_async(tool: BaseTool) -> bool:
    """Whether it can be called by `ainvoke` alone, as the tools of MCP servers."""
    if isinstance(tool, StructuredTool | Tool):
        return tool.func is None
    return False


def _schema(tool: BaseTool) -> dict[str, Any]:
    """JSON schema of the arguments that a caller gives; those that LangChain injects are not among them."""
    if isinstance(tool.args_schema, dict):
        return tool.args_schema
    found: Any = tool.tool_call_schema
    made: dict[str, Any] = found if isinstance(found, dict) else found.model_json_schema()
    return made


def _plain(value: Any) -> Any:
    """What a tool gave; blocks of text, as MCP servers give them, become one text."""
    if isinstance(value, list) and value and all(isinstance(one, dict) and one.get("type") == "text" for one in value):
        return "\n".join(str(one.get("text", "")) for one in value)
    return value
