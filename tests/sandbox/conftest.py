"""Boxes for the tests of this folder: one that the tests of a file share, and a way to open others."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from actloop.config import Limits
from actloop.protocols import Execution
from actloop.sandbox import open_session
from actloop.sandbox.session import BoxSession

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
