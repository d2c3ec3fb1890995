from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage

from actloop.errors import ModelAccessDenied, ModelRequestRefused
from actloop.nodes.asking import ask
from actloop.nodes.model import connect
from actloop.nodes.model_errors import code_of

if TYPE_CHECKING:
    from tests.fake_server import FakeServer

PROMPT = [HumanMessage("What is 6 * 7?")]


def at(server: "FakeServer", name: str = "m", **options: Any) -> BaseChatModel:
    return connect(name, base_url=server.url, api_key="server-key-123", **options)


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
