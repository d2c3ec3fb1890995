"""Boxes wait for threads: each serves one, none is left behind, and a thread that has a box gets its own."""

import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest

from actloop import create_agent
from actloop.config import DEFAULT_IMAGE, Limits, Settings
from actloop.errors import ConfigError
from actloop.graph.sessions import ThreadSessions
from actloop.sandbox import naming
from actloop.sandbox import session as session_module
from actloop.sandbox.boxes import POOL_PREFIX, box_name, find_box
from actloop.sandbox.docker import open_docker_session
from actloop.sandbox.opening import open_pool, open_session, session_facts
from actloop.sandbox.order import Order
from actloop.sandbox.pool import Pool
from actloop.sandbox.session import BoxSession
from actloop.sandbox.snapshots import Snapshots
from actloop.testing import ScriptedModel

PROGRAM = Path(__file__).parent / "pool_program.py"
MakePool = Callable[..., Pool]

pytestmark = pytest.mark.docker


@pytest.fixture
def make_pool(image: str) -> Iterator[MakePool]:
    """Keep boxes started, until the end of the test."""
    pools: list[Pool] = []

    def make(size: int, **limits: object) -> Pool:
        pool = open_pool(size, "docker", limits=Limits.model_validate(limits))
        pools.append(pool)
        return pool

    yield make
    for pool in pools:
        pool.close()


def eventually(condition: Callable[[], object], timeout: float = 60.0) -> bool:
    until = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def filled(pool: Pool) -> Pool:
    assert eventually(lambda: pool.ready == pool.size)
    return pool


def waiting(engine: docker.DockerClient, owner: int | None = None) -> set[str]:
    """Names of the boxes that a process has on the engine and that have no thread's name."""
    labels = [f"actloop.owner={owner or os.getpid()}", "actloop.pool"]
    found = engine.api.containers(all=True, filters={"label": labels})
    names = {name.lstrip("/") for each in found for name in each["Names"]}
    return {name for name in names if name.startswith(POOL_PREFIX)}


def order(thread: str = "t1") -> Order:
    return Order(key=uuid.uuid4().hex[:24], thread=thread)


def taken(pool: Pool, asked: Order) -> BoxSession:
    session = pool.take(asked)
    assert session is not None
    return session


# -- taking -------------------------------------------------------------------------------------------------------


def test_a_thread_gets_a_box_that_waited_and_the_box_gets_its_name(
    engine: docker.DockerClient, make_pool: MakePool
) -> None:
    pool, asked = filled(make_pool(1)), order()
    (name,) = waiting(engine)
    container = engine.containers.get(name)
    with taken(pool, asked) as session:
        assert session.run("6 * 7").result == "42"
        assert eventually(lambda: session.id == box_name(asked.key))
        container.reload()
        assert container.name == session.id
        found = find_box(engine, asked.key)
        assert found.id == container.id


def test_the_box_that_is_taken_is_replaced_and_never_comes_back(
    engine: docker.DockerClient, make_pool: MakePool
) -> None:
    pool = filled(make_pool(1))
    before = waiting(engine)
    session = taken(pool, order())
    session.run("secret = 'of the first thread'")
    filled(pool)
    assert not before & waiting(engine)
    session.close()
    with taken(pool, order()) as other:
        assert other.run("'secret' in globals()").result == "False"
        assert other.point != session.point


def test_two_threads_never_share_a_box(make_pool: MakePool) -> None:
    pool = filled(make_pool(2))
    sessions: list[BoxSession] = []

    def take() -> None:
        sessions.append(taken(pool, order()))

    takers = [threading.Thread(target=take) for _ in range(2)]
    for taker in takers:
        taker.start()
    for taker in takers:
        taker.join()
    first, second = sessions
    first.run("x = 1")
    assert second.run("x").outcome == "error"
    for session in sessions:
        session.close()


def test_an_empty_pool_makes_nobody_wait(make_pool: MakePool) -> None:
    assert make_pool(1).take(order()) is None


def test_a_box_from_the_pool_keeps_snapshots_for_its_thread(make_pool: MakePool, tmp_path: Path) -> None:
    store = Snapshots(str(tmp_path), "t1", b"k" * 32)
    asked = Order(key=uuid.uuid4().hex[:24], thread="t1", snapshots=lambda: store, every_cell=True)
    with taken(filled(make_pool(1)), asked) as session:
        session.run("x = 41", cell_id="one")
    with open_session("docker", order=Order(snapshots=lambda: store)) as other:
        other.restore_nearest(["one"])
        assert other.run("x").result == "41"


def test_a_box_that_died_in_the_pool_is_passed_over(engine: docker.DockerClient, make_pool: MakePool) -> None:
    pool = filled(make_pool(2))
    first = pool._ready[0]
    engine.containers.get(first.id).kill()
    assert eventually(lambda: not first.alive)
    with taken(pool, order()) as session:
        assert session.id != first.id
        assert session.run("1").result == "1"


def test_a_box_that_hangs_in_the_pool_is_passed_over_and_removed(
    engine: docker.DockerClient, make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "ADOPT_S", 0.5)
    pool = filled(make_pool(1))
    (name,) = waiting(engine)
    engine.containers.get(name).pause()
    assert pool.take(order()) is None
    assert eventually(lambda: name not in waiting(engine))


def test_a_name_that_cannot_be_given_costs_nothing_but_the_name(
    engine: docker.DockerClient, make_pool: MakePool, caplog: pytest.LogCaptureFixture
) -> None:
    pool, asked = filled(make_pool(1)), order()
    stranger = engine.containers.create(DEFAULT_IMAGE, ["true"], name=box_name(asked.key))
    try:
        with taken(pool, asked) as session:
            assert eventually(lambda: "could not be named" in caplog.text)
            assert session.id.startswith(POOL_PREFIX)
            assert session.run("1").result == "1"
        stranger.reload()
        assert stranger.status == "created"
    finally:
        stranger.remove(force=True)


# -- sessions of threads ------------------------------------------------------------------------------------------


@pytest.fixture
def sessions(make_pool: MakePool) -> Iterator[ThreadSessions]:
    pool = filled(make_pool(1))
    with ThreadSessions(lambda order: open_session("docker", order=order), session_facts, pool=pool) as made:
        yield made


def test_a_thread_that_has_a_box_gets_that_one(engine: docker.DockerClient, sessions: ThreadSessions) -> None:
    with ThreadSessions(lambda order: open_session("docker", order=order), session_facts) as earlier:
        earlier.get("t1", "secret").run("x = 41")
        earlier.detach()
    before = waiting(engine)
    assert sessions.get("t1", "secret").run("x + 1").result == "42"
    assert waiting(engine) == before


def test_an_agent_takes_boxes_from_its_pool_and_leaves_none(engine: docker.DockerClient, tmp_path: Path) -> None:
    agent = create_agent(
        ScriptedModel(["```python\nfinal_answer(6 * 7)\n```"]), pool=1, checkpointer=tmp_path / "c.sqlite"
    )
    with agent.sessions as sessions:
        assert sessions.pool is not None
        filled(sessions.pool)
        (name,) = waiting(engine)
        box = engine.containers.get(name).id
        out = agent.invoke({"task": "Compute it."}, {"configurable": {"thread_id": "t1"}})
        assert (out["status"], out["answer"]) == ("success", "42")
        filled(sessions.pool)
        assert engine.containers.get(box).name != name
    assert eventually(lambda: not waiting(engine))


def test_the_environment_may_ask_for_a_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings().pool == 0
    monkeypatch.setenv("ACTLOOP_POOL", "3")
    assert Settings().pool == 3
    agent = create_agent(ScriptedModel([]), pool=0, checkpointer=False)
    assert agent.sessions.pool is None


def test_a_pool_of_less_than_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="pool is -1"):
        create_agent(ScriptedModel([]), pool=-1, checkpointer=False)


# -- time ---------------------------------------------------------------------------------------------------------


def test_the_idle_limit_begins_when_a_thread_has_the_box(engine: docker.DockerClient, make_pool: MakePool) -> None:
    pool = filled(make_pool(1, idle_s=1.5))
    time.sleep(4)
    assert pool.ready == 1
    session = taken(pool, order())
    assert session.run("1").result == "1"
    assert eventually(lambda: not session.alive)
    session.close()


# -- the end ------------------------------------------------------------------------------------------------------


def test_closing_while_boxes_are_started_leaves_none(engine: docker.DockerClient, make_pool: MakePool) -> None:
    for wait_s in (0.0, 0.2, 0.6):
        pool = make_pool(2)
        time.sleep(wait_s)
        pool.close()
        pool.close()
        assert not waiting(engine)
        assert pool.take(order()) is None


def test_a_box_is_either_taken_or_removed_when_the_pool_is_closed(
    engine: docker.DockerClient, make_pool: MakePool
) -> None:
    pool = filled(make_pool(3))
    got: list[BoxSession] = []
    begun = threading.Barrier(4)

    def take() -> None:
        begun.wait()
        session = pool.take(order())
        if session is not None:
            got.append(session)

    takers = [threading.Thread(target=take) for _ in range(3)]
    for taker in takers:
        taker.start()
    begun.wait()
    pool.close()
    for taker in takers:
        taker.join()
    assert all(session.run("1").result == "1" for session in got)
    for session in got:
        session.close()
    assert eventually(lambda: not waiting(engine))


def test_a_pool_without_an_engine_fails_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    pool = open_pool(1, "docker")
    assert eventually(lambda: pool._coming == 0)
    assert pool.take(order()) is None
    pool.close()


def test_a_process_that_ends_removes_what_waited(engine: docker.DockerClient) -> None:
    with subprocess.Popen([sys.executable, PROGRAM, "exit", order().key], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert "ready" in child.stdout.read()
        assert child.wait() == 0
    assert eventually(lambda: not waiting(engine, child.pid))


def test_a_box_whose_process_was_killed_before_it_was_named_is_found(engine: docker.DockerClient) -> None:
    asked = order()
    with subprocess.Popen([sys.executable, PROGRAM, "wait", asked.key], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        name = child.stdout.readline().strip()
        assert child.stdout.readline() == "ready\n"
        assert name.startswith(POOL_PREFIX)
        child.kill()
    try:
        with open_docker_session(Limits(), order=asked) as session:
            assert session.point == "first"
            assert session.run("x + 1").result == "42"
            assert eventually(lambda: session.id == box_name(asked.key))
    finally:
        for left in waiting(engine, child.pid):
            engine.containers.get(left).remove(force=True)


def test_a_closed_pool_is_left_by_those_who_come_late(make_pool: MakePool) -> None:
    pool = filled(make_pool(1))
    pool.close()
    with ThreadSessions(lambda order: open_session("docker", order=order), session_facts, pool=pool) as late:
        assert late.get("t1").run("1").result == "1"


def test_a_thread_that_another_agent_of_this_process_goes_on_with_keeps_its_box(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(naming, "NAME_AFTER_S", 30.0)
    first = ThreadSessions(lambda order: open_session("docker", order=order), session_facts, pool=filled(make_pool(1)))
    second = ThreadSessions(lambda order: open_session("docker", order=order), session_facts, pool=filled(make_pool(1)))
    with first, second:
        first.get("t1", "secret").run("x = 41")
        assert second.get("t1", "secret").run("x + 1").result == "42"


def test_the_end_of_a_run_waits_until_its_box_can_be_found(
    engine: docker.DockerClient, make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(naming, "NAME_AFTER_S", 30.0)
    asked = order()
    with taken(filled(make_pool(1)), asked) as session:
        assert session.id.startswith(POOL_PREFIX)
        session.settle()
        assert session.id == box_name(asked.key)
        assert find_box(engine, asked.key) is not None
