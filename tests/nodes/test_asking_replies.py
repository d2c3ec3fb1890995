from types import ModuleType
from typing import TYPE_CHECKING, Any, TypedDict

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

from actloop.nodes.asking import ask, usage_of
from actloop.nodes.model import connect

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

    def node(state: Box) -> Box:
        return {"reply": ask(model, PROMPT, **options)}

    builder: StateGraph[Box] = StateGraph(Box)
    builder.add_node("reason", node).add_edge(START, "reason").add_edge("reason", END)
    graph = builder.compile()
    replies: list[AIMessage] = []
    for mode, item in graph.stream({}, stream_mode=["messages", "updates"]):  # type: ignore[call-overload]
        if mode == "updates":
            replies.append(item["reason"]["reply"])
    return replies[0]


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


def test_a_server_that_knows_no_stream_options_still_streams(server: "FakeServer", fake: ModuleType) -> None:
    server.refuses(400, message="Unknown parameter: 'stream_options'.", param="stream_options")
    server.streams([fake.chunk("42"), fake.chunk(finish="stop")])
    assert streamed(at(server)).text == "42"


def test_no_content_is_an_empty_text(server: "FakeServer") -> None:
    server.says(None)
    reply = ask(at(server), PROMPT)
    assert reply.content == ""
    assert usage_of(reply) == {"input_tokens": 11, "output_tokens": 7, "model_calls": 1, "cost_usd": None}


def test_a_chunk_without_choices_is_passed_over(server: "FakeServer", fake: ModuleType) -> None:
    server.streams([fake.chunk("a"), fake.chunk(usage=True), fake.chunk("b"), fake.chunk(finish="stop")])
    whole: Any = None
    for piece in at(server).stream(PROMPT):
        whole = piece if whole is None else whole + piece
    assert isinstance(whole, AIMessageChunk)
    assert whole.text == "ab"
    assert usage_of(whole) == {"input_tokens": 11, "output_tokens": 7, "model_calls": 1, "cost_usd": None}


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


def test_a_plain_chat_openai_with_odd_arguments_raises_nothing(server: "FakeServer", fake: ModuleType) -> None:
    model = ChatOpenAI(model="m", base_url=server.url, api_key="k")  # type: ignore[arg-type]
    server.says(None, tool_calls=[fake.call(DOUBLE)])
    (bad,) = ask(model, PROMPT, tools=[run_python]).invalid_tool_calls
    assert (bad["name"], bad["args"]) == ("run_python", '{"code": "print(1)"}')
    assert bad["id"]
    assert bad["error"]


@pytest.mark.parametrize("arguments", ['{"code": "print(1)\\nimport o', DOUBLE])
def test_a_streamed_call_that_is_not_whole_is_invalid(server: "FakeServer", fake: ModuleType, arguments: str) -> None:
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
