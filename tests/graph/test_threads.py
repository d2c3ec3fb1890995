"""Threads as `actloop.threads` gives them: listed, read, gone on with, forked and deleted."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, DeltaChannelHistory
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

import actloop
from actloop import Agent, threads
from actloop.config import Settings
from actloop.errors import ConfigError, InputError, SessionBusy
from actloop.graph.checkpoints import SqliteCheckpoints, open_checkpoints, strict_serializer
from actloop.graph.threads import TurnInfo
from actloop.testing import Reply, ScriptedModel

if TYPE_CHECKING:
    from tests.graph.conftest import Boxes, Make

Saver = BaseCheckpointSaver[Any]

ASKED = "import subprocess\nprint('ran', subprocess.run(['true']).returncode)"
"""A cell that the standard policy puts to a person."""


def cell(code: str) -> str:
    return f"```python\n{code}\n```"


THREE = [cell("print(1)"), cell("1 / 0"), cell("print(3)"), "FINAL ANSWER: 3"]
"""A run of three turns, of which the second fails."""


@pytest.fixture(params=["sqlite", "postgres", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Saver]:
    if request.param == "memory":
        yield InMemorySaver(serde=strict_serializer())
        return
    where = tmp_path / "checkpoints.sqlite" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with contextlib.closing(open_checkpoints(where, Settings())) as saver:
        yield saver


def on(thread: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread}}


def cut(agent: Agent, task: str, thread: str, turns: int) -> None:
    """Run so many turns of a run, and no step more."""
    with pytest.raises(GraphRecursionError):
        agent.invoke({"task": task}, {**on(thread), "recursion_limit": 5 * turns})


def greet(messages: list[BaseMessage]) -> Reply:
    """A reply that tells one conversation from another."""
    return f"Hello after {sum(isinstance(message, AIMessage) for message in messages)} replies."


def told(turns: list[TurnInfo]) -> list[TurnInfo]:
    """A history without the ids of its checkpoints."""
    return [replace(turn, checkpoint_id="") for turn in turns]


# -- ls -----------------------------------------------------------------------------------------------------------


def test_a_new_store_holds_no_threads(store: Saver) -> None:
    assert threads.ls(store) == []


def test_the_users_own_store_is_the_default() -> None:
    assert actloop.threads is threads
    assert threads.ls() == []


def test_threads_are_listed_with_what_they_did_the_newest_first(make: "Make", store: Saver) -> None:
    before = datetime.now(UTC)
    agent = make([*THREE, "Hello."], checkpointer=store)
    agent.invoke({"task": "Compute 1."}, on("old"))
    agent.invoke({"task": "Count 2."}, on("new"))
    agent.invoke({"task": "Say hello."}, on("new"))
    new, old = threads.ls(store)
    assert (new.id, new.goal, new.status, new.turns) == ("new", "Say hello.", "success", 3)
    assert (old.id, old.goal, old.status, old.turns) == ("old", "Compute 1.", "success", 3)
    assert before < old.updated < new.updated < datetime.now(UTC)


def test_turns_are_counted_where_a_reply_makes_several_calls(make: "Make", store: Saver) -> None:
    calls = [{"name": "python", "args": {"code": f"print({n})"}, "id": f"c{n}", "type": "tool_call"} for n in range(2)]
    agent = make([AIMessage("", tool_calls=calls), cell("print(2)"), "FINAL ANSWER: 2"], checkpointer=store)
    agent.invoke({"task": "Compute 2."}, on("t"))
    assert threads.ls(store)[0].turns == len(threads.show("t", store)) == 2


def test_a_run_that_was_cut_off_has_no_status_and_one_with_a_question_waits(make: "Make", store: Saver) -> None:
    cut(make(THREE, checkpointer=store), "Compute 1.", "cut", 1)
    make([cell(ASKED)], checkpointer=store).invoke({"task": "Run it."}, on("asks"))
    assert {info.id: info.status for info in threads.ls(store)} == {"cut": None, "asks": "waiting"}


def test_a_task_that_has_not_been_taken_up_is_the_goal_and_unfinished(make: "Make", store: Saver) -> None:
    agent = make(THREE, checkpointer=store)
    agent.invoke({"task": "Compute 1."}, on("t"))
    with pytest.raises(InputError):
        agent.invoke({"task": "Compute 2.", "files": {"x": "missing.csv"}}, on("t"))
    (info,) = threads.ls(store)
    assert (info.goal, info.status, info.turns) == ("Compute 2.", None, 3)
    *_, ended, pending = threads.show("t", store)
    assert (ended.status, ended.answer, ended.number) == ("success", "3", 3)
    assert (pending.goal, pending.status, pending.answer, pending.number) == ("Compute 2.", None, None, None)


def test_the_size_is_that_of_the_store_where_it_is_known(make: "Make", store: Saver) -> None:
    agent = make([*THREE, *THREE], checkpointer=store)
    agent.invoke({"task": "Compute 1."}, on("one"))
    agent.invoke({"task": "Compute 1."}, on("two"))
    once = {info.id: info.size for info in threads.ls(store)}
    if isinstance(store, InMemorySaver):
        assert once == {"one": None, "two": None}
        return
    agent.invoke({"task": "Compute 1."}, on("two"))
    twice = {info.id: info.size for info in threads.ls(store)}
    assert 10_000 < (once["one"] or 0) < 200_000
    assert twice["one"] == once["one"]
    assert 1.5 < (twice["two"] or 0) / (once["two"] or 1) < 3
    threads.rm("two", store)
    assert {info.id: info.size for info in threads.ls(store)} == {"one": once["one"]}


def test_threads_of_another_graph_in_the_same_store_are_left_out(make: "Make", store: Saver) -> None:
    make(THREE, checkpointer=store).invoke({"task": "Compute 1."}, on("ours"))
    other = StateGraph(MessagesState)
    other.add_node("echo", lambda state: {"messages": ["echo"]})
    other.add_edge(START, "echo")
    other.compile(checkpointer=store).invoke({"messages": [HumanMessage("hello")]}, on("theirs"))
    assert [info.id for info in threads.ls(store)] == ["ours"]


# -- show ---------------------------------------------------------------------------------------------------------


def test_the_history_tells_each_turn_of_all_runs(make: "Make", store: Saver) -> None:
    agent = make([*THREE, "Hello.", cell("final_answer(4)")], checkpointer=store)
    for task in ("Compute 1.", "Say hello.", "Compute 4."):
        out = agent.invoke({"task": task}, on("t"))
    turns = threads.show("t", store)
    assert [turn.number for turn in turns] == [1, 2, 3, None, 4]
    assert [turn.goal for turn in turns] == ["Compute 1.", None, None, "Say hello.", "Compute 4."]
    assert [turn.code for turn in turns] == ["print(1)", "1 / 0", "print(3)", None, "final_answer(4)"]
    assert [(turn.outcome, turn.exit_code) for turn in turns[:3]] == [("ok", 0), ("error", 1), ("ok", 0)]
    assert [turn.answer for turn in turns] == [None, None, "3", "Hello.", "4"]
    assert [turn.status for turn in turns] == [None, None, "success", "success", "success"]
    observed = [message for message in out["messages"] if message.additional_kwargs.get("actloop") == "observation"]
    sizes = [len(message.text.encode()) for message in observed]
    assert [turn.size for turn in turns if turn.number] == sizes


def test_a_turn_names_the_checkpoint_right_after_it(make: "Make", store: Saver) -> None:
    agent = make(THREE, checkpointer=store)
    agent.invoke({"task": "Compute 1."}, on("t"))
    turns = threads.show("t", store)
    states = [
        agent.get_state({"configurable": {"thread_id": "t", "checkpoint_id": turn.checkpoint_id}}) for turn in turns
    ]
    assert [state.values["run"]["turns"] for state in states] == [1, 2, 3]
    assert [state.next for state in states] == [("reason",), ("repair",), ("reason",)]


def test_the_code_is_what_ran_where_a_person_changed_it(make: "Make", store: Saver) -> None:
    agent = make([cell(ASKED), "FINAL ANSWER: ok"], checkpointer=store)
    agent.invoke({"task": "Run it."}, on("t"))
    agent.invoke(Command(resume={"decision": "edit", "code": "print('gentle')"}), on("t"))
    assert [turn.code for turn in threads.show("t", store)] == ["print('gentle')"]


def test_what_was_left_by_going_back_is_not_told(make: "Make", store: Saver) -> None:
    agent = make(THREE, checkpointer=store)
    agent.invoke({"task": "Compute 1."}, on("t"))
    second = threads.show("t", store)[1].checkpoint_id
    other = make([*THREE[:2], cell("print('other')"), "FINAL ANSWER: other"], checkpointer=store)
    other.invoke(None, {"configurable": {"thread_id": "t", "checkpoint_id": second}})
    turns = threads.show("t", store)
    assert [turn.code for turn in turns] == ["print(1)", "1 / 0", "print('other')"]
    assert (turns[-1].answer, threads.ls(store)[0].turns) == ("other", 3)


def test_a_history_does_not_put_old_conversations_together(make: "Make", tmp_path: Path) -> None:
    class Counting(SqliteCheckpoints):
        read = 0

        def get_delta_channel_history(self, **what: Any) -> dict[str, DeltaChannelHistory]:
            self.read += 1
            return dict(super().get_delta_channel_history(**what))

    replies = [*(cell(f"print({n})") for n in range(8)), "FINAL ANSWER: 7"]
    with contextlib.closing(Counting(tmp_path / "checkpoints.sqlite")) as saver:
        make(replies, checkpointer=saver).invoke({"task": "Count 7."}, on("t"))
        saver.read = 0
        assert len(threads.show("t", saver)) == 8
        assert saver.read == 1


def test_an_unknown_thread_is_named_with_those_that_there_are(make: "Make", store: Saver) -> None:
    with pytest.raises(ConfigError, match=r"no thread 't': none is kept here yet; begin one"):
        threads.show("t", store)
    agent = make(THREE, checkpointer=store)
    for number in range(7):
        agent.invoke({"task": "Compute 1."}, on(f"t{number}"))
    every = (threads.show, threads.fork, threads.rm, threads.question, threads.find)
    for ask in every:
        with pytest.raises(ConfigError, match=r"no thread 'x'; there are: t6, t5, t4, t3, t2 and 2 more\."):
            ask("x", checkpoints=store)
    with pytest.raises(ConfigError, match="no thread 'x'"):
        threads.resume("x", checkpoints=store)


# -- resume -------------------------------------------------------------------------------------------------------


def test_a_run_that_was_cut_off_goes_on(make: "Make", store: Saver) -> None:
    agent = make(THREE, checkpointer=store)
    cut(agent, "Compute 1.", "t", 2)
    assert threads.question("t", store) is None
    out = threads.resume("t", agent)
    assert (out["status"], out["answer"], out["turns"]) == ("success", "3", 3)


def test_a_run_that_has_ended_is_not_gone_on_with(make: "Make", store: Saver) -> None:
    agent = make([*THREE, "QUESTION: Which?"], checkpointer=store)
    agent.invoke({"task": "Compute 1."}, on("t"))
    with pytest.raises(ConfigError, match="'t' has ended with success; give it a new task"):
        threads.resume("t", agent)
    agent.invoke({"task": "Compute 2."}, on("t"))
    with pytest.raises(ConfigError, match="'t' has ended with needs_input; give it a new task"):
        threads.question("t", store)


def test_a_question_is_answered(make: "Make", store: Saver) -> None:
    agent = make([cell(ASKED), "FINAL ANSWER: ran 0"], checkpointer=store)
    agent.invoke({"task": "Run it."}, on("t"))
    asked = threads.question("t", store)
    assert (asked["kind"], asked["code"]) == ("cell", ASKED)
    with pytest.raises(ConfigError, match="answer with answer=True or answer=False"):
        threads.resume("t", agent)
    out = threads.resume("t", agent, answer=True)
    assert (out["status"], out["turns"]) == ("success", 1)


def test_an_answer_without_a_question_is_refused(make: "Make", store: Saver) -> None:
    agent = make(THREE, checkpointer=store)
    cut(agent, "Compute 1.", "t", 1)
    with pytest.raises(ConfigError, match="'t' does not wait for an answer"):
        threads.resume("t", agent, answer=True)
    assert threads.resume("t", agent)["status"] == "success"


def test_an_agent_is_made_of_what_is_given_and_leaves_no_box(
    make: "Make", thread: RunnableConfig, tmp_path: Path, boxes: "Boxes"
) -> None:
    path = tmp_path / "checkpoints.sqlite"
    id = thread["configurable"]["thread_id"]
    with contextlib.closing(SqliteCheckpoints(path)) as saver:
        cut(make(THREE, checkpointer=saver), "Compute 1.", id, 1)
    out = threads.resume(id, checkpoints=path, model=ScriptedModel(THREE), max_turns=5)
    assert (out["status"], out["turns"]) == ("success", 3)
    assert boxes.of(thread) == []
    with pytest.raises(ConfigError, match="an agent, or what one is made of"):
        threads.resume(id, make(THREE), max_turns=5)


def test_no_key_is_asked_for_a_thread_that_cannot_go_on(make: "Make", store: Saver) -> None:
    make(THREE, checkpointer=store).invoke({"task": "Compute 1."}, on("t"))
    with pytest.raises(ConfigError, match="has ended"):
        threads.resume("t", checkpoints=store)


def test_an_agent_without_a_store_is_named(make: "Make") -> None:
    agent = make.own(THREE, checkpointer=False)
    with pytest.raises(ConfigError, match="keeps no threads; make it with a checkpointer"):
        threads.resume("t", agent)


# -- fork ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("at", "next_node"), [(1, "reason"), (2, "repair"), (3, "reason")])
def test_a_fork_begins_with_the_state_after_its_turn(make: "Make", store: Saver, at: int, next_node: str) -> None:
    agent = make(THREE, checkpointer=store)
    agent.invoke({"task": "Compute 1."}, on("t"))
    history = threads.show("t", store)
    branch = threads.fork("t", at, checkpoints=store)
    then = agent.get_state({"configurable": {"thread_id": "t", "checkpoint_id": history[at - 1].checkpoint_id}})
    now = agent.get_state(on(branch))
    assert now.values == then.values
    assert now.next == (next_node,)
    assert [turn.code for turn in threads.show(branch, store)] == [turn.code for turn in history[:at]]


def test_a_fork_asks_the_model_anew_and_goes_on_to_its_own_end(make: "Make", store: Saver) -> None:
    make(THREE, checkpointer=store).invoke({"task": "Compute 1."}, on("t"))
    before = threads.show("t", store)
    branch = threads.fork("t", 2, "branch", store)
    model = ScriptedModel([*THREE[:2], cell("print('other')"), "FINAL ANSWER: other"])
    out = threads.resume(branch, make(model, checkpointer=store))
    assert (branch, out["answer"], out["turns"], len(model.requests)) == ("branch", "other", 3, 2)
    assert "ZeroDivisionError" in str(model.requests[0])
    assert threads.show("t", store) == before
    assert [turn.number for turn in threads.show(branch, store)] == [1, 2, 3]


def test_a_fork_takes_a_new_task(make: "Make", store: Saver) -> None:
    make(THREE, checkpointer=store).invoke({"task": "Compute 1."}, on("t"))
    for at in (None, 2):
        branch = threads.fork("t", at, checkpoints=store)
        out = make(greet, checkpointer=store).invoke({"task": "Greet me."}, on(branch))
        assert (out["status"], out["answer"]) == ("success", f"Hello after {at or 4} replies.")
        assert threads.show(branch, store)[-1].goal == "Greet me."


def test_without_a_turn_a_fork_stands_where_the_thread_stands(make: "Make", store: Saver) -> None:
    agent = make(THREE, checkpointer=store)
    agent.invoke({"task": "Compute 1."}, on("t"))
    branch = threads.fork("t", checkpoints=store)
    assert agent.get_state(on(branch)).values == agent.get_state(on("t")).values
    assert told(threads.show(branch, store)) == told(threads.show("t", store))
    assert [info.id for info in threads.ls(store)] == [branch, "t"]
    with pytest.raises(ConfigError, match="has ended with success"):
        threads.resume(branch, agent)


def test_a_question_waits_in_a_fork_as_well_and_is_answered_in_each(make: "Make", store: Saver) -> None:
    agent = make([cell(ASKED), "FINAL ANSWER: no", "FINAL ANSWER: no"], checkpointer=store)
    agent.invoke({"task": "Run it."}, on("t"))
    branch = threads.fork("t", checkpoints=store)
    assert threads.question(branch, store) == threads.question("t", store)
    assert threads.resume(branch, agent, answer=False)["turns"] == 0
    assert threads.resume("t", agent, answer=True)["turns"] == 1


def test_a_fork_of_a_fork_outlives_both(make: "Make", store: Saver) -> None:
    agent = make(THREE, checkpointer=store)
    agent.invoke({"task": "Compute 1."}, on("t"))
    first = threads.fork("t", 3, checkpoints=store)
    second = threads.fork(first, 1, checkpoints=store)
    threads.rm("t", store)
    threads.rm(first, store)
    assert [info.id for info in threads.ls(store)] == [second]
    assert threads.resume(second, agent)["answer"] == "3"


def test_a_fork_of_a_long_thread_has_its_whole_conversation(make: "Make", store: Saver) -> None:
    """Longer than the distance between two full copies of the messages."""
    replies = [*(cell(f"print({n})") for n in range(30)), "FINAL ANSWER: 29"]
    agent = make(replies, checkpointer=store, max_turns=40)
    agent.invoke({"task": "Count 29."}, on("t"))
    history = threads.show("t", store)
    for at in (12, 29):
        branch = threads.fork("t", at, checkpoints=store)
        then = agent.get_state({"configurable": {"thread_id": "t", "checkpoint_id": history[at - 1].checkpoint_id}})
        assert agent.get_state(on(branch)).values["messages"] == then.values["messages"]
        assert len(then.values["messages"]) == 2 * at + 1
        assert threads.resume(branch, agent)["answer"] == "29"
        assert [turn.code for turn in threads.show(branch, store)] == [turn.code for turn in history]


def test_a_turn_or_a_name_that_cannot_be_is_refused(make: "Make", store: Saver) -> None:
    agent = make([*THREE, "Hello."], checkpointer=store)
    agent.invoke({"task": "Compute 1."}, on("t"))
    for turn in (0, 4, -1):
        with pytest.raises(ConfigError, match=f"'t' has no turn {turn}: its turns are 1 to 3"):
            threads.fork("t", turn, checkpoints=store)
    make(["Hello."], checkpointer=store).invoke({"task": "Say hello."}, on("u"))
    with pytest.raises(ConfigError, match="'u' has no turn 1: it has none yet"):
        threads.fork("u", 1, checkpoints=store)
    with pytest.raises(ConfigError, match="is a thread 'u' already"):
        threads.fork("t", 1, "u", store)
    with pytest.raises(ConfigError, match="name of the fork is empty"):
        threads.fork("t", 1, " ", store)
    assert {info.id for info in threads.ls(store)} == {"t", "u"}


# -- rm and find --------------------------------------------------------------------------------------------------


def test_a_deleted_thread_is_gone_and_the_others_stay(make: "Make", store: Saver) -> None:
    agent = make(THREE, checkpointer=store)
    agent.invoke({"task": "Compute 1."}, on("t"))
    agent.invoke({"task": "Compute 1."}, on("u"))
    kept = threads.show("u", store)
    threads.rm("t", store)
    assert [info.id for info in threads.ls(store)] == ["u"]
    assert list(store.list(on("t"))) == []
    assert threads.show("u", store) == kept
    assert agent.invoke({"task": "Compute 1."}, on("t"))["turns"] == 3


def test_deleting_closes_the_box_that_this_process_holds(
    make: "Make", thread: RunnableConfig, boxes: "Boxes", store: Saver
) -> None:
    agent = make.own(THREE, checkpointer=store)
    id = thread["configurable"]["thread_id"]
    agent.invoke({"task": "Compute 1."}, thread)
    assert len(boxes.of(thread)) == 1
    threads.rm(id, store)
    agent.sessions.close()
    assert not agent.sessions.has(id)
    assert boxes.of(thread) == []


def test_a_thread_with_a_run_is_not_deleted(make: "Make", store: Saver) -> None:
    agent = make(THREE, checkpointer=store)
    agent.invoke({"task": "Compute 1."}, on("t"))
    with agent.sessions.one_run("t"), pytest.raises(SessionBusy, match="t has a run that goes on"):
        threads.rm("t", store)
    assert len(threads.show("t", store)) == 3


def test_a_thread_that_another_process_runs_is_not_deleted(make: "Make", tmp_path: Path) -> None:
    path = tmp_path / "checkpoints.sqlite"
    with contextlib.closing(SqliteCheckpoints(path)) as saver:
        make(THREE, checkpointer=saver).invoke({"task": "Compute 1."}, on("t"))
    code = (
        "import pathlib, sys\nfrom actloop.graph.checkpoints import SqliteCheckpoints\n"
        "with SqliteCheckpoints(pathlib.Path(sys.argv[1])).hold('t'):\n    print('held', flush=True)\n    input()"
    )
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(SessionBusy, match=f"run by process {other.pid}"):
            threads.rm("t", path)
        other.communicate("\n")
    assert len(threads.show("t", path)) == 3
    threads.rm("t", path)
    assert threads.ls(path) == []


def test_a_thread_is_found_by_its_beginning(make: "Make", store: Saver) -> None:
    agent = make(["Hello."], checkpointer=store)
    for id in ("abc", "abd", "ab", "x1"):
        agent.invoke({"task": "Say hello."}, on(id))
    assert [threads.find(beginning, store) for beginning in ("abc", "ab", "x")] == ["abc", "ab", "x1"]
    with pytest.raises(ConfigError, match=r"3 threads begin with 'a': ab, abc, abd; give more of the id\."):
        threads.find("a", store)
    with pytest.raises(ConfigError, match="no thread ''"):
        threads.find("", store)


def test_neither_a_key_nor_an_engine_is_needed(make: "Make", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "checkpoints.sqlite"
    with contextlib.closing(SqliteCheckpoints(path)) as saver:
        make(THREE, checkpointer=saver).invoke({"task": "Compute 1."}, on("t"))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    assert [info.id for info in threads.ls(path)] == ["t"]
    assert len(threads.show("t", str(path))) == 3
    branch = threads.fork("t", 1, checkpoints=path)
    threads.rm("t", path)
    assert [info.id for info in threads.ls(path)] == [branch]


# -- variables and files of branches ------------------------------------------------------------------------------

BRANCHES = {
    "first": cell("seen = [1]\nopen('log.txt', 'w').write('1')\nprint(seen)"),
    "left": cell("seen.append('left')\nopen('log.txt', 'a').write('-left')\nprint(seen)"),
    "right": cell("seen.append('right')\nopen('log.txt', 'a').write('-right')\nprint(seen)"),
    "look": cell("print(seen, open('log.txt').read())"),
}


def follow(messages: list[BaseMessage]) -> Reply:
    """Send the cell that the last task names, and then an answer."""
    last = messages[-1]
    task = str(last.text).partition("<workspace>")[0]
    return BRANCHES[task.split()[-1]] if "actloop" not in last.additional_kwargs else "FINAL ANSWER: done"


def looked(agent: Agent, thread: str) -> str:
    """What a cell in the thread sees."""
    agent.invoke({"task": "Compute look"}, on(thread))
    text: str = agent.get_state(on(thread)).values["execution"]["output"]["text"]
    return text.strip()


def test_two_branches_have_their_own_variables_and_files(make: "Make", thread: RunnableConfig, store: Saver) -> None:
    agent = make.own(follow, checkpointer=store)
    left = thread["configurable"]["thread_id"]
    agent.invoke({"task": "Compute first"}, on(left))
    agent.invoke({"task": "Compute left"}, on(left))
    right = threads.fork(left, 1, f"{left}-right", store)
    assert looked(agent, right) == "[1] 1"
    agent.invoke({"task": "Compute right"}, on(right))
    for _ in range(3):
        assert looked(agent, left) == "[1, 'left'] 1-left"
        assert looked(agent, right) == "[1, 'right'] 1-right"


def test_a_fork_outlives_the_thread_that_it_came_from_with_its_variables(
    make: "Make", thread: RunnableConfig, tmp_path: Path
) -> None:
    path = tmp_path / "checkpoints.sqlite"
    first = thread["configurable"]["thread_id"]
    agent = make.own(follow, checkpointer=path)
    agent.invoke({"task": "Compute first"}, on(first))
    agent.invoke({"task": "Compute left"}, on(first))
    agent.sessions.close()
    branch = threads.fork(first, 2, f"{first}-branch", path)
    threads.rm(first, path)
    assert looked(make.own(follow, checkpointer=path), branch) == "[1, 'left'] 1-left"


def test_a_cell_that_was_about_to_run_runs_in_each_branch_under_an_id_of_its_own(
    make: "Make", thread: RunnableConfig, store: Saver
) -> None:
    code = "import random\nvalue = random.random()\nopen('value.txt', 'w').write(str(value))\nprint(value)"
    agent = make.own([cell(code), "FINAL ANSWER: done", "FINAL ANSWER: done"], checkpointer=store)
    one = thread["configurable"]["thread_id"]
    with pytest.raises(GraphRecursionError):
        agent.invoke({"task": "Draw it."}, {**thread, "recursion_limit": 3})
    assert agent.get_state(thread).next == ("execute",)
    two = threads.fork(one, name=f"{one}-two", checkpoints=store)
    threads.resume(one, agent)
    threads.resume(two, agent)
    drawn = [agent.get_state(on(id)).values["execution"] for id in (one, two)]
    assert drawn[0]["cell_id"] != drawn[1]["cell_id"]
    agent.sessions.close()
    again = make.own(looking, checkpointer=store)
    for id, execution in zip((one, two), drawn, strict=True):
        again.invoke({"task": "Compute it again."}, on(id))
        value = execution["output"]["text"].strip()
        assert again.get_state(on(id)).values["execution"]["output"]["text"] == f"{value} {value}\n"


def looking(messages: list[BaseMessage]) -> Reply:
    """Look at what a branch drew, and then answer."""
    asked = "actloop" not in messages[-1].additional_kwargs
    return cell("print(value, open('value.txt').read())") if asked else "FINAL ANSWER: done"
