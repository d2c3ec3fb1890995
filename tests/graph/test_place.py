"""A thread's sandbox is where its checkpoint says: after a loss, in another process, on another branch."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from actloop import Agent
from actloop.graph.checkpoints import strict_serializer
from actloop.testing import ScriptedModel

if TYPE_CHECKING:
    from tests.graph.conftest import Boxes, Make, Saver


def cell(code: str) -> str:
    return f"```python\n{code}\n```"


def vanish(agent: Agent, boxes: "Boxes", thread: RunnableConfig) -> None:
    """Take the box of a thread away once its snapshot is stored, and wait until its session has noticed."""
    agent.sessions.settle(thread["configurable"]["thread_id"])
    for box in boxes.of(thread):
        box.remove(force=True)
    while agent.sessions.has(thread["configurable"]["thread_id"]):
        threading.Event().wait(0.02)


@pytest.mark.parametrize("removed", [True, False], ids=["box removed", "another process"])
def test_the_interpreter_of_a_thread_comes_back_and_the_model_is_told_what_did_not(
    make: "Make", thread: RunnableConfig, boxes: "Boxes", saver: "Saver", removed: bool
) -> None:
    replies = [cell("x = 5\nnumbers = (n for n in [1])"), "FINAL ANSWER: done"]
    model = ScriptedModel([*replies, cell("x, 'numbers' in globals()"), "FINAL ANSWER: 5"])
    agent = make.own(model, checkpointer=saver)
    agent.invoke({"task": "Set the variable."}, thread)
    if removed:
        vanish(agent, boxes, thread)
    else:
        agent.sessions.close()
        agent = make.own(model, checkpointer=saver)
    out = agent.invoke({"task": "Print the variable."}, thread)
    told = [message.text for message in model.requests[2] if "These variables are gone: numbers." in message.text]
    assert len(told) == 1
    assert "generator" in told[0]
    assert "(5, False)" in out["messages"][-2].text


def test_without_snapshots_the_model_is_told_that_all_is_gone(make: "Make", thread: RunnableConfig) -> None:
    model = ScriptedModel([cell("x = 5"), "FINAL ANSWER: done", cell("'x' in globals()"), "FINAL ANSWER: no"])
    saver = InMemorySaver(serde=strict_serializer())
    agent = make.own(model, checkpointer=saver, snapshots=False)
    agent.invoke({"task": "Set the variable."}, thread)
    agent.sessions.close()
    out = make.own(model, checkpointer=saver, snapshots=False).invoke({"task": "Print the variable."}, thread)
    told = [message.text for message in model.requests[2] if "These variables are gone: x." in message.text]
    assert len(told) == 1
    assert "False" in out["messages"][-2].text


@pytest.mark.parametrize(("snapshots", "became", "names"), [(None, "restored", ["a", "b"]), (False, "lost", ["a"])])
def test_a_box_that_vanishes_between_cells_costs_only_what_is_in_no_snapshot(
    make: "Make", thread: RunnableConfig, boxes: "Boxes", snapshots: Any, became: str, names: list[str]
) -> None:
    def reply(messages: list[BaseMessage]) -> str:
        asked = sum(message.type == "ai" for message in messages)
        if asked == 1:
            vanish(agent, boxes, thread)
        return [cell("a = 1\nb = 2"), cell("a = 10\na"), "FINAL ANSWER: 10"][asked]

    agent = make.own(ScriptedModel(reply), snapshots=snapshots)
    out = agent.invoke({"task": "Compute it."}, thread)
    values = agent.get_state(thread).values
    assert (out["status"], values["execution"]["state"]) == ("success", became)
    assert values["execution"]["lost_names"] == ([] if snapshots is None else ["b"])
    assert values["names"] == names


def test_a_box_that_vanishes_in_a_cell_is_reported_and_the_files_are_put_again(
    make: "Make", thread: RunnableConfig, boxes: "Boxes", tmp_path: Path
) -> None:
    path = tmp_path / "in.txt"
    path.write_text("here again")
    model = ScriptedModel(
        [
            cell("x = 5"),
            # The snapshot of x is stored meanwhile.
            cell("import time\ntime.sleep(2)\nprint('on', flush=True)\ntime.sleep(20)"),
            cell("print('x' in globals(), open('in.txt').read())"),
            "FINAL ANSWER: done",
        ]
    )
    agent = make.own(model)
    for event in agent.stream({"task": "Run it.", "files": {"in.txt": str(path)}}, thread, stream_mode="custom"):
        if "on" in event.get("text", ""):
            for box in boxes.of(thread):
                box.kill()
    out = agent.get_state(thread).values
    assert (out["status"], out["turns"]) == ("success", 3)
    assert "those of the last snapshot" in model.requests[2][-2].text
    assert "True here again" in model.requests[3][-1].text


BRANCHES = """
log = open("log.txt", "a")
log.write("{word}\\n")
log.close()
words = [*words, "{word}"] if "words" in globals() else ["{word}"]
print(words, open("log.txt").read().split())
"""


def test_two_branches_of_a_thread_never_see_each_other(make: "Make", thread: RunnableConfig, saver: "Saver") -> None:
    def reply(messages: list[BaseMessage]) -> str:
        # A task names the words that its cells write; each observation since then was one of them.
        last = max(place for place, message in enumerate(messages) if message.text.startswith("Write: "))
        words = messages[last].text.split()[1:]
        done = sum(message.type == "ai" for message in messages[last:])
        return cell(BRANCHES.format(word=words[done])) if done < len(words) else "FINAL ANSWER: done"

    def shown(out: dict[str, Any]) -> str:
        return str(out["messages"][-2].text)

    agent = make.own(ScriptedModel(reply), checkpointer=saver, max_turns=20)
    first = [f"a{number}" for number in range(1, 7)]
    agent.invoke({"task": f"Write: {' '.join(first)}"}, thread)
    at_three = next(
        state.config
        for state in agent.get_state_history(thread)
        if state.values.get("turns") == 3 and state.next == ("reason",)
    )
    heads = {"a": agent.get_state(thread).config, "b": at_three}
    expected = {"a": first, "b": first[:3]}
    for number in range(5):
        for branch in "ba":
            word = f"{branch}-{number}"
            out = agent.invoke({"task": f"Write: {word}"}, heads[branch])
            expected[branch] = [*expected[branch], word]
            assert f"{expected[branch]} {expected[branch]}" in shown(out)
            heads[branch] = agent.get_state(thread).config
