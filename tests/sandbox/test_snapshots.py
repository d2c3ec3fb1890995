"""Snapshots in a store: whole, shared between points, bound to their thread, and growing only with what changed."""

import os
import signal
import stat
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from actloop.errors import SnapshotRefused
from actloop.sandbox.manifest import CHUNK, KeptFile, Manifest, Unit, digest_of, is_digest
from actloop.sandbox.snapshots import Snapshots

Take = Callable[..., Manifest]
Contents = Callable[[Snapshots, Manifest], dict[str, bytes]]
KEY = bytes(range(32))


class ServerFiles(MemoryFileSystem):  # type: ignore[misc]
    """Stands for a server whose files are seen while they grow, as with SFTP."""

    protocol = "actloopserver"
    store: dict[str, Any] = {}  # noqa: RUF012  # as in the class above
    pseudo_dirs = [""]  # noqa: RUF012


fsspec.register_implementation(ServerFiles.protocol, ServerFiles, clobber=True)


@pytest.fixture(params=["path", "file", "memory", "server"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store of each kind, empty before and after."""
    if request.param in ("path", "file"):
        yield ("file://" if request.param == "file" else "") + str(tmp_path / "store" / "snapshots")
        return
    scheme = {"memory": "memory", "server": "actloopserver"}[request.param]
    address = f"{scheme}://{uuid.uuid4().hex}/snapshots"
    yield address
    files, root = fsspec.core.url_to_fs(address.removesuffix("/snapshots"))
    if files.exists(root):
        files.rm(root, recursive=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


def test_a_snapshot_comes_back_in_another_process_of_the_thread(url: str, take: Take, contents: Contents) -> None:
    variables = {"x": b"pickle", "big": os.urandom(2 * CHUNK + 1), "nothing": b""}
    files = {"out/a b.csv": b"1,2\n", "empty": b""}
    store = Snapshots(url, "t1", KEY)
    assert store.load("c1") is None
    assert (store.points(), store.size()) == ([], 0)
    taken = take(store, "c1", variables, files)
    later = Snapshots(url, "t1", KEY)
    found = later.load("c1")
    assert found == taken
    assert contents(later, found) == variables | files
    assert all(later.has(digest) for digest in taken.chunks())
    assert later.points() == ["c1"]
    assert 2 * CHUNK < later.size() < 2 * CHUNK + 4096


def test_long_manifests_come_back(url: str, take: Take, contents: Contents) -> None:
    store = Snapshots(url, "t1", KEY)
    taken = take(store, "c1", {f"v{number}": b"%d" % number for number in range(300)})
    later = Snapshots(url, "t1", KEY)
    assert later.load("c1") == taken
    assert contents(later, taken)["v7"] == b"7"


def test_a_point_that_is_taken_again_is_replaced(url: str, take: Take) -> None:
    store = Snapshots(url, "t1", KEY)
    take(store, "c1", {"x": b"1"})
    again = take(store, "c1", {"x": b"2"})
    assert store.load("c1") == again


def test_the_nearest_point_is_the_newest_that_is_there(url: str, take: Take) -> None:
    store = Snapshots(url, "t1", KEY)
    taken = {point: take(store, point, {"x": point.encode()}) for point in ("c9", "c10", "c11")}
    assert store.nearest(["c8", "c9", "c10"]) == taken["c10"]
    assert store.nearest(["c9", "c10", "c10b"]) == taken["c10"]
    assert store.nearest(["c9"]) == taken["c9"]
    assert store.nearest(["a", "b"]) is None
    assert store.nearest([]) is None


def test_what_does_not_change_is_stored_once(url: str, take: Take) -> None:
    store = Snapshots(url, "t1", KEY)
    big = os.urandom(3 * CHUNK)
    take(store, "c1", {"big": big, "same": big})
    first = store.size()
    for number in range(10):
        take(store, f"d{number}", {"big": big, "y": b"%d" % number}, {"copy": big})
    assert first < 3 * CHUNK + 4096
    assert store.size() - first < 10 * 1024


def test_a_turn_costs_what_it_changes_not_what_is_there(folder: Path) -> None:
    store = Snapshots(str(folder), "t1", KEY)

    def kept(path: str, turn: int) -> KeptFile:
        data = f"{path} {turn}".encode()
        store.add(digest_of(data), data)
        return KeptFile(path=path, size=len(data), mode=0o644, mtime_ns=turn, chunks=(digest_of(data),))

    paths = [f"data/run{number % 37}/part-{number:05d}.csv" for number in range(2000)]
    files = {path: kept(path, 0) for path in paths}
    sizes = {}
    for turn in range(41):
        path = paths[turn * 19]
        files[path] = kept(path, turn)
        last = Manifest(point=f"c{turn}", python="3.11.2", files=tuple(files.values()))
        store.save(last)
        if turn % 10 == 0:
            sizes[turn] = store.size()
    for turn in range(10, 41, 10):
        assert sizes[turn] - sizes[turn - 10] < 10 * 6 * 1024, sizes
    assert Snapshots(str(folder), "t1", KEY).load("c40") == last


def test_delete_removes_the_thread_and_nothing_else(url: str, take: Take, contents: Contents) -> None:
    store, near, far = (Snapshots(url, name, KEY) for name in ("t1", "t10", "other"))
    for each in (store, near, far):
        take(each, "c1", {"x": b"1"})
    store.delete()
    store.delete()
    assert (store.points(), store.size(), store.load("c1")) == ([], 0, None)
    assert not store.has(digest_of(b"1"))
    for each in (near, far):
        found = each.load("c1")
        assert found is not None
        assert contents(each, found) == {"x": b"1"}
    take(store, "c2", {"x": b"1"})
    assert Snapshots(url, "t1", KEY).points() == ["c2"]


def test_delete_does_not_follow_links(folder: Path, tmp_path: Path, take: Take) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("kept")
    store = Snapshots(str(folder), "t1", KEY)
    take(store, "c1", {"x": b"1"})
    (folder / "t1" / "chunks" / "link").symlink_to(tmp_path / "precious")
    store.delete()
    assert not (folder / "t1").exists()
    assert (tmp_path / "precious" / "file").read_text() == "kept"


def test_a_fork_into_another_thread_takes_what_it_needs_and_no_more(url: str, take: Take, contents: Contents) -> None:
    store, other = Snapshots(url, "t1", KEY), Snapshots(url, "t2", bytes(32))
    first = take(store, "c1", {f"v{number}": b"%d" % number for number in range(200)})
    take(store, "c2", {"later": os.urandom(CHUNK)})
    store.copy_to(other, ["c0", "c1"])
    assert other.points() == ["c1"]
    assert other.size() < CHUNK
    store.delete()
    fresh = Snapshots(url, "t2", bytes(32))
    assert fresh.load("c1") == first
    assert contents(fresh, first)["v199"] == b"199"


# What a hostile box may try


@pytest.mark.parametrize("digest", ["", "../points/c1", "0" * 64, digest_of(b"2"), digest_of(b"1").upper()])
def test_a_chunk_must_be_what_its_digest_says(url: str, digest: str) -> None:
    store = Snapshots(url, "t1", KEY)
    with pytest.raises(SnapshotRefused, match="not what its digest says"):
        store.add(digest, b"1")
    assert not store.has(digest)
    with pytest.raises(SnapshotRefused):
        store.chunk(digest)


def test_a_chunk_may_not_be_larger_than_a_chunk(url: str) -> None:
    data = bytes(CHUNK + 1)
    with pytest.raises(SnapshotRefused, match="1048577"):
        Snapshots(url, "t1", KEY).add(digest_of(data), data)


def test_a_manifest_without_its_chunks_is_refused(url: str) -> None:
    store = Snapshots(url, "t1", KEY)
    manifest = Manifest(
        point="c1", python="3.11.2", units=(Unit(names=("x",), contents=((digest_of(b"1"),),), sizes=(1,)),)
    )
    with pytest.raises(SnapshotRefused, match="was not sent"):
        store.save(manifest)
    assert Snapshots(url, "t1", KEY).points() == []


@pytest.mark.parametrize("point", ["", "..", "../../t2/points/c1", "a/b", "a\n", "x" * 101])
def test_no_point_is_a_path(url: str, point: str) -> None:
    with pytest.raises(SnapshotRefused):
        Snapshots(url, "t1", KEY).load(point)


# Writers beside each other, and writers that die


def test_threads_may_write_and_read_at_once(url: str, take: Take, contents: Contents) -> None:
    store = Snapshots(url, "t1", KEY)
    shared = [b"shared-%d" % number for number in range(20)]
    together = threading.Barrier(4)

    def work(worker: int) -> None:
        together.wait()
        for turn in range(5):
            variables = {f"s{number}": data for number, data in enumerate(shared)} | {"own": b"%d-%d" % (worker, turn)}
            taken = take(store, f"w{worker}-{turn}", variables)
            assert contents(store, taken) == variables

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert len(Snapshots(url, "t1", KEY).points()) == 20


WRITER = """
import os, sys
from actloop.sandbox.manifest import digest_of
from actloop.sandbox.snapshots import Snapshots
from random import Random
seed, folder = int(sys.argv[1]), sys.argv[2]
store, random = Snapshots(folder, "t1", bytes(range(32))), Random(seed)
print("go", flush=True)
while True:
    data = random.randbytes(1 << 20)
    store.add(digest_of(data), data)
"""


def test_killed_writers_of_the_same_chunks_leave_only_whole_chunks(folder: Path) -> None:
    for seed in range(2):
        command = [sys.executable, "-c", WRITER, str(seed), str(folder)]
        writers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"go\n"
        while not any(is_digest(path.name) for path in folder.rglob("*")):
            time.sleep(0.01)
        time.sleep(0.05 * seed)  # so that they die at different places
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            writer.communicate()
    store = Snapshots(str(folder), "t1", KEY)
    there = [path.name for path in folder.rglob("*") if is_digest(path.name)]
    assert all(store.has(digest) and len(store.chunk(digest)) == CHUNK for digest in there)


DYING = """
import resource, signal, sys
from actloop.sandbox.manifest import digest_of
from actloop.sandbox.snapshots import Snapshots
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19))
store, data = Snapshots(sys.argv[1], "t1", bytes(range(32))), bytes(1 << 20)
store.add(digest_of(data), data)
store._flush()
"""


def test_a_writer_that_dies_in_the_middle_of_a_chunk_leaves_none(folder: Path, take: Take) -> None:
    done = subprocess.run([sys.executable, "-c", DYING, str(folder)], check=False)
    assert done.returncode == -signal.SIGXFSZ
    data = bytes(CHUNK)
    assert [path.stat().st_size for path in folder.rglob("*") if path.is_file()] == [CHUNK // 2]
    store = Snapshots(str(folder), "t1", KEY)
    assert not store.has(digest_of(data))
    assert store.size() == 0
    take(store, "c1", {"x": data})
    assert store.chunk(digest_of(data)) == data


def test_folders_and_files_are_for_their_owner_alone(folder: Path, take: Take) -> None:
    before = os.umask(0)
    try:
        take(Snapshots(str(folder), "t1", KEY), "c1", {"x": b"1"})
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.rglob("*")] if path.is_dir()}
    assert modes == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()} == {0o600}
