"""Limits of time, processes, disk and output: reached, told, and the session goes on."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from actloop.config import Limits
from actloop.protocols import Execution
from actloop.sandbox import open_session
from actloop.sandbox.session import BoxSession

Open = Callable[..., BoxSession]


def overrun(session: BoxSession, code: str, timeout: float = 0.5) -> tuple[Execution, float]:
    """Run a cell past its limit; returns its record and the seconds that control took to come back after the limit."""
    session.run("x = 'from before'")
    begin = time.monotonic()
    record = session.run(code, timeout=timeout)
    late = time.monotonic() - begin - timeout
    assert (record.outcome, record.exit_code, record.ok) == ("timeout", 124, False), record
    assert session.run("x").result == "'from before'"
    return record, late


@pytest.mark.parametrize(
    "code",
    [
        "import time\ntime.sleep(30)",
        "while True: pass",
        "import threading\nthreading.Event().wait(30)",
        "import subprocess\nsubprocess.run(['sleep', '30'])",
        "import os\nos.system('sleep 30')",
        "import asyncio\nawait asyncio.sleep(30)",
        "import asyncio\nasyncio.run(asyncio.sleep(30))",
        "import threading, time\n"
        "t = threading.Thread(target=time.sleep, args=(1,)); t.start(); t.join(); time.sleep(30)",
        "import queue\nqueue.Queue().get()",
        "import socket\ns = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); s.accept()",
        "import os\nr, w = os.pipe(); os.read(r, 1)",
        "n = 7\nn ** 10 ** 9",
        "import re\nre.match('(a+)+b', 'a' * 40)",
        "import concurrent.futures as cf, time\nwith cf.ThreadPoolExecutor(1) as p: time.sleep(30)",
    ],
)
def test_code_that_obeys_the_interrupt_keeps_its_variables(session: BoxSession, code: str) -> None:
    record, late = overrun(session, "made = 1\n" + code)
    assert (record.state, record.error) == ("kept", None)
    assert session.run("made").result == "1"
    assert late < 1


@pytest.mark.parametrize(
    "code",
    [
        "import time\nwhile True:\n    try:\n        time.sleep(1)\n    except BaseException:\n        pass",
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
        "import signal\nsignal.signal(signal.SIGINT, lambda *a: None)\nwhile True: pass",
        "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\ntime.sleep(30)",
        "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
        "import threading\nl = threading.Lock(); l.acquire()\nwhile True:\n    try: l.acquire()\n"
        "    except BaseException: pass",
        "sum(range(10 ** 12))",
    ],
)
def test_code_that_ignores_the_interrupt_is_killed_and_rolled_back(session: BoxSession, code: str) -> None:
    record, late = overrun(session, "x = 'changed'\nprint('begun')\n" + code)
    assert record.state == "rolled_back"
    assert record.stdout.text.startswith("begun\n")
    assert any("killed" in note for note in record.notes)
    # Half a second on a quiet machine; the copy wakes slower where others work beside it.
    assert late < 1.5


def test_output_before_the_time_limit_is_kept_though_never_flushed(session: BoxSession) -> None:
    record, _ = overrun(session, "import time\nfor i in range(100):\n    print('step', i)\n    time.sleep(0.2)", 0.7)
    assert record.stdout.text.startswith("step 0\nstep 1\n")


def test_output_of_a_killed_flood_is_kept_to_the_last_line(session: BoxSession) -> None:
    record, _ = overrun(
        session,
        "import signal, sys\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nfor i in range(20_000): print('line', i)\n"
        "sys.stdout.write('the end')\nwhile True: pass",
        2,
    )
    assert record.stdout.text.endswith("line 19999\nthe end")


def test_a_timed_out_cell_does_not_run_on(session: BoxSession) -> None:
    overrun(session, "import time\ntime.sleep(1.2)\nopen('late.txt', 'w').write('x')")
    time.sleep(1.2)
    assert "late.txt" not in {info.path for info in session.ls()}


def test_children_of_a_killed_cell_do_not_run_on(session: BoxSession) -> None:
    overrun(
        session,
        "import signal, subprocess\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "subprocess.Popen(['sh', '-c', 'trap \"\" INT; sleep 1.2; touch late2.txt'])\nwhile True: pass",
    )
    time.sleep(1.2)
    assert "late2.txt" not in {info.path for info in session.ls()}


def test_an_interrupted_finally_still_runs(session: BoxSession) -> None:
    overrun(session, "import time\ntry:\n    time.sleep(30)\nfinally:\n    print('closed')\n    done = 1")
    assert session.run("done").result == "1"


def test_a_time_limit_is_never_an_error_of_the_code(session: BoxSession) -> None:
    record, _ = overrun(
        session, "import time\ntry:\n    time.sleep(30)\nexcept KeyboardInterrupt:\n    raise ValueError('x')"
    )
    assert record.error is None


def test_code_that_ends_just_before_its_limit_is_not_interrupted_later(session: BoxSession) -> None:
    for _ in range(5):
        first = session.run("import time; time.sleep(0.2)", timeout=0.21)
        assert first.outcome in ("ok", "timeout")
        second = session.run("total = 0\nfor i in range(300_000): total += i\ntotal")
        assert (second.outcome, second.result) == ("ok", "44999850000"), second


@pytest.fixture(scope="module")
def hasty_box(image: str) -> Iterator[BoxSession]:
    with open_session("docker", limits=Limits.model_validate({"wall_s": 1})) as session:
        yield session


@pytest.mark.parametrize("asked", [-1, 0, 1_000_000, float("inf"), float("nan"), "10", "soon", None, [], True])
def test_a_senseless_time_limit_is_replaced_by_the_maximum(hasty_box: BoxSession, asked: object) -> None:
    begin = time.monotonic()
    record = hasty_box.run("while True: pass", timeout=asked)  # type: ignore[arg-type]
    assert record.outcome == "timeout"
    assert 0.9 < time.monotonic() - begin < 3


def test_a_fork_bomb_meets_the_process_limit_and_the_session_goes_on(session: BoxSession) -> None:
    session.run("x = 1")
    record = session.run(
        "import os, time\nkids = []\ntry:\n    for i in range(2000):\n        pid = os.fork()\n"
        "        if pid == 0:\n            time.sleep(5)\n            os._exit(0)\n        kids.append(pid)\n"
        "except OSError as e:\n    print(type(e).__name__, e.errno)"
    )
    assert record.stdout.text == "BlockingIOError 11\n"
    assert any("ended" in note for note in record.notes)
    after = session.run("import subprocess\nx, len(kids) < 128, subprocess.run(['echo']).returncode")
    assert after.result == "(1, True, 0)"


@pytest.mark.parametrize(
    "code",
    [
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        "import os\nos.system(':(){ :|:& };:')\nimport time\ntime.sleep(1)",
        "import subprocess\nkeep = [subprocess.Popen(['sleep', '60']) for _ in range(500)]",
    ],
)
def test_other_bombs_do_not_end_the_session(session: BoxSession, code: str) -> None:
    session.run("x = 7")
    session.run(code, timeout=2)
    assert session.run("x").result == "7"
    after = session.run("import subprocess; subprocess.run(['echo', 'ok']).returncode")
    assert after.result == "0", after


def test_a_thread_bomb_is_an_error(session: BoxSession) -> None:
    record = session.run(
        "import threading\nstop = threading.Event()\nts = []\ntry:\n    for _ in range(2000):\n"
        "        t = threading.Thread(target=stop.wait); t.start(); ts.append(t)\n"
        "except RuntimeError as e:\n    print(e)\nfinally:\n    stop.set()\n    for t in ts: t.join()"
    )
    assert record.stdout.text == "can't start new thread\n"


def test_a_full_disk_is_an_error_of_the_writer(session: BoxSession) -> None:
    record = session.run("with open('big', 'wb') as f:\n    while True:\n        f.write(bytes(1 << 20))")
    assert record.error is not None
    assert record.error.type in ("OSError", "builtins.OSError")
    assert session.run("import os\nos.remove('big')\nopen('small', 'w').write('x')").outcome == "ok"


def test_a_full_disk_leaves_the_output(session: BoxSession) -> None:
    session.run(
        "with open('big', 'wb') as f:\n    try:\n        while True: f.write(bytes(1 << 20))\n    except OSError: pass"
    )
    record = session.run("for i in range(50_000): print('row', i)")
    assert record.outcome == "ok"
    assert record.stdout.cut
    assert record.stdout.text.startswith("row 0\n")
    assert record.stdout.text.endswith("row 49999\n")
    session.run("import os; os.remove('big')")


def test_too_many_files_are_an_error_of_the_writer(open_box: Open) -> None:
    session = open_box(files=256)
    record = session.run("for i in range(1000): open(f'f{i}', 'w').close()")
    assert record.error is not None
    assert "No space left" in record.error.message
    assert len(session.ls()) > 200


def test_too_many_open_files_are_an_error_and_the_next_cell_runs(session: BoxSession) -> None:
    record = session.run("fs = []\nwhile True: fs.append(open('/dev/null'))")
    assert record.error is not None
    assert "Too many open files" in record.error.message
    assert session.run("fs.clear(); 1").result == "1"


def test_there_is_no_network(session: BoxSession) -> None:
    record = session.run(
        "import socket\ntry:\n    socket.create_connection(('192.0.2.1', 80), 2)\n"
        "except OSError as e:\n    print('no route', e.errno)"
    )
    assert record.stdout.text == "no route 101\n"


def test_loopback_works(session: BoxSession) -> None:
    record = session.run(
        "import socket\ns = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()\n"
        "c = socket.create_connection(s.getsockname()); a, _ = s.accept(); c.sendall(b'hi'); a.recv(2)"
    )
    assert record.result == "b'hi'"


def test_measures_are_of_this_cell(session: BoxSession) -> None:
    busy = session.run("import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass")
    assert 0.25 < busy.cpu_s < 1.5
    idle = session.run("import time; time.sleep(0.3)")
    assert idle.wall_s > 0.29
    assert idle.cpu_s < 0.2
    big = session.run("b = bytearray(100 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\ndel b")
    assert big.peak_bytes > 100 << 20
    assert session.run("1").peak_bytes < big.peak_bytes - (50 << 20)


def test_the_host_process_can_end_while_threads_wait_on_a_cell(session: BoxSession) -> None:
    cell = session.start("import time; time.sleep(20)")
    waiter = threading.Thread(target=cell.wait)
    waiter.start()
    cell.cancel()
    waiter.join(5)
    assert not waiter.is_alive()
