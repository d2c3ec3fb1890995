"""A thread's sandbox is where its checkpoint says: after a loss, in another process, on another branch."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from actloop import Agent
from actloop.config import Settings
from actloop.errors import SnapshotError
from actloop.graph.checkpoints import strict_serializer
from actloop.sandbox.manifest import Manifest
from actloop.sandbox.snapshots import Snapshots
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


@pytest.mark.parametrize(
    ("snapshots", "told", "names"),
    [(None, "those of the last snapshot", ["a", "b"]), (False, "Missing now: a, b", ["a"])],
)
def test_a_box_that_vanishes_between_cells_costs_only_what_is_in_no_snapshot(
    make: "Make", thread: RunnableConfig, boxes: "Boxes", snapshots: Any, told: str, names: list[str]
) -> None:
    def reply(messages: list[BaseMessage]) -> str:
        asked = sum(message.type == "ai" for message in messages)
        if asked == 1:
            vanish(agent, boxes, thread)
        return [cell("a = 1\nb = 2"), cell("a = 10\na"), cell("a = 10\na"), "FINAL ANSWER: 10"][asked]

    model = ScriptedModel(reply)
    agent = make.own(model, snapshots=snapshots)
    out = agent.invoke({"task": "Compute it."}, thread)
    seen = "\n".join(message.text for message in model.requests[2])
    assert told in seen
    assert ("which was not run" in seen) == (snapshots is False)
    assert (out["status"], agent.get_state(thread).values["names"]) == ("success", names)


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
    first = [f"a{number}" for number in range(1, 11)]
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


def test_a_cell_does_not_run_where_the_effects_of_the_one_before_are_gone(
    make: "Make", thread: RunnableConfig, boxes: "Boxes", monkeypatch: pytest.MonkeyPatch
) -> None:
    save = Snapshots.save

    def failing(self: Snapshots, manifest: Manifest) -> str:
        if manifest.cells == 2:
            raise SnapshotError("The store is full.")
        return save(self, manifest)

    def reply(messages: list[BaseMessage]) -> str:
        asked = sum(message.type == "ai" for message in messages)
        if asked == 2:
            vanish(agent, boxes, thread)
        return [cell("x = 1"), cell("x = 2"), cell("print(x)"), cell("print(x)"), "FINAL ANSWER: 1"][asked]

    monkeypatch.setattr(Snapshots, "save", failing)
    model = ScriptedModel(reply)
    agent = make.own(model)
    out = agent.invoke({"task": "Set it twice."}, thread)
    told = "\n".join(message.text for message in model.requests[3])
    assert "which was not run" in told
    assert "effects of the last cell before are gone" in told
    assert "\n1\n" in model.requests[4][-1].text
    assert (out["status"], out["turns"]) == ("success", 4)


def test_a_thread_goes_on_where_there_are_only_the_stores(
    make: "Make", thread: RunnableConfig, boxes: "Boxes", saver: "Saver", tmp_path: Path
) -> None:
    path = tmp_path / "in.csv"
    path.write_text("n\n41\n")
    replies = [
        cell("import csv\nn = int(list(csv.reader(open('in.csv')))[1][0])\nopen('out.txt', 'w').write('made')"),
        "FINAL ANSWER: read",
        cell("print(n + 1, open('out.txt').read(), open('in.csv').read().split())"),
        "FINAL ANSWER: 42",
    ]
    store = tmp_path / "store"
    first = make.own(
        ScriptedModel(replies), checkpointer=saver, snapshots=store, settings=Settings(data_dir=tmp_path / "here")
    )
    first.invoke({"task": "Read it.", "files": {"in.csv": path}}, thread)
    vanish(first, boxes, thread)
    path.unlink()
    model = ScriptedModel(replies)
    there = make.own(model, checkpointer=saver, snapshots=store, settings=Settings(data_dir=tmp_path / "there"))
    out = there.invoke({"task": "Add 1."}, thread)
    assert out["answer"] == "42"
    assert "42 made ['n', '41']" in out["messages"][-2].text


def test_a_snapshot_that_was_altered_ends_the_run_in_words(
    make: "Make", thread: RunnableConfig, boxes: "Boxes", tmp_path: Path
) -> None:
    replies = [cell("x = 1"), "FINAL ANSWER: 1", cell("x"), "FINAL ANSWER: 1"]
    agent = make.own(ScriptedModel(replies), snapshots=tmp_path)
    agent.invoke({"task": "Set it."}, thread)
    vanish(agent, boxes, thread)
    for point in tmp_path.rglob("points/*"):
        point.write_bytes(point.read_bytes()[:-1] + b"?")
    out = agent.invoke({"task": "Show it."}, thread)
    assert out["status"] == "sandbox_error"
    assert "snapshot" in out["summary"].lower()
