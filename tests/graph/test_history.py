"""A thread at any of its checkpoints, on any branch: each value as it was there, though it is stored as its writes."""

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot

from actloop import Agent
from actloop.graph.checkpoints import SqliteCheckpoints
from actloop.nodes.attempts import MAX_SEEN
from actloop.testing import ScriptedModel

if TYPE_CHECKING:
    from tests.graph.conftest import Make, Saver

ADDED = ("names", "workspace", "artifacts")


def cell(name: str) -> str:
    """A cell that binds a variable and writes a file of that name."""
    return f"```python\n{name} = 1\nopen('{name}.txt', 'w').write('{name}')\nprint('made {name}')\n```"


def script(messages: list[BaseMessage]) -> str:
    """Cells `m1`, `m2`, ... of the branch that the last task names, four a run, then an answer."""
    tasks = [
        message for message in messages if isinstance(message, HumanMessage) and message.text.startswith("Branch ")
    ]
    branch = tasks[-1].text.split()[1]
    done = sum(isinstance(message, AIMessage) for message in messages[messages.index(tasks[-1]) :])
    return "FINAL ANSWER: done" if done == 4 else cell(f"{branch}{done + 1}")


def run(agent: Agent, config: RunnableConfig, branch: str) -> dict[str, Any]:
    out = agent.invoke({"task": f"Branch {branch} it is: make the files."}, config)
    assert (out["status"], out["turns"]) == ("success", 4)
    thread: RunnableConfig = {"configurable": {"thread_id": config["configurable"]["thread_id"]}}
    return dict(agent.get_state(thread).values)


def after_each_cell(agent: Agent, head: RunnableConfig) -> list[StateSnapshot]:
    """The states before `observe` on the branch that ends there, oldest first."""
    found: list[StateSnapshot] = []
    place: RunnableConfig | None = head
    while place is not None:
        state = agent.get_state(place)
        found += [state] if state.next == ("observe",) else []
        place = state.parent_config
    return found[::-1]


def made(values: dict[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """Names of the variables, files and artifacts that the cells of this module made."""
    ours = [name for name in values["names"] if name[0] in "abm" and name[1:].isdigit()]
    files = [name for name in values["workspace"] if name[1:2].isdigit()]
    return ours, files, [artifact["name"] for artifact in values["artifacts"]]


def expected(*names: str, of_run: int | None = None) -> tuple[list[str], list[str], list[str]]:
    files = [f"{name}.txt" for name in names]
    return sorted(names), sorted(files), files[-of_run:] if of_run else files


def test_each_checkpoint_shows_its_own_turn(make: "Make", thread: RunnableConfig, saver: "Saver") -> None:
    agent = make.own(ScriptedModel(script), checkpointer=saver)
    assert made(run(agent, thread, "m")) == expected("m1", "m2", "m3", "m4")
    history = after_each_cell(agent, thread)
    assert len(history) == 4
    for turn, found in enumerate(history, 1):
        names = [f"m{number}" for number in range(1, turn + 1)]
        assert made(found.values) == expected(*names)
        assert found.values["execution"]["output"]["text"] == f"made m{turn}\n"
        assert f"m{turn} = 1" in found.values["action"]["code"]
        assert found.values["run"]["turns"] == turn - 1
        assert found.values["goal"].startswith("Branch m")
        assert sum(isinstance(message, AIMessage) for message in found.values["messages"]) == turn


@pytest.mark.parametrize("how", ["input", "update"])
def test_branches_of_a_thread_keep_their_own_values(
    make: "Make", thread: RunnableConfig, saver: "Saver", how: str
) -> None:
    agent = make.own(ScriptedModel(script), checkpointer=saver)
    run(agent, thread, "m")
    trunk = agent.get_state(thread).config
    before = [dict(found.values) for found in after_each_cell(agent, thread)]
    (second,) = [
        found
        for found in agent.get_state_history(thread)
        if found.next == ("reason",) and found.values.get("turns") == 2
    ]
    heads = {}
    for branch in ("a", "b"):
        start = second.config
        if how == "update":
            start = agent.update_state(second.config, {"messages": [HumanMessage("A word between.", id=f"w{branch}")]})
        run(agent, start, branch)
        heads[branch] = agent.get_state(thread).config
        assert heads[branch] != trunk
    for branch, head in heads.items():
        values = agent.get_state(head).values
        mine = [f"{branch}{number}" for number in range(1, 5)]
        assert made(values) == expected("m1", "m2", *mine, of_run=4)
        words = [message.id for message in values["messages"] if message.text == "A word between."]
        assert words == ([f"w{branch}"] if how == "update" else [])
        texts = " ".join(message.text for message in values["messages"])
        assert "made m2" in texts
        assert "made m3" not in texts
        assert f"made {'ab'.replace(branch, '')}1" not in texts
    assert made(agent.get_state(trunk).values) == expected("m1", "m2", "m3", "m4")
    assert [dict(found.values) for found in after_each_cell(agent, trunk)] == before


def test_an_update_by_hand_takes_a_list_or_a_change(make: "Make", thread: RunnableConfig, saver: "Saver") -> None:
    agent = make.own(ScriptedModel(script), checkpointer=saver)
    run(agent, thread, "m")
    head = agent.get_state(thread)
    agent.update_state(
        thread, {"names": ["x"], "workspace": {"removed": ["m1.txt"]}, "artifacts": []}, as_node="observe"
    )
    values = agent.get_state(thread).values
    assert (values["names"], values["workspace"], values["artifacts"]) == (["x"], ["m2.txt", "m3.txt", "m4.txt"], [])
    assert values["messages"] == head.values["messages"]
    assert agent.get_state(head.config).values == head.values
    old = after_each_cell(agent, head.config)[1]
    agent.update_state(
        old.config, {"names": {"added": ["y"]}, "run": {**old.values["run"], "turns": 7}}, as_node="execute"
    )
    values = agent.get_state(thread).values
    assert made({**values, "names": [name for name in values["names"] if name != "y"]}) == expected("m1", "m2")
    assert ("y" in values["names"], values["run"]["turns"]) == (True, 7)
    assert values["execution"] == old.values["execution"]


def test_a_copy_that_is_stored_now_and_then_changes_nothing(
    make: "Make", thread: RunnableConfig, saver: "Saver", monkeypatch: pytest.MonkeyPatch
) -> None:
    # As after five thousand steps, when LangGraph makes a copy of every channel.
    monkeypatch.setattr("langgraph.pregel._checkpoint.DELTA_MAX_SUPERSTEPS_SINCE_SNAPSHOT", 7)
    agent = make.own(ScriptedModel(script), checkpointer=saver)
    for branch in ("m", "a", "b"):
        run(agent, thread, branch)
    values = agent.get_state(thread).values
    names = [f"{branch}{number}" for branch in "mab" for number in range(1, 5)]
    assert made(values) == expected(*names, of_run=4)
    assert [message.text for message in values["messages"]].count("FINAL ANSWER: done") == 3
    for turn, found in enumerate(after_each_cell(agent, thread)):
        assert made(found.values)[0] == sorted(names[: turn + 1])


def stored_bytes(saver: "Saver") -> int:
    """What the checkpoints take on disk, with their indexes."""
    if isinstance(saver, SqliteCheckpoints):
        pages, size = (saver.conn.execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_count", "page_size"))
        return int(pages * size)
    pool: Any = saver.conn
    with pool.connection() as connection:
        row = connection.execute(
            "SELECT sum(pg_total_relation_size(oid))::bigint AS size FROM pg_class "
            "WHERE relkind = 'r' AND relname LIKE 'checkpoint%%'"
        ).fetchone()
    return int(row["size"])


@pytest.mark.parametrize("runs", [1, 6])
def test_a_turn_costs_the_store_the_same_early_and_late(
    make: "Make", thread: RunnableConfig, saver: "Saver", runs: int
) -> None:
    """Each turn has a reply and an output of 2 KB, and makes a variable and a file."""
    sizes: list[int] = []
    turns = 60 // runs

    def reply(messages: list[BaseMessage]) -> str:
        if sum(isinstance(message, AIMessage) for message in messages) % (turns + 1) == turns:
            return "FINAL ANSWER: done"
        sizes.append(stored_bytes(saver))
        name = f"v{len(sizes)}"
        noise = f"import hashlib\nprint(''.join(hashlib.sha256(b'{name}%d' % i).hexdigest() for i in range(31)))\n"
        code = f"{name} = 1\nopen('{name}.txt', 'w').write('{name}')\n{noise}# {name * 300}"
        return f"```python\n{code[:2000]}\n```"

    agent = make.own(ScriptedModel(reply), checkpointer=saver, max_turns=turns)
    for number in range(runs):
        out = agent.invoke({"task": f"Compute part {number}."}, thread)
        assert (out["status"], out["turns"]) == ("success", turns)
    early, late = (sizes[30] - sizes[10]) / 20, (sizes[59] - sizes[39]) / 20
    assert 0.8 * early < late < 1.2 * early
    assert late < 40_000
    values = agent.get_state(thread).values
    assert len(values["run"]["seen"]) == min(turns, MAX_SEEN)
    assert len(values["names"]) > 59
