"""Tools of an agent as functions of the host: names, signatures, what each needs, and their place in the trace."""

import asyncio
import inspect
import json
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool, tool

from actloop.errors import ConfigError
from actloop.graph.tools import host_function, host_functions
from actloop.nodes.stubs import stubs
from actloop.sandbox.host_functions import HostFunction


def weather(city: str, days: int = 1, *, unit: Literal["c", "f"] = "c", at: datetime = datetime.min) -> dict[str, Any]:
    """Weather of a city.

    More of it.
    """
    return {"city": city, "days": days}


@tool
def search(query: str, limit: int = 3, tags: list[str] | None = None) -> str:
    """Search for something."""
    return f"{query} {limit} {tags}"


async def _only_async(first: int, second: int = 2) -> int:
    await asyncio.sleep(0)
    return first * second


times = StructuredTool.from_function(
    coroutine=_only_async, name="times-two", description="Multiply.", metadata={"needs_approval": True}
)


def called(function: HostFunction, *args: Any, **kwargs: Any) -> Any:
    arguments = json.dumps({"args": args, "kwargs": kwargs})
    outcome = asyncio.run(function.acall(arguments)) if function.awaits else function.call(arguments)
    assert "error" not in outcome, outcome
    return json.loads(outcome["result"])


def test_a_function_keeps_its_signature_as_python_that_the_box_can_read() -> None:
    signature = host_function(weather).signature
    assert (
        signature
        == "(city: str, days: int = 1, *, unit: Literal['c', 'f'] = 'c', at: datetime.datetime = ...) -> dict[str, Any]"
    )
    made: dict[str, Any] = {}
    exec(f"from __future__ import annotations\ndef f{signature}: pass", made)  # noqa: S102
    assert list(inspect.signature(made["f"]).parameters) == ["city", "days", "unit", "at"]


def test_a_langchain_tool_has_a_signature_and_is_called_by_place_or_name() -> None:
    function = host_function(search)
    assert function.signature == "(query: str, limit: int = 3, tags: list[str] | None = None)"
    assert called(function, "x", 4) == called(function, query="x", limit=4) == "x 4 None"
    assert "several values" in function.call('{"args": ["x"], "kwargs": {"query": "y"}}')["error"]


def test_a_tool_that_is_only_async_works() -> None:
    function = host_function(times)
    assert (function.name, function.needs_approval, function.awaits) == ("times_two", True, True)
    assert called(function, 4) == 8


@pytest.mark.parametrize("name", ["print", "list", "final_answer", "class", "a b", "HostCallError"])
def test_a_name_that_cells_cannot_use_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be called by this name"):
        host_function(HostFunction(name, len))


def test_two_of_a_name_are_refused_and_so_is_an_unknown_one_to_approve() -> None:
    with pytest.raises(ConfigError, match="Two tools are called weather"):
        host_functions([weather, weather])
    with pytest.raises(ConfigError, match="There is no tool wether to approve"):
        host_functions([weather], approve=["wether"])
    assert [f.needs_approval for f in host_functions([weather, search], approve=["search"])][:2] == [False, True]


def test_every_agent_can_tell_the_time_unless_it_has_its_own_way() -> None:
    (now,) = host_functions([])
    assert datetime.fromisoformat(called(now)).tzinfo is not None
    own = HostFunction("now", lambda: "noon")
    assert host_functions([own]) == [own]


def test_the_model_is_told_of_few_functions_in_a_line_each() -> None:
    many = [HostFunction(f"f{number}", len, "(x: int) -> int", "First.\n\nSecond.") for number in range(22)]
    text = stubs(many)
    assert "- f0(x: int) -> int: First.\n" in text
    assert "Second" not in text
    assert "- and f20, f21\n" in text
    assert "- ask_user(question: str)" in text
    assert stubs([]) == ""


class Runs(BaseCallbackHandler):
    """Notes the runs of tools, with their parents."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, UUID | None]] = []
        self.ended: list[Any] = []
        self.chains: dict[str, UUID] = {}

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        self.chains[str(kwargs.get("name"))] = run_id

    def on_tool_start(
        self, serialized: Any, input_str: str, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        self.begun.append((str(serialized["name"]), parent_run_id))

    def on_tool_end(self, output: Any, **kwargs: Any) -> None:
        self.ended.append(output)

    def on_tool_error(self, error: BaseException, **kwargs: Any) -> None:
        self.ended.append(error)


async def aweather(city: str) -> str:
    """Weather, without waiting."""

    def inner(text: str) -> str:
        return f"{text}: rain"

    return await RunnableLambda(inner).with_config(run_name="inner").ainvoke(city)


def test_calls_are_child_runs_of_whoever_runs_the_cell() -> None:
    runs = Runs()
    functions = [host_function(each) for each in (weather, aweather, search, times)]

    def cell(_: Any) -> None:
        called(functions[0], "Rome")
        called(functions[1], "Rome")
        called(functions[2], "x")
        called(functions[3], 4)
        functions[0].call('{"args": [], "kwargs": {}}')

    RunnableLambda(cell).with_config(run_name="execute").invoke("", {"callbacks": [runs]})
    parent = runs.chains["execute"]
    assert runs.begun == [(name, parent) for name in ("weather", "aweather", "search", "times-two", "weather")]
    assert [str(end) for end in runs.ended[1:4]] == ["Rome: rain", "x 3 None", "8"]
    assert isinstance(runs.ended[4], TypeError)
    assert "inner" in runs.chains
