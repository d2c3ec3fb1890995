import asyncio
import threading
import time
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from actloop.testing import ScriptedModel, ScriptExhausted

CALL = {"name": "run_python", "args": {"code": "print(6 * 7)"}, "id": "c1", "type": "tool_call"}


@tool
def run_python(code: str) -> str:
    """Run code."""
    return code


def after(*replies: str) -> list[BaseMessage]:
    """A prompt in which these replies were given already."""
    prompt: list[BaseMessage] = [SystemMessage("Be brief."), HumanMessage("Go.")]
    for reply in replies:
        prompt += [AIMessage(reply), HumanMessage("Output: 1")]
    return prompt


def whole(model: ScriptedModel, prompt: list[BaseMessage]) -> Any:
    pieces = list(model.stream(prompt))
    assert isinstance(pieces[-1], AIMessageChunk)
    assert pieces[-1].chunk_position == "last"
    return sum(pieces[1:], pieces[0])


def test_replies_come_in_order_of_the_prompt_not_of_the_calls() -> None:
    model = ScriptedModel(["first", "second"])
    assert model.invoke(after("first")).text == "second"
    assert model.invoke(after()).text == "first"
    assert model.invoke(after("first")).text == "second"


def test_two_models_of_one_script_say_the_same() -> None:
    prompt = after("x")
    assert ScriptedModel(["a", "b"]).invoke(prompt).text == ScriptedModel(["a", "b"]).invoke(prompt).text == "b"


def test_the_end_of_the_script_is_told() -> None:
    with pytest.raises(ScriptExhausted, match=r"has 2 replies.*reply 3.*Output: 1"):
        ScriptedModel(["a", "b"]).invoke(after("a", "b"))
    assert issubclass(ScriptExhausted, AssertionError)


def test_an_error_in_the_script_is_raised_each_time() -> None:
    model = ScriptedModel([TimeoutError("slow")])
    for _ in range(2):
        with pytest.raises(TimeoutError, match="slow"):
            model.invoke(after())


def test_a_function_sees_the_prompt() -> None:
    model = ScriptedModel(lambda messages: f"{len(messages)} messages")
    assert model.invoke(after("a")).text == "4 messages"


@pytest.mark.parametrize("script", ["one text", AIMessage("one message")])
def test_a_single_reply_is_no_script(script: Any) -> None:
    with pytest.raises(TypeError, match="Give a list"):
        ScriptedModel(script)


def test_requests_are_kept() -> None:
    model = ScriptedModel(["a"])
    model.invoke(after())
    assert [[message.text for message in request] for request in model.requests] == [["Be brief.", "Go."]]


def test_bound_tools_are_kept_and_the_requests_shared() -> None:
    model = ScriptedModel([AIMessage("", tool_calls=[CALL])])
    reply = model.bind_tools([run_python], tool_choice="run_python").invoke(after())
    assert reply.tool_calls == [CALL]
    assert [schema["function"]["name"] for schema in model.tools] == ["run_python"]
    assert len(model.requests) == 1


def test_usage_and_metadata_are_made_up_the_same_each_time() -> None:
    model = ScriptedModel(["one two three"])
    replies = [model.invoke(after()) for _ in range(2)]
    assert isinstance(replies[0], AIMessage)
    assert replies[0].usage_metadata == {"input_tokens": 3, "output_tokens": 3, "total_tokens": 6}
    assert replies[0].response_metadata["finish_reason"] == "stop"
    assert replies[0].response_metadata == replies[1].response_metadata


def test_metadata_of_the_script_stays() -> None:
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    scripted = AIMessage("cut", response_metadata={"finish_reason": "length"}, usage_metadata=usage)
    for reply in (ScriptedModel([scripted]).invoke(after()), whole(ScriptedModel([scripted]), after())):
        assert reply.response_metadata["finish_reason"] == "length"
        assert reply.usage_metadata == usage


def test_the_script_is_never_changed() -> None:
    scripted = AIMessage("", tool_calls=[CALL])
    reply = ScriptedModel([scripted]).invoke(after())
    assert isinstance(reply, AIMessage)
    reply.tool_calls[0]["args"]["code"] = "changed"
    assert scripted.tool_calls == [CALL]
    assert scripted.id is None
    assert scripted.response_metadata == {}


@pytest.mark.parametrize("text", ["one two  three\n\n  four ", "", " ", "\n"])
def test_a_stream_comes_word_by_word_and_loses_nothing(text: str) -> None:
    model = ScriptedModel([text])
    streamed = whole(model, after())
    assert streamed.text == text
    assert streamed.usage_metadata == model.invoke(after()).usage_metadata
    assert len(list(ScriptedModel(["a b c"]).stream(after()))) >= 3


def test_a_stream_carries_tool_calls() -> None:
    second = {**CALL, "id": "c2"}
    streamed = whole(ScriptedModel([AIMessage("", tool_calls=[CALL, second])]), after())
    assert streamed.tool_calls == [CALL, second]
    assert streamed.response_metadata["finish_reason"] == "tool_calls"


def test_a_stream_carries_invalid_calls() -> None:
    bad = {
        "name": "run_python",
        "args": "import math",
        "id": "c1",
        "error": None,
        "type": "invalid_tool_call",
    }
    streamed = whole(ScriptedModel([AIMessage("", invalid_tool_calls=[bad])]), after())
    assert streamed.invalid_tool_calls == [bad]


async def test_async_callers_are_served() -> None:
    model = ScriptedModel(["one two"])
    assert (await model.ainvoke(after())).text == "one two"
    assert "".join([piece.text async for piece in model.astream(after())]) == "one two"


def test_the_delay_counts_characters() -> None:
    model = ScriptedModel(["0123456789"], delay_s=0.01)
    start = time.monotonic()
    model.invoke(after())
    list(model.stream(after()))
    assert time.monotonic() - start >= 0.2


def test_many_threads_may_ask_at_once() -> None:
    model = ScriptedModel([f"reply {number}" for number in range(20)])
    seen: dict[int, str] = {}

    def ask(number: int) -> None:
        seen[number] = model.invoke(after(*["x"] * number)).text

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {number: f"reply {number}" for number in range(20)}
    assert len(model.requests) == 20


def chat(model: ScriptedModel) -> Any:
    def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.bind_tools([run_python]).invoke(state["messages"])]}

    graph = StateGraph(MessagesState).add_node("reason", node).add_edge(START, "reason")
    return graph.compile(checkpointer=InMemorySaver())


def test_a_thread_goes_on_in_the_script_and_a_fork_gets_the_same_reply() -> None:
    graph = chat(ScriptedModel(["one", "two"]))
    config = {"configurable": {"thread_id": "t"}}
    graph.invoke({"messages": "a"}, config)
    forked = graph.get_state(config).config
    assert graph.invoke({"messages": "b"}, config)["messages"][-1].text == "two"
    assert graph.invoke({"messages": "c"}, forked)["messages"][-1].text == "two"


def test_tokens_stream_out_of_a_graph() -> None:
    graph = chat(ScriptedModel([AIMessage("Let me see.", tool_calls=[CALL])]))
    config = {"configurable": {"thread_id": "t"}}
    pieces = [piece for piece, _ in graph.stream({"messages": "a"}, config, stream_mode="messages")]
    assert [piece.text for piece in pieces if piece.text] == ["Let ", "me ", "see."]
    assert graph.get_state(config).values["messages"][-1].tool_calls == [CALL]


def test_a_graph_may_be_run_from_an_event_loop() -> None:
    graph = chat(ScriptedModel(["one"]))
    out = asyncio.run(graph.ainvoke({"messages": "a"}, {"configurable": {"thread_id": "t"}}))
    assert out["messages"][-1].text == "one"
