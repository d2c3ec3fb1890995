"""Processes, threads, signals and patches that a cell leaves: none of them confuses the session."""

import time
from collections.abc import Callable

import pytest

from actloop.protocols import Execution
from actloop.sandbox.session import BoxSession

Open = Callable[..., BoxSession]
Run = Callable[..., Execution]


# -- forks --------------------------------------------------------------------------------------------------------


def test_a_pool_runs_functions_of_the_cell(run: Run) -> None:
    record = run(
        "import multiprocessing as mp\ndef sq(n): return n * n", "with mp.Pool(2) as p: r = p.map(sq, range(5))\nr"
    )
    assert record.result == "[0, 1, 4, 9, 16]"


@pytest.mark.parametrize("pool", ["ProcessPoolExecutor", "ThreadPoolExecutor"])
def test_executors_run_functions_of_the_cell(run: Run, pool: str) -> None:
    record = run(
        f"import concurrent.futures as cf\ndef sq(n): return n * n\n"
        f"with cf.{pool}(2) as p: r = list(p.map(sq, range(4)))\nr"
    )
    assert record.result == "[0, 1, 4, 9]"


def test_an_error_in_a_pool_reaches_the_cell(session: BoxSession) -> None:
    record = session.run(
        "import multiprocessing as mp\ndef bad(n): return 1 / n\nwith mp.Pool(1) as p: p.map(bad, [0])"
    )
    assert record.error is not None
    assert record.error.type == "ZeroDivisionError"


def test_a_process_with_a_queue_and_shared_memory_works(open_box: Open) -> None:
    # In a box of its own, because it leaves a process that keeps watch over the shared memory.
    record = open_box().run(
        "import multiprocessing as mp\nfrom multiprocessing import shared_memory\n"
        "def put(q, name):\n    m = shared_memory.SharedMemory(name); m.buf[0] = 7; m.close(); q.put('done')\n"
        "m = shared_memory.SharedMemory(create=True, size=16); q = mp.Queue()\n"
        "p = mp.Process(target=put, args=(q, m.name)); p.start(); got = q.get(); p.join(); v = m.buf[0]\n"
        "m.close(); m.unlink(); q.close(); q.join_thread()\ngot, v, p.exitcode"
    )
    assert record.result == "('done', 7, 0)"


def test_a_forked_child_that_returns_ends_and_the_cell_is_reported_once(run: Run) -> None:
    record = run(
        "import os\npid = os.fork()\nprint('parent' if pid else 'child', flush=True)\nif pid: os.wait()\n'value'"
    )
    assert sorted(record.stdout.text.split()) == ["child", "parent"]
    assert record.result == "'value'"
    assert record.notes == ()
    assert run("1 + 1").result == "2"


@pytest.mark.parametrize(
    ("end", "status"),
    [("pass", 0), ("sys.exit(7)", 7), ("raise ValueError('in child')", 1), ("os._exit(9)", 9), ("exit()", 0)],
)
def test_a_forked_child_ends_as_its_code_says(run: Run, end: str, status: int) -> None:
    record = run(
        f"import os, sys\nif (pid := os.fork()) == 0:\n    {end}\nelse:\n"
        f"    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n"
        "    print(status)"
    )
    assert record.stdout.text == f"{status}\n"
    assert ("in child" in record.stderr.text) is ("in child" in end)


def test_a_child_that_outlives_its_cell_does_not_answer_for_a_later_one(session: BoxSession) -> None:
    session.run("import os, time\npid = os.fork()\nif pid == 0: time.sleep(0.4)\nwho = 'parent' if pid else 'child'")
    record = session.run("time.sleep(0.8); who")
    assert record.result == "'parent'"


def test_a_child_with_the_channel_in_its_hands_cannot_end_the_session(session: BoxSession) -> None:
    session.run("import os\nif os.fork() == 0:\n    os.closerange(3, 256)\nelse:\n    os.wait()")
    assert session.run("2 + 2").result == "4"


def test_vfork_and_posix_spawn_children_work(run: Run) -> None:
    record = run("import os\npid = os.posix_spawn('/bin/echo', ['echo', 'spawned'], os.environ)\nos.waitpid(pid, 0)[1]")
    assert (record.stdout.text, record.result) == ("spawned\n", "0")


def test_zombies_are_not_reported_as_running(run: Run) -> None:
    record = run("import subprocess, time\np = subprocess.Popen(['true']); time.sleep(0.2)")
    assert record.notes == ()
    assert run("p.wait()").result == "0"


def test_a_server_in_the_background_serves_later_cells(run: Run) -> None:
    run(
        "import subprocess, sys, time, urllib.request\n"
        "server = subprocess.Popen([sys.executable, '-m', 'http.server', '8123', '--bind', "
        "'127.0.0.1'], stderr=subprocess.DEVNULL,"
        " stdout=subprocess.DEVNULL)\ntime.sleep(1.5)"
    )
    record = run(
        "status = urllib.request.urlopen('http://127.0.0.1:8123/').status\nserver.kill(); server.wait(); status"
    )
    assert record.result == "200"


def test_more_than_a_few_processes_left_behind_are_ended(session: BoxSession) -> None:
    record = session.run("import subprocess\nleft = [subprocess.Popen(['sleep', '60']) for _ in range(20)]")
    assert record.notes == ("20 processes that the cell left running were ended",)
    assert session.run("all(p.wait(timeout=5) is not None for p in left)").result == "True"


# -- threads ------------------------------------------------------------------------------------------------------


def test_threads_of_one_cell_serve_the_next(run: Run) -> None:
    run(
        "import queue, threading\nq, r = queue.Queue(), queue.Queue()\n"
        "t = threading.Thread(target=lambda: [r.put(v * 2) for v in iter(q.get, None)]); t.start()"
    )
    assert run("q.put(4); v = r.get(timeout=5); q.put(None); t.join(); v").result == "8"


def test_an_end_with_threads_says_that_they_are_gone(session: BoxSession) -> None:
    session.run(
        "import threading\nstop = threading.Event()\nt = threading.Thread(target=stop.wait); t.start()\nkept = 1"
    )
    record = session.run("import os; os._exit(3)")
    assert record.state == "rolled_back"
    assert any("threads" in note for note in record.notes)
    assert session.run("kept").result == "1"


def test_an_error_in_a_thread_is_on_stderr(run: Run) -> None:
    record = run("import threading\nt = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()")
    assert "ZeroDivisionError" in record.stderr.text


def test_a_fork_beside_threads_warns_nobody_of_our_own_doing(session: BoxSession) -> None:
    session.run(
        "import threading, warnings\nwarnings.simplefilter('error')\n"
        "stop = threading.Event()\nthreading.Thread(target=stop.wait).start()"
    )
    record = session.run("print('mine')")
    assert (record.outcome, record.output.text) == ("ok", "mine\n")
    session.run("stop.set(); warnings.resetwarnings()")


# -- signals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "handler", ["lambda *a: print('rang')", "signal.SIG_DFL", "lambda *a: 1 / 0", "lambda *a: exit(3)"]
)
def test_an_alarm_that_is_still_set_at_the_end_never_rings_later(session: BoxSession, handler: str) -> None:
    record = session.run(
        f"import signal, time\nsignal.signal(signal.SIGALRM, {handler})\n"
        f"signal.setitimer(signal.ITIMER_REAL, 0.2)\nkept = 1"
    )
    assert any("alarm" in note for note in record.notes)
    time.sleep(0.4)
    after = session.run("print('mine'); kept")
    assert (after.outcome, after.output.text, after.result) == ("ok", "mine\n", "1")
    assert session.run("import signal; signal.getitimer(signal.ITIMER_REAL)").result == "(0.0, 0.0)"


def test_an_alarm_within_the_cell_works(session: BoxSession) -> None:
    record = session.run(
        "import signal, time\ndef ring(*a): raise TimeoutError('rang')\nsignal.signal(signal.SIGALRM, ring)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.1)\ntime.sleep(5)"
    )
    assert record.error is not None
    assert (record.error.type, record.error.message) == ("TimeoutError", "rang")


def test_a_signal_between_cells_reaches_the_handler_in_the_next(session: BoxSession) -> None:
    session.run(
        "import os, signal, subprocess\nseen = []\nsignal.signal(signal.SIGUSR1, lambda *a: seen.append(1))\n"
        "child = subprocess.Popen(f'sleep 0.2; kill -USR1 {os.getpid()}', shell=True)"
    )
    time.sleep(0.5)
    assert session.run("child.wait(); seen").result == "[1]"


def test_a_handler_of_the_interrupt_is_for_its_cell_only(session: BoxSession) -> None:
    session.run("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nkept = 1")
    record = session.run("import time\ntime.sleep(30)", timeout=0.3)
    assert (record.outcome, record.state) == ("timeout", "kept")


def test_a_cell_may_interrupt_itself(session: BoxSession) -> None:
    record = session.run("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(5)")
    assert (record.outcome, record.state) == ("error", "kept")
    assert record.error is not None
    assert record.error.type == "KeyboardInterrupt"


# -- patches ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "import builtins\n"
        "for n in ('print', 'len', 'isinstance', 'open', 'repr', 'str', 'dict', 'set', 'sorted', 'type'):\n"
        "    globals()['saved_' + n] = getattr(builtins, n)\n    setattr(builtins, n, None)",
        "import sys\n"
        "for n in [n for n in sys.modules if not n.startswith(('encodings', '_')) and n not in "
        "('sys', 'builtins')]: del sys.modules[n]",
        "import os\n"
        "for n in ('write', 'read', 'fork', 'getpid', '_exit', 'fstat', 'dup2', 'close'): setattr(os, n, None)",
        "import time, signal, json, socket\n"
        "time.sleep = time.monotonic = signal.signal = json.dumps = json.loads = socket.socket = None",
        "import sys\nsys.path[:] = []; sys.meta_path[:] = []; sys.path_hooks[:] = []",
        "import linecache, traceback\nlinecache.getline = traceback.TracebackException = None",
        "import sys\nsys.settrace(lambda *a: 1 / 0); sys.setprofile(lambda *a: None)",
        "import sys, threading\nsys.excepthook = sys.displayhook = sys.unraisablehook = None",
        "import gc\ngc.disable(); gc.set_threshold(1)",
        "import locale, os\nos.environ.clear(); os.chdir('/')",
        "import sys\nsys.setrecursionlimit(120)",
        "globals().clear()",
        "__name__ = 'other'; __builtins__ = {}",
        "import sys\nsys.modules['__main__'] = None",
        "import asyncio\nasyncio.get_event_loop_policy().set_event_loop(None); asyncio.run = None",
    ],
)
def test_whatever_a_cell_patches_its_end_is_told_and_the_session_goes_on(own_box: BoxSession, code: str) -> None:
    own_box.run("kept = 1")
    record = own_box.run(code)
    assert record.state in ("kept", "rolled_back"), record
    after = own_box.run("6 * 7")
    assert after.outcome == "ok", (record, after)
    assert own_box.run("import os; os.kill(os.getpid(), 9)").outcome in ("crashed", "error")
    assert own_box.run("6 * 7").result == "42"


@pytest.fixture
def own_box(open_box: Open) -> BoxSession:
    return open_box()


def test_a_patched_builtin_stays_patched_and_the_record_is_right(session: BoxSession) -> None:
    session.run("import builtins\nold_len = len\nbuiltins.len = lambda v: 99")
    record = session.run("made = [1]\nlen(made)")
    assert record.result == "99"
    assert [info.detail for info in record.names.created] == ["len 1"]
    session.run("builtins.len = old_len")
