"""A cell while it runs: events, interrupts, background, cancellation."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable

import pytest

from actloop.errors import SandboxLost, SessionBusy
from actloop.protocols import Event
from actloop.sandbox.cell import MAX_WAITING, MAX_WAITING_BYTES, RunningCell
from actloop.sandbox.session import BoxSession

Open = Callable[..., BoxSession]


def text(events: list[Event], kind: str = "stdout") -> str:
    return "".join(event.text for event in events if event.kind == kind)


def test_output_comes_while_the_cell_runs(session: BoxSession) -> None:
    seen: list[tuple[float, Event]] = []
    begin = time.monotonic()
    record = session.run(
        "import sys, time\nprint('one')\ntime.sleep(0.6)\nprint('two', file=sys.stderr)",
        on_event=lambda event: seen.append((time.monotonic() - begin, event)),
    )
    assert [(event.kind, event.text) for _, event in seen] == [("stdout", "one\n"), ("stderr", "two\n")]
    assert seen[0][0] < 0.5
    assert seen[1][0] > 0.6
    assert record.output.text == "one\ntwo\n"


def test_displays_come_live(session: BoxSession) -> None:
    events: list[Event] = []
    session.run("import pandas as pd\ndisplay(pd.DataFrame({'a': [1]}))\nprint('after')", on_event=events.append)
    assert text(events).endswith("after\n")
    assert [event.display.media_type for event in events if event.display] == ["text/html"]


def test_split_characters_come_whole(session: BoxSession) -> None:
    events: list[Event] = []
    session.run(
        "import os, time\nfor b in 'é€😀'.encode():\n    os.write(1, bytes([b])); time.sleep(0.002)",
        on_event=events.append,
    )
    assert text(events) == "é€😀"


def test_a_slow_reader_blocks_nothing_and_learns_what_it_missed(session: BoxSession) -> None:
    events: list[Event] = []

    def slow(event: Event) -> None:
        events.append(event)
        time.sleep(0.01)

    record = session.run("for i in range(60_000): print('line', i)", on_event=slow)
    assert record.outcome == "ok"
    shown = sum(len(event.text) for event in events if event.kind == "stdout")
    skipped = sum(int(event.text) for event in events if event.kind == "skipped")
    assert shown + skipped == record.stdout.total_bytes


def test_what_was_skipped_adds_up_in_a_flood(session: BoxSession) -> None:
    events: list[Event] = []
    record = session.run("for _ in range(40): print('x' * (1 << 20))", on_event=events.append)
    shown = sum(len(event.text) for event in events if event.kind == "stdout")
    skipped = sum(int(event.text) for event in events if event.kind == "skipped")
    assert shown + skipped == record.stdout.total_bytes
    assert skipped > 0


def test_nobody_listening_costs_little(session: BoxSession) -> None:
    cell = session.start("for _ in range(40): print('x' * (1 << 20))")
    assert cell.wait(30).outcome == "ok"
    kept = list(cell.events())
    assert sum(len(event.text) for event in kept if event.kind == "stdout") <= MAX_WAITING_BYTES


def test_events_that_wait_are_bounded_and_counted() -> None:
    cell = RunningCell("c", lambda: None, 60, lambda: None)
    for _ in range(MAX_WAITING * 2):
        cell.push(Event(kind="stdout", text="é"))
    cell.push(Event(kind="skipped", text="1000"))
    for _ in range(10):
        cell.push(Event(kind="stdout", text="x" * MAX_WAITING_BYTES))
    cell.finish(None)
    first, *rest = cell.events()
    assert len(rest) == 1
    assert first.kind == "skipped"
    assert int(first.text) == MAX_WAITING * 2 * 2 + 1000 + 9 * MAX_WAITING_BYTES


def test_an_error_in_the_listener_ends_the_cell_and_reaches_the_caller(session: BoxSession) -> None:
    def bad(event: Event) -> None:
        raise ZeroDivisionError(event.text)

    with pytest.raises(ZeroDivisionError):
        session.run("import time\nprint('x')\ntime.sleep(20)", on_event=bad)
    assert session.run("1").result == "1"


def test_a_cell_in_the_background_is_polled_and_waited_for(session: BoxSession) -> None:
    cell = session.start("import time; time.sleep(0.3); 'done'")
    assert cell.poll() is None
    with pytest.raises(TimeoutError):
        cell.wait(0.05)
    record = cell.wait(5)
    assert record.result == "'done'"
    assert cell.poll() == record == cell.wait()
    assert list(cell.events()) == []


def test_a_session_runs_one_cell_at_a_time(session: BoxSession) -> None:
    cell = session.start("import time; time.sleep(0.3)")
    with pytest.raises(SessionBusy):
        session.run("1")
    with pytest.raises(SessionBusy):
        session.start("1")
    cell.wait()
    assert session.run("1").result == "1"


@pytest.mark.parametrize("obeys", [True, False])
def test_cancelling_a_cell_ends_it_and_keeps_the_session(session: BoxSession, obeys: bool) -> None:
    session.run("kept = 1")
    ignore = "" if obeys else "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    cell = session.start(f"import signal, time\n{ignore}print('begun', flush=True)\ntime.sleep(30)")
    assert next(iter(cell.events())).text == "begun\n"
    cell.cancel()
    record = cell.wait(5)
    cell.cancel()
    assert (record.outcome, record.exit_code, record.ok) == ("cancelled", 130, False)
    assert record.state == ("kept" if obeys else "rolled_back")
    assert (record.error, record.stdout.text) == (None, "begun\n")
    assert session.run("kept").result == "1"


def test_an_interrupt_from_another_thread_ends_the_cell(session: BoxSession) -> None:
    timer = threading.Timer(0.3, session.interrupt)
    timer.start()
    record = session.run("x = 5\nwhile True: pass")
    timer.join()
    assert (record.outcome, record.state) == ("cancelled", "kept")
    assert session.run("x").result == "5"


def test_an_interrupt_without_a_cell_does_nothing(session: BoxSession) -> None:
    session.interrupt()
    assert session.run("import time; time.sleep(0.1); 3").result == "3"


def test_an_interrupt_at_once_after_the_start_ends_the_cell(session: BoxSession) -> None:
    for _ in range(10):
        cell = session.start("while True: pass")
        cell.cancel()
        assert cell.wait(5).outcome == "cancelled"
    assert session.run("1").result == "1"


def test_an_interrupt_never_hits_the_next_cell(session: BoxSession) -> None:
    for pause in range(20):
        cell = session.start("sum(range(1000))")
        time.sleep(pause / 5000)
        cell.cancel()
        assert cell.wait(5).outcome in ("ok", "cancelled")
        after = session.run("sum(range(100_000))")
        assert (after.outcome, after.result) == ("ok", "4999950000"), after


async def test_cells_run_beside_other_tasks(session: BoxSession) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.02)

    ticker = asyncio.create_task(tick())
    record = await session.arun("import time; time.sleep(0.4); 'done'")
    ticker.cancel()
    assert record.result == "'done'"
    assert ticks > 5


async def test_events_come_to_async_callers(session: BoxSession) -> None:
    events: list[Event] = []
    record = await session.arun("for i in range(3): print(i)", on_event=events.append)
    assert text(events) == record.stdout.text == "0\n1\n2\n"
    cell = session.start("print('a'); 5")
    assert [event.text async for event in cell.aevents()] == ["a\n"]
    assert (await cell.await_end()).result == "5"


async def test_cancelling_the_task_cancels_the_cell_and_keeps_the_session(session: BoxSession) -> None:
    await session.arun("kept = 2")
    task = asyncio.create_task(session.arun("made = 1\nwhile True: pass"))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await session.arun("kept, made")).result == "(2, 1)"


async def test_an_async_time_out_of_the_caller_frees_the_session(session: BoxSession) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await session.arun("while True: pass")
    assert (await session.arun("1")).result == "1"


def test_ctrl_c_ends_the_cell_and_goes_on_to_the_caller(session: BoxSession, monkeypatch: pytest.MonkeyPatch) -> None:
    real = RunningCell.wait
    calls: list[float | None] = []

    def interrupted(cell: RunningCell, timeout: float | None = None) -> object:
        calls.append(timeout)
        if len(calls) == 1:
            time.sleep(0.2)
            raise KeyboardInterrupt
        return real(cell, timeout)

    monkeypatch.setattr(RunningCell, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.run("made = 1\nwhile True: pass")
    monkeypatch.undo()
    assert session.run("made").result == "1"


def test_closing_while_a_cell_runs_gives_lost(open_box: Open) -> None:
    session = open_box()
    session.run("held = 1")
    cell = session.start("import time; time.sleep(30)")
    closer = threading.Timer(0.3, session.close)
    closer.start()
    record = cell.wait(10)
    closer.join()
    assert (record.outcome, record.exit_code, record.state, record.lost_names) == ("lost", None, "lost", ("held",))
    assert any("closed" in note for note in record.notes)
    with pytest.raises(SandboxLost, match="closed"):
        session.run("1")
    session.close()
    with contextlib.suppress(SandboxLost):
        session.interrupt()
