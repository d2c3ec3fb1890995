"""When the interpreter dies: the end is told as what it was, and the variables of the turns before are there."""

import time
from collections.abc import Callable

import pytest

from actloop.protocols import Execution
from actloop.sandbox.session import BoxSession

Open = Callable[..., BoxSession]

OOM_BY_KERNEL = """
import mmap
m = mmap.mmap(-1, 4 << 30)
for i in range(0, len(m), 4096):
    m[i] = 1
"""
"""Shared memory is not what the interpreter's own limit counts: only the kernel stops it."""


def died(session: BoxSession, code: str) -> Execution:
    """Run a cell that ends the interpreter, after one whose variables must survive it."""
    session.run("import json\nkept = {'a': [1]}\nclass K: pass\nk = K()\ntext = 'before'")
    record = session.run(code)
    after = session.run("text, kept['a'], type(k) is K, json.dumps(1)")
    assert after.result == "('before', [1], True, '1')", (record, after)
    assert (record.state, record.lost_names) == ("rolled_back", ())
    return record


@pytest.mark.parametrize("code", [3, 1, 7, 255])
def test_os_exit_is_an_exit_with_its_code_and_keeps_the_output(session: BoxSession, code: int) -> None:
    begin = time.monotonic()
    record = died(session, f"import os\nprint('before')\ntext = 'changed'\nos._exit({code})")
    assert (record.outcome, record.exit_code, record.ok) == ("exit", code, False)
    assert record.stdout.text == "before\n"
    assert time.monotonic() - begin < 5


def test_os_exit_0_is_never_success(session: BoxSession) -> None:
    record = died(session, "import os\nprint('almost', end='')\nos._exit(0)")
    assert (record.outcome, record.exit_code, record.ok) == ("crashed", 1, False)
    assert record.stdout.text == "almost"


@pytest.mark.parametrize(
    ("code", "exit_code", "signal"),
    [
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", 137, "SIGKILL"),
        ("import ctypes\nctypes.string_at(0)", 139, "SIGSEGV"),
        ("import os\nos.abort()", 134, "SIGABRT"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nimport time; time.sleep(5)", 143, "SIGTERM"),
        ("import signal, time\nsignal.alarm(1)\ntime.sleep(5)", 142, "SIGALRM"),
        ("import faulthandler; faulthandler._sigfpe()", 136, "SIGFPE"),
        ("import sys\nsys.setrecursionlimit(10**8)\ndef f(): return [*map(lambda _: f(), [1])]\nf()", 139, "SIGSEGV"),
    ],
)
def test_a_crash_is_told_with_its_signal(session: BoxSession, code: str, exit_code: int, signal: str) -> None:
    record = died(session, "print('begun')\n" + code)
    assert (record.outcome, record.exit_code) == ("crashed", exit_code)
    assert any(signal in note for note in record.notes)
    assert record.stdout.text == "begun\n"


def test_a_kill_is_not_taken_for_lack_of_memory(session: BoxSession) -> None:
    record = died(session, "import os\nos.kill(os.getpid(), 9)")
    assert record.outcome == "crashed"


def test_the_kernel_ending_the_interpreter_for_memory_is_out_of_memory(session: BoxSession) -> None:
    record = died(session, "print('big')" + OOM_BY_KERNEL)
    assert (record.outcome, record.exit_code) == ("out_of_memory", 137)
    assert record.stdout.text == "big\n"


def test_the_kernel_ending_a_child_for_memory_leaves_the_interpreter(session: BoxSession) -> None:
    session.run("kept = 1")
    record = session.run(
        "import os, signal\nif (pid := os.fork()) == 0:\n"
        "    open('/proc/self/oom_score_adj', 'w').write('1000')\n    "
        + OOM_BY_KERNEL.strip().replace("\n", "\n    ")
        + "\nstatus = os.waitpid(pid, 0)[1]\nkept = 2\nos.WTERMSIG(status)"
    )
    assert (record.outcome, record.result, record.state) == ("ok", "9", "kept"), record
    assert any("memory" in note for note in record.notes)
    assert session.run("kept").result == "2"


def test_other_programs_of_the_cell_die_with_the_interpreter(session: BoxSession) -> None:
    died(session, "import os, subprocess\nsubprocess.Popen(['sleep', '77'])\nos._exit(4)")
    assert "sleep" not in (session.run(PROCESSES).result or "")


PROCESSES = """
import glob
names = []
for path in glob.glob('/proc/[0-9]*/cmdline'):
    try:
        names.append(open(path).read().replace(chr(0), ' ').strip())
    except OSError:
        pass
names
"""


def test_killing_everything_from_inside_leaves_a_session_that_says_what_is_lost(session: BoxSession) -> None:
    session.run("one = 1; two = 2")
    record = session.run("import subprocess\nsubprocess.run(['sh', '-c', 'kill -9 -1'])\nimport time; time.sleep(5)")
    assert (record.outcome, record.exit_code, record.state) == ("crashed", 137, "lost"), record
    assert {"one", "two"} <= set(record.lost_names)
    assert session.run("one").outcome == "error"


def test_killing_all_others_from_inside_keeps_the_interpreter(session: BoxSession) -> None:
    session.run("one = 1")
    record = session.run("import os\nos.kill(-1, 9)\none")
    assert (record.outcome, record.result, record.state) == ("ok", "1", "kept")
    died(session, "import os; os._exit(3)")


def test_the_copy_cannot_be_woken_or_read_from_inside(session: BoxSession) -> None:
    record = session.run(
        "import os, glob\nreadable = []\n"
        "for pid in [int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()]:\n"
        "    for part in ('mem', 'environ', 'fd/0', 'maps'):\n"
        "        try:\n            open(f'/proc/{pid}/{part}', 'rb').read(1); readable.append((pid, part))\n"
        "        except OSError: pass\n"
        "readable"
    )
    assert record.result == "[]"


def test_signals_to_the_copy_do_not_wake_or_end_it(session: BoxSession) -> None:
    session.run("kept = 1")
    session.run(
        "import os, signal\n"
        "others = [int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) not in (1, os.getpid())]\n"
        "for pid in others:\n"
        "    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP, signal.SIGALRM):\n"
        "        os.kill(pid, number)"
    )
    died(session, "import os; os._exit(3)")


def test_ends_may_follow_each_other(session: BoxSession) -> None:
    session.run("x = 41")
    for code in ("import os; os._exit(3)", "import ctypes; ctypes.string_at(0)", "import os; os.abort()") * 2:
        assert session.run(code).state == "rolled_back"
    assert session.run("x + 1").result == "42"


def test_a_cell_that_dies_has_no_effect_on_variables_but_on_files(session: BoxSession) -> None:
    session.run("data = [1]")
    record = session.run("import os\ndata.append(2)\nopen('made.txt', 'w').write('x')\nos._exit(9)")
    assert [info.path for info in record.files.created] == ["made.txt"]
    assert session.run("data").result == "[1]"


def test_random_numbers_are_not_repeated_nor_reseeded_by_a_take_over(session: BoxSession) -> None:
    session.run("import random, copy\nrandom.seed(5)\nfirst = random.random()")
    session.run("import os; os._exit(3)")
    record = session.run(
        "again = random.random()\nr = random.Random(5); r.random()\nagain == r.random(), again != first"
    )
    assert record.result == "(True, True)"


def test_numpy_random_numbers_go_on_after_a_take_over(session: BoxSession) -> None:
    session.run(
        "import numpy as np\nnp.random.seed(5); first = np.random.rand()\ng = np.random.default_rng(1); g.random()"
    )
    session.run("import os; os._exit(3)")
    record = session.run(
        "s = np.random.RandomState(5); s.rand()\nh = np.random.default_rng(1); h.random()\n"
        "np.random.rand() == s.rand(), g.random() == h.random()"
    )
    assert record.result == "(True, True)"


def test_figures_and_pools_work_after_a_take_over(session: BoxSession) -> None:
    session.run("import os; os._exit(3)")
    record = session.run(
        "import multiprocessing as mp\ndef sq(n): return n * n\nwith mp.Pool(2) as p:\n    v = p.map(sq, [1, 2, 3])\nv"
    )
    assert record.result == "[1, 4, 9]"


def test_displays_made_before_the_end_are_kept(session: BoxSession) -> None:
    record = died(session, "import os, pandas as pd\ndisplay(pd.DataFrame({'a': [1]}))\nos._exit(3)")
    assert [shown.media_type for shown in record.displays] == ["text/html"]


def test_a_program_that_takes_the_interpreters_place_is_no_success(session: BoxSession) -> None:
    record = died(session, "import os\nprint('first')\nos.execv('/bin/echo', ['echo', 'second'])")
    assert (record.outcome, record.ok) == ("crashed", False)
    assert record.stdout.text == "first\nsecond\n"


def test_a_program_that_takes_its_place_and_goes_on_is_stopped_in_time(session: BoxSession) -> None:
    session.run("kept = 1")
    record = session.run("import os\nos.execv('/bin/sleep', ['sleep', '60'])", timeout=0.5)
    assert (record.outcome, record.state) == ("timeout", "rolled_back")
    assert session.run("kept").result == "1"


def test_closing_all_descriptors_is_told_and_survived(session: BoxSession) -> None:
    record = died(session, "import os\nprint('here')\nos.closerange(3, 1024)\nprint('still here')")
    assert (record.outcome, record.ok) == ("crashed", False)
    assert record.stdout.text == "here\nstill here\n"


@pytest.fixture
def small(open_box: Open) -> BoxSession:
    return open_box(memory="128m", disk="16m", wall_s=20)


def test_many_small_allocations_past_the_limit_are_out_of_memory_and_can_be_freed(small: BoxSession) -> None:
    small.run("x = 1")
    record = small.run("held = []\nwhile True:\n    held.append(bytes(1000))")
    assert (record.outcome, record.exit_code, record.state) == ("out_of_memory", 137, "kept"), record
    assert record.error is not None
    assert record.error.line == 3
    freed = small.run("n = len(held) > 1000\ndel held\nn")
    assert (freed.outcome, freed.result) == ("ok", "True"), freed
    assert small.run("big = bytes(30 << 20); x + len(big)").outcome == "ok"


def test_after_lack_of_memory_an_end_still_rolls_back_or_says_what_is_lost(small: BoxSession) -> None:
    small.run("x = 1")
    small.run("held = []\nwhile True:\n    held.append(bytearray(100_000))")
    record = small.run("import os; os._exit(3)")
    after = small.run("x")
    if record.state == "rolled_back":
        assert after.result == "1"
    else:
        assert record.state == "lost"
        assert "x" in record.lost_names


def test_touching_an_allocation_in_a_256_mb_box_is_out_of_memory(open_box: Open) -> None:
    session = open_box(memory="256m")
    record = session.run(
        "x = bytearray(2 * 1024 ** 3)\nfor i in range(0, len(x), 4096):\n    x[i] = 1\nprint('no limit')"
    )
    assert (record.outcome, record.exit_code, record.stdout.text) == ("out_of_memory", 137, "")
    assert session.run("1").result == "1"


def test_a_program_started_by_the_cell_has_the_memory_limit_too(small: BoxSession) -> None:
    record = small.run(
        "import subprocess, sys\ncode = 'x = bytearray(1 << 30)'\n"
        "done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)\n"
        "done.returncode, 'MemoryError' in done.stderr"
    )
    assert record.result == "(1, True)"


def test_all_ends_in_one_session_leave_the_variable(session: BoxSession) -> None:
    seen = [
        session.run("x = 41").outcome,
        session.run("while True: pass", timeout=0.5).outcome,
        session.run("bytearray(10 << 30)").outcome,
        session.run("import os; os._exit(3)").outcome,
        session.run("import ctypes; ctypes.string_at(0)").outcome,
        session.run("import os\nwhile True: os.fork()", timeout=5).outcome,
        session.run("for _ in range(300): print('x' * (1 << 20))").outcome,
    ]
    assert seen == ["ok", "timeout", "out_of_memory", "exit", "crashed", "error", "ok"]
    box = session.id
    assert session.run("x + 1").result == "42"
    assert session.id == box
