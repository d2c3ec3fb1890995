from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from actloop import create_agent
from actloop.errors import ConfigError
from actloop.testing import Reply, ScriptedModel

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


CALLS_TOOLS = {"tool_calling": True}


def scripted(*replies: Reply, profile: Any = None) -> ScriptedModel:
    return ScriptedModel(list(replies), profile=profile)


@pytest.mark.usefixtures("image")
def test_auto_is_a_tool_call_where_the_profile_says_that_the_model_calls_tools(
    make: "Make", thread: RunnableConfig
) -> None:
    model = scripted(call("print(6 * 7)"), "FINAL ANSWER: 42", profile=CALLS_TOOLS)
    out = make(model, action_format="auto").invoke({"task": "What is 6 * 7?"}, thread)
    assert (out["status"], out["turns"]) == ("success", 1)
    assert [tool["function"]["name"] for tool in model.tools] == ["python"]
    assert "tool `python`" in model.requests[0][0].text


@pytest.mark.usefixtures("image")
@pytest.mark.parametrize("profile", [None, {}, {"tool_calling": False}])
def test_auto_is_fenced_where_no_profile_says_so(
    make: "Make", thread: RunnableConfig, profile: dict[str, bool] | None
) -> None:
    model = scripted("```python\nprint(6 * 7)\n```", "FINAL ANSWER: 42", profile=profile)
    out = make(model, action_format="auto").invoke({"task": "What is 6 * 7?"}, thread)
    assert (out["status"], model.tools) == ("success", [])
    assert "fenced Python block" in model.requests[0][0].text


@pytest.mark.usefixtures("image")
def test_auto_goes_over_to_fences_when_calls_cannot_be_used(make: "Make", thread: RunnableConfig) -> None:
    bad = {"type": "invalid_tool_call", "name": "python", "args": "{oops", "error": "no JSON"}
    first, second = (AIMessage("", invalid_tool_calls=[{**bad, "id": id}]) for id in ("a", "b"))
    model = scripted(first, second, "```python\nprint(6 * 7)\n```", "FINAL ANSWER: 42", profile=CALLS_TOOLS)
    agent = make(model, action_format="auto")
    out = agent.invoke({"task": "What is 6 * 7?"}, thread)
    assert (out["status"], out["answer"], out["turns"]) == ("success", "42", 1)
    assert ["tool `python`" in request[0].text for request in model.requests] == [True, True, False, False]
    assert len(model._tools) == 2
    assert "fenced Python block" in model.requests[2][0].text
    assert "```python" in model.requests[2][-1].text
    assert not any(isinstance(message, ToolMessage) for message in model.requests[2])
    kept = [message.tool_call_id for message in out["messages"] if isinstance(message, ToolMessage)]
    assert kept == ["a", "b"]


@pytest.mark.usefixtures("image")
def test_a_format_that_was_asked_for_is_kept(make: "Make", thread: RunnableConfig) -> None:
    bad = {"type": "invalid_tool_call", "id": "a", "name": "python", "args": "{oops", "error": "no JSON"}
    model = ScriptedModel(lambda messages: AIMessage("", invalid_tool_calls=[bad]))
    out = make(model, action_format="tool").invoke({"task": "What is 6 * 7?"}, thread)
    assert (out["status"], out["turns"], len(model.requests)) == ("stuck", 0, 3)
    assert all("tool `python`" in request[0].text for request in model.requests)


@pytest.mark.usefixtures("image")
@pytest.mark.parametrize("format", ["fenced", "tool", "auto"])
def test_every_call_has_its_answer_in_every_request(make: "Make", thread: RunnableConfig, format: str) -> None:
    good = [{"id": i, "name": "python", "args": {"code": f"print({i!r})"}} for i in ("a", None)]
    bad = {"type": "invalid_tool_call", "id": None, "name": "python", "args": "{oops", "error": "no JSON"}
    unknown = {"id": "s", "name": "search", "args": {"q": "6 * 7"}}
    script: list[Reply] = [
        AIMessage("", tool_calls=[unknown], invalid_tool_calls=[bad]),
        AIMessage("", tool_calls=good),
        AIMessage("", tool_calls=[{"id": "f", "name": "final_answer", "args": {"answer": "42"}}]),
        AIMessage("", tool_calls=[{"id": "g", "name": "final_answer", "args": {"answer": "done"}}]),
        "FINAL ANSWER: done",
        "FINAL ANSWER: done",
    ]
    model = scripted(*script, profile=CALLS_TOOLS)
    agent = make(model, action_format=format)
    agent.invoke({"task": "What is 6 * 7?"}, thread)
    agent.invoke({"task": "Say done."}, thread)
    for request in model.requests:
        for place, message in enumerate(request):
            if isinstance(message, AIMessage):
                ids = [one["id"] for one in [*message.tool_calls, *message.invalid_tool_calls]]
                after = request[place + 1 : place + 1 + len(ids)]
                assert all(ids)
                assert [getattr(answer, "tool_call_id", None) for answer in after] == ids
    assert any(message.tool_calls for message in model.requests[-1] if isinstance(message, AIMessage))
