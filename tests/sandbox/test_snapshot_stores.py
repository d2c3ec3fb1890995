"""Stores that somebody altered, that fail, or that cannot be used at all; and object storage over the wire."""

import errno
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from actloop.errors import ConfigError, SnapshotError, SnapshotRefused
from actloop.sandbox.manifest import CHUNK, Manifest, digest_of
from actloop.sandbox.snapshots import BUFFER, Snapshots

Take = Callable[..., Manifest]
Contents = Callable[[Snapshots, Manifest], dict[str, bytes]]
KEY = bytes(range(32))


class FailingFiles(MemoryFileSystem):  # type: ignore[misc]
    """Fails with the error that a test puts here."""

    protocol = "actloopfailing"
    store: dict[str, Any] = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012
    error: Exception | None = None

    def _fail(self, *arguments: Any, **options: Any) -> Any:
        assert FailingFiles.error is not None
        raise FailingFiles.error

    pipe_file = cat_file = find = rm = _fail


fsspec.register_implementation(FailingFiles.protocol, FailingFiles, clobber=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


# What somebody did to the store


def only_file(folder: Path, kind: str) -> Path:
    [path] = (path for path in (folder / "t1" / kind).rglob("*") if path.is_file())
    return path


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: bytes([*data[:-1], data[-1] ^ 1]),
        lambda data: bytes([data[0] ^ 1, *data[1:]]),
        lambda data: data[:30] + bytes([data[30] ^ 1]) + data[31:],
        lambda data: b"",
        lambda data: b'{"point": "c1"}',
        lambda data: data[:20],
    ],
)
def test_an_altered_manifest_is_refused_before_it_is_parsed(
    folder: Path, change: Callable[[bytes], bytes], take: Take
) -> None:
    store = Snapshots(str(folder), "t1", KEY)
    take(store, "c1", {"x": b"1"})
    path = only_file(folder, "points")
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(SnapshotRefused, match="c1"):
        store.load("c1")
    with pytest.raises(SnapshotRefused):
        store.nearest(["c0", "c1"])


def test_a_manifest_of_another_point_thread_or_key_is_refused(folder: Path, take: Take) -> None:
    store, other = Snapshots(str(folder), "t1", KEY), Snapshots(str(folder), "t2", KEY)
    take(store, "c1", {"x": b"1"})
    take(other, "c1", {"x": b"2"})
    sealed = only_file(folder, "points").read_bytes()
    (folder / "t1" / "points" / "c2").write_bytes(sealed)
    (folder / "t2" / "points" / "c1").write_bytes(sealed)
    for thread, point in ((store, "c2"), (other, "c1"), (Snapshots(str(folder), "t1", bytes(32)), "c1")):
        with pytest.raises(SnapshotRefused, match="another key or for another thread or point"):
            thread.load(point)


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: b"", lambda data: b"y", lambda data: data * 2])
def test_an_altered_chunk_is_refused_and_can_be_brought_again(
    folder: Path, change: Callable[[bytes], bytes], take: Take
) -> None:
    store = Snapshots(str(folder), "t1", KEY)
    take(store, "c1", {"x": b"1"})
    path = only_file(folder, "chunks")
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(SnapshotRefused, match="altered"):
        store.chunk(digest_of(b"1"))
    take(store, "c2", {"x": b"1"})
    assert store.chunk(digest_of(b"1")) == b"1"


def test_a_missing_chunk_is_refused(folder: Path, take: Take) -> None:
    store = Snapshots(str(folder), "t1", KEY)
    take(store, "c1", {"x": b"1"})
    only_file(folder, "chunks").unlink()
    with pytest.raises(SnapshotRefused, match="lacks a chunk"):
        store.chunk(digest_of(b"1"))
    assert not store.has(digest_of(b"1"))


def test_a_missing_or_altered_part_of_a_long_manifest_is_refused(folder: Path, take: Take) -> None:
    store = Snapshots(str(folder), "t1", KEY)
    take(store, "c1", {f"v{number}": b"" for number in range(300)})
    part = next(path for path in (folder / "t1" / "chunks").rglob("*") if path.is_file())
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(SnapshotRefused, match="altered"):
        store.load("c1")
    part.unlink()
    with pytest.raises(SnapshotRefused, match="lacks a chunk"):
        store.load("c1")


# Stores that fail


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "is full"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "is full"),
        (PermissionError("Forbidden"), "refuses access"),
        (TimeoutError(), "cannot be used: TimeoutError"),
        (RuntimeError("no route\nto ftp://me:secret@host"), "cannot be used: no route to ftp://host"),
    ],
)
def test_a_store_that_fails_says_so_in_one_way(
    monkeypatch: pytest.MonkeyPatch, error: Exception, says: str, take: Take
) -> None:
    monkeypatch.setattr(FailingFiles, "error", error)
    store = Snapshots("actloopfailing://me:secret@host/x", "t1", KEY)
    store._known = set()
    calls: list[Callable[[], object]] = [
        lambda: take(store, "c1", {"x": b"1"}),
        lambda: take(store, "c2", {"x": os.urandom(BUFFER)}),
        store.points,
        store.size,
        lambda: store.load("c1"),
        lambda: store.chunk(digest_of(b"1")),
        store.delete,
    ]
    for call in calls:
        with pytest.raises(SnapshotError, match=says) as caught:
            call()
        assert type(caught.value) is SnapshotError
        assert isinstance(caught.value, OSError)
        assert "secret" not in str(caught.value)
    assert not store._waiting, "a store that is gone costs no memory"


def test_a_full_disk_leaves_no_half_a_file(folder: Path, take: Take) -> None:
    store = Snapshots(str(folder), "t1", KEY)
    take(store, "c1", {"x": b"1"})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (CHUNK // 2, hard))
    try:
        with pytest.raises(SnapshotError, match="is full"):
            take(store, "c2", {"x": bytes(CHUNK)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert store.points() == ["c1"]
    assert sum(path.is_file() for path in folder.rglob("*")) == 2
    take(store, "c2", {"x": bytes(CHUNK)})
    assert Snapshots(str(folder), "t1", KEY).points() == ["c1", "c2"]


def test_a_folder_without_the_right_to_write_is_an_error_with_its_name(take: Take) -> None:
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o555)
        root = os.geteuid() == 0
        try:
            if root:
                os.seteuid(65534)
            with pytest.raises(SnapshotError, match="refuses access") as caught:
                take(Snapshots(top, "t1", KEY), "c1", {"x": b"1"})
        finally:
            if root:
                os.seteuid(0)
            os.chmod(top, 0o700)
    assert top in str(caught.value)


def test_a_store_whose_folder_is_a_file_is_an_error(tmp_path: Path, take: Take) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SnapshotError, match="Not a directory"):
        take(Snapshots(str(tmp_path / "file"), "t1", KEY), "c1", {"x": b"1"})


@pytest.mark.parametrize("name", ["", ".", "..", "../t2", "a/b", "/a", ".hidden", "a\0", "a\n", "ü", "x" * 201])
def test_a_name_that_could_leave_the_store_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot name a folder"):
        Snapshots(str(tmp_path), name, KEY)


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("smb://me:secret@host/share", "pip install smbprotocol"),
        ("", "is empty"),
        ("nosuchthing://x", "nosuchthing"),
    ],
)
def test_an_address_that_cannot_be_used_is_an_error_that_says_what_to_do(address: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        Snapshots(address, "t1", KEY)
    assert "secret" not in str(caught.value)


def test_a_short_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="16"):
        Snapshots(str(tmp_path), "t1", b"short")


# Object storage: a server of its own, which speaks S3 on this machine


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """Address of a server that speaks S3."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with tempfile.TemporaryFile() as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        try:
            while not _answers(port):
                assert server.poll() is None, "the server of object storage ended at once"
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()


def _answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def bucket(s3: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """URL of an empty bucket; keys and endpoint are where fsspec looks for them."""
    monkeypatch.setitem(fsspec.config.conf, "s3", {"endpoint_url": s3, "key": "test", "secret": "test"})
    name = f"bucket-{time.monotonic_ns()}"
    fsspec.filesystem("s3").mkdir(name)
    return f"s3://{name}"


def test_snapshots_in_object_storage_come_back_and_go(bucket: str, take: Take, contents: Contents) -> None:
    url = f"{bucket}/deep/folder"
    store, near = Snapshots(url, "t1", KEY), Snapshots(url, "t10", bytes(32))
    assert (store.load("c1"), store.points(), store.size()) == (None, [], 0)
    variables = {f"v{number}": b"%d" % number for number in range(8)} | {"big": os.urandom(CHUNK + 1), "none": b""}
    taken = take(store, "c1", variables, {"a.txt": b"text"})
    later = Snapshots(url, "t1", KEY)
    assert later.nearest(["c0", "c1", "c2"]) == taken
    assert contents(later, taken) == {**variables, "a.txt": b"text"}
    later.copy_to(near, ["c1"])
    store.delete()
    assert (store.points(), store.size(), store.load("c1")) == ([], 0, None)
    assert near.load("c1") == taken
    with pytest.raises(SnapshotRefused, match="lacks a chunk"):
        store.chunk(digest_of(b"1"))


def test_a_bucket_that_is_not_there_is_an_error(bucket: str, take: Take) -> None:
    with pytest.raises(SnapshotError, match="bucket does not exist"):
        take(Snapshots(f"{bucket}-other/x", "t1", KEY), "c1", {"x": b"1"})
