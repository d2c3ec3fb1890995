"""Tools of a real MCP server, started for the test, called from cells."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.runnables import RunnableConfig

from actloop.errors import ConfigError
from actloop.graph.mcp import mcp_tools
from actloop.graph.tools import host_function
from actloop.testing import ScriptedModel

if TYPE_CHECKING:
    from tests.graph.conftest import Make

SERVER: dict[str, Any] = {
    "transport": "stdio",
    "command": sys.executable,
    "args": [str(Path(__file__).with_name("mcp_server.py"))],
}


async def test_a_tool_of_a_server_is_a_function_with_a_signature_and_a_text_as_result() -> None:
    (tool,) = mcp_tools({"places": SERVER})
    function = host_function(tool)
    assert (function.signature, function.doc) == ("(city: str, year: int = 2024)", "People who live in a city.")
    assert await function.acall('{"args": ["Rome"], "kwargs": {"year": 2025}}') == {"result": '"Rome 2025: 1000"'}
    failed = await function.acall('{"args": ["Atlantis"], "kwargs": {}}')
    assert "there is no such city" in failed["error"]


def test_a_server_that_does_not_start_is_a_setting_that_cannot_be_used() -> None:
    with pytest.raises(ConfigError, match="The MCP servers \\(nowhere\\) gave no tools"):
        mcp_tools({"nowhere": {**SERVER, "command": "no-such-program"}})


def test_cells_call_the_tools_of_a_server(make: "Make", thread: RunnableConfig) -> None:
    cell = "```python\nimport asyncio\nprint(await asyncio.gather(population('Rome'), population('Oslo', year=1)))\n```"
    model = ScriptedModel([cell, "FINAL ANSWER: 1000"])
    agent = make.own(model, mcp={"places": SERVER})
    agent.invoke({"task": "How many live in Rome?"}, thread)
    assert "['Rome 2024: 1000', 'Oslo 1: 1000']" in model.requests[1][-1].text
    assert "- population(city: str, year: int = 2024): People who live in a city." in model.requests[0][0].text
