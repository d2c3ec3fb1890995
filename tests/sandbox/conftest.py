"""Boxes for the tests of this folder: one that the tests of a file share, and a way to open others."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from actloop.config import Limits
from actloop.protocols import Execution
from actloop.sandbox import open_session
from actloop.sandbox.manifest import CHUNK, KeptFile, Manifest, Unit, digest_of
from actloop.sandbox.session import BoxSession
from actloop.sandbox.snapshots import Snapshots

Open = Callable[..., BoxSession]


@pytest.fixture(scope="module")
def shared_box(image: str) -> Iterator[BoxSession]:
    with open_session("docker") as session:
        yield session


@pytest.fixture
def session(shared_box: BoxSession) -> Iterator[BoxSession]:
    """A box that the tests of a file share; each must leave it with a live interpreter."""
    assert shared_box.alive, "an earlier test lost the box"
    yield shared_box
    after = shared_box.run("6 * 7")
    assert (after.outcome, after.result) == ("ok", "42"), after


@pytest.fixture
def open_box(image: str) -> Iterator[Open]:
    """Open a box with limits of its own, closed at the end of the test."""
    with ExitStack() as stack:

        def opened(**limits: object) -> BoxSession:
            return stack.enter_context(open_session("docker", limits=Limits.model_validate(limits)))

        yield opened


@pytest.fixture
def run(session: BoxSession) -> Callable[..., Execution]:
    """Run cells one after the other in the shared box, each of which must reach its end; returns the last record."""

    def cells(*codes: str) -> Execution:
        for code in codes:
            execution = session.run(code)
            assert execution.outcome == "ok", execution
        return execution

    return cells


@pytest.fixture
def take() -> Callable[..., Manifest]:
    """Take a snapshot as a session would: variables and files by name, with their bytes."""

    def taken(
        store: Snapshots, point: str, variables: dict[str, bytes], files: dict[str, bytes] | None = None
    ) -> Manifest:
        units = tuple(
            Unit(names=(name,), contents=(_put(store, data),), sizes=(len(data),)) for name, data in variables.items()
        )
        kept = tuple(
            KeptFile(path=path, size=len(data), mode=0o644, mtime_ns=1, chunks=_put(store, data))
            for path, data in (files or {}).items()
        )
        manifest = Manifest(point=point, python="3.11.2", units=units, files=kept)
        assert store.save(manifest) == point
        return manifest

    return taken


def _put(store: Snapshots, data: bytes) -> tuple[str, ...]:
    parts = [data[start : start + CHUNK] for start in range(0, len(data), CHUNK)]
    for part in parts:
        if not store.has(digest_of(part)):
            store.add(digest_of(part), part)
    return tuple(map(digest_of, parts))


@pytest.fixture
def contents() -> Callable[[Snapshots, Manifest], dict[str, bytes]]:
    """Read the bytes of all variables and files of a snapshot."""

    def read(store: Snapshots, manifest: Manifest) -> dict[str, bytes]:
        variables = {unit.names[0]: b"".join(store.chunks(unit.contents[0])) for unit in manifest.units}
        return variables | {file.path: b"".join(store.chunks(file.chunks)) for file in manifest.files}

    return read
