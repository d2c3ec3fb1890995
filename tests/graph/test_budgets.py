"""What a run may spend: each ceiling ends it before the next request, and says what was reached."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.runnables import RunnableConfig

from actloop import Budget
from actloop.config import Settings
from actloop.errors import ConfigError
from actloop.graph.tools import host_function
from actloop.nodes.spending import spent_on
from actloop.prices import open_prices
from actloop.testing import ScriptedModel

if TYPE_CHECKING:
    from tests.graph.conftest import Make

PRICES = open_prices({"scripted": (1000.0, 100.0, 1000.0)})
"""A tenth of a cent a token."""


def cell(code: str) -> str:
    return f"```python\n{code}\n```"


def used(input_tokens: int, output_tokens: int, cached: int = 0) -> UsageMetadata:
    return UsageMetadata(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=input_tokens + output_tokens,
        input_token_details=InputTokenDetails(cache_read=cached),
    )


def costly(messages: list[Any]) -> AIMessage:
    """Always another cell, at 100 tokens."""
    return AIMessage(cell(f"print({len(messages)})"), usage_metadata=used(90, 10))


# -- what it costs ------------------------------------------------------------------------------------------------


def test_usage_has_the_cost_of_all_requests(make: "Make", thread: RunnableConfig) -> None:
    replies = [
        AIMessage(cell("print(7)"), usage_metadata=used(1000, 10)),
        AIMessage("FINAL ANSWER: 7", usage_metadata=used(2000, 10, cached=1000)),
    ]
    out = make(replies, prices=PRICES).invoke({"task": "Compute it."}, thread)
    assert out["usage"]["cost_usd"] == pytest.approx(1.01 + 1.0 + 0.1 + 0.01)


def test_a_cost_that_nobody_knows_is_none_and_not_zero(make: "Make", thread: RunnableConfig) -> None:
    out = make([cell("print(7)"), "FINAL ANSWER: 7"]).invoke({"task": "Compute it."}, thread)
    assert out["usage"]["cost_usd"] is None


def test_the_version_that_a_provider_names_is_priced_and_the_callers_own_name_goes_first() -> None:
    reply = AIMessage("7", usage_metadata=used(1_000_000, 0), response_metadata={"model_name": "gpt-5-2025-08-07"})
    assert spent_on(reply, [], open_prices(), "my-deployment")["cost_usd"] == pytest.approx(1.25)
    assert spent_on(reply, [], open_prices({"my-deployment": [3, 3]}), "my-deployment")["cost_usd"] == pytest.approx(3)


def test_tokens_that_a_provider_does_not_report_are_estimated(make: "Make", thread: RunnableConfig) -> None:
    model = FakeListChatModel(responses=[cell(f"print({number})") for number in range(9)])
    out = make(model, budget=Budget(tokens=1500)).invoke({"task": "Compute it."}, thread)
    assert out["status"] == "budget_exceeded"
    assert out["usage"]["input_tokens"] + out["usage"]["output_tokens"] >= 1500


# -- ceilings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "requests", "words"),
    [
        (Budget(tokens=200), 2, "200 of 200 tokens are used"),
        (Budget(tokens=201), 3, "300 of 201 tokens are used"),
        (Budget(usd=0.25), 3, "$0.3 of $0.25 are spent"),
        (Budget(model_calls=4), 4, "4 of 4 requests are used"),
        (Budget(cells=2), 3, "2 of 2 cells are used"),
        (Budget(wall_s=0.000001), 0, "1e-06 seconds have passed"),
        (Budget(tokens=150, usd=0.15), 2, "200 of 150 tokens are used; $0.2 of $0.15 are spent"),
    ],
)
def test_a_run_ends_at_its_ceiling_and_says_what_was_reached(
    make: "Make", thread: RunnableConfig, budget: Budget, requests: int, words: str
) -> None:
    out = make(costly, budget=budget, prices=PRICES).invoke({"task": "Compute it."}, thread)
    assert (out["status"], out["usage"]["model_calls"]) == ("budget_exceeded", requests)
    assert words in out["summary"]


def test_the_answer_may_follow_the_last_cell_of_the_budget(make: "Make", thread: RunnableConfig) -> None:
    agent = make([cell("print(7)"), "FINAL ANSWER: 7"], budget=Budget(cells=1))
    assert agent.invoke({"task": "Compute it."}, thread)["status"] == "success"


def test_each_run_has_a_budget_of_its_own_and_the_thread_one_for_all(make: "Make", thread: RunnableConfig) -> None:
    def reply(messages: list[Any]) -> AIMessage:
        return AIMessage("Hello.", usage_metadata=used(90, 10))

    budget = Budget(tokens=150, thread_tokens=250, thread_usd=10)
    agent = make(reply, budget=budget, prices=PRICES)
    ended = [agent.invoke({"task": "Say hello."}, thread) for _ in range(5)]
    assert [out["status"] for out in ended] == ["success"] * 3 + ["budget_exceeded"] * 2
    assert [out["usage"]["model_calls"] for out in ended] == [1, 1, 1, 0, 0]
    assert "300 of 250 tokens are used in this thread" in ended[-1]["summary"]


def test_a_thread_has_a_ceiling_in_dollars(make: "Make", thread: RunnableConfig) -> None:
    agent = make(
        lambda messages: AIMessage("Hello.", usage_metadata=used(90, 10)),
        budget=Budget(thread_usd=0.15),
        prices=PRICES,
    )
    statuses = [agent.invoke({"task": "Say hello."}, thread)["status"] for _ in range(3)]
    assert statuses == ["success", "success", "budget_exceeded"]


@pytest.mark.parametrize("field", ["tokens", "usd", "model_calls", "wall_s", "cells", "host_calls", "thread_usd"])
def test_a_ceiling_of_nothing_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        Budget(**{field: 0})


# -- money needs prices -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [Budget(usd=1.0), Budget(thread_usd=1.0)])
def test_a_ceiling_in_dollars_without_a_price_is_refused_with_the_next_step(make: "Make", budget: Budget) -> None:
    with pytest.raises(ConfigError, match=r"'scripted' is known\. Give it with create_agent\(prices="):
        make.own([], budget=budget)


def test_prices_come_from_the_caller_or_from_a_file(
    make: "Make", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make.own([], budget=Budget(usd=1.0), prices={"scripted": (1, 0.1, 2)})
    (tmp_path / "mine.json").write_text(json.dumps({"scripted": [1, 2]}))
    monkeypatch.setenv("ACTLOOP_PRICES", str(tmp_path / "mine.json"))
    make.own([], budget=Budget(usd=1.0), settings=Settings())


def test_a_model_without_a_price_that_a_tool_calls_ends_a_run_with_a_ceiling_in_dollars(
    make: "Make", thread: RunnableConfig
) -> None:
    def ask_other() -> str:
        return ScriptedModel(["three words here"], name_of_model="other").invoke("How much?").text

    agent = make.own(
        [cell("print(ask_other())"), "FINAL ANSWER: three"],
        tools=[ask_other],
        budget=Budget(usd=100),
        prices={"scripted": (1, 1)},
    )
    out = agent.invoke({"task": "Ask it."}, thread)
    assert (out["status"], out["usage"]["cost_usd"]) == ("budget_exceeded", None)
    assert "a model without a known price was called" in out["summary"]


# -- models that cells reach --------------------------------------------------------------------------------------


def _tools(model: BaseChatModel) -> list[Any]:
    def ask_other(question: str) -> str:
        return str(model.invoke(question).text)

    async def ask_async(question: str) -> str:
        return str((await model.ainvoke(question)).text)

    return [ask_other, ask_async]


@pytest.mark.parametrize("name", ["ask_other", "ask_async"])
@pytest.mark.parametrize("as_async", [False, True])
async def test_what_a_tool_spends_on_models_counts(
    make: "Make", thread: RunnableConfig, name: str, as_async: bool
) -> None:
    other = ScriptedModel(lambda messages: AIMessage("blue", usage_metadata=used(40, 2)))
    replies = [
        AIMessage(cell(f"print({name}('a'), {name}('b'))"), usage_metadata=used(100, 5)),
        AIMessage("FINAL ANSWER: blue", usage_metadata=used(100, 5)),
    ]
    agent = make.own(replies, tools=_tools(other), prices={"scripted": (1000, 1000)})
    given: Any = {"task": "Which colour is it?"}
    out = await agent.ainvoke(given, thread) if as_async else agent.invoke(given, thread)
    assert (out["status"], len(other.requests)) == ("success", 2)
    usage = out["usage"]
    assert (usage["model_calls"], usage["input_tokens"], usage["output_tokens"]) == (4, 280, 14)
    assert usage["cost_usd"] == pytest.approx(0.294)


def test_a_cell_cannot_spend_past_the_ceiling_through_a_tool(make: "Make", thread: RunnableConfig) -> None:
    other = ScriptedModel(lambda messages: AIMessage("blue", usage_metadata=used(90, 10)))
    code = "said = []\nfor n in range(50):\n    said.append(ask_other('?'))"
    agent = make.own(
        lambda messages: AIMessage(cell(code), usage_metadata=used(90, 10)),
        tools=_tools(other),
        budget=Budget(tokens=450),
    )
    out = agent.invoke({"task": "Ask it."}, thread)
    assert (out["status"], out["turns"], len(other.requests)) == ("budget_exceeded", 1, 4)
    assert "500 of 450 tokens" in out["summary"]
    told = "\n".join(message.text for message in out["messages"])
    assert "The request was not made: 500 of 450 tokens are used" in told


def test_an_agent_in_a_tool_is_counted_and_stopped_with_the_one_that_calls_it(
    make: "Make", thread: RunnableConfig
) -> None:
    inner_model = ScriptedModel(costly)
    inner = make.own(inner_model, max_turns=50)
    ended: list[dict[str, Any]] = []

    def delegate(task: str) -> str:
        ended.append(inner.invoke({"task": task}))
        return str(ended[-1]["status"])

    outer = make.own(
        lambda messages: AIMessage(cell("print(delegate('Compute it.'))"), usage_metadata=used(90, 10)),
        tools=[host_function(delegate)],
        budget=Budget(model_calls=4),
    )
    out = outer.invoke({"task": "Have it computed."}, thread)
    assert (out["status"], out["usage"]["model_calls"]) == ("budget_exceeded", 4)
    assert [inner_out["status"] for inner_out in ended] == ["budget_exceeded"]
    assert len(inner_model.requests) == 3
    assert "4 of 4 requests are used" in ended[0]["summary"]


def test_two_runs_at_once_are_counted_apart(make: "Make") -> None:
    other = ScriptedModel(lambda messages: AIMessage("blue", usage_metadata=used(40, 2)))
    agent = make.own(
        [cell("print(ask_other('a'))"), "FINAL ANSWER: blue"], tools=_tools(other), budget=Budget(model_calls=3)
    )
    outs = agent.batch([{"task": "Which colour is it?"}] * 3, [{"configurable": {"thread_id": f"b{n}"}} for n in "123"])
    assert [out["usage"]["model_calls"] for out in outs] == [3, 3, 3]
