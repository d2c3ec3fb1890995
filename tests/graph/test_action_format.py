from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import AIMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from actloop import create_agent
from actloop.errors import ConfigError
from actloop.testing import ScriptedModel

if TYPE_CHECKING:
    from tests.graph.conftest import Make


def call(code: str) -> AIMessage:
    return AIMessage("I compute it.", tool_calls=[{"name": "python", "args": {"code": code}, "id": "call-1"}])


@pytest.mark.usefixtures("image")
def test_code_can_come_by_a_tool_call(make: "Make", thread: RunnableConfig) -> None:
    model = ScriptedModel([call("print(6 * 7)"), "FINAL ANSWER: 42"])
    out = make(model, action_format="tool").invoke({"task": "What is 6 * 7?"}, thread)
    assert (out["status"], out["answer"]) == ("success", "42")
    assert [tool["function"]["name"] for tool in model.tools] == ["python"]
    system, *_, observation = model.requests[-1]
    assert isinstance(system, SystemMessage)
    assert "tool `python`" in str(system.text)
    assert isinstance(observation, ToolMessage)
    assert observation.tool_call_id == "call-1"


@pytest.mark.usefixtures("image")
def test_no_tool_is_bound_when_code_comes_in_fences(make: "Make", thread: RunnableConfig) -> None:
    model = ScriptedModel(["```python\nprint(6 * 7)\n```", "FINAL ANSWER: 42"])
    assert make(model).invoke({"task": "What is 6 * 7?"}, thread)["status"] == "success"
    assert model.tools == []


def test_an_unknown_action_format_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="auto, fenced, tool"):
        create_agent(ScriptedModel([]), action_format="json")  # type: ignore[arg-type]
