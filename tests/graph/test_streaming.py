"""The compiled graph keeps LangGraph's interface: invoke and stream, synchronous and not, in every mode."""

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessageChunk, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph

if TYPE_CHECKING:
    from tests.graph.conftest import Make

LIVE = "import time\nfor n in range(3):\n    print('step', n, flush=True)\n    time.sleep(0.15)"
NODES = ["reason", "codegen", "safety_check", "execute", "observe", "reason", "codegen"]
TASK: Any = {"task": "Compute it."}


def cell(code: str) -> str:
    return f"```python\n{code}\n```"


@pytest.fixture
def replies() -> list[str]:
    return ["I count.\n" + cell("print(6 * 7)"), "FINAL ANSWER: 42"]


def test_invoke_returns_the_result_alone(make: "Make", thread: RunnableConfig, replies: list[str]) -> None:
    out = make(replies).invoke(TASK, thread)
    named = {"status", "answer", "answer_type", "answer_data", "summary", "artifacts", "turns", "usage", "messages"}
    assert set(out) == named


async def test_ainvoke_does_the_same(make: "Make", thread: RunnableConfig, replies: list[str]) -> None:
    out = await make(replies).ainvoke(TASK, thread)
    assert (out["status"], out["answer"], out["turns"]) == ("success", "42", 1)


def test_updates_name_each_node_in_order(make: "Make", thread: RunnableConfig, replies: list[str]) -> None:
    steps = list(make(replies).stream(TASK, thread, stream_mode="updates"))
    assert [node for step in steps for node in step] == NODES


def test_values_are_the_result_as_it_grows(make: "Make", thread: RunnableConfig, replies: list[str]) -> None:
    values = list(make(replies).stream(TASK, thread, stream_mode="values"))
    assert values[-1]["answer"] == "42"
    assert [len(value.get("messages", [])) for value in values] == sorted(len(v.get("messages", [])) for v in values)


def test_tokens_come_one_by_one_with_the_node_that_asked(
    make: "Make", thread: RunnableConfig, replies: list[str]
) -> None:
    items = list(make(replies).stream(TASK, thread, stream_mode="messages"))
    tokens = [(facts["langgraph_node"], piece.text) for piece, facts in items if isinstance(piece, AIMessageChunk)]
    assert {node for node, _ in tokens} == {"reason"}
    assert "".join(text for _, text in tokens) == "".join(replies)


def test_what_a_cell_prints_comes_while_it_runs(make: "Make", thread: RunnableConfig) -> None:
    agent = make([cell(LIVE), "FINAL ANSWER: done"])
    came = [
        (time.monotonic(), event)
        for event in agent.stream(TASK, thread, stream_mode="custom")
        if event["kind"] == "stdout"
    ]
    assert "".join(event["text"] for _, event in came) == "step 0\nstep 1\nstep 2\n"
    assert came[-1][0] - came[0][0] > 0.2


def test_figures_are_announced_without_their_bytes(make: "Make", thread: RunnableConfig) -> None:
    agent = make([cell("import matplotlib.pyplot as plt\nplt.plot([1, 2])"), "FINAL ANSWER: done"])
    events = list(agent.stream(TASK, thread, stream_mode="custom"))
    assert {"kind": "display", "name": "figure-1.png", "media_type": "image/png"} in events


async def test_astream_takes_several_modes_at_once(make: "Make", thread: RunnableConfig) -> None:
    agent = make([cell(LIVE), "FINAL ANSWER: done"])
    modes: dict[str, list[Any]] = {"updates": [], "values": [], "custom": [], "messages": []}
    async for mode, data in agent.astream(TASK, thread, stream_mode=list(modes)):
        modes[mode].append(data)
    assert [node for step in modes["updates"] for node in step] == NODES
    assert modes["values"][-1]["status"] == "success"
    assert "".join(event["text"] for event in modes["custom"]) == "step 0\nstep 1\nstep 2\n"
    assert "".join(p.text for p, _ in modes["messages"] if isinstance(p, AIMessageChunk)).endswith("done")


async def test_the_event_loop_goes_on_while_a_cell_runs(make: "Make", thread: RunnableConfig) -> None:
    agent = make([cell("import time\ntime.sleep(0.6)"), "FINAL ANSWER: done"])
    gaps = []

    async def tick() -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.01)
            gaps.append(time.monotonic() - last)
            last = time.monotonic()

    ticking = asyncio.create_task(tick())
    assert (await agent.ainvoke(TASK, thread))["status"] == "success"
    ticking.cancel()
    assert len(gaps) > 20
    assert max(gaps) < 0.5


async def test_a_cancelled_task_ends_its_cell_and_the_thread_goes_on(make: "Make", thread: RunnableConfig) -> None:
    slow = "import time\nprint('on', flush=True)\ntime.sleep(20)"
    agent = make.own([cell("kept = 41"), cell(slow), cell("print(kept + 1)"), "FINAL ANSWER: 42"])

    async def run() -> None:
        async for event in agent.astream(TASK, thread, stream_mode="custom"):
            if "on" in event.get("text", ""):
                asyncio.get_running_loop().call_later(0.1, running.cancel)

    running = asyncio.create_task(run())
    with pytest.raises(asyncio.CancelledError):
        await running
    out = await agent.ainvoke({"task": "Go on and compute it."}, thread)
    assert (out["status"], out["answer"]) == ("success", "42")


def test_version_2_names_each_item_by_its_type(make: "Make", thread: RunnableConfig, replies: list[str]) -> None:
    items = list(make(replies).stream(TASK, thread, stream_mode=["updates", "custom"], version="v2"))
    assert {item["type"] for item in items} == {"updates", "custom"}
    out = make(replies).invoke(TASK, {"configurable": {"thread_id": "v2"}}, version="v2")
    assert out.value["answer"] == "42"


@pytest.mark.parametrize(
    "messages",
    [
        [HumanMessage("Compute it.")],
        [("user", "Compute it.")],
        [{"role": "user", "content": "Compute it."}],
        [HumanMessage([{"type": "text", "text": "Compute it."}])],
        "Compute it.",
    ],
)
def test_messages_are_taken_in_each_of_their_forms(
    make: "Make", thread: RunnableConfig, replies: list[str], messages: Any
) -> None:
    agent = make(replies)
    out = agent.invoke({"messages": messages}, thread)
    assert (out["status"], out["answer"]) == ("success", "42")
    assert agent.get_state(thread).values["goal"] == "Compute it."
    assert [message.type for message in out["messages"]] == ["human", "ai", "human", "ai"]


def test_a_history_may_come_before_the_task(make: "Make", thread: RunnableConfig) -> None:
    agent = make(lambda messages: f"I see {len(messages) - 1} messages.")
    given: Any = {"messages": [("user", "Hi."), ("ai", "Hello.")], "task": "Say how you are."}
    out = agent.invoke(given, thread)
    assert out["answer"] == "I see 3 messages."


def test_the_agent_is_a_node_of_a_larger_graph(make: "Make", thread: RunnableConfig, replies: list[str]) -> None:
    outer = StateGraph(MessagesState).add_node("solver", make(replies)).add_edge(START, "solver").compile()
    out = outer.invoke({"messages": [HumanMessage("Compute it.")]}, thread)
    assert out["messages"][-1].text == "FINAL ANSWER: 42"


def test_a_configured_copy_keeps_the_sessions(make: "Make", replies: list[str]) -> None:
    agent = make(replies)
    copy = agent.with_config(configurable={"thread_id": "configured"}, recursion_limit=200)
    assert copy.sessions is agent.sessions
    assert copy.invoke(TASK)["answer"] == "42"


def test_the_drawing_shows_the_six_nodes_and_the_approval(make: "Make") -> None:
    drawn = make([]).get_graph().draw_mermaid()
    for node in ("reason", "codegen", "safety_check", "approve", "execute", "observe", "repair"):
        assert node in drawn
    assert "observe -.-> repair" in drawn
