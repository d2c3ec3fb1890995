"""Snapshots of real boxes: what a box holds comes back, and what cannot is named with the reason."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actloop.config import Limits
from actloop.errors import SessionBusy, SnapshotError, SnapshotRefused
from actloop.sandbox import open_session
from actloop.sandbox.order import Order
from actloop.sandbox.session import BoxSession
from actloop.sandbox.snapshots import Snapshots

pytestmark = pytest.mark.docker

Open = Callable[..., BoxSession]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("snapshots")


@pytest.fixture(scope="module")
def boxes(image: str, store: Path) -> Iterator[tuple[BoxSession, BoxSession]]:
    """Two boxes on one store."""
    with open_session("docker", snapshots=store) as first, open_session("docker", snapshots=store) as second:
        yield first, second


@pytest.fixture
def pair(boxes: tuple[BoxSession, BoxSession]) -> tuple[BoxSession, BoxSession]:
    for box in boxes:
        box.restore(None)
    return boxes


def test_variables_functions_classes_and_files_are_as_good_as_before(pair: tuple[BoxSession, BoxSession]) -> None:
    first, second = pair
    first.run(
        "import json, os\nx = [1]\ny = x\ndef f():\n    return len(x) + z\nclass C:\n    size = 3\nc = C()\nz = 10"
    )
    first.run("os.makedirs('deep/empty')\nopen('deep/a.txt', 'w').write('a')\nos.chmod('deep/a.txt', 0o600)")
    first.run("os.symlink('a.txt', 'deep/link')\nos.symlink('/etc/passwd', 'out')")
    back = second.restore(first.snapshot())
    assert back.missing == back.missing_files == {}
    assert set(back.names) == {"json", "os", "x", "y", "f", "C", "c", "z"}
    values = "f(), type(c) is C, json.dumps(c.size), sorted(os.listdir('deep')), open('deep/link').read()"
    then = f"z = 100\ny.append(2)\n{values}"
    assert second.run(then).result == "(102, True, '3', ['a.txt', 'empty', 'link'], 'a')"
    look = "oct(os.stat('deep/a.txt').st_mode & 0o777), os.path.lexists('out')"
    assert second.run(look).result == "('0o600', False)"


def test_what_cannot_be_kept_is_named_with_the_reason(pair: tuple[BoxSession, BoxSession]) -> None:
    first, second = pair
    first.run("numbers = (n for n in [1])\nfile = open('a.txt', 'w')\nimport socket\nline = socket.socket()\nx = 1")
    back = second.restore(first.snapshot())
    assert {name: why.split()[-4:] for name, why in back.missing.items()}.keys() == {"numbers", "file", "line"}
    assert "generator" in back.missing["numbers"]
    assert "open file" in back.missing["file"]
    assert second.run("x").result == "1"


ENDS_ITS_WRITER = """
import os
class Trap:
    def __reduce__(self):
        os._exit(1)
trap = Trap()
x = 1
"""


def test_a_variable_that_ends_its_writer_costs_itself(pair: tuple[BoxSession, BoxSession]) -> None:
    first, second = pair
    first.run(ENDS_ITS_WRITER)
    back = second.restore(first.snapshot())
    assert back.missing == {"trap": "keeping it ended the process that did so"}
    assert second.run("x").result == "1"
    first.run("x = 2")
    assert second.restore(first.snapshot()).missing.keys() == {"trap"}


ENDS_ITS_LOADER = """
import os
def end():
    os._exit(1)
class Trap:
    def __reduce__(self):
        return end, ()
trap = Trap()
x = 1
"""


def test_a_variable_that_ends_the_interpreter_on_its_way_back_costs_itself(pair: tuple[BoxSession, BoxSession]) -> None:
    first, second = pair
    first.run(ENDS_ITS_LOADER)
    back = second.restore(first.snapshot())
    assert back.missing == {"trap": "the interpreter ended while it was restored"}
    assert second.run("x").result == "1"


def test_nothing_of_the_session_before_is_left(pair: tuple[BoxSession, BoxSession]) -> None:
    first, _ = pair
    first.run("x = 1\nopen('a.txt', 'w').write('a')")
    reference = first.snapshot()
    first.run(
        "import subprocess, os\ny = 2\nopen('b.txt', 'w').write('b')\nopen('/tmp/c', 'w').write('c')\n"
        "open('/dev/shm/d', 'w').write('d')\nos.makedirs('/'.join(['deep'] * 400))\nos.chmod('deep', 0)\n"
        "p = subprocess.Popen(['sleep', '60'])"
    )
    back = first.restore(reference)
    assert (back.names, back.files) == (("x",), ("a.txt",))
    look = "import os\n'y' in globals(), sorted(os.listdir('.')), 'c' in os.listdir('/tmp'), os.listdir('/dev/shm')"
    assert first.run(look).result == "(False, ['a.txt'], False, [])"
    assert first.run("len([p for p in os.listdir('/proc') if p.isdigit()]) < 6").result == "True"


def test_a_take_over_after_a_restore_has_what_was_restored(pair: tuple[BoxSession, BoxSession]) -> None:
    first, second = pair
    first.run("x = 41")
    second.restore(first.snapshot())
    crash = second.run("import os\nos._exit(3)")
    assert (crash.outcome, crash.state) == ("exit", "rolled_back")
    assert second.run("x + 1").result == "42"


def test_the_next_snapshot_stores_only_what_changed(pair: tuple[BoxSession, BoxSession], store: Path) -> None:
    def size() -> int:
        return sum(path.stat().st_size for path in store.rglob("*") if path.is_file())

    first, _ = pair
    first.run("import os\ndata = os.urandom(3_000_000)\nopen('big.bin', 'wb').write(os.urandom(3_000_000))\nn = 0")
    first.snapshot()
    before = size()
    first.run("n += 1\nopen('small.txt', 'w').write('1')")
    first.snapshot()
    assert size() - before < 20_000


def test_a_large_file_is_read_before_the_next_cell_may_change_it(pair: tuple[BoxSession, BoxSession]) -> None:
    first, second = pair
    first.run("open('a.bin', 'wb').write(b'1' * 40_000_000)")
    coming = first._points._ready().expect("by-hand", None, 1)
    first._talk.send({"op": "snapshot", "id": "by-hand"})
    first.run("open('a.bin', 'wb').write(b'2' * 40_000_000)")
    assert coming.result(60) == "by-hand"
    second.restore("by-hand")
    assert second.run("open('a.bin', 'rb').read() == b'1' * 40_000_000").result == "True"


def test_what_is_larger_than_a_snapshot_may_be_is_named(image: str, store: Path) -> None:
    limits = Limits(transfer="1m", snapshot="3m")
    with open_session("docker", limits=limits, snapshots=store) as session:
        session.run(
            "import os\nbig = os.urandom(2_000_000)\nsmall = 1\nopen('big.bin', 'wb').write(os.urandom(2_000_000))"
        )
        back = session.restore(session.snapshot())
    assert back.missing.keys() == {"big"}
    assert back.missing_files.keys() == {"big.bin"}
    assert "small" in back.names


def test_there_is_no_snapshot_while_a_cell_runs(pair: tuple[BoxSession, BoxSession]) -> None:
    first, _ = pair
    cell = first.start("import time\ntime.sleep(30)")
    for call in (first.snapshot, lambda: first.restore(None)):
        with pytest.raises(SessionBusy):
            call()
    cell.cancel()
    cell.wait()


def test_an_unknown_an_altered_and_a_foreign_snapshot_are_refused(
    pair: tuple[BoxSession, BoxSession], image: str, store: Path
) -> None:
    first, _ = pair
    first.run("x = 1")
    reference = first.snapshot()
    with pytest.raises(SnapshotError, match="no snapshot nowhere"):
        first.restore("nowhere")
    [point] = [path for path in store.rglob(reference) if path.is_file()]
    with open_session("docker", snapshots=store, thread="another") as other:
        other.run("y = 2")
        other.snapshot()
        [folder] = [path for path in store.iterdir() if path != point.parents[1]]
        (folder / "points" / reference).write_bytes(point.read_bytes())
        with pytest.raises(SnapshotRefused):
            other.restore(reference)
        assert other.run("y").result == "2"
    point.write_bytes(point.read_bytes()[:-1] + b"x")
    with pytest.raises(SnapshotRefused):
        first.restore(reference)


def test_a_store_that_cannot_be_opened_leaves_the_session_free(image: str, tmp_path: Path) -> None:
    def broken() -> Snapshots:
        raise SnapshotError("The store is not there.")

    order = Order(key=f"test{uuid.uuid4().hex[:12]}", snapshots=broken, every_cell=True)
    with open_session("docker", order=order) as session:
        for _ in range(2):
            with pytest.raises(SnapshotError, match="not there"):
                session.run("1")
