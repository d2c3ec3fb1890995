"""A box outlives the process that started it: who holds it, and what the next process finds."""

import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import docker
import pytest

from actloop.config import Limits
from actloop.errors import SandboxLost, SessionBusy
from actloop.sandbox import open_session
from actloop.sandbox.boxes import box_name
from actloop.sandbox.host_functions import HostFunction
from actloop.sandbox.opening import local_snapshots
from actloop.sandbox.order import Order
from actloop.sandbox.session import BoxSession

pytestmark = pytest.mark.docker

HOLDER = """
import sys, time
from actloop.sandbox import open_session
from actloop.sandbox.host_functions import HostFunction
from actloop.sandbox.order import Order

session = open_session("docker", order=Order(key=sys.argv[1], thread=sys.argv[2]))
session.run("x = 41", cell_id="first")
def slow(number):
    print("called", flush=True)
    time.sleep(60)
session.offer([HostFunction("slow", slow), HostFunction("other", lambda: None)])
cell = session.start(sys.argv[3], cell_id="second")
print("started", flush=True)
for event in cell.events():
    print(event.text, end="", flush=True)
time.sleep(60)
"""


class Lasting:
    """Opens the box of one thread, in this process and in others, and removes it after the test."""

    def __init__(self, stack: ExitStack, store: Path) -> None:
        self.key = f"test{uuid.uuid4().hex[:12]}"
        self.thread = f"thread {self.key}"
        self._stack = stack
        self._store = store

    def open(self, every_cell: bool = False) -> BoxSession:
        order = Order(
            key=self.key,
            thread=self.thread,
            snapshots=lambda: local_snapshots(self._store, self.key),
            every_cell=every_cell,
        )
        session = open_session("docker", limits=Limits(wall_s=60), order=order)
        self._stack.callback(session.close)
        return session

    def held_elsewhere(self, code: str, until: str) -> subprocess.Popen[str]:
        """Run a cell in another process, and wait until it says something."""
        command = [sys.executable, "-c", HOLDER, self.key, self.thread, code]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._stack.callback(end, process)
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == until:
                return process
        raise AssertionError("the other process ended before it came so far")


@pytest.fixture
def lasting(image: str, engine: docker.DockerClient, tmp_path: Path) -> Iterator[Lasting]:
    with ExitStack() as stack:
        box = Lasting(stack, tmp_path)
        yield box
    for container in engine.containers.list(all=True, filters={"name": box_name(box.key)}, ignore_removed=True):
        container.remove(force=True)


def end(process: subprocess.Popen[str]) -> None:
    """End a process of ours as a crash would."""
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_a_running_cell_goes_on_when_its_process_is_killed(lasting: Lasting) -> None:
    code = "import time\nprint('on', flush=True)\ntime.sleep(2)\nprint('done')\ny = x + 1"
    end(lasting.held_elsewhere(code, until="on"))
    session = lasting.open()
    assert (session.running, session.point, set(session.names)) == ("second", "first", {"x"})
    events: list[str] = []
    record = session.follow("second", on_event=lambda event: events.append(event.text))
    assert (record.outcome, record.stdout.text, "".join(events)) == ("ok", "on\ndone\n", "done\n")
    assert session.run("x, y").result == "(41, 42)"


def test_a_cell_that_has_ended_is_found_with_its_record(lasting: Lasting) -> None:
    end(lasting.held_elsewhere("print('on')\ny = 1\ny", until="on"))
    session = lasting.open()
    while session.running:
        session = lasting.open()
    assert session.knows("first")
    record = session.follow("second")
    assert (record.outcome, record.stdout.text, record.result) == ("ok", "on\n", "1")
    assert session.follow("first").outcome == "ok"
    assert not session.knows("third")


def test_the_same_cell_does_not_run_again(lasting: Lasting) -> None:
    session = lasting.open()
    append = "open('log.txt', 'a').write('1')"
    session.run(append, cell_id="one")
    session.detach()
    session = lasting.open()
    assert session.run(append, cell_id="one").outcome == "ok"
    assert session.get("log.txt") == b"1"


def test_a_second_process_is_refused_and_told_who_holds_the_thread(lasting: Lasting) -> None:
    process = lasting.held_elsewhere("import time\nprint('on', flush=True)\ntime.sleep(30)", until="on")
    with pytest.raises(SessionBusy, match=rf"{lasting.thread} is held by process {process.pid} on "):
        lasting.open()
    assert process.poll() is None


def test_a_process_that_lost_its_box_says_so_and_leaves_it(lasting: Lasting) -> None:
    first = lasting.open()
    first.run("x = 1")
    second = lasting.open()
    assert second.run("x").result == "1"
    with pytest.raises(SandboxLost, match="is held by process"):
        first.run("x = 2")
    first.close()
    assert second.run("x").result == "1"


def test_a_session_of_the_same_process_that_runs_a_cell_keeps_its_box(lasting: Lasting) -> None:
    first = lasting.open()
    cell = first.start("import time\ntime.sleep(5)")
    with pytest.raises(SessionBusy):
        lasting.open()
    cell.cancel()
    assert cell.wait().outcome == "cancelled"


def test_what_the_first_process_left_half_written_is_dropped(lasting: Lasting) -> None:
    first = lasting.open()
    first.run("x = 1")
    first._talk._link.send(b'{"op": "run", "id": "torn", "code": "x = 2"')
    first._talk._link.close()
    second = lasting.open()
    assert second.run("x").result == "1"
    assert not second.knows("torn")


def test_a_stray_cell_is_ended(lasting: Lasting) -> None:
    end(lasting.held_elsewhere("print('on', flush=True)\nwhile True: pass", until="on"))
    session = lasting.open()
    session.stop_stray()
    assert session.run("x").result == "41"


CALLS = "try:\n    print(other())\n    print(slow(7))\nexcept HostCallError as error:\n    print(error)"


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_call_whose_outcome_nobody_knows_is_made_again_only_where_that_does_no_harm(
    lasting: Lasting, idempotent: bool
) -> None:
    end(lasting.held_elsewhere(CALLS, until="called"))
    session = lasting.open()
    made: list[int] = []

    def slow(number: int) -> int:
        made.append(number)
        return number * 2

    session.offer([HostFunction("slow", slow, idempotent=idempotent)])
    record = session.follow("second")
    if idempotent:
        assert (record.stdout.text, made) == ("None\n14\n", [7])
    else:
        assert made == []
        assert "it is not known whether slow was called" in record.stdout.text
    assert [call.tool for call in record.host_calls] == ["other", "slow"]
    assert record.host_calls[0].result == "null"


def test_a_call_that_nobody_took_up_is_made_once(lasting: Lasting, monkeypatch: pytest.MonkeyPatch) -> None:
    first = lasting.open()
    first.offer([HostFunction("count", lambda: 1)])
    # As if this process were gone between the two.
    monkeypatch.setattr(first._calls, "take", lambda cell, message: None)
    first.start("count()", cell_id="one")
    while not first._talk.gone:
        second = _taken_over(lasting, first)
    made: list[int] = []

    def count() -> int:
        made.append(1)
        return 5

    second.offer([HostFunction("count", count)])
    record = second.follow("one")
    assert (record.result, made) == ("5", [1])


def _taken_over(lasting: Lasting, first: BoxSession) -> BoxSession:
    first._talk.close()
    return lasting.open()


def test_the_clock_stands_while_the_host_works(lasting: Lasting) -> None:
    session = lasting.open()

    def slow() -> int:
        import time

        time.sleep(1.5)
        return 1

    session.offer([HostFunction("slow", slow)])
    record = session.run("slow() + slow()", timeout=1)
    assert (record.outcome, record.result) == ("ok", "2")
    ended = session.run("slow()\nwhile True: pass", timeout=1)
    assert ended.outcome == "timeout"


def test_an_interrupt_ends_a_cell_that_waits_for_the_host(lasting: Lasting) -> None:
    import threading

    session = lasting.open()
    waiting, go_on = threading.Event(), threading.Event()

    def stuck() -> None:
        waiting.set()
        go_on.wait(30)

    session.offer([HostFunction("stuck", stuck)])
    cell = session.start("stuck()")
    assert waiting.wait(20)
    session.interrupt()
    record = cell.wait(20)
    go_on.set()
    assert record.outcome == "cancelled"
    assert record.host_calls[0].error == "the cell ended before the answer came"
    assert session.run("1 + 1").result == "2"


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("fail()", "fail failed: ValueError: no such city"),
        ("odd()", "its result is no plain data"),
        ("missing()", "NameError"),
        ("double(object())", "must be plain data"),
        ("double(1, 2)", "TypeError"),
    ],
)
def test_what_goes_wrong_in_a_call_is_raised_in_the_cell(lasting: Lasting, call: str, told: str) -> None:
    session = lasting.open()

    def fail() -> None:
        raise ValueError("no such city")

    functions: list[Callable[..., object]] = [fail, lambda: object(), lambda number: number * 2]
    session.offer([HostFunction(name, made) for name, made in zip(("fail", "odd", "double"), functions, strict=True)])
    record = session.run(call)
    assert record.outcome == "error"
    assert record.error is not None
    assert told in f"{record.error.type}: {record.error.message}"


def test_many_threads_call_at_once_and_large_values_cross(lasting: Lasting) -> None:
    session = lasting.open()
    session.offer([HostFunction("double", lambda value: value * 2)])
    record = session.run(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(8) as pool:\n    results = list(pool.map(double, range(40)))\n"
        "results == [2 * n for n in range(40)], len(double('x' * 3_000_000))"
    )
    assert record.result == "(True, 6000000)"
    assert len(record.host_calls) == 41
