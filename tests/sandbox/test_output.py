"""What a cell prints: all of it, in order, in no other cell, in bounded memory."""

import resource
import time
from collections.abc import Callable

import pytest

from actloop.protocols import Execution
from actloop.sandbox.session import BoxSession

Run = Callable[..., Execution]
Open = Callable[..., BoxSession]


def test_output_of_programs_stands_between_the_cells_own(run: Run) -> None:
    record = run(
        'import os, subprocess\nprint("one", flush=True)\nos.system("echo two")\n'
        'subprocess.run(["echo", "three"])\nprint("four");'
    )
    assert record.stdout.text == "one\ntwo\nthree\nfour\n"


def test_stdout_and_stderr_keep_their_order(run: Run) -> None:
    record = run(
        "import os, subprocess, sys\n"
        "for i in range(200):\n    print('out', i)\n    print('err', i, file=sys.stderr)\n"
        "os.write(1, b'raw out\\n'); os.write(2, b'raw err\\n') if sys.stdout.flush() is None else 0\n"
    )
    # What goes to a descriptor past Python's streams does not wait for the other one.
    lines = [line for line in record.output.text.splitlines() if not line.startswith("raw")]
    assert lines == [f"{name} {i}" for i in range(200) for name in ("out", "err")]
    assert record.stdout.text.count("\n") == record.stderr.text.count("\n") == 201


def test_a_flood_does_not_break_the_order(run: Run) -> None:
    record = run(
        "import sys\nfor i in range(3000): print(i)\nprint('now', file=sys.stderr)\n"
        "for i in range(3000): print(i)\nprint('end', file=sys.stderr)"
    )
    assert record.stdout.total_bytes == 2 * sum(len(f"{i}\n") for i in range(3000))
    lines = record.output.text.splitlines()
    assert lines.index("now") == 3000
    assert lines[-1] == "end"
    assert lines[:3000] == [str(i) for i in range(3000)]


def test_a_program_in_a_flood_keeps_its_place(run: Run) -> None:
    record = run(
        "import os\nfor i in range(2000): print(i)\nos.system('echo here >&2')\nfor i in range(2000): print(i)"
    )
    lines = record.output.text.splitlines()
    assert lines.index("here") == 2000


@pytest.mark.parametrize(
    "code",
    [
        "print('a', end=''); print('b', 'c', sep='-'); print(); print(1, None, 2.5, True, ('t',))",
        "print('a', end='')\nprint('b-c\\n\\n1', None, 2.5, True, ('t',))",
    ],
)
def test_print_is_as_ever(run: Run, code: str) -> None:
    assert run(code).stdout.text == "ab-c\n\n1 None 2.5 True ('t',)\n"


def test_print_to_a_file_and_with_wrong_arguments_is_as_ever(session: BoxSession, run: Run) -> None:
    assert run("import io\nf = io.StringIO(); print('x', file=f); f.getvalue()").result == "'x\\n'"
    assert run(
        "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as f: print('x')\nf.getvalue()"
    ).result
    error = session.run("print('x', wrong=1)").error
    assert error is not None
    assert error.type == "TypeError"
    assert run("import pickle, builtins\npickle.loads(pickle.dumps(print)) is builtins.print").result == "True"


def test_threads_print_whole_lines(run: Run) -> None:
    record = run(
        "import threading\ndef p(c):\n    for _ in range(500): print(c * 50)\n"
        "ts = [threading.Thread(target=p, args=(c,)) for c in 'abcd']\n"
        "for t in ts: t.start()\nfor t in ts: t.join()"
    )
    lines = record.stdout.text.splitlines()
    whole = [line for line in lines if len(set(line)) == 1 and len(line) == 50]
    assert len(whole) >= len(lines) - 3  # the cut in the middle


def test_an_unfinished_line_is_kept_at_every_end(session: BoxSession) -> None:
    for end in ("", "1 / 0", "import os; os._exit(3)", "import ctypes; ctypes.string_at(0)"):
        record = session.run(f"import sys\nsys.stdout.write('half'); sys.stderr.write('line')\n{end}")
        assert (record.stdout.text, record.stderr.text[:4]) == ("half", "line"), record


def test_bytes_that_are_no_text_are_replaced(run: Run) -> None:
    record = run('import sys\nsys.stdout.buffer.write(b"ok\\xff\\xfe\\n")\nsys.stdout.flush()')
    assert record.stdout.text == "ok\ufffd\ufffd\n"
    assert record.stdout.total_bytes == 5


def test_bytes_from_programs_and_split_characters_are_read_right(run: Run) -> None:
    record = run(
        "import os, time\nfor b in '\u00e9\u20ac\U0001f600'.encode():\n    os.write(1, bytes([b])); time.sleep(0.002)\n"
        "os.write(2, b'\\x80\\xff')"
    )
    assert record.stdout.text == "\u00e9\u20ac\U0001f600"
    assert record.stderr.text == "\ufffd\ufffd"


def test_odd_texts_print(run: Run) -> None:
    record = run("print('\\ud800 \\x00 \\u2028 \\U0001f600')")
    assert record.stdout.text == "\\ud800 \x00 \u2028 \U0001f600\n"


def test_a_value_with_half_a_character_is_shown(run: Run) -> None:
    assert run("class R:\n    def __repr__(self): return '\\ud800'\nR()").result == "?"


def test_large_output_has_head_tail_size_and_a_file(run: Run, session: BoxSession) -> None:
    record = run("for i in range(10_000): print('row', i)\nprint('RESULT=42')")
    whole = "".join(f"row {i}\n" for i in range(10_000)) + "RESULT=42\n"
    assert record.stdout.text.startswith("row 0\nrow 1\n")
    assert record.stdout.text.endswith("row 9999\nRESULT=42\n")
    assert record.stdout.total_bytes == len(whole)
    assert record.stdout.cut
    assert record.stdout.path is not None
    assert session.get(record.stdout.path) == whole.encode()
    notice = next(line for line in record.stdout.text.splitlines() if "left out" in line)
    kept = len(record.stdout.text) - len(notice) - 2
    assert f"{len(whole) - kept} of {len(whole)} bytes" in notice
    assert record.files.created == ()


def test_output_of_many_wide_characters_is_cut_between_them(run: Run) -> None:
    record = run("print('\U0001f600' * 100_000)")
    assert "\ufffd" not in record.stdout.text
    assert record.stdout.total_bytes == 400_001


def test_the_workspace_reads_the_full_output_in_a_later_cell(run: Run) -> None:
    path = run("for i in range(20_000): print('row', i)").stdout.path
    assert run(f"open({path!r}).read().count('row')").result == "20000"


def test_300_mb_of_output_cost_the_host_little(session: BoxSession) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    record = session.run("for _ in range(300): print('x' * (1 << 20))")
    assert record.stdout.total_bytes == 300 * ((1 << 20) + 1)
    assert len(record.stdout.text) < 40_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 << 10


def test_many_lines_cost_the_host_little(open_box: Open) -> None:
    session = open_box(wall_s=60)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    record = session.run("for _ in range(300_000):\n    print('x' * 100)", on_event=lambda event: None)
    assert record.outcome == "ok", record.wall_s
    assert record.stdout.total_bytes == 30_300_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 << 10


# -- nothing late -------------------------------------------------------------------------------------------------


def test_a_child_that_lives_on_does_not_hold_the_cell(session: BoxSession) -> None:
    begin = time.monotonic()
    record = session.run('import subprocess\nchild = subprocess.Popen(["sleep", "60"])\nprint("started")')
    assert time.monotonic() - begin < 5
    assert (record.outcome, record.stdout.text) == ("ok", "started\n")
    assert record.notes == ("1 processes that the cell started are still running",)
    assert session.run("child.kill(); child.wait()").result == "-9"


def test_output_of_a_child_that_lives_on_is_in_no_later_cell(session: BoxSession) -> None:
    session.run("import subprocess, time\nchild = subprocess.Popen('sleep 0.3; echo late; echo late >&2', shell=True)")
    record = session.run("print('mine'); time.sleep(0.6); print('mine')")
    assert record.output.text == "mine\nmine\n"
    after = session.run("child.wait()")
    assert "late" not in after.output.text
    assert any("not shown" in note for note in (*record.notes, *after.notes))


def test_output_of_a_daemon_is_in_no_later_cell(session: BoxSession) -> None:
    session.run(
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        time.sleep(0.3); print('late', flush=True); os.write(2, b'late')\n    os._exit(0)\nos.wait()"
    )
    record = session.run("time.sleep(0.6); print('mine')")
    assert record.output.text == "mine\n"
    assert session.run("pass").output.text == ""


def test_output_of_a_thread_that_lives_on_is_in_no_later_cell(session: BoxSession) -> None:
    session.run(
        "import threading, time, sys\nstop = threading.Event()\n"
        "def talk():\n    while not stop.wait(0.02):\n        print('late'); print('late', file=sys.stderr)\n"
        "t = threading.Thread(target=talk); t.start()"
    )
    time.sleep(0.3)
    record = session.run("print('mine'); time.sleep(0.2); print('mine')")
    last = session.run("stop.set(); t.join(); print('quiet')")
    assert record.output.text == "mine\nmine\n"
    assert last.output.text == "quiet\n"
    assert any("not shown" in note for note in record.notes)


def test_a_new_thread_prints_although_a_late_one_ended_in_its_place(session: BoxSession) -> None:
    session.run("import threading\ngo = threading.Event()\nt = threading.Thread(target=go.wait); t.start()")
    record = session.run(
        "go.set(); t.join()\nfor i in range(5):\n"
        "    t = threading.Thread(target=print, args=('new', i)); t.start(); t.join()"
    )
    assert record.stdout.text == "".join(f"new {i}\n" for i in range(5))


def test_a_child_started_as_a_thread_ends_does_not_print_into_a_later_cell(session: BoxSession) -> None:
    session.run("import subprocess, threading\ngo = threading.Event()\nt = threading.Thread(target=go.wait); t.start()")
    session.run("go.set(); t.join()\nchild = subprocess.Popen('sleep 0.3; echo late', shell=True)")
    record = session.run("child.wait(); print('mine')")
    assert record.output.text == "mine\n"


def test_a_late_thread_shows_nothing_and_answers_nothing(session: BoxSession) -> None:
    session.run(
        "import threading, time, pandas as pd\n"
        "def late():\n    time.sleep(0.3); display(pd.DataFrame({'a': [1]})); final_answer('late')\n"
        "t = threading.Thread(target=late); t.start()"
    )
    record = session.run("t.join(); print('mine')")
    assert (record.displays, record.answer, record.stdout.text) == ((), None, "mine\n")


def test_an_idle_box_is_idle_though_a_thread_prints(session: BoxSession) -> None:
    session.run(
        "import os, threading\nstop = threading.Event()\n"
        "def talk():\n    while not stop.wait(0.01): print('x'); os.write(1, b'y')\n"
        "t = threading.Thread(target=talk); t.start()"
    )
    code = "f = open('/proc/1/stat').read().rpartition(')')[2].split()\nint(f[11]) + int(f[12])"
    before = int(session.run(code).result or 0)
    time.sleep(1)
    after = int(session.run(code).result or 0)
    session.run("stop.set(); t.join()")
    assert after - before < 40  # hundredths of a second


# -- streams that the cell changes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "import sys\nsys.stdout.close(); sys.stderr.close()",
        "import sys\nsys.stdout.detach()",
        "import sys\nsys.stdout.buffer.close()",
        "import sys\nsys.stdout = None; sys.stderr = 5",
        "import sys\ndel sys.stdout, sys.stderr, sys.stdin",
        "import io, sys\nsys.stdout = io.StringIO(); sys.stderr = sys.stdout",
        "import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')",
        "import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.detach(), encoding='utf-16')",
        "import os\nos.close(1)",
        "import os\nos.close(2)",
        "import os\nos.close(0); os.close(1); os.close(2)",
        "import os\nos.close(1); os.close(0)",
        "import os\nos.dup2(os.open('/dev/null', os.O_WRONLY), 1)",
        "import os\nos.dup2(2, 1)",
        "import os\nos.dup2(1, 2)",
        "import os\nos.dup2(os.open('all.txt', os.O_WRONLY | os.O_CREAT), 1); print('into the file')",
        "import sys, os\nsys.stdout = open('all2.txt', 'w'); print('x')",
    ],
)
def test_whatever_a_cell_does_to_its_streams_the_next_has_good_ones(session: BoxSession, code: str) -> None:
    changing = session.run(code)
    assert changing.state == "kept", changing
    record = session.run(
        "import os, subprocess, sys\nprint('out'); print('err', file=sys.stderr); os.write(1, b'raw\\n')\n"
        "subprocess.run('echo child; echo error >&2', shell=True); sys.stdin.fileno()"
    )
    assert record.stdout.text == "out\nraw\nchild\n", (changing, record)
    assert record.stderr.text == "err\nerror\n"


def test_a_wrapper_around_stdout_is_flushed_at_the_end_of_the_cell(run: Run) -> None:
    record = run("import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')\nprint('wrapped')")
    assert record.stdout.text == "wrapped\n"


def test_the_first_streams_are_ours_too(session: BoxSession) -> None:
    record = session.run("import os, sys\nsys.stdout = sys.__stdout__\nprint('kept', end='')\nos._exit(3)")
    assert record.stdout.text == "kept"


def test_many_cells_leave_no_descriptors(session: BoxSession) -> None:
    count = "import os\nlen(os.listdir('/proc/self/fd'))"
    before = session.run(count).result
    for _ in range(10):
        session.run("import subprocess\nsubprocess.Popen(['sleep', '0.05'])\nos.close(1)")
    time.sleep(0.2)
    assert session.run(count).result == before
