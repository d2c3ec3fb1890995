"""Calls from cells to functions of the host: awaited, checked, of bytes and tables, bounded."""

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from actloop.config import Limits
from actloop.errors import CallPending
from actloop.protocols import CallAnswer, CallRules
from actloop.sandbox import open_session
from actloop.sandbox.host_functions import HostFunction
from actloop.sandbox.session import BoxSession

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def box(image: str) -> Iterator[BoxSession]:
    with open_session("docker", limits=Limits(wall_s=60)) as session:
        yield session


class Crowd:
    """Counts how many are inside at one time, and lets them out when so many have come."""

    def __init__(self, enough: int) -> None:
        self._enough = enough
        self._lock = threading.Lock()
        self._full = threading.Event()
        self._inside = 0
        self.most = 0

    def enter(self) -> None:
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)
            if self._inside >= self._enough:
                self._full.set()

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1

    def look_up(self, number: int) -> int:
        self.enter()
        assert self._full.wait(20)
        self.leave()
        return number * 2

    async def alook_up(self, number: int) -> int:
        self.enter()
        until = time.monotonic() + 20
        while not self._full.is_set():
            assert time.monotonic() < until
            await asyncio.sleep(0.01)
        self.leave()
        return number * 2


GATHER = """
import asyncio
async def every():
    return await asyncio.gather(*(look_up(i) for i in range(100)))
asyncio.run(every()) == [2 * i for i in range(100)]
"""


@pytest.mark.parametrize(("name", "at_once"), [("look_up", 32), ("alook_up", 100)])
def test_gathered_calls_run_at_the_same_time_on_the_host(box: BoxSession, name: str, at_once: int) -> None:
    crowd = Crowd(at_once)
    box.offer([HostFunction("look_up", getattr(crowd, name), "(number: int) -> int")])
    record = box.run(GATHER)
    assert (record.result, crowd.most) == ("True", at_once)
    assert [call.number for call in record.host_calls] == list(range(1, 101))


def test_a_thousand_calls_at_once_need_no_thousand_descriptors(box: BoxSession) -> None:
    box.offer([HostFunction("look_up", lambda number: number * 2)])
    record = box.run("import asyncio\nlen(await asyncio.gather(*(look_up(i) for i in range(1000))))")
    assert (record.result, len(record.host_calls)) == ("1000", 1000)


@pytest.mark.parametrize(
    "code",
    [
        "look_up(21)",
        "await look_up(21)",
        "import asyncio\nasync def f():\n    task = asyncio.create_task(look_up(21))\n    return await task\nawait f()",
        "import asyncio\nawait asyncio.wait_for(look_up(21), 10)",
        "import threading\nout = []\nt = threading.Thread(target=lambda: out.append(look_up(21)))\n"
        "t.start(); t.join(); out[0]",
    ],
)
def test_a_call_waits_where_no_loop_runs_and_is_awaited_where_one_does(box: BoxSession, code: str) -> None:
    async def look_up(number: int) -> int:
        await asyncio.sleep(0)
        return number * 2

    for function in (look_up, lambda number: number * 2):
        box.offer([HostFunction("look_up", function)])
        assert box.run(code).result == "42"


def test_an_error_is_raised_where_the_call_is_awaited(box: BoxSession) -> None:
    async def look_up() -> int:
        raise LookupError("no such city")

    box.offer([HostFunction("look_up", look_up)])
    record = box.run("try:\n    await look_up()\nexcept HostCallError as error:\n    print(error)")
    assert record.stdout.text == "look_up failed: LookupError: no such city\n"


def test_what_waits_on_the_hosts_loop_is_cancelled_with_its_cell(box: BoxSession) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def look_up() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    box.offer([HostFunction("look_up", look_up)])
    cell = box.start("look_up()")
    assert begun.wait(20)
    cell.cancel()
    assert cell.wait(20).outcome == "cancelled"
    assert ended.wait(20)


def test_a_function_has_its_signature_and_its_help(box: BoxSession) -> None:
    box.offer([HostFunction("look_up", len, "(city: str, *, days: int = 1) -> dict", "Weather of a city.\n\nMore.")])
    record = box.run("import inspect\nprint(inspect.signature(look_up))\nhelp(look_up)")
    assert record.stdout.text.startswith("(city: 'str', *, days: 'int' = 1) -> 'dict'\n")
    assert "look_up(city: 'str'" in record.stdout.text
    assert "Weather of a city.\n" in record.stdout.text


@pytest.mark.parametrize("call", ["look_up()", "look_up(1, 2)", "look_up('x', town='y')", "await look_up()"])
def test_arguments_that_do_not_fit_are_a_type_error_and_no_call(box: BoxSession, call: str) -> None:
    box.offer([HostFunction("look_up", len, "(city: str, *, days: int = 1) -> dict")])
    record = box.run(call)
    assert record.error is not None
    assert record.error.type == "TypeError"
    assert "look_up()" in record.error.message
    assert record.host_calls == ()


def test_bytes_and_tables_cross_both_ways(box: BoxSession) -> None:
    import pandas

    seen: list[object] = []

    def twice(thing: object) -> object:
        seen.append(thing)
        return {"first": thing, "again": [thing]}

    box.offer([HostFunction("twice", twice)])
    record = box.run(
        "import pandas as pd, pyarrow as pa, numpy as np\n"
        "table = pd.DataFrame({'day': pd.to_datetime(['2024-01-31', None]), 'n': [1, 2]}, index=['a', 'b'])\n"
        "out = twice(table)\n"
        "assert out['first'].equals(table) and out['again'][0].equals(table)\n"
        "assert twice(pa.table({'x': [1, None]}))['first'].to_pydict() == {'x': [1, None]}\n"
        "assert twice(b'\\x00\\xff')['first'] == b'\\x00\\xff'\n"
        "odd = pd.DataFrame({'x': [1, 'a']})\n"
        "assert twice(odd)['first'].equals(odd)\n"
        "print(twice([np.int64(3), np.array([1.5]), pd.Timestamp('2024-01-31'), {4}])['first'])"
    )
    assert (record.outcome, record.stdout.text) == ("ok", "[3, [1.5], '2024-01-31T00:00:00', [4]]\n"), record.error
    assert isinstance(seen[0], pandas.DataFrame)
    assert seen[2] == b"\x00\xff"


def test_what_is_too_large_to_cross_is_said_on_either_side(box: BoxSession) -> None:
    box.offer([HostFunction("echo", lambda value: value), HostFunction("much", lambda: b"x" * (20 << 20))])
    record = box.run(
        "for call in (lambda: echo(b'x' * (20 << 20)), lambda: much()):\n"
        "    try:\n        call()\n    except Exception as error:\n        print(type(error).__name__, error)\n"
        "len(echo(b'x' * (14 << 20)))"
    )
    told = record.stdout.text.splitlines()
    assert told[0].startswith("TypeError the arguments of echo")
    assert told[1].startswith("HostCallError much was called, but")
    assert all("20971520 may cross" in line for line in told)
    assert record.result == str(14 << 20)


def test_calls_beyond_the_limit_of_a_cell_are_not_made(image: str) -> None:
    made: list[int] = []
    with open_session("docker", limits=Limits(host_calls=2)) as session:
        session.offer([HostFunction("note", made.append)])
        for _ in range(2):
            record = session.run("for i in range(4):\n    note(i)")
            assert record.error is not None
            assert record.error.type == "HostCallError"
            assert "may make 2 calls" in record.error.message
        rules = CallRules(most=1, over="enough for today")
        record = session.run("for i in range(4):\n    note(i)", calls=rules)
        assert record.error is not None
        assert record.error.message == "enough for today"
    assert made == [0, 1, 0, 1, 0]


def test_a_cell_waits_for_a_person_and_goes_on_with_the_answer(box: BoxSession) -> None:
    made: list[str] = []

    def send(text: str) -> str:
        made.append(text)
        return f"sent {text}"

    def look_up() -> int:
        made.append("looked up")
        return 1

    box.offer([HostFunction("send", send, needs_approval=True), HostFunction("look_up", look_up)])
    code = "look_up()\nfor text in 'abc':\n    try:\n        print(send(text))\n    except HostCallError as e: print(e)"
    answers: dict[int, CallAnswer] = {}
    with pytest.raises(CallPending) as first:
        box.run(code, cell_id="asks", calls=CallRules(ask=True), timeout=2)
    assert (first.value.call.number, first.value.call.tool, made) == (2, "send", ["looked up"])
    assert box.waits
    # The clock of a cell that waits stands.
    time.sleep(2.5)
    answers[2] = CallAnswer(approved=True)
    with pytest.raises(CallPending) as second:
        box.follow("asks", calls=CallRules(ask=True, answers=answers))
    assert (second.value.call.number, made) == (3, ["looked up", "a"])
    answers[3] = CallAnswer(approved=False, reason="not to them")
    with pytest.raises(CallPending):
        box.follow("asks", calls=CallRules(ask=True, answers=answers))
    answers[4] = CallAnswer(approved=True, arguments='{"args": ["C"], "kwargs": {}}')
    record = box.follow("asks", calls=CallRules(ask=True, answers=answers))
    assert record.stdout.text == "sent a\nsend was not called: not to them\nsent C\n"
    assert made == ["looked up", "a", "C"]
    assert not box.waits


def test_a_question_waits_for_the_other_calls_of_its_cell(box: BoxSession) -> None:
    done: list[int] = []

    def slow(number: int) -> int:
        time.sleep(0.3)
        done.append(number)
        return number

    box.offer([HostFunction("send", lambda: "sent", needs_approval=True), HostFunction("slow", slow)])
    code = "import asyncio\nawait asyncio.gather(slow(1), send(), slow(2), send())"
    with pytest.raises(CallPending):
        box.run(code, cell_id="gathers", calls=CallRules(ask=True))
    assert sorted(done) == [1, 2]
    with pytest.raises(CallPending):
        box.follow("gathers", calls=CallRules(ask=True, answers={2: CallAnswer(approved=True)}))
    answers = {2: CallAnswer(approved=True), 4: CallAnswer(approved=True)}
    record = box.follow("gathers", calls=CallRules(ask=True, answers=answers))
    assert (record.result, sorted(done)) == ("[1, 'sent', 2, 'sent']", [1, 2])


def test_where_nobody_can_be_asked_the_call_is_refused(box: BoxSession) -> None:
    box.offer([HostFunction("send", lambda: "sent", needs_approval=True)])
    record = box.run("send()")
    assert record.error is not None
    assert "needs a person's approval, and nobody can be asked" in record.error.message


def test_a_waiting_cell_that_nobody_wants_is_ended(box: BoxSession) -> None:
    box.offer([HostFunction("send", lambda: "sent", needs_approval=True)])
    with pytest.raises(CallPending):
        box.run("send()", cell_id="left", calls=CallRules(ask=True))
    box.stop_stray()
    assert not box.waits
    assert box.run("1 + 1").result == "2"
