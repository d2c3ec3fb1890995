"""Claims: each end of a cell is told as what it was, and costs its own effects only."""

import time

from actloop.config import Limits
from actloop.protocols import Session

from .claims import claim, ended, holds, same

_SMALL = Limits(memory="256m", disk="64m", wall_s=20)


@claim()
def a_cell_that_reaches_its_end_is_ok(session: Session) -> None:
    """Exit code 0, and its value."""
    execution = session.run("x = 41\nx + 1")
    ended(execution, "ok", exit_code=0)
    same(execution.result, "42")


@claim()
def variables_survive_between_cells(session: Session) -> None:
    """One namespace."""
    session.run("survivor = [1, 2]")
    same(session.run("survivor").result, "[1, 2]")


@claim()
def an_exception_is_an_error_with_its_line(session: Session) -> None:
    """Type, message, line of the cell."""
    execution = session.run("a = 1\n{}['missing']")
    ended(execution, "error", exit_code=1)
    error = execution.error
    holds(error is not None and (error.type, error.line) == ("KeyError", 2), error)


@claim()
def a_syntax_error_is_an_error_with_its_line(session: Session) -> None:
    """It is never an empty success."""
    execution = session.run("a = 1\nfor x in range(3) print(x)")
    ended(execution, "error", exit_code=1)
    holds(execution.error is not None and execution.error.line == 2, execution.error)


@claim()
def sys_exit_ends_the_cell_and_not_the_session(session: Session) -> None:
    """The code is told and variables stay."""
    session.run("before_exit = 1")
    ended(session.run("import sys\nsys.exit(3)"), "exit", exit_code=3)
    same(session.run("before_exit").result, "1")


@claim()
def an_endless_loop_ends_at_its_time_limit(session: Session) -> None:
    """The interrupt is enough, and what was printed is kept."""
    execution = session.run("print('begun')\nwhile True: pass", timeout=0.5)
    ended(execution, "timeout", exit_code=124)
    same(execution.stdout.text, "begun\n")


@claim()
def code_that_ignores_the_interrupt_is_killed_and_rolled_back(session: Session) -> None:
    """Control is back soon after the limit, and the variables of the turns before are there."""
    session.run("kept = 'yes'")
    began = time.monotonic()
    code = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('deaf')\nwhile True: pass"
    execution = session.run(code, timeout=0.5)
    ended(execution, "timeout", "rolled_back", 124)
    holds(time.monotonic() - began < 5, "control came back late")
    same(execution.stdout.text, "deaf\n")
    same(session.run("kept").result, "'yes'")


@claim()
def ending_the_process_is_told_with_its_code_and_rolled_back(session: Session) -> None:
    """`os._exit(3)`."""
    session.run("kept = 'yes'")
    execution = session.run("import os\nprint('before')\nos._exit(3)")
    ended(execution, "exit", "rolled_back", 3)
    same(execution.stdout.text, "before\n")
    same(session.run("kept").result, "'yes'")


@claim()
def ending_the_process_with_code_0_is_no_success(session: Session) -> None:
    """The cell has not reached its end."""
    execution = session.run("import os\nos._exit(0)")
    holds(execution.outcome == "crashed" and execution.exit_code not in (0, None), execution)


@claim()
def a_crash_names_its_signal_and_is_rolled_back(session: Session) -> None:
    """A segmentation fault."""
    session.run("kept = 'yes'")
    execution = session.run("import ctypes\nctypes.string_at(0)")
    ended(execution, "crashed", "rolled_back", 139)
    holds(any("SIGSEGV" in note for note in execution.notes), execution.notes)
    same(session.run("kept").result, "'yes'")


def _is_out_of_memory(session: Session, code: str) -> None:
    session.run("kept = 'yes'")
    execution = session.run(code)
    holds(execution.outcome == "out_of_memory" and execution.exit_code == 137, execution)
    same(session.run("kept").result, "'yes'")


@claim(_SMALL)
def an_allocation_past_the_limit_is_out_of_memory(session: Session) -> None:
    """One large allocation fails as MemoryError, and variables stay."""
    _is_out_of_memory(session, "data = bytearray(10 * 1024 ** 3)")


@claim(_SMALL)
def a_flood_of_small_objects_is_out_of_memory(session: Session) -> None:
    """However it ends, it is told as what it was, and variables stay."""
    _is_out_of_memory(session, "rows = []\nwhile True: rows.append([0] * 100)")


@claim()
def an_interrupt_ends_the_cell_and_not_the_session(session: Session) -> None:
    """`cancelled`, with variables kept."""
    session.run("kept = 'yes'")
    cell = session.start("print('waiting')\nimport time\ntime.sleep(60)")
    time.sleep(0.3)
    session.interrupt()
    ended(cell.wait(10), "cancelled", exit_code=130)
    same(session.run("kept").result, "'yes'")


@claim(Limits(pids=32))
def a_fork_bomb_meets_its_limit_and_leaves_the_session_usable(session: Session) -> None:
    """fork() fails with EAGAIN, and its children are ended."""
    session.run("kept = 'yes'")
    bomb = (
        "import os, time\nkids = []\ntry:\n while len(kids) < 500:\n  pid = os.fork()\n  if pid == 0:\n"
        "   time.sleep(20); os._exit(0)\n  kids.append(pid)\nexcept OSError as error:\n print(error.errno)"
    )
    same(session.run(bomb).stdout.text, "11\n")
    same(session.run("kept").result, "'yes'")


@claim()
def a_forked_child_that_returns_is_not_the_end_of_the_cell(session: Session) -> None:
    """The parent's end is."""
    execution = session.run("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\n'parent' if pid else 'child'")
    same(execution.result, "'parent'")
    same(session.run("1 + 1").result, "2")


@claim()
def the_same_cell_never_runs_twice(session: Session) -> None:
    """Asked for again by its id, it answers with its record."""
    session.run("count = 0")
    first = session.run("count += 1\ncount", cell_id="conformance-once")
    again = session.run("count += 1\ncount", cell_id="conformance-once")
    same((first.result, again.result, session.run("count").result), ("1", "1", "1"))


@claim()
def input_fails_at_once(session: Session) -> None:
    """With a sentence that says what to do."""
    execution = session.run("input('name? ')")
    holds(execution.error is not None and execution.error.type == "EOFError", execution)
    same(session.run("1 + 1").result, "2")


@claim()
def what_python_stands_on_is_put_back(session: Session) -> None:
    """After a cell that deletes builtins, modules and the import system, the next one works."""
    session.run("kept = 'yes'")
    execution = session.run(
        "import sys, builtins\nfor name in list(vars(builtins)):\n"
        " if name not in ('__build_class__', '__import__'):\n  delattr(builtins, name)\n"
        "sys.modules.clear(); sys.path.clear(); sys.meta_path.clear()"
    )
    holds(any("put back" in note for note in execution.notes), execution)
    same(session.run("import json, decimal\nlen(json.dumps([1])), kept").result, "(3, 'yes')")
