"""A person decides on a cell before it runs: approve, edit or reject, once."""

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from actloop.testing import ScriptedModel

if TYPE_CHECKING:
    from tests.graph.conftest import Make

ASKED = "import subprocess\nopen('{name}', 'a').write('1\\n')\nsubprocess.run(['true'])"
"""A cell that the standard policy puts to a person, and that leaves a line each time it runs."""


def cell(code: str) -> str:
    return f"```python\n{code}\n```"


@pytest.fixture
def counter(thread: RunnableConfig) -> str:
    """Name of a file in the box that no other test writes."""
    return f"{thread['configurable']['thread_id']}.txt"


def count(name: str) -> str:
    return cell(f"import os\nprint('lines:', len(open('{name}').readlines()) if os.path.exists('{name}') else 0)")


def paused(out: dict[str, Any]) -> dict[str, Any]:
    (interrupt,) = out["__interrupt__"]
    value: dict[str, Any] = interrupt.value
    return value


def test_an_approved_cell_runs_once(make: "Make", thread: RunnableConfig, counter: str) -> None:
    agent = make([cell(ASKED.format(name=counter)), count(counter), "FINAL ANSWER: done"])
    question = paused(agent.invoke({"task": "Count it."}, thread))
    assert question["kind"] == "cell"
    assert "subprocess" in question["code"]
    assert question["findings"][0]["message"]
    assert agent.get_state(thread).next == ("approve",)
    out = agent.invoke(Command(resume=True), thread)
    assert out["status"] == "success"
    assert "lines: 1" in out["messages"][4].text


def test_nothing_runs_before_the_answer(make: "Make", thread: RunnableConfig, counter: str) -> None:
    agent = make([cell(ASKED.format(name=counter)), count(counter), "FINAL ANSWER: done"])
    paused(agent.invoke({"task": "Count it."}, thread))
    out = agent.invoke(Command(resume={"decision": "reject", "reason": "too bold"}), thread)
    told = [message.text for message in out["messages"]]
    assert any("too bold" in text and "not run" in text for text in told)
    assert any("lines: 0" in text for text in told)
    assert (out["status"], out["turns"]) == ("success", 1)


@pytest.mark.parametrize("answer", [False, "yes please", 1, {"decision": "maybe"}, {"decision": "edit"}])
def test_anything_but_a_clear_yes_is_a_no(make: "Make", thread: RunnableConfig, counter: str, answer: Any) -> None:
    agent = make([cell(ASKED.format(name=counter)), "FINAL ANSWER: done", "FINAL ANSWER: done"])
    paused(agent.invoke({"task": "Count it."}, thread))
    out = agent.invoke(Command(resume=answer), thread)
    assert (out["status"], out["turns"]) == ("unverified", 0)


def test_an_edited_cell_runs_as_edited_and_the_model_is_told(
    make: "Make", thread: RunnableConfig, counter: str
) -> None:
    model = ScriptedModel([cell(ASKED.format(name=counter)), count(counter), "FINAL ANSWER: done"])
    agent = make(model)
    paused(agent.invoke({"task": "Count it."}, thread))
    edited = {"decision": "edit", "code": "print('the gentle way')"}
    out = agent.invoke(Command(resume=edited), thread)
    assert out["status"] == "success"
    told = model.requests[1][-1].text
    assert "A person changed the cell" in told
    assert told.count("the gentle way") == 2
    assert "lines: 0" in model.requests[2][-1].text


def test_edited_code_is_checked_again(make: "Make", thread: RunnableConfig, counter: str) -> None:
    agent = make([cell(ASKED.format(name=counter)), "FINAL ANSWER: done", "FINAL ANSWER: done"])
    paused(agent.invoke({"task": "Count it."}, thread))
    again = agent.invoke(Command(resume={"decision": "edit", "code": "import os\nos.system('true')"}), thread)
    assert "os.system" in paused(again)["code"]


def test_a_second_answer_has_no_effect(make: "Make", thread: RunnableConfig, counter: str) -> None:
    agent = make([cell(ASKED.format(name=counter)), "FINAL ANSWER: done", count(counter), "FINAL ANSWER: done"])
    paused(agent.invoke({"task": "Run it."}, thread))
    pause = agent.get_state(thread).config
    assert agent.invoke(Command(resume=True), thread)["status"] == "success"
    agent.invoke(Command(resume=True), thread)
    agent.invoke(Command(resume=True), pause)
    out = agent.invoke({"task": "Count the lines."}, thread)
    assert any("lines: 1" in message.text for message in out["messages"])


def test_a_call_that_was_refused_is_answered_by_its_id(make: "Make", thread: RunnableConfig, counter: str) -> None:
    call = {"name": "run_python", "args": {"code": ASKED.format(name=counter)}, "id": "c1", "type": "tool_call"}
    model = ScriptedModel([AIMessage("", tool_calls=[call]), "FINAL ANSWER: no", "FINAL ANSWER: no"])
    agent = make(model)
    paused(agent.invoke({"task": "Run it."}, thread))
    agent.invoke(Command(resume=False), thread)
    answer = model.requests[1][-1]
    assert isinstance(answer, ToolMessage)
    assert answer.tool_call_id == "c1"


def test_a_new_task_in_place_of_an_answer_begins_a_run_and_drops_the_cell(
    make: "Make", thread: RunnableConfig, counter: str
) -> None:
    call = {"name": "run_python", "args": {"code": ASKED.format(name=counter)}, "id": "c1", "type": "tool_call"}
    model = ScriptedModel([AIMessage("", tool_calls=[call]), count(counter), "FINAL ANSWER: 0"])
    agent = make(model)
    paused(agent.invoke({"task": "Run it."}, thread))
    out = agent.invoke({"task": "Leave that; count the lines."}, thread)
    assert out["status"] == "success"
    assert any("lines: 0" in message.text for message in out["messages"])
    assert [m.tool_call_id for m in model.requests[1] if isinstance(m, ToolMessage)] == ["c1"]


async def test_a_pause_works_for_async_callers(make: "Make", thread: RunnableConfig, counter: str) -> None:
    agent = make([cell(ASKED.format(name=counter)), count(counter), "FINAL ANSWER: done"])
    paused(await agent.ainvoke({"task": "Count it."}, thread))
    out = await agent.ainvoke(Command(resume=True), thread)
    assert any("lines: 1" in message.text for message in out["messages"])
