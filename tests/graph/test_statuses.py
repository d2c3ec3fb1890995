"""Every way in which a run may end: with a status, a sentence for a person, nothing raised and no box left."""

import threading
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from actloop import Agent, Budget
from actloop.errors import ModelRequestRefused
from actloop.testing import Reply

if TYPE_CHECKING:
    from tests.graph.conftest import Boxes, Make


def cell(code: str) -> str:
    return f"```python\n{code}\n```"


def ends(agent: Agent, config: RunnableConfig, task: str = "Compute the sum of 1 and 2.") -> dict[str, Any]:
    """Run the task, and check what holds for every end."""
    out = agent.invoke({"task": task}, config)
    assert out["summary"]
    assert "Traceback" not in out["summary"]
    assert out["summary"].endswith((".", "?"))
    assert agent.get_state(config).next == ()
    assert set(out["usage"]) == {"input_tokens", "output_tokens", "model_calls", "cost_usd"}
    assert isinstance(out["turns"], int)
    return out


def repeated(reply: Reply) -> Any:
    return lambda messages: reply


def test_success_has_the_answer_that_a_cell_backs(make: "Make", thread: RunnableConfig, boxes: "Boxes") -> None:
    agent = make.own([cell("1 + 2"), "FINAL ANSWER: 3"])
    with agent.sessions:
        out = ends(agent, thread)
        assert len(boxes.of(thread)) == 1
    assert (out["status"], out["answer"], out["answer_type"], out["turns"]) == ("success", "3", "str", 1)
    assert out["usage"]["model_calls"] == 2
    assert boxes.of(thread) == []


def test_an_answer_without_a_cell_is_doubted_once_and_then_unverified(make: "Make", thread: RunnableConfig) -> None:
    agent = make(["I ran it: it is 3.", "It is 3."])
    out = ends(agent, thread)
    assert (out["status"], out["answer"], out["turns"]) == ("unverified", "It is 3.", 0)
    assert "no code was run" in out["summary"]


def test_an_answer_after_a_failed_cell_is_unverified(make: "Make", thread: RunnableConfig) -> None:
    out = ends(make([cell("1 / 0"), "It is 3.", "It is 3."]), thread)
    assert out["status"] == "unverified"
    assert "the last cell failed" in out["summary"]


def test_a_question_of_the_model_needs_input(make: "Make", thread: RunnableConfig) -> None:
    out = ends(make(["QUESTION: in which unit?"]), thread)
    assert (out["status"], out["answer"]) == ("needs_input", "in which unit?")
    assert "in which unit?" in out["summary"]


def test_cells_that_the_policy_refuses_end_as_denied(make: "Make", thread: RunnableConfig) -> None:
    agent = make(repeated(cell("import subprocess\nsubprocess.run(['id'])")), policy="strict")
    out = ends(agent, thread)
    assert (out["status"], out["turns"]) == ("denied", 0)


def test_cells_that_a_person_refuses_end_as_denied(make: "Make", thread: RunnableConfig) -> None:
    agent = make(repeated(cell("import subprocess\nsubprocess.run(['id'])")))
    out = agent.invoke({"task": "Compute it."}, thread)
    refusals = 0
    while "__interrupt__" in out:
        refusals += 1
        out = agent.invoke(Command(resume={"decision": "reject", "reason": "not on my watch"}), thread)
    assert (out["status"], out["turns"], refusals) == ("denied", 0, 3)
    assert "not on my watch" in out["summary"]


def test_a_model_that_declines_ends_as_refused(make: "Make", thread: RunnableConfig) -> None:
    reply = AIMessage("I cannot help with that.", additional_kwargs={"refusal": "I cannot help with that."})
    out = ends(make([reply]), thread)
    assert out["status"] == "refused"
    assert "I cannot help with that" in out["summary"]


def test_a_provider_that_filters_ends_as_refused(make: "Make", thread: RunnableConfig) -> None:
    error = ModelRequestRefused("The provider's filter refused the request; say it otherwise.")
    error.code = "content_filter"
    assert ends(make([error]), thread)["status"] == "refused"


def test_replies_cut_off_again_and_again_end_as_truncated(make: "Make", thread: RunnableConfig) -> None:
    cut = AIMessage("```python\nprint('never", response_metadata={"finish_reason": "length"})
    out = ends(make(repeated(cut)), thread)
    assert (out["status"], out["turns"]) == ("truncated", 0)
    assert out["usage"]["model_calls"] == 3


def test_cells_that_only_fail_end_as_stuck(make: "Make", thread: RunnableConfig) -> None:
    agent = make([cell(f"missing_{number}") for number in range(4)])
    out = ends(agent, thread)
    assert (out["status"], out["turns"]) == ("stuck", 4)
    assert "NameError" in out["summary"]


def test_a_model_that_answers_nothing_ends_as_stuck(make: "Make", thread: RunnableConfig) -> None:
    out = ends(make(repeated("")), thread)
    assert (out["status"], out["usage"]["model_calls"]) == ("stuck", 3)
    assert "answered nothing" in out["summary"]


def test_too_many_cells_end_at_the_turn_limit_with_what_was_done(make: "Make", thread: RunnableConfig) -> None:
    agent = make(lambda messages: cell(f"print({len(messages)})"), max_turns=3)
    out = ends(agent, thread)
    assert (out["status"], out["turns"]) == ("turn_limit", 3)
    assert "3 cells" in out["summary"]
    assert sum("exit code 0" in message.text for message in out["messages"]) == 3


@pytest.mark.parametrize("budget", [Budget(model_calls=2), Budget(tokens=1), Budget(wall_s=0.000001)])
def test_a_spent_budget_ends_the_run_before_the_next_request(
    make: "Make", thread: RunnableConfig, budget: Budget
) -> None:
    agent = make(lambda messages: cell(f"print({len(messages)})"), budget=budget)
    out = ends(agent, thread)
    assert out["status"] == "budget_exceeded"
    assert out["usage"]["model_calls"] == (2 if budget.model_calls else 1 if budget.tokens else 0)


@pytest.mark.parametrize("error", [TimeoutError("no answer"), ConnectionError("refused"), ValueError("odd")])
def test_a_provider_that_fails_ends_as_model_unavailable(
    make: "Make", thread: RunnableConfig, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actloop.nodes.asking._BACKOFF_S", 0.0)
    out = ends(make([error]), thread)
    assert (out["status"], out["answer"]) == ("model_unavailable", None)


def test_the_provider_may_fail_in_the_middle_and_the_thread_goes_on(
    make: "Make", thread: RunnableConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actloop.nodes.asking._BACKOFF_S", 0.0)
    failing = [True]

    def reply(messages: list[Any]) -> Reply:
        if len(messages) > 3 and failing[0]:
            return ConnectionError("gone")
        return "FINAL ANSWER: 3" if len(messages) > 3 else cell("print(1 + 2)")

    agent = make(reply)
    out = ends(agent, thread)
    assert (out["status"], out["turns"]) == ("model_unavailable", 1)
    failing[0] = False
    assert ends(agent, thread, "Once more: what is the sum of 1 and 2?")["answer"] == "3"


def test_a_missing_image_ends_as_sandbox_error_before_the_model_is_asked(make: "Make", thread: RunnableConfig) -> None:
    agent = make.own(["never asked"], image="nosuch:latest")
    out = ends(agent, thread)
    assert (out["status"], out["usage"]["model_calls"]) == ("sandbox_error", 0)
    assert "actloop image build" in out["summary"]


def test_an_engine_that_is_gone_ends_as_sandbox_error(
    make: "Make", thread: RunnableConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = make.own([cell("1")])
    agent.sessions.facts()
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    out = ends(agent, thread)
    assert (out["status"], out["turns"]) == ("sandbox_error", 0)
    assert "nonexistent.sock" in out["summary"]


def test_an_interrupted_cell_ends_as_cancelled_and_the_variables_stay(make: "Make", thread: RunnableConfig) -> None:
    agent = make(
        [
            cell("kept = 41"),
            cell("import time\nprint('begun', flush=True)\ntime.sleep(20)"),
            cell("print(kept + 1)"),
            "FINAL ANSWER: 42",
        ]
    )
    for event in agent.stream({"task": "Compute it."}, thread, stream_mode="custom"):
        if "begun" in event.get("text", ""):
            threading.Thread(target=agent.sessions.interrupt).start()
    out = agent.get_state(thread).values
    assert (out["status"], out["turns"]) == ("cancelled", 2)
    assert ends(agent, thread, "Go on and compute it.")["answer"] == "42"
