"""Files in and out of the workspace: whole, bounded, and never by way of a link."""

import hashlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from actloop.errors import FileRefused, SandboxError, SandboxLost
from actloop.sandbox.session import BoxSession

Open = Callable[..., BoxSession]


def paths(session: BoxSession) -> set[str]:
    return {info.path for info in session.ls()}


@pytest.mark.parametrize(
    "data", [b"", b"x", b"a\r\nb\x00\xff\n", bytes(range(256)) * 1000, os.urandom(1 << 20)], ids=len
)
def test_a_file_comes_back_as_it_went_in(session: BoxSession, data: bytes) -> None:
    session.put("in.bin", data)
    assert session.get("in.bin") == data
    assert session.run("open('in.bin', 'rb').read() == open('/workspace/in.bin', 'rb').read()").result == "True"
    assert {info.path: info.size for info in session.ls()}["in.bin"] == len(data)


def test_a_file_of_the_host_goes_in_by_its_path(session: BoxSession, tmp_path: Path) -> None:
    path = tmp_path / "häßlich name.csv"
    path.write_bytes(b"a,b\n1,2\n")
    session.put("in.csv", path)
    assert session.run("import pandas as pd; pd.read_csv('in.csv').b.sum()").result == "np.int64(2)"


def test_a_file_is_there_before_the_first_cell(open_box: Open) -> None:
    session = open_box()
    session.put("in.csv", b"1\n")
    assert session.run("open('in.csv').read()").result == "'1\\n'"


def test_big_files_cross_quickly_and_whole(session: BoxSession) -> None:
    data = os.urandom(40 << 20)
    begin = time.monotonic()
    session.put("big.bin", data)
    assert hashlib.sha256(session.get("big.bin")).digest() == hashlib.sha256(data).digest()
    assert time.monotonic() - begin < 20
    session.run("import os; os.remove('big.bin')")


def test_files_above_the_limit_are_refused_both_ways(open_box: Open) -> None:
    session = open_box(transfer="100k")
    with pytest.raises(FileRefused, match="102401"):
        session.put("big", bytes(102_401))
    session.put("fits", bytes(102_400))
    session.run("open('made', 'wb').write(bytes(102_401))")
    with pytest.raises(FileRefused):
        session.get("made")
    assert len(session.get("fits")) == 102_400


def test_a_file_that_does_not_fit_on_the_disk_is_refused_and_leaves_nothing(open_box: Open) -> None:
    session = open_box(disk="4m")
    with pytest.raises(FileRefused, match=r"No space|too large"):
        session.put("big", bytes(6 << 20))
    assert session.ls() == []
    session.put("small", b"x")
    assert session.get("small") == b"x"


@pytest.mark.parametrize(
    "path",
    [
        "../out",
        "/etc/passwd",
        "a/../../out",
        "/workspace/../etc/passwd",
        "/workspaces/x",
        "",
        ".",
        "/",
        "a\0b",
        "x" * 300,
        "/".join("d" * 40),
        "\ud800",
    ],
)
def test_a_path_that_leaves_the_workspace_or_is_no_path_is_refused(session: BoxSession, path: str) -> None:
    with pytest.raises(FileRefused):
        session.put(path, b"x")
    with pytest.raises((FileRefused, FileNotFoundError)):
        session.get(path)


@pytest.mark.parametrize(
    "path",
    [
        "a b.txt",
        "ä€😀.txt",
        "-rf",
        "new\nline.txt",
        "quote'\".txt",
        "a/b/c/d.txt",
        "/workspace/abs.txt",
        "./dot.txt",
        "~",
        "*",
    ],
)
def test_odd_but_honest_names_work(session: BoxSession, path: str) -> None:
    session.put(path, b"x")
    assert session.get(path) == b"x"
    assert path.removeprefix("/workspace/").removeprefix("./") in paths(session)


def test_a_missing_file_is_a_missing_file(session: BoxSession) -> None:
    for path in ("nothing.txt", "no/folder.txt"):
        with pytest.raises(FileNotFoundError, match=r"nothing|folder"):
            session.get(path)


def test_a_folder_is_not_a_file(session: BoxSession) -> None:
    session.run("import os; os.makedirs('folder/inner', exist_ok=True)")
    with pytest.raises(FileRefused):
        session.get("folder")
    with pytest.raises(FileRefused):
        session.put("folder", b"x")
    assert "folder" not in paths(session)


def test_a_file_is_not_a_folder(session: BoxSession) -> None:
    session.put("plain", b"x")
    with pytest.raises(FileRefused):
        session.put("plain/below", b"x")
    assert session.get("plain") == b"x"


@pytest.mark.parametrize("target", ["/etc/passwd", "/proc/self/environ", "/dev/zero", "real.txt", "missing", "link"])
def test_a_link_is_neither_read_nor_written_through(session: BoxSession, target: str) -> None:
    session.run(
        f"import os\nopen('real.txt', 'w').write('real')\n"
        f"if os.path.lexists('link'): os.remove('link')\nos.symlink({target!r}, 'link')"
    )
    with pytest.raises(FileRefused):
        session.get("link")
    assert "link" not in paths(session)
    session.put("link", b"new")
    assert session.get("link") == b"new"
    assert session.get("real.txt") == b"real"


def test_a_linked_folder_is_neither_entered_nor_listed(session: BoxSession) -> None:
    session.run("import os\nos.path.lexists('tmp') or os.symlink('/tmp', 'tmp')\nopen('/tmp/secret', 'w').write('s')")
    with pytest.raises(FileRefused):
        session.get("tmp/secret")
    with pytest.raises(FileRefused):
        session.put("tmp/planted", b"x")
    assert not {path for path in paths(session) if path.startswith("tmp")}
    assert session.run("os.path.exists('/tmp/planted')").result == "False"


def test_special_files_are_refused_at_once(session: BoxSession) -> None:
    made = session.run(
        "import os, socket\ns = socket.socket(socket.AF_UNIX); s.bind('socket')\n"
        "try: os.mkfifo('fifo')\nexcept OSError: print('no fifo')"
    )
    begin = time.monotonic()
    for name in ["socket"] + ["fifo"] * ("no fifo" not in made.stdout.text):
        with pytest.raises(FileRefused):
            session.get(name)
        assert name not in paths(session)
    assert time.monotonic() - begin < 2


def test_a_sparse_file_is_refused_by_its_size(session: BoxSession) -> None:
    session.run("with open('sparse', 'wb') as f: f.truncate(200 << 20)")
    begin = time.monotonic()
    with pytest.raises(FileRefused, match="larger"):
        session.get("sparse")
    assert time.monotonic() - begin < 2
    session.run("import os; os.remove('sparse')")


def test_a_file_that_may_not_be_read_is_refused(session: BoxSession) -> None:
    session.run("import os\nopen('closed', 'w').write('x'); os.chmod('closed', 0)")
    with pytest.raises(FileRefused):
        session.get("closed")


def test_a_file_that_shrinks_while_it_is_read_ends(session: BoxSession) -> None:
    session.put("moving", bytes(4 << 20))
    cell = session.start(
        "import time\nfor n in range(60):\n    open('moving', 'wb').write(bytes((60 - n) << 16)); time.sleep(0.01)"
    )
    while cell.poll() is None:
        assert len(session.get("moving")) <= 4 << 20
    assert cell.wait().outcome == "ok"


def test_names_that_are_no_text_stay_in_the_box(session: BoxSession) -> None:
    record = session.run("open(b'bad\\xff', 'w').write('x'); open('good', 'w').write('x');")
    assert [info.path for info in record.files.created if "bad" in info.path] == []
    assert "good" in {info.path for info in record.files.created}
    assert "good" in paths(session)


def test_many_files_are_listed_up_to_the_limit(open_box: Open) -> None:
    session = open_box()
    record = session.run("for i in range(6000): open(f'f{i}', 'w').close()")
    assert record.outcome == "ok"
    assert len(session.ls()) == 4096


def test_a_tree_without_end_is_listed_in_bounded_time(open_box: Open) -> None:
    session = open_box()
    session.run(
        "import os\nfor _ in range(500):\n"
        "    os.mkdir('d'); os.chdir('d'); open('f', 'w').close()\nos.chdir('/workspace')"
    )
    begin = time.monotonic()
    assert 0 < len(session.ls()) < 500
    assert time.monotonic() - begin < 2


def test_files_of_a_cell_are_in_its_record(session: BoxSession) -> None:
    session.run("import os\nopen('gone.txt', 'w').write('1'); open('old.txt', 'w').write('1');")
    session.put("put.txt", b"1")
    record = session.run(
        "os.makedirs('sub', exist_ok=True); open('sub/out.txt', 'w').write('xy'); "
        "open('old.txt', 'w').write('22'); os.remove('gone.txt')"
    )
    assert [(info.path, info.size) for info in record.files.created] == [("sub/out.txt", 2)]
    assert [info.path for info in record.files.changed] == ["old.txt"]
    assert record.files.deleted == ("gone.txt",)
    assert session.get("sub/out.txt") == b"xy"


def test_files_written_by_the_box_are_plain_bytes_on_the_host(session: BoxSession, tmp_path: Path) -> None:
    session.run("import os\nos.makedirs('sub', exist_ok=True)\nopen('sub/out.txt', 'w').write('x')")
    (tmp_path / "out.txt").write_bytes(session.get("sub/out.txt"))
    (tmp_path / "out.txt").unlink()


def test_files_cross_while_a_cell_runs(session: BoxSession) -> None:
    cell = session.start(
        "import time\nwhile True:\n    try: text = open('late.txt').read(); break\n"
        "    except FileNotFoundError: time.sleep(0.01)\ntext"
    )
    session.put("late.txt", b"here")
    assert cell.wait(10).result == "'here'"


def test_several_transfers_at_once_do_not_mix(session: BoxSession) -> None:
    failures: list[str] = []

    def work(name: str) -> None:
        data = name.encode() * 300_000
        session.put(name, data)
        if session.get(name) != data:
            failures.append(name)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("t1", "t2", "t3", "t4", "t5", "t6")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


async def test_the_async_twins_do_the_same(session: BoxSession) -> None:
    await session.aput("twin", b"x")
    assert await session.aget("twin") == b"x"
    assert "twin" in {info.path for info in await session.als()}


def test_an_unreadable_workspace_is_told_and_mended(open_box: Open) -> None:
    session = open_box()
    session.put("a", b"x")
    session.run("import os; os.chmod('/workspace', 0)")
    with pytest.raises(SandboxError):
        session.get("a")
    session.run("os.chmod('/workspace', 0o700)")
    assert session.get("a") == b"x"


def test_files_survive_the_end_of_the_interpreter(session: BoxSession) -> None:
    session.put("kept.txt", b"x")
    session.run("import os; os._exit(3)")
    assert session.get("kept.txt") == b"x"


def test_a_closed_session_refuses_files(open_box: Open) -> None:
    session = open_box()
    session.close()
    for call in (lambda: session.put("a", b""), lambda: session.get("a"), session.ls):
        with pytest.raises(SandboxLost, match="closed"):
            call()
