import asyncio
import threading
import time
from email.utils import formatdate
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypedDict

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.errors import GraphInterrupt
from langgraph.graph import END, START, StateGraph

from actloop.errors import ConfigError, ModelAccessDenied, ModelError, ModelRequestRefused, ModelUnavailable
from actloop.nodes.asking import aask, add_usage, ask, usage_of
from actloop.nodes.model import connect
from actloop.nodes.model_errors import code_of
from actloop.testing import ScriptedModel, ScriptExhausted

if TYPE_CHECKING:
    from tests.fake_server import FakeServer

PROMPT = [HumanMessage("What is 6 * 7?")]
DOUBLE = '"{\\"code\\": \\"print(1)\\"}"'


@tool
def run_python(code: str) -> str:
    """Run code."""
    return code


class Box(TypedDict):
    reply: AIMessage


def at(server: "FakeServer", name: str = "m", **options: Any) -> BaseChatModel:
    return connect(name, base_url=server.url, api_key="server-key-123", **options)


def streamed(model: BaseChatModel, **options: Any) -> AIMessage:
    """Ask within a graph whose tokens someone reads, so that the model streams."""

    def node(_: Box) -> Box:
        return {"reply": ask(model, PROMPT, **options)}

    graph = (
        StateGraph(Box).add_node("reason", node).add_edge(START, "reason").add_edge("reason", END).compile()
    )
    replies: list[AIMessage] = []
    for mode, item in graph.stream({}, stream_mode=["messages", "updates"]):  # type: ignore[call-overload]
        if mode == "updates":
            replies.append(item["reason"]["reply"])
    return replies[0]


# Retries


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


def test_a_stream_that_breaks_off_is_asked_again(server: "FakeServer", fake: ModuleType) -> None:
    server.streams([fake.chunk("4")], broken=True)
    server.streams([fake.chunk("42"), fake.chunk(finish="stop"), fake.chunk(usage=True)])
    reply = streamed(at(server))
    assert reply.text == "42"
    assert usage_of(reply)["output_tokens"] == 7


def test_an_error_within_a_stream_is_asked_again(server: "FakeServer", fake: ModuleType) -> None:
    server.streams([fake.chunk("4"), {"error": {"message": "overloaded", "code": "server_error"}}])
    server.streams([fake.chunk("42"), fake.chunk(finish="stop")])
    assert streamed(at(server)).text == "42"


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


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # the foreign client leaks a socket
def test_a_foreign_model_outlives_its_event_loop_by_a_retry(server: "FakeServer") -> None:
    model = ChatOpenAI(model="m", base_url=server.url, api_key="k", max_retries=0)  # type: ignore[arg-type]
    server.keep_alive = True
    for _ in range(6):  # a request on a dead connection may still reach the server
        server.says("42")
    assert [asyncio.run(aask(model, PROMPT)).text for _ in range(3)] == ["42"] * 3


# Parameters


def test_a_refused_parameter_costs_one_request_once(server: "FakeServer") -> None:
    model = at(server)
    server.refuses(400, code="unsupported_parameter", param="stop", message="'stop' is not supported")
    server.says("1").says("2")
    assert ask(model, PROMPT, stop=["</code>"]).text == "1"
    assert ask(model, PROMPT, stop=["</code>"]).text == "2"
    assert ["stop" in request for request in server.requests] == [True, False, False]
    assert all(request["temperature"] == 0.0 for request in server.requests)


def test_a_refused_field_of_the_model_is_left_out(server: "FakeServer") -> None:
    model = at(server)
    server.refuses(400, code="unsupported_value", param="temperature", message="Only the default (1)")
    server.says("1").says("2")
    assert [ask(model, PROMPT).text, ask(at(server), PROMPT).text] == ["1", "2"]
    assert ["temperature" in request for request in server.requests] == [True, False, False]
    assert getattr(model, "temperature", None) == 0.0


def test_a_server_that_names_the_parameter_in_words_is_understood(server: "FakeServer") -> None:
    server.refuses(400, message="Unrecognized request argument supplied: stop").says("1")
    assert ask(at(server), PROMPT, stop=["</code>"]).text == "1"


def test_a_server_that_knows_no_stream_options_still_streams(server: "FakeServer", fake: ModuleType) -> None:
    server.refuses(400, message="Unknown parameter: 'stream_options'.", param="stream_options")
    server.streams([fake.chunk("42"), fake.chunk(finish="stop")])
    assert streamed(at(server)).text == "42"


def test_a_parameter_that_is_not_ours_ends_the_call(server: "FakeServer") -> None:
    server.refuses(400, code="unsupported_parameter", param="messages", message="no")
    with pytest.raises(ModelRequestRefused):
        ask(at(server), PROMPT)
    assert len(server.requests) == 1


def test_a_server_that_refuses_for_ever_is_not_asked_for_ever(server: "FakeServer") -> None:
    for _ in range(9):
        server.refuses(400, code="unsupported_parameter", param="temperature", message="no")
    with pytest.raises(ModelRequestRefused):
        ask(at(server), PROMPT)
    assert len(server.requests) == 2


def test_a_reasoning_model_is_never_sent_a_stop(server: "FakeServer") -> None:
    server.says("1")
    assert ask(at(server, "o3"), PROMPT, stop=["</code>"]).text == "1"
    assert not {"stop", "temperature"} & server.requests[0].keys()


# Refusals


@pytest.mark.parametrize("code", ["content_filter", "content_policy_violation"])
def test_a_content_filter_is_one_request_and_told_apart(server: "FakeServer", code: str) -> None:
    server.sends({"error": {"code": code, "status": 400, "message": "filtered"}}, 400)
    with pytest.raises(ModelRequestRefused, match="filtered") as caught:
        ask(at(server), PROMPT)
    assert code_of(caught.value) == "content_filter"
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens.",
        "the request exceeds the available context size",
        "Input tokens exceed the configured limit of 272000 tokens.",
    ],
)
def test_a_prompt_that_is_too_long_is_told_apart(server: "FakeServer", message: str) -> None:
    server.refuses(400, message=message)
    with pytest.raises(ModelRequestRefused) as caught:
        ask(at(server), PROMPT)
    assert code_of(caught.value) == "context_length_exceeded"


def test_another_refusal_quotes_the_provider(server: "FakeServer") -> None:
    server.refuses(400, code="invalid_value", message="messages[0] has no role")
    with pytest.raises(ModelRequestRefused, match=r"messages\[0\] has no role") as caught:
        ask(at(server), PROMPT)
    assert code_of(caught.value) == "bad_request"


@pytest.mark.parametrize("status", [401, 403])
def test_a_wrong_key_names_the_settings_and_never_the_key(server: "FakeServer", status: int) -> None:
    server.refuses(status, message="Incorrect API key provided: server-key-123 (sk-abc12345)")
    with pytest.raises(ModelAccessDenied, match=r"OPENAI_API_KEY.*--base-url") as caught:
        ask(at(server), PROMPT)
    assert "server-key-123" not in str(caught.value)
    assert "sk-abc12345" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert len(server.requests) == 1


def test_an_empty_account_is_not_a_rate_limit(server: "FakeServer") -> None:
    server.refuses(429, code="insufficient_quota", message="You exceeded your current quota")
    with pytest.raises(ModelAccessDenied, match="credit"):
        ask(at(server, max_retries=0), PROMPT)


def test_an_unknown_model_is_named_with_the_way_to_list_models(server: "FakeServer") -> None:
    server.refuses(404, code="model_not_found", message="The model `gpt-9` does not exist")
    with pytest.raises(ModelRequestRefused, match=rf"gpt-9.*{server.url}/models.*--model") as caught:
        ask(at(server, "gpt-9"), PROMPT)
    assert code_of(caught.value) == "model_not_found"


# Odd replies


def test_no_content_is_an_empty_text(server: "FakeServer") -> None:
    server.says(None)
    reply = ask(at(server), PROMPT)
    assert reply.content == ""
    assert usage_of(reply) == {"input_tokens": 11, "output_tokens": 7, "model_calls": 1}


def test_a_chunk_without_choices_is_passed_over(server: "FakeServer", fake: ModuleType) -> None:
    server.streams([fake.chunk("a"), fake.chunk(usage=True), fake.chunk("b"), fake.chunk(finish="stop")])
    whole: Any = None
    for piece in at(server).stream(PROMPT):
        whole = piece if whole is None else whole + piece
    assert isinstance(whole, AIMessageChunk)
    assert whole.text == "ab"
    assert usage_of(whole) == {"input_tokens": 11, "output_tokens": 7, "model_calls": 1}


def test_a_reply_streams_token_by_token_within_a_graph(server: "FakeServer", fake: ModuleType) -> None:
    server.streams([fake.chunk("4"), fake.chunk("2"), fake.chunk(finish="stop"), fake.chunk(usage=True)])
    reply = streamed(at(server))
    assert reply.text == "42"
    assert server.requests[0]["stream"] is True
    assert usage_of(reply)["input_tokens"] == 11


@pytest.mark.parametrize("arguments", [DOUBLE, "[1]", "7", '"x"'])
def test_arguments_that_are_no_object_become_an_invalid_call(
    server: "FakeServer", fake: ModuleType, arguments: str
) -> None:
    server.says("Here:", tool_calls=[fake.call(arguments), fake.call('{"code": "1"}', id="c2")])
    reply = ask(at(server), PROMPT, tools=[run_python])
    assert [call["id"] for call in reply.tool_calls] == ["c2"]
    (bad,) = reply.invalid_tool_calls
    assert (bad["id"], bad["name"], bad["args"]) == ("c1", "run_python", arguments)
    assert "object" in (bad["error"] or "")
    assert reply.text == "Here:"
    assert usage_of(reply)["output_tokens"] == 7


def test_arguments_that_are_no_json_become_an_invalid_call(server: "FakeServer", fake: ModuleType) -> None:
    server.says(None, tool_calls=[fake.call("import math\nprint(1)")])
    (bad,) = ask(at(server), PROMPT, tools=[run_python]).invalid_tool_calls
    assert bad["args"] == "import math\nprint(1)"
    assert bad["error"]


def test_arguments_that_came_as_an_object_are_taken(server: "FakeServer", fake: ModuleType) -> None:
    server.says(None, tool_calls=[fake.call({"code": "print(1)"})])
    (call,) = ask(at(server), PROMPT, tools=[run_python]).tool_calls
    assert call["args"] == {"code": "print(1)"}


def test_a_plain_chat_openai_with_odd_arguments_raises_nothing(
    server: "FakeServer", fake: ModuleType
) -> None:
    model = ChatOpenAI(model="m", base_url=server.url, api_key="k")  # type: ignore[arg-type]
    server.says(None, tool_calls=[fake.call(DOUBLE)])
    (bad,) = ask(model, PROMPT, tools=[run_python]).invalid_tool_calls
    assert (bad["name"], bad["args"]) == ("run_python", '{"code": "print(1)"}')
    assert bad["id"]
    assert bad["error"]


@pytest.mark.parametrize("arguments", ['{"code": "print(1)\\nimport o', DOUBLE])
def test_a_streamed_call_that_is_not_whole_is_invalid(
    server: "FakeServer", fake: ModuleType, arguments: str
) -> None:
    head, tail = arguments[:9], arguments[9:]
    server.streams(
        [
            fake.chunk(tool_calls=[{"index": 0, **fake.call(head)}]),
            fake.chunk(tool_calls=[{"index": 0, "function": {"arguments": tail}}]),
            fake.chunk(tool_calls=[{"index": 1, **fake.call('{"code": "2"}', id="c2")}]),
            fake.chunk(finish="tool_calls"),
        ]
    )
    reply = streamed(at(server), tools=[run_python])
    assert [call["id"] for call in reply.tool_calls] == ["c2"]
    (bad,) = reply.invalid_tool_calls
    assert (bad["id"], bad["args"]) == ("c1", arguments)
    assert bad["error"]


def test_a_mended_reply_can_be_sent_back(server: "FakeServer", fake: ModuleType) -> None:
    model = at(server)
    server.says(None, tool_calls=[fake.call(DOUBLE)]).says("ok")
    ask(model, [*PROMPT, ask(model, PROMPT, tools=[run_python])], tools=[run_python])
    assert server.requests[1]["messages"][1]["tool_calls"][0]["function"]["arguments"] == DOUBLE


# The rest


def test_the_tool_that_must_be_called_is_sent(server: "FakeServer", fake: ModuleType) -> None:
    server.says(None, tool_calls=[fake.call('{"code": "1"}')])
    ask(at(server), PROMPT, tools=[run_python], tool_choice="run_python", stop=["x"])
    assert server.requests[0]["tool_choice"]["function"]["name"] == "run_python"
    assert server.requests[0]["stop"] == ["x"]


def test_a_model_that_takes_no_tools_is_a_config_error() -> None:
    class Plain(ScriptedModel):
        def bind_tools(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    with pytest.raises(ConfigError, match="Plain takes no tools"):
        ask(Plain(["x"]), PROMPT, tools=[run_python])


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
    }
