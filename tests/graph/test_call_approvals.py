"""A person decides on a call while its cell waits in the box: approve, edit or reject, in this process or another."""

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from actloop.config import Budget
from actloop.testing import ScriptedModel

if TYPE_CHECKING:
    from tests.graph.conftest import Boxes, Make

pytestmark = pytest.mark.docker

ROOT = Path(__file__).parents[2]
CELL = """```python
x = look_up("first")
try:
    print("sent to", send_mail("ann", text="hello"))
except HostCallError as error:
    print("failed:", error)
print("after", look_up("last"))
```"""


class Desk:
    """Two functions of the host that note what they were called with."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def tools(self) -> list[Any]:
        def look_up(name: str) -> int:
            """Look something up."""
            self.made.append(f"look_up {name}")
            return 1

        def send_mail(to: str, text: str) -> str:
            """Send a mail."""
            self.made.append(f"send_mail {to} {text}")
            return to

        send_mail.needs_approval = True  # type: ignore[attr-defined]
        return [look_up, send_mail]


def asked(out: dict[str, Any]) -> dict[str, Any]:
    (interrupt,) = out["__interrupt__"]
    value: dict[str, Any] = interrupt.value
    return value


@pytest.mark.parametrize(
    ("answer", "sent", "told"),
    [
        (True, "send_mail ann hello", "sent to ann"),
        (False, None, "a person refused the call: no reason given"),
        ({"decision": "reject", "reason": "not her"}, None, "a person refused the call: not her"),
        ({"decision": "edit", "arguments": {"to": "bob", "text": "hi"}}, "send_mail bob hi", "sent to bob"),
        ({"decision": "edit", "arguments": ["bob", "ho"]}, "send_mail bob ho", "sent to bob"),
        ({"decision": "edit", "arguments": "bob"}, None, "a person refused the call"),
        ("yes", None, "a person refused the call"),
    ],
)
def test_a_call_waits_for_the_answer_and_its_cell_goes_on(
    make: "Make", thread: RunnableConfig, answer: Any, sent: str | None, told: str
) -> None:
    desk = Desk()
    model = ScriptedModel([CELL, "FINAL ANSWER: done"])
    agent = make.own(model, tools=desk.tools())
    question = asked(agent.invoke({"task": "Write to her."}, thread))
    assert (question["kind"], question["tool"]) == ("call", "send_mail")
    assert question["arguments"] == {"to": "ann", "text": "hello"}
    assert "send_mail" in question["code"]
    assert desk.made == ["look_up first"]
    assert agent.get_state(thread).next == ("approve",)
    out = agent.invoke(Command(resume=answer), thread)
    assert out["turns"] == 1
    assert told in model.requests[1][-1].text
    assert desk.made == ["look_up first", *([sent] if sent else []), "look_up last"]


async def test_async_callers_are_asked_for_each_call(make: "Make", thread: RunnableConfig) -> None:
    desk = Desk()
    cell = "```python\nimport asyncio\nprint(await asyncio.gather(*(send_mail(name, 'x') for name in 'ab')))\n```"
    agent = make.own([cell, "FINAL ANSWER: done"], tools=desk.tools())
    first = asked(await agent.ainvoke({"task": "Write."}, thread))
    second = asked(await agent.ainvoke(Command(resume=True), thread))
    assert (first["arguments"]["to"], second["arguments"]["to"]) == ("a", "b")
    out = await agent.ainvoke(Command(resume=True), thread)
    assert "['a', 'b']" in out["messages"][2].text
    assert desk.made == ["send_mail a x", "send_mail b x"]


def test_a_question_outlives_its_process(tmp_path: Path, thread: RunnableConfig, boxes: "Boxes", image: str) -> None:
    log = tmp_path / "log.txt"
    given = [str(tmp_path / "threads.sqlite"), str(tmp_path / "snapshots"), str(log)]
    command = [sys.executable, "-m", "tests.graph.call_program", *given, str(thread["configurable"]["thread_id"])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as first:
        assert first.stdout is not None
        question = json.loads(first.stdout.readline())
        first.kill()
    assert question["arguments"] == {"to": "ann@example.org", "text": "hello"}
    assert log.read_text() == "look_up first\n"
    second = subprocess.run([*command, "true"], stdout=subprocess.PIPE, text=True, cwd=ROOT, timeout=120, check=True)
    assert second.stdout == "success done\n"
    assert log.read_text().splitlines() == ["look_up first", "send_mail ann@example.org hello", "look_up last"]
    assert boxes.of(thread) == []


def test_an_agent_that_closes_leaves_the_cell_that_waits(
    make: "Make", thread: RunnableConfig, boxes: "Boxes", tmp_path: Path
) -> None:
    desk = Desk()
    where = {"checkpointer": tmp_path / "threads.sqlite", "snapshots": tmp_path / "snapshots"}
    first = make.own([CELL, "FINAL ANSWER: done"], tools=desk.tools(), **where)
    asked(first.invoke({"task": "Write to her."}, thread))
    first.sessions.close()
    second = make.own([CELL, "FINAL ANSWER: done"], tools=desk.tools(), **where)
    assert second.invoke(Command(resume=True), thread)["turns"] == 1
    assert desk.made == ["look_up first", "send_mail ann hello", "look_up last"]
    second.sessions.close()
    assert boxes.of(thread) == []


def test_a_cell_whose_box_is_lost_while_it_waits_does_not_begin_again(
    make: "Make", thread: RunnableConfig, boxes: "Boxes"
) -> None:
    desk = Desk()
    model = ScriptedModel([CELL, "FINAL ANSWER: lost", "FINAL ANSWER: lost"])
    agent = make.own(model, tools=desk.tools())
    asked(agent.invoke({"task": "Write to her."}, thread))
    (container,) = boxes.of(thread)
    container.remove(force=True)
    agent.invoke(Command(resume=True), thread)
    assert desk.made == ["look_up first"]
    assert any("waited for a person" in message.text for message in model.requests[1])


def test_a_new_task_in_place_of_an_answer_ends_the_cell_that_waits(make: "Make", thread: RunnableConfig) -> None:
    desk = Desk()
    agent = make.own([CELL, "```python\nprint(6 * 7)\n```", "FINAL ANSWER: 42"], tools=desk.tools())
    asked(agent.invoke({"task": "Write to her."}, thread))
    out = agent.invoke({"task": "Leave that; what is 6 * 7?"}, thread)
    assert (out["status"], out["turns"]) == ("success", 1)
    assert desk.made == ["look_up first"]


def test_what_waits_is_small_in_the_state(make: "Make", thread: RunnableConfig) -> None:
    desk = Desk()
    cell = "```python\nprint(len(send_mail('ann', 'x' * 1_000_000)))\n```"
    agent = make.own([cell, "FINAL ANSWER: done"], tools=desk.tools())
    question = asked(agent.invoke({"task": "Write."}, thread))
    assert question["arguments"]["shortened"].endswith("characters)")
    assert len(json.dumps(agent.get_state(thread).values["call"])) < 10_000
    agent.invoke(Command(resume=True), thread)
    assert len(desk.made[0]) > 1_000_000


def test_the_calls_of_a_run_are_bounded_by_its_budget(make: "Make", thread: RunnableConfig) -> None:
    desk = Desk()
    model = ScriptedModel(
        [
            "```python\nfor i in range(2): look_up(str(i))\n```",
            "```python\nfor i in range(3): look_up(str(i))\n```",
            "FINAL ANSWER: enough",
            "FINAL ANSWER: enough",
        ]
    )
    agent = make.own(model, tools=desk.tools(), budget=Budget(host_calls=3))
    agent.invoke({"task": "Look up."}, thread)
    assert desk.made == ["look_up 0", "look_up 1", "look_up 0"]
    assert "the budget of this run, 3 calls to the host, is used up" in model.requests[2][-2].text
