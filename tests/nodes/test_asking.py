import asyncio
import threading
import time
from email.utils import formatdate
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.errors import GraphInterrupt

from actloop.errors import ConfigError, ModelError, ModelUnavailable
from actloop.nodes.asking import aask, add_usage, ask, usage_of
from actloop.nodes.model import connect
from actloop.nodes.model_errors import code_of
from actloop.testing import ScriptedModel, ScriptExhausted

if TYPE_CHECKING:
    from tests.fake_server import FakeServer

PROMPT = [HumanMessage("What is 6 * 7?")]


@tool
def run_python(code: str) -> str:
    """Run code."""
    return code


def at(server: "FakeServer", name: str = "m", **options: Any) -> BaseChatModel:
    return connect(name, base_url=server.url, api_key="server-key-123", **options)


def test_a_rate_limit_waits_as_told_and_goes_on(server: "FakeServer") -> None:
    server.refuses(429, retry_after="1").says("42")
    assert ask(at(server), PROMPT).text == "42"
    assert server.times[1] - server.times[0] >= 1.0


def test_a_rate_limit_with_a_date_waits_until_then(server: "FakeServer") -> None:
    server.refuses(429, retry_after=formatdate(time.time() + 2, usegmt=True)).says("42")
    assert ask(at(server), PROMPT).text == "42"
    assert server.times[1] - server.times[0] >= 0.9


def test_a_wait_beyond_the_cap_fails_at_once(server: "FakeServer") -> None:
    server.refuses(429, message="slow down", retry_after="3600")
    with pytest.raises(ModelUnavailable, match="slow down") as caught:
        ask(at(server), PROMPT)
    assert code_of(caught.value) == "rate_limited"
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [408, 409, 500, 502, 503])
def test_a_failing_server_is_asked_again(server: "FakeServer", fake: ModuleType, status: int) -> None:
    server.answers.append(fake.Answer(b"<html>Bad Gateway</html>", status, content_type="text/html"))
    server.says("42")
    assert ask(at(server), PROMPT).text == "42"
    assert len(server.requests) == 2


def test_retries_are_not_doubled(server: "FakeServer") -> None:
    for _ in range(10):
        server.refuses(503)
    with pytest.raises(ModelUnavailable, match=server.url):
        ask(at(server, max_retries=1), PROMPT)
    assert len(server.requests) == 2


def test_a_slow_server_is_unavailable(server: "FakeServer", fake: ModuleType) -> None:
    server.answers.append(fake.Answer(b"{}", delay_s=0.6))
    with pytest.raises(ModelUnavailable, match=r"did not answer in time.*--model") as caught:
        ask(at(server, timeout_s=0.2, max_retries=0), PROMPT)
    assert code_of(caught.value) == "timeout"


def test_an_unreachable_server_is_named_with_the_cause() -> None:
    model = connect("m", base_url="http://127.0.0.1:9/v1", max_retries=0)
    with pytest.raises(ModelUnavailable, match=r"http://127.0.0.1:9/v1 .*refused.*--base-url") as caught:
        ask(model, PROMPT)
    assert code_of(caught.value) == "unreachable"


def test_an_unknown_host_is_named() -> None:
    model = connect("m", base_url="http://no-such-host.invalid/v1", max_retries=0)
    with pytest.raises(ModelUnavailable, match=r"no-such-host\.invalid"):
        ask(model, PROMPT)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"choices": []},
        {"choices": None},
        {"choices": [{}]},
        {"error": {"code": 502, "message": "up"}},
        "hi",
    ],
)
def test_an_answer_that_is_no_completion_is_unavailable_after_two_retries(
    server: "FakeServer", body: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actloop.nodes.asking._BACKOFF_S", 0.01)
    for _ in range(5):
        server.sends(body)
    with pytest.raises(ModelUnavailable, match="--base-url") as caught:
        ask(at(server), PROMPT)
    assert code_of(caught.value) == "bad_reply"
    assert len(server.requests) == 3


def test_a_model_without_retries_of_its_own_gets_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actloop.nodes.asking._BACKOFF_S", 0.01)
    model = ScriptedModel([ConnectionError("reset")])
    with pytest.raises(ModelUnavailable, match="ScriptedModel cannot be reached"):
        ask(model, PROMPT)
    assert len(model.requests) == 3


async def test_async_callers_get_the_same_retries(server: "FakeServer") -> None:
    server.refuses(429, retry_after="1").says("42")
    assert (await aask(at(server), PROMPT)).text == "42"
    assert server.times[1] - server.times[0] >= 1.0


def test_a_model_outlives_its_event_loop(server: "FakeServer", fake: ModuleType) -> None:
    model = at(server, max_retries=0)
    server.keep_alive = True
    server.says("1").says("2").says("3")
    assert [asyncio.run(aask(model, PROMPT)).text for _ in range(3)] == ["1", "2", "3"]


async def test_a_connection_of_a_dead_event_loop_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actloop.nodes.asking._BACKOFF_S", 0.01)
    replies: list[Any] = [RuntimeError("Event loop is closed"), "42"]
    assert (await aask(ScriptedModel(lambda _: replies.pop(0)), PROMPT)).text == "42"


def test_the_tool_that_must_be_called_is_sent(server: "FakeServer", fake: ModuleType) -> None:
    server.says(None, tool_calls=[fake.call('{"code": "1"}')])
    ask(at(server), PROMPT, tools=[run_python], tool_choice="run_python", stop=["x"])
    assert server.requests[0]["tool_choice"]["function"]["name"] == "run_python"
    assert server.requests[0]["stop"] == ["x"]


def test_a_model_that_takes_no_tools_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="FakeListChatModel takes no tools"):
        ask(FakeListChatModel(responses=["x"]), PROMPT, tools=[run_python])


@pytest.mark.parametrize("error", [GraphInterrupt(), ScriptExhausted("end"), ModelUnavailable("ours")])
def test_an_error_that_is_not_the_providers_passes_through(error: Exception) -> None:
    model = ScriptedModel([error])
    with pytest.raises(type(error)) as caught:
        ask(model, PROMPT)
    assert caught.value is error
    assert len(model.requests) == 1


def test_a_keyboard_interrupt_passes_through() -> None:
    def interrupt(_: object) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask(ScriptedModel(interrupt), PROMPT)


def test_an_error_that_nobody_knows_is_a_model_error_with_its_cause() -> None:
    cause = LookupError("odd")
    with pytest.raises(ModelError, match="odd") as caught:
        ask(ScriptedModel([cause]), PROMPT)
    assert code_of(caught.value) == "unknown"
    assert caught.value.__cause__ is cause


async def test_cancelling_the_task_cancels_the_request(server: "FakeServer", fake: ModuleType) -> None:
    server.answers.append(fake.Answer(b"{}", delay_s=0.6))
    task = asyncio.create_task(aask(at(server), PROMPT))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(server.requests) == 1


def test_one_model_answers_many_threads(server: "FakeServer") -> None:
    model = at(server)
    for _ in range(8):
        server.says("42")
    replies: list[str] = []
    threads = [threading.Thread(target=lambda: replies.append(ask(model, PROMPT).text)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert replies == ["42"] * 8


def test_usage_adds_up() -> None:
    replies = [ask(ScriptedModel(["one two"]), PROMPT), AIMessage("no usage")]
    assert add_usage(None, *(usage_of(reply) for reply in replies)) == {
        "input_tokens": 5,
        "output_tokens": 2,
        "model_calls": 2,
        "cost_usd": None,
    }
