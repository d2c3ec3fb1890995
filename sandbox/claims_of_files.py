"""Claims: files cross the border as what they are, and nothing else does."""

from collections.abc import Callable

from actloop.config import Limits
from actloop.errors import FileRefused
from actloop.protocols import Session

from .claims import claim, holds, same


def _refused(call: Callable[[], object]) -> None:
    try:
        given = call()
    except FileRefused:
        return
    holds(False, given)


@claim()
def files_go_in_and_come_out_unchanged(session: Session) -> None:
    """Large ones in parts."""
    data = bytes(range(256)) * 4000
    session.put("in/data.bin", data)
    same(session.run("import os\nos.path.getsize('in/data.bin')").result, str(len(data)))
    same(session.get("in/data.bin"), data)
    holds("in/data.bin" in [file.path for file in session.ls()], session.ls())


@claim()
def a_missing_file_is_missing(session: Session) -> None:
    """As FileNotFoundError."""
    try:
        session.get("nowhere.txt")
    except FileNotFoundError:
        return
    holds(False, "it was read")


@claim()
def paths_cannot_leave_the_workspace(session: Session) -> None:
    """Neither in nor out."""
    for path in ("../x", "/etc/passwd", "a/../../x", "", "a\0b"):
        _refused(lambda path=path: session.put(path, b"x"))  # type: ignore[misc]
        _refused(lambda path=path: session.get(path))  # type: ignore[misc]


@claim()
def links_and_pipes_are_not_followed(session: Session) -> None:
    """Symbolic links to files and folders, and named pipes."""
    session.run(
        "import os\nos.symlink('/etc/passwd', 'link.txt')\nos.symlink('/etc', 'linked')\nos.mkfifo('pipe')\n"
        "open('good.txt', 'w').write('fine')"
    )
    for path in ("link.txt", "linked/passwd", "pipe"):
        _refused(lambda path=path: session.get(path))  # type: ignore[misc]
    _refused(lambda: session.put("linked/x", b"x"))
    listed = [file.path for file in session.ls()]
    holds("good.txt" in listed and not {"link.txt", "pipe", "linked/passwd"} & set(listed), listed)
    same(session.get("good.txt"), b"fine")


@claim()
def what_a_cell_did_to_files_is_told(session: Session) -> None:
    """Created, changed, deleted."""
    session.put("given.txt", b"given")
    made = session.run("open('made.txt', 'w').write('12345')").files
    same([(file.path, file.size) for file in made.created], [("made.txt", 5)])
    changed = session.run("open('given.txt', 'a').write('!')").files
    same([file.path for file in changed.changed], ["given.txt"])
    same(session.run("import os\nos.remove('made.txt')").files.deleted, ("made.txt",))


@claim(Limits(disk="16m", transfer="1m"))
def a_full_disk_is_an_error_of_the_program(session: Session) -> None:
    """The session goes on, and a giant does not cross."""
    execution = session.run("with open('big', 'wb') as f:\n while True: f.write(b'0' * 1_000_000)")
    holds(execution.outcome == "error" and execution.error is not None, execution)
    same(session.run("1 + 1").result, "2")
    _refused(lambda: session.get("big"))
    _refused(lambda: session.put("huge", b"0" * (2 << 20)))
