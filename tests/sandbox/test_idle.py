"""The box of a thread ends by itself when nothing has been done in it for its idle limit, and the thread goes on."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import docker
import pytest
from langchain_core.runnables import RunnableConfig

from actloop import create_agent
from actloop.config import Limits
from actloop.sandbox.docker import open_docker_session
from actloop.sandbox.host_functions import HostFunction
from actloop.sandbox.order import Order
from actloop.sandbox.session import BoxSession
from actloop.testing import ScriptedModel

Open = Callable[..., BoxSession]


@pytest.fixture
def open_lasting(image: str) -> Iterator[Open]:
    """Open the box of a thread that ends after some seconds without work."""
    with ExitStack() as stack:

        def opened(idle_s: float, key: str = "") -> BoxSession:
            order = Order(key=key or uuid.uuid4().hex[:24], thread="idle")
            return stack.enter_context(open_docker_session(Limits(idle_s=idle_s), order=order))

        yield opened


def eventually(condition: Callable[[], bool], timeout: float = 30.0) -> bool:
    until = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def is_gone(engine: docker.DockerClient, name: str) -> bool:
    return not engine.api.containers(all=True, filters={"name": f"^/{name}$"})


def test_signs_of_life_of_a_holder_do_not_keep_an_idle_box(engine: docker.DockerClient, open_lasting: Open) -> None:
    session = open_lasting(1.5)
    session.run("x = 1")

    def ended() -> bool:
        session._talk.beat()
        return not session.alive

    assert eventually(ended)
    assert eventually(lambda: is_gone(engine, session.id))


def test_work_puts_the_end_off(open_lasting: Open) -> None:
    session = open_lasting(3.0)
    until = time.monotonic() + 6.0
    while time.monotonic() < until:
        assert session.run("1").result == "1"
        time.sleep(0.2)


def test_a_cell_that_runs_longer_than_the_idle_limit_is_not_cut_off(open_lasting: Open) -> None:
    session = open_lasting(1.0)
    record = session.run("import time\ntime.sleep(3.5)\n'done'")
    assert (record.outcome, record.result) == ("ok", "'done'")
    # Its end was work, too: the next one comes in time.
    assert session.run("1").result == "1"


def test_a_cell_that_waits_for_the_host_does_not_keep_its_box(engine: docker.DockerClient, open_lasting: Open) -> None:
    session = open_lasting(1.5)
    waiting = ExitStack()
    session.offer([HostFunction("ask", lambda: time.sleep(8))])
    with waiting:
        record = session.run("ask()")
    assert record.outcome == "lost"
    assert eventually(lambda: is_gone(engine, session.id))


def test_a_box_that_everybody_has_left_ends_as_well(engine: docker.DockerClient, open_lasting: Open) -> None:
    key = uuid.uuid4().hex[:24]
    session = open_lasting(2.0, key)
    session.run("x = 1")
    session.detach()
    assert eventually(lambda: is_gone(engine, session.id))
    again = open_lasting(60.0, key)
    assert again.point == ""
    assert again.run("'x' in globals()").result == "False"


def test_a_thread_goes_on_from_its_snapshot_in_a_new_box(engine: docker.DockerClient, tmp_path: Path) -> None:
    cells = ["x = 41\nopen('kept.txt', 'w').write('kept')", "print(x + 1, open('kept.txt').read())"]
    replies = [f"```python\n{cells[0]}\n```", "FINAL ANSWER: set", f"```python\n{cells[1]}\n```", "FINAL ANSWER: read"]
    agent = create_agent(
        ScriptedModel(replies),
        limits=Limits(idle_s=3.0),
        checkpointer=tmp_path / "checkpoints.sqlite",
        snapshots=tmp_path / "snapshots",
    )
    thread = f"test-{uuid.uuid4().hex[:8]}"
    config: RunnableConfig = {"configurable": {"thread_id": thread}}

    def boxes() -> list[str]:
        found = engine.api.containers(all=True, filters={"label": f"actloop.thread={thread}"})
        return [str(each["Id"]) for each in found]

    with agent.sessions:
        assert agent.invoke({"task": "Set x."}, config)["status"] == "success"
        assert len(first := boxes()) == 1
        assert eventually(lambda: boxes() == [])
        out = agent.invoke({"task": "Read x."}, config)
        assert out["status"] == "success"
        assert boxes() != first
        executions = [message.text for message in out["messages"] if "42 kept" in message.text]
        assert executions, [message.text for message in out["messages"]]
