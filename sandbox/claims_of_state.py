"""Claims: variables and files can be stored and brought back, a cell has an id, and cells call the host."""

from actloop.config import Limits
from actloop.errors import SnapshotError
from actloop.protocols import Session

from .claims import claim, ended, holds, same
from .host_functions import HostFunction


@claim(Limits())
def a_snapshot_brings_variables_and_files_back(session: Session) -> None:
    """What came after it is gone; functions see the variables that are there now."""
    ended(session.run("x = [1]\ny = x\ndef f(): return len(x)\nopen('a.txt', 'w').write('a')"), "ok")
    reference = session.snapshot()
    ended(session.run("x.append(2)\nz = 1\nopen('a.txt', 'w').write('b')\nopen('b.txt', 'w').write('b')"), "ok")
    back = session.restore(reference)
    same((set(back.names), back.files, back.missing), ({"x", "y", "f"}, ("a.txt",), {}))
    seen = session.run("y.append(3)\nf(), 'z' in globals(), open('a.txt').read(), __import__('os').listdir('.')")
    same(seen.result, "(2, False, 'a', ['a.txt'])")


@claim(Limits())
def what_a_snapshot_cannot_keep_is_named(session: Session) -> None:
    """With the reason, and at no cost to the rest."""
    ended(session.run("x = 1\nnumbers = (n for n in [1])\nfile = open('a.txt', 'w')"), "ok")
    back = session.restore(session.snapshot())
    same((set(back.missing), "x" in back.names), ({"numbers", "file"}, True))
    holds(all(back.missing.values()), back.missing)


@claim(Limits())
def a_restored_session_survives_as_any_other(session: Session) -> None:
    """A cell that ends the interpreter costs its own effects only."""
    ended(session.run("x = 41"), "ok")
    session.restore(session.snapshot())
    ended(session.run("import os\nos._exit(3)"), "exit", "rolled_back", 3)
    same(session.run("x + 1").result, "42")


@claim(Limits())
def an_emptied_session_is_new(session: Session) -> None:
    """No variable, no file."""
    ended(session.run("x = 1\nopen('a.txt', 'w').write('a')"), "ok")
    session.restore(None)
    same(session.run("'x' in globals(), __import__('os').listdir('.')").result, "(False, [])")


@claim()
def an_unknown_snapshot_is_refused(session: Session) -> None:
    """And nothing changes."""
    session.run("x = 1")
    try:
        session.restore("nowhere")
    except SnapshotError:
        same(session.run("x").result, "1")
        return
    holds(False, "it was restored")


@claim()
def a_cell_with_the_same_id_runs_once(session: Session) -> None:
    """Its record is there for whoever asks."""
    for _ in range(2):
        session.run("open('once.txt', 'a').write('1')", cell_id="claims-once")
    same(session.get("once.txt"), b"1")
    holds(session.knows("claims-once"), "it is not known")
    same(session.follow("claims-once").cell_id, "claims-once")


@claim()
def cells_call_functions_of_the_host(session: Session) -> None:
    """As plain functions; the calls stand in the record, and an error is raised in the cell."""

    def double(number: int) -> int:
        return number * 2

    def fail() -> None:
        raise ValueError("no such city")

    session.offer([HostFunction("double", double), HostFunction("fail", fail)])
    record = session.run("double(double(5))")
    same((record.result, [call.result for call in record.host_calls]), ("20", ["10", "20"]))
    failed = session.run("fail()")
    ended(failed, "error")
    holds("no such city" in (failed.error.message if failed.error else ""), failed)
    session.offer([])
