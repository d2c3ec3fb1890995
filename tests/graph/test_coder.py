"""A model that plans, one that writes the code, and one that mends it."""

from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig

from actloop import Budget
from actloop.nodes.asking import usage_of
from actloop.testing import ScriptedModel

if TYPE_CHECKING:
    from tests.graph.conftest import Make


def cell(code: str) -> str:
    return f"```python\n{code}\n```"


def test_the_coder_writes_the_cell_for_the_plan(make: "Make", thread: RunnableConfig) -> None:
    planner = ScriptedModel(["PLAN: print six times seven.", "FINAL ANSWER: 42"])
    coder = ScriptedModel(lambda messages: "Here it is.\n" + cell("print(6 * 7)"))
    agent = make(planner, coder=coder)
    out = agent.invoke({"task": "Compute it."}, thread)
    assert (out["status"], out["answer"], out["turns"]) == ("success", "42", 1)
    assert out["usage"]["model_calls"] == 3
    assert out["usage"]["output_tokens"] == sum(
        usage_of(message)["output_tokens"] for message in out["messages"] if isinstance(message, AIMessage)
    )
    assert any(message.text.startswith("PLAN: print six") for message in coder.requests[0])
    assert "Reply with one fenced Python block" in coder.requests[0][0].text
    assert "PLAN:" in planner.requests[0][0].text
    replies = [message.text for message in out["messages"] if isinstance(message, AIMessage)]
    assert replies == ["PLAN: print six times seven.\n\n" + cell("print(6 * 7)"), "FINAL ANSWER: 42"]
    assert not any("Write the cell for this plan" in message.text for message in out["messages"])


def test_code_in_the_plan_is_a_sketch_and_what_the_coder_writes_is_what_runs(
    make: "Make", thread: RunnableConfig
) -> None:
    planner = ScriptedModel(["I would do\n" + cell("print('sketch')"), "FINAL ANSWER: real"])
    coder = ScriptedModel(lambda messages: cell('print("real", "```")'))
    out = make(planner, coder=coder).invoke({"task": "Compute it."}, thread)
    told = "\n".join(message.text for message in out["messages"])
    assert "real ```" in told
    assert "sketch" not in told


def test_the_repairer_mends_and_without_one_the_coder_does(make: "Make", thread: RunnableConfig) -> None:
    planner = ScriptedModel(["PLAN: divide.", "never asked", "FINAL ANSWER: 1"])
    coder = ScriptedModel(lambda messages: cell("print(2)") if "failed" in messages[-1].text else cell("1 / 0"))
    repairer = ScriptedModel(lambda messages: cell("print(1)"))
    out = make(planner, coder=coder, repairer=repairer).invoke({"task": "Compute it."}, thread)
    assert (out["answer"], out["turns"], out["usage"]["model_calls"]) == ("1", 2, 4)
    assert (len(coder.requests), len(repairer.requests)) == (1, 1)
    other: RunnableConfig = {"configurable": {"thread_id": f"{thread['configurable']['thread_id']}-2"}}
    again = ScriptedModel(["PLAN: divide.", "never asked", "FINAL ANSWER: 2"])
    out = make(again, coder=coder).invoke({"task": "Compute it."}, other)
    assert (out["answer"], len(again.requests), len(coder.requests)) == ("2", 2, 3)


async def test_async_callers_get_the_same(make: "Make", thread: RunnableConfig) -> None:
    planner = ScriptedModel(["PLAN: print 7.", "FINAL ANSWER: 7"])
    out = await make(planner, coder=ScriptedModel(lambda messages: cell("print(7)"))).ainvoke({"task": "Go 1."}, thread)
    assert (out["status"], out["answer"]) == ("success", "7")


def test_a_coder_that_writes_no_code_is_told_to_the_planner_and_ends_the_run(
    make: "Make", thread: RunnableConfig
) -> None:
    planner = ScriptedModel(lambda messages: "PLAN: print 7.")
    out = make(planner, coder=ScriptedModel(lambda messages: "FINAL ANSWER: 7")).invoke({"task": "Go 1."}, thread)
    assert (out["status"], out["answer"], out["turns"]) == ("stuck", None, 0)
    assert "coder" in out["summary"]
    assert "The coder wrote no cell" in planner.requests[1][-1].text
    assert out["usage"]["model_calls"] == 6


def test_answers_and_questions_of_the_planner_need_no_coder(make: "Make", thread: RunnableConfig) -> None:
    coder = ScriptedModel([])
    out = make(["QUESTION: Which year?"], coder=coder).invoke({"task": "Compute it."}, thread)
    assert (out["status"], out["answer"]) == ("needs_input", "Which year?")
    assert coder.requests == []


def test_the_budget_stands_before_the_coder_as_well(make: "Make", thread: RunnableConfig) -> None:
    agent = make(["PLAN: print 7."], coder=ScriptedModel([]), budget=Budget(model_calls=1))
    assert agent.invoke({"task": "Compute it."}, thread)["status"] == "budget_exceeded"


def test_a_coder_that_fails_ends_the_run_as_unavailable(make: "Make", thread: RunnableConfig) -> None:
    agent = make(["PLAN: print 7."], coder=ScriptedModel([ValueError("no"), ValueError("no")]))
    assert agent.invoke({"task": "Compute it."}, thread)["status"] == "model_unavailable"
