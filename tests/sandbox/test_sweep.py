"""Boxes that nobody needs are removed, with a reason; those that somebody may need never are."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import docker
import docker.errors
import pytest

from actloop.config import DEFAULT_IMAGE, Limits
from actloop.errors import SandboxUnavailable
from actloop.graph.sessions import ThreadSessions
from actloop.sandbox import sweep, sweeping
from actloop.sandbox.boxes import Box
from actloop.sandbox.docker import container_options, open_docker_session
from actloop.sandbox.order import Order
from actloop.sandbox.session import BoxSession
from actloop.sandbox.sweeping import Swept, sweep_useless, why_garbage, why_useless

PROGRAM = Path(__file__).parent / "orphans.py"
ORPHANS = ("idle", "works", "waits", "detached", "pooled", "created", "hung", "paused", "ephemeral")


class Family:
    """A process that has boxes."""

    def __init__(self, engine: docker.DockerClient, kinds: tuple[str, ...]) -> None:
        self._engine = engine
        self._child = subprocess.Popen([sys.executable, PROGRAM, *kinds], stdout=subprocess.PIPE, text=True)
        assert self._child.stdout is not None
        said = self._child.stdout.readline()
        assert said, "the program with the boxes has failed"
        self.names: dict[str, str] = json.loads(said)

    def mine(self, labels: Mapping[str, str]) -> bool:
        """Whether a box is one of these, by its labels."""
        return labels.get("actloop.owner") == str(self._child.pid)

    def kill(self) -> None:
        self._child.kill()
        self._child.wait()
        if self._child.stdout is not None:
            self._child.stdout.close()

    @property
    def owner(self) -> str:
        return f"process {self._child.pid} on {os.uname().nodename}"

    def there(self) -> set[str]:
        """Kinds of the boxes that are still there."""
        found = self._engine.api.containers(all=True, filters={"label": f"actloop.owner={self._child.pid}"})
        names = {name.lstrip("/") for each in found for name in each["Names"]}
        return {kind for kind, name in self.names.items() if name in names}

    def remove(self) -> None:
        for kind in self.there():
            remove(self._engine, self.names[kind])


def remove(engine: docker.DockerClient, name: str) -> None:
    # It may be gone, or going, already.
    with suppress(docker.errors.APIError):
        engine.containers.get(name).remove(force=True)


@contextmanager
def family(engine: docker.DockerClient, *kinds: str) -> Iterator[Family]:
    made = Family(engine, kinds)
    try:
        yield made
    finally:
        made.kill()
        made.remove()


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let boxes count as old enough from their start."""
    monkeypatch.setattr(sweeping, "YOUNG_S", 0.0)


@pytest.fixture(scope="module")
def orphans(engine: docker.DockerClient) -> Iterator[Family]:
    """The boxes of a process that was killed, one of each kind, which no test of this file changes."""
    with family(engine, *ORPHANS) as made:
        made.kill()
        yield made


@pytest.fixture(scope="module")
def looked_at(orphans: Family) -> dict[str, Swept]:
    """What a sweep says of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweeping, "YOUNG_S", 0.0)
        found = {each.box.name: each for each in sweep(dry_run=True, mine=orphans.mine)}
    return {kind: found[name] for kind, name in orphans.names.items()}


# -- what is said of a box ----------------------------------------------------------------------------------------


def test_a_box_is_told_with_thread_owner_and_what_it_does(looked_at: dict[str, Swept], orphans: Family) -> None:
    box = looked_at["works"].box
    assert (box.thread, box.owner, box.owner_ended) == ("works", orphans.owner, True)
    assert (box.status, box.answers, box.lasting) == ("running", True, True)
    assert (box.running, box.waits, box.works) == ("endless", False, True)
    assert box.idle_limit_s == Limits().idle_s
    assert box.idle_s is not None
    assert 0 < box.idle_s <= box.age_s < 600


def test_a_cell_that_waits_for_the_host_is_no_work(looked_at: dict[str, Swept]) -> None:
    box = looked_at["waits"].box
    assert (box.running, box.waits, box.works) == ("asks", True, False)


@pytest.mark.parametrize(
    ("kind", "status", "answers"),
    [
        ("created", "created", None),
        ("hung", "running", False),
        ("paused", "paused", None),
        ("ephemeral", "running", None),
        ("pooled", "running", True),
        ("detached", "running", True),
    ],
)
def test_a_box_that_cannot_answer_is_not_asked(
    looked_at: dict[str, Swept], kind: str, status: str, answers: bool | None
) -> None:
    box = looked_at[kind].box
    assert (box.status, box.answers, box.owner_ended) == (status, answers, True)
    assert box.thread == ("" if kind == "pooled" else kind)


# -- which may go -------------------------------------------------------------------------------------------------


def test_a_person_wants_every_box_of_an_ended_owner_gone_unless_a_cell_runs(
    looked_at: dict[str, Swept], orphans: Family
) -> None:
    reasons = {kind: each.reason for kind, each in looked_at.items()}
    ended = f"its owner, {orphans.owner}, has ended"
    assert reasons == {
        "idle": ended,
        "works": "",
        "waits": ended,
        "detached": ended,
        "pooled": ended,
        "created": "it was never started",
        "hung": f"it does not answer, and {ended}",
        "paused": f"it is paused, and {ended}",
        "ephemeral": ended,
    }
    assert not any(each.removed for each in looked_at.values())


@pytest.mark.usefixtures("old")
def test_a_running_cell_protects_its_box_unless_it_is_said_otherwise(looked_at: dict[str, Swept]) -> None:
    assert why_garbage(looked_at["works"].box, running_too=True).endswith("has ended, though a cell runs")


@pytest.mark.usefixtures("old")
def test_a_process_that_starts_removes_only_what_no_process_can_want(looked_at: dict[str, Swept]) -> None:
    useless = {kind for kind, each in looked_at.items() if why_useless(each.box)}
    assert useless == {"pooled", "created", "hung", "ephemeral"}


def box(**facts: Any) -> Box:
    known = {"id": "1", "name": "actloop-1", "status": "running", "owner": "process 1 on there", "owner_ended": True}
    return Box.model_validate({**known, "age_s": 100.0, "lasting": True, "answers": True, "thread": "t1", **facts})


@pytest.mark.parametrize("rule", [why_garbage, why_useless])
@pytest.mark.parametrize(
    "facts",
    [
        {"owner_ended": False},
        {"owner_ended": False, "status": "exited"},
        {"owner_ended": False, "status": "created"},
        {"owner_ended": False, "answers": False},
        {"owner_ended": None},
        {"owner_ended": None, "answers": False},
        {"owner_ended": None, "lasting": False},
        {"owner_ended": None, "status": "created"},
        {"age_s": 5.0},
        {"age_s": 5.0, "status": "created"},
        {"age_s": -3600.0},
        {"status": "removing", "answers": None, "owner_ended": None},
    ],
    ids=str,
)
def test_no_rule_touches_what_somebody_may_need(rule: Callable[[Box], str], facts: dict[str, Any]) -> None:
    assert rule(box(**facts)) == ""


@pytest.mark.parametrize("rule", [why_garbage, why_useless])
@pytest.mark.parametrize(
    "facts",
    [
        {"status": "exited"},
        {"status": "dead"},
        {"status": "exited", "owner_ended": None},
        {"status": "created"},
        {"status": "created", "owner_ended": None, "age_s": 4000.0},
        {"answers": False},
        {"lasting": False, "answers": None},
    ],
    ids=str,
)
def test_both_rules_remove_what_nobody_can_need(rule: Callable[[Box], str], facts: dict[str, Any]) -> None:
    assert rule(box(**facts))


# -- removal ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("old")
def test_a_sweep_removes_what_it_names_and_leaves_the_rest(engine: docker.DockerClient) -> None:
    with family(engine, "idle", "works", "waits", "created") as made:
        assert not any(each.reason for each in sweep(mine=made.mine))
        assert made.there() == set(made.names)
        made.kill()
        swept = {each.box.name: each.removed for each in sweep(mine=made.mine)}
        assert swept == {name: kind != "works" for kind, name in made.names.items()}
        assert made.there() == {"works"}
        assert [each.removed for each in sweep(running_too=True, mine=made.mine)] == [True]
        assert made.there() == set()


@pytest.mark.usefixtures("old")
def test_the_box_that_another_process_goes_on_with_is_its_own(engine: docker.DockerClient, closing: ExitStack) -> None:
    with family(engine, "idle") as made:
        made.kill()
        session = closing.enter_context(attached(made.names["idle"]))
        (swept,) = sweep(mine=made.mine)
        assert (swept.box.owner_ended, swept.reason) == (False, "")
        assert str(os.getpid()) in swept.box.owner
        assert session.run("x + 1").result == "42"


@pytest.mark.usefixtures("old")
def test_a_box_that_is_taken_up_between_look_and_removal_stays(engine: docker.DockerClient, closing: ExitStack) -> None:
    with family(engine, "idle") as made:
        made.kill()
        (looked,) = sweep(dry_run=True, mine=made.mine)
        session = closing.enter_context(attached(made.names["idle"]))
        container = engine.containers.get(looked.box.name)
        assert looked.reason
        assert not sweeping._removed(container, looked.box)
        assert session.run("x + 1").result == "42"


def test_a_box_that_was_just_started_is_left_alone(engine: docker.DockerClient) -> None:
    with family(engine, "idle", "created") as made:
        made.kill()
        assert [each.reason for each in sweep(mine=made.mine)] == ["", ""]
        assert made.there() == {"idle", "created"}


@pytest.mark.usefixtures("old")
def test_a_box_that_vanishes_while_it_is_looked_at_is_no_error(engine: docker.DockerClient) -> None:
    with family(engine, "created") as made:

        def vanish(labels: Mapping[str, str]) -> bool:
            if made.mine(labels):
                remove(engine, made.names["created"])
            return made.mine(labels)

        assert sweep(mine=vanish) == []


@pytest.mark.usefixtures("old")
def test_the_boxes_of_this_process_are_never_swept(engine: docker.DockerClient, closing: ExitStack) -> None:
    thread = f"test-{uuid.uuid4().hex[:8]}"
    session = closing.enter_context(open_docker_session(Limits(), order=Order(key=uuid.uuid4().hex, thread=thread)))
    made = engine.containers.create(DEFAULT_IMAGE, **container_options(Limits(), Order(thread=thread).labels()))
    try:
        for paused in (False, True):
            if paused:
                engine.containers.get(session.id).pause()
            found = sweep(running_too=True, mine=lambda labels: labels.get("actloop.thread") == thread)
            assert [(each.box.owner_ended, each.reason, each.removed) for each in found] == [(False, "", False)] * 2
    finally:
        engine.containers.get(session.id).unpause()
        made.remove(force=True)
    assert session.run("1").result == "1"


@pytest.mark.usefixtures("old")
def test_a_box_of_another_machine_is_left_to_it(engine: docker.DockerClient, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = {**Order().labels(), "actloop.space": "another machine", "actloop.host": "elsewhere"}
    mark = uuid.uuid4().hex
    made = engine.containers.create(DEFAULT_IMAGE, **container_options(Limits(), {**labels, "actloop.test": mark}))
    try:
        found = sweep(mine=lambda labels: labels.get("actloop.test") == mark)
        assert [(each.box.owner_ended, each.reason) for each in found] == [(None, "")]
        monkeypatch.setattr(sweeping, "FORGOTTEN_S", 0.0)
        found = sweep(mine=lambda labels: labels.get("actloop.test") == mark)
        assert [(each.reason, each.removed) for each in found] == [("it was never started", True)]
    finally:
        remove(engine, str(made.name))


# -- the sweep at the start ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("old")
def test_the_sweep_at_the_start_leaves_a_thread_to_be_gone_on_with(engine: docker.DockerClient) -> None:
    with family(engine, "idle", "pooled", "created", "paused") as made:
        made.kill()
        gone = {each.box.name for each in sweep_useless(made.mine) if each.removed}
        assert gone == {made.names["pooled"], made.names["created"]}
        assert made.there() == {"idle", "paused"}


def test_the_first_session_of_an_agent_sweeps_and_the_others_do_not(open_box: Callable[..., BoxSession]) -> None:
    session = open_box()
    calls: list[str] = []
    with ThreadSessions(lambda order: session, lambda: ("3", ""), tidy=lambda: calls.append("swept")) as sessions:
        assert not calls
        for thread in ("one", "two"):
            sessions.get(thread)
            assert calls == ["swept"]


def test_a_process_sweeps_an_engine_once_and_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    swept: list[str] = []

    def note() -> list[Swept]:
        swept.append(os.environ["DOCKER_HOST"])
        return []

    monkeypatch.setattr(sweeping, "AFTER_S", 0.0)
    monkeypatch.setattr(sweeping, "_swept", set())
    monkeypatch.setattr(sweeping, "sweep_useless", note)
    for host in ("one", "one", "two", "one"):
        monkeypatch.setenv("DOCKER_HOST", host)
        sweeping.sweep_in_background()
        until = time.monotonic() + 10
        while host not in swept and time.monotonic() < until:
            time.sleep(0.01)
    assert swept == ["one", "two"]


def test_a_sweep_in_the_background_without_an_engine_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    failed: list[BaseException] = []

    def fails() -> list[Swept]:
        try:
            return sweep_useless()
        except SandboxUnavailable as error:
            failed.append(error)
            raise

    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    monkeypatch.setattr(sweeping, "AFTER_S", 0.0)
    monkeypatch.setattr(sweeping, "_swept", set())
    monkeypatch.setattr(sweeping, "sweep_useless", fails)
    sweeping.sweep_in_background()
    until = time.monotonic() + 10
    while not failed and time.monotonic() < until:
        time.sleep(0.01)
    assert failed


def test_a_sweep_without_an_engine_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with pytest.raises(SandboxUnavailable, match="No Docker engine answers"):
        sweep()


def attached(name: str) -> BoxSession:
    """Go on with a thread's box."""
    key = name.removeprefix("actloop-")
    return open_docker_session(Limits(), order=Order(key=key, thread="resumed"))


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack
