"""Threads that are longer than what the model takes."""

from typing import TYPE_CHECKING

import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig

from actloop.errors import ConfigError
from actloop.nodes.fitting import count_tokens
from actloop.testing import Reply, ScriptedModel

if TYPE_CHECKING:
    from tests.graph.conftest import Make

TURNS = 8
LONG = "print('row of the table ' * 200)"


def narrow(limit: int) -> ScriptedModel:
    """A model that makes a long output each turn and refuses requests over its limit, and open calls."""
    made = 0

    def reply(messages: list[BaseMessage]) -> Reply:
        nonlocal made
        if count_tokens(messages) > limit:
            return ContextOverflowError(f"maximum context length is {limit} tokens")
        made += 1
        if made > TURNS:
            return "FINAL ANSWER: done"
        call = {"name": "python", "args": {"code": f"v{made} = {made}\n{LONG}"}, "id": f"c{made}", "type": "tool_call"}
        return AIMessage("", tool_calls=[call])

    return ScriptedModel(reply)


def test_a_long_thread_stays_under_its_ceiling_and_the_stored_history_is_whole(
    make: "Make", thread: RunnableConfig
) -> None:
    model = narrow(5_500)
    out = make(model, context_tokens=5_400).invoke({"task": "Compute it."}, thread)
    assert (out["status"], out["turns"]) == ("success", TURNS)
    assert len(model.requests) == TURNS + 1
    assert max(count_tokens(request) for request in model.requests) <= 5_400
    assert all(f"v{number} (int, {number})" in model.requests[-1][-1].text for number in range(1, TURNS + 1))
    stored = "".join(message.text for message in out["messages"])
    assert stored.count("row of the table") == TURNS * 200


def test_a_request_that_is_too_long_all_the_same_is_shortened_and_sent_again(
    make: "Make", thread: RunnableConfig
) -> None:
    model = narrow(5_000)
    out = make(model).invoke({"task": "Compute it."}, thread)
    assert (out["status"], out["turns"]) == ("success", TURNS)
    assert len(model.requests) > TURNS + 1
    assert out["usage"]["model_calls"] == TURNS + 1


async def test_async_callers_get_the_same(make: "Make", thread: RunnableConfig) -> None:
    out = await make(narrow(5_000)).ainvoke({"task": "Compute it."}, thread)
    assert (out["status"], out["turns"]) == ("success", TURNS)


def test_what_cannot_be_shortened_ends_the_run_in_words(make: "Make", thread: RunnableConfig) -> None:
    out = make(narrow(10)).invoke({"task": "Compute it."}, thread)
    assert (out["status"], out["turns"]) == ("model_unavailable", 0)


def test_a_ceiling_without_sense_is_refused(make: "Make") -> None:
    with pytest.raises(ConfigError, match="context_tokens"):
        make.own([], context_tokens=0)
