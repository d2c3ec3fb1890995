"""Claims: output is kept, in order, in bounds, and with the cell that made it."""

import time

from actloop.config import Limits
from actloop.protocols import Event, Session

from .claims import claim, ended, holds, same


@claim()
def streams_are_kept_apart_and_in_order(session: Session) -> None:
    """Each on its own, and both together."""
    execution = session.run("import sys\nfor i in range(3):\n print('o', i)\n print('e', i, file=sys.stderr)")
    same(execution.stdout.text, "o 0\no 1\no 2\n")
    same(execution.stderr.text, "e 0\ne 1\ne 2\n")
    same(execution.output.text, "o 0\ne 0\no 1\ne 1\no 2\ne 2\n")


@claim()
def output_of_child_processes_is_kept(session: Session) -> None:
    """Through descriptor 1, in order."""
    code = "import os, subprocess\nprint('one')\nos.system('echo two')\nsubprocess.run(['echo', 'three'])\nprint(4)"
    same(session.run(code).stdout.text, "one\ntwo\nthree\n4\n")


@claim()
def a_partial_line_is_kept_when_the_interpreter_dies(session: Session) -> None:
    """Nothing sits in a buffer."""
    same(session.run("print('half', end='')\nimport os\nos.kill(os.getpid(), 9)").stdout.text, "half")


@claim(Limits(output=2000))
def long_output_keeps_head_and_tail_and_the_whole_in_a_file(session: Session) -> None:
    """With true sizes."""
    execution = session.run("for i in range(10_000): print('row', i)\nprint('RESULT=42')")
    out = execution.stdout
    holds(out.text.startswith("row 0\n") and out.text.endswith("RESULT=42\n"), out.text[:50])
    holds(out.path is not None and len(out.text) < 2300, out)
    whole = session.get(str(out.path))
    same(len(whole), out.total_bytes)


@claim()
def bytes_that_are_no_text_do_no_harm(session: Session) -> None:
    """They are replaced."""
    execution = session.run("import sys\nsys.stdout.buffer.write(b'ok\\xff\\xfe\\n')\nNone")
    ended(execution, "ok")
    holds(execution.stdout.text.startswith("ok"), execution.stdout)


@claim()
def printed_frames_are_only_text(session: Session) -> None:
    """What looks like the protocol is not taken for it."""
    code = 'print(\'{"ev": "done", "id": "x", "record": {}}\')\nprint("<<<END>>>")\n2 + 3'
    execution = session.run(code)
    same(execution.result, "5")
    holds("END" in execution.stdout.text, execution.stdout)


@claim()
def a_background_process_does_not_hold_the_cell(session: Session) -> None:
    """The cell ends when its code does."""
    began = time.monotonic()
    execution = session.run("import subprocess\nchild = subprocess.Popen(['sleep', '30'])\nprint('started')")
    holds(time.monotonic() - began < 5 and execution.stdout.text == "started\n", execution)
    session.run("child.kill(); child.wait()")


@claim()
def late_output_is_not_a_later_cells(session: Session) -> None:
    """Neither of a thread nor of a child process."""
    session.run(
        "import threading, time, subprocess\n"
        "def late():\n for _ in range(20): time.sleep(0.05); print('LATE')\n"
        "threading.Thread(target=late, daemon=True).start()\n"
        "child = subprocess.Popen(['sh', '-c', 'for i in 1 2 3 4 5 6 7 8; do sleep 0.1; echo LATE; done'])"
    )
    execution = session.run("import time\nfor i in range(4): print('mine'); time.sleep(0.2)")
    same(execution.output.text, "mine\n" * 4)
    session.run("child.wait()")


@claim()
def warnings_on_stderr_are_no_failure(session: Session) -> None:
    """They are shown."""
    execution = session.run("import warnings\nwarnings.warn('old api')\nprint('done')")
    ended(execution, "ok")
    holds("old api" in execution.stderr.text, execution.stderr)


@claim()
def logging_goes_on_in_later_cells(session: Session) -> None:
    """The handler's stream stays open."""
    session.run("import logging\nlogging.basicConfig(level='INFO', force=True)\nlogging.info('one')")
    holds("two" in session.run("logging.info('two')").stderr.text, "second cell")


@claim()
def events_come_while_the_cell_runs(session: Session) -> None:
    """Not at its end."""
    seen: list[tuple[float, Event]] = []
    began = time.monotonic()
    session.run(
        "print('early')\nimport time\ntime.sleep(1)\nprint('late')",
        on_event=lambda event: seen.append((time.monotonic() - began, event)),
    )
    first = [at for at, event in seen if "early" in event.text]
    holds(first and first[0] < 0.9, seen)
    same("".join(event.text for _, event in seen), "early\nlate\n")
