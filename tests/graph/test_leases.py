"""One process runs a thread: the other is told who does, and a killed one holds nothing."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import psycopg
import pytest
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph

from actloop.config import Settings
from actloop.errors import SessionBusy
from actloop.graph import leases
from actloop.graph.checkpoints import SqliteCheckpoints, open_checkpoints
from actloop.graph.leases import FileLease, Holder, in_thread

if TYPE_CHECKING:
    from tests.graph.conftest import Make, Saver

HOLD = """
import sys, time
from actloop.config import Settings
from actloop.graph.checkpoints import open_checkpoints
saver = open_checkpoints(sys.argv[1], Settings())
with saver.hold(sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
print("freed", flush=True)
saver.close()
"""


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty database is, of either kind."""
    return str(tmp_path / "c.sqlite") if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def here(place: str) -> "Iterator[Saver]":
    """The saver of this process."""
    saver = open_checkpoints(place, Settings())
    yield saver
    saver.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "PATIENCE_S", 0.2)


@contextmanager
def other_process(place: str, thread: str) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the thread until its input ends."""
    command = [sys.executable, "-W", "error", "-c", HOLD, place, thread]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        yield child
        child.kill()


@pytest.mark.usefixtures("impatient")
def test_the_refusal_says_who_holds_the_thread_and_since_when(place: str, here: "Saver") -> None:
    before = int(time.time())
    with other_process(place, "t1") as child:
        with (
            pytest.raises(
                SessionBusy, match=rf"thread t1 .*process {child.pid} on {socket.gethostname()} since (.*) UTC"
            ),
            here.hold("t1"),
        ):
            pass
        with here.hold("t2"), here.hold("t1", "part"):
            pass
        assert child.stdin is not None
        child.stdin.close()
        assert child.stdout is not None
        assert child.stdout.readline() == "freed\n"
        with here.hold("t1"):
            assert before > 0


def test_a_killed_process_holds_nothing(place: str, here: "Saver") -> None:
    with other_process(place, "t1") as child:
        child.send_signal(signal.SIGKILL)
        child.wait()
        with here.hold("t1"):
            pass


def test_a_holder_that_ends_soon_is_waited_for(place: str, here: "Saver") -> None:
    with other_process(place, "t1") as child:
        threading.Timer(0.5, child.kill).start()
        with here.hold("t1"):
            assert child.wait() == -signal.SIGKILL


@pytest.mark.usefixtures("impatient")
def test_a_second_saver_of_this_process_is_refused_as_well(place: str, here: "Saver") -> None:
    second = open_checkpoints(place, Settings())
    with here.hold("t1"), pytest.raises(SessionBusy, match=f"process {os.getpid()} "), second.hold("t1"):
        pass
    second.close()


@pytest.mark.usefixtures("impatient")
def test_an_error_in_a_run_frees_the_thread(here: "Saver") -> None:
    with pytest.raises(ZeroDivisionError), here.hold("t1"):
        raise ZeroDivisionError
    with here.hold("t1"):
        pass


@pytest.mark.parametrize(
    "thread", ["", "é\U0001f600", "../../etc/passwd", "x" * 5000, "a\nb"], ids=["empty", "odd", "path", "long", "line"]
)
def test_any_text_may_name_a_thread(here: "Saver", thread: str) -> None:
    with here.hold(thread), here.hold(thread, thread + "x"):
        pass


# -- files --------------------------------------------------------------------------------------------------------


def test_lock_files_name_their_holder_and_do_not_pile_up(tmp_path: Path) -> None:
    saver = SqliteCheckpoints(tmp_path / "c.sqlite")
    folder = tmp_path / "c.sqlite.locks"
    for number in range(20):
        with saver.hold(f"t{number}"):
            (file,) = folder.iterdir()
            assert Holder(**json.loads(file.read_text()))[:2] == (os.getpid(), socket.gethostname())
    assert list(folder.iterdir()) == []
    saver.close()


def test_many_takers_of_one_file_never_hold_it_together(tmp_path: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        for _ in range(60):
            lease = FileLease(tmp_path / "locks", "t")
            while not lease.take():
                pass
            inside.append(1)
            most.append(len(inside))
            time.sleep(0)
            inside.pop()
            lease.free()

    workers = [threading.Thread(target=work) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (len(most), max(most)) == (360, 1)
    assert list((tmp_path / "locks").iterdir()) == []


def test_a_file_that_was_removed_and_made_anew_is_not_taken_for_held(tmp_path: Path) -> None:
    first, second, third = (FileLease(tmp_path, "t") for _ in range(3))
    assert first.take()
    (file,) = tmp_path.iterdir()
    file.unlink()
    assert second.take()
    assert not third.take()
    first.free()
    second.free()
    third.free()


def test_where_no_lock_can_be_made_every_process_gets_the_thread() -> None:
    # The kernel lets nobody, not even root, make a folder there.
    first, second = (FileLease(Path("/sys/actloop.locks"), "t") for _ in range(2))
    assert first.take()
    assert second.take()
    first.free()
    second.free()


def test_a_child_of_a_fork_neither_keeps_nor_frees_the_lock(tmp_path: Path) -> None:
    saver = SqliteCheckpoints(tmp_path / "c.sqlite")
    (read, write), context = os.pipe(), saver.hold("t")
    context.__enter__()
    child = os.fork()
    if child == 0:
        os.close(write)
        with suppress(BaseException):
            context.__exit__(None, None, None)
        os.read(read, 1)
        os._exit(0)
    os.close(read)
    lease = FileLease(tmp_path / "c.sqlite.locks", "t\0")
    time.sleep(0.2)
    assert not lease.take()
    context.__exit__(None, None, None)
    assert lease.take()
    lease.free()
    os.close(write)
    assert os.waitpid(child, 0)[1] == 0
    saver.close()


# -- Postgres -----------------------------------------------------------------------------------------------------


def test_a_lease_in_postgres_outlives_a_server_that_ends_idle_sessions(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        name = psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]
        connection.execute(f"ALTER DATABASE {name} SET idle_session_timeout = 200")
    saver = open_checkpoints(postgres_url, Settings())
    with saver.hold("t1"):
        time.sleep(0.6)
        with psycopg.connect(postgres_url) as connection:
            held = connection.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone()
        assert held == (1,)
    saver.close()


# -- async callers and runs ---------------------------------------------------------------------------------------


def test_waiting_does_not_block_the_event_loop(place: str, here: "Saver") -> None:
    async def wait() -> int:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.01)

        ticking = asyncio.create_task(tick())
        async with in_thread(here.hold("t1")):
            ticking.cancel()
        return ticks

    with other_process(place, "t1") as child:
        threading.Timer(0.5, child.kill).start()
        assert asyncio.run(wait()) > 5


@pytest.mark.usefixtures("impatient")
def test_a_cancelled_wait_leaves_nothing_held(place: str, here: "Saver") -> None:
    async def give_up() -> None:
        async def wait() -> None:
            async with in_thread(here.hold("t1")):
                await asyncio.sleep(60)

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with here.hold("other"):
            held.set()
        # What the thread was in the middle of comes to its end.
        await asyncio.sleep(0.5)

    held = threading.Event()
    asyncio.run(give_up())
    assert held.is_set()
    with here.hold("t1"):
        pass


@pytest.mark.usefixtures("impatient")
def test_a_run_is_refused_while_another_process_runs_the_thread(
    make: "Make", place: str, here: "Saver", thread: RunnableConfig
) -> None:
    agent = make(["QUESTION: Which?", "QUESTION: Which?"], checkpointer=here)
    with other_process(place, thread["configurable"]["thread_id"]) as child:
        with pytest.raises(SessionBusy, match=f"process {child.pid} "):
            agent.invoke({"task": "First."}, thread)
        with pytest.raises(SessionBusy, match=f"process {child.pid} "):
            asyncio.run(agent.ainvoke({"task": "First."}, thread))
    assert agent.get_state(thread).values == {}
    assert agent.invoke({"task": "Second."}, thread)["status"] == "needs_input"
    assert asyncio.run(agent.ainvoke({"task": "Third."}, thread))["status"] == "needs_input"


# -- durability ---------------------------------------------------------------------------------------------------


class Outer(TypedDict, total=False):
    task: str
    status: str


@pytest.mark.parametrize("asked", [None, "async"])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_stands_before_a_cell_is_stored_before_the_cell_starts(
    make: "Make",
    saver: "Saver",
    thread: RunnableConfig,
    monkeypatch: pytest.MonkeyPatch,
    asked: Any,
    asynchronous: bool,
) -> None:
    agent = make(["```python\nprint('on')\n```", "QUESTION: What now?"], checkpointer=saver)
    put, get = saver.put, agent.sessions.get
    stored: list[int] = []

    def late(*arguments: Any) -> Any:
        time.sleep(0.05)
        return put(*arguments)

    def noting(*names: str) -> Any:
        stored.append(len(list(saver.list(thread))))
        return get(*names)

    monkeypatch.setattr(saver, "put", late)
    monkeypatch.setattr(agent.sessions, "get", noting)
    options: Any = {} if asked is None else {"durability": asked}
    if asynchronous:
        asyncio.run(agent.ainvoke({"task": "Do it."}, thread, **options))
    else:
        agent.invoke({"task": "Do it."}, thread, **options)
    # The input leaves one when it comes and one when it is taken in; `reason`, `codegen` and `safety_check` one each.
    assert stored[0] == 5 if asked is None else stored[0] < 5


@pytest.mark.parametrize("parents", [True, False], ids=["parent has a saver", "parent has none"])
def test_a_graph_within_a_graph_leaves_durability_and_locks_to_the_graph_around_it(
    make: "Make", saver: "Saver", thread: RunnableConfig, parents: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[Any] = []
    agent = make(["QUESTION: Which?"], checkpointer=saver)

    def step(state: Outer, config: RunnableConfig) -> Outer:
        out = agent.invoke({"task": state["task"]}, config)
        return {"status": out["status"]}

    graph = StateGraph(Outer)
    graph.add_node("agent", RunnableLambda(step))
    graph.add_edge(START, "agent")
    monkeypatch.setattr(type(saver), "hold", lambda self, *names: held.append(names))
    own: BaseCheckpointSaver[Any] | None = saver if parents else None
    out = graph.compile(checkpointer=own).invoke({"task": "Do it."}, thread)
    assert out["status"] == "needs_input"
    assert held == []


def test_without_any_saver_a_run_goes_on_without_a_word_of_durability(make: "Make", thread: RunnableConfig) -> None:
    agent = make(["QUESTION: Which?"])
    agent.checkpointer = None
    assert agent.invoke({"task": "Do it."}, thread)["status"] == "needs_input"
