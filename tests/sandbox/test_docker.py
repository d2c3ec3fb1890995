"""The container around a session: opened whole or not at all, isolated, and gone afterwards."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import docker
import pytest

from actloop.config import Limits
from actloop.errors import ConfigError, ImageMissing, SandboxError, SandboxLost, SandboxUnavailable
from actloop.sandbox import aopen_session, cells, open_session, program
from actloop.sandbox import docker as docker_box
from actloop.sandbox.engine import connect
from actloop.sandbox.program import BOOT
from actloop.sandbox.session import BoxSession

Open = Callable[..., BoxSession]
pytestmark = pytest.mark.docker


def ours(engine: docker.DockerClient, owner: int | None = None) -> set[str]:
    """Names of the boxes that a process owns."""
    filters = {"label": f"actloop.owner={owner or os.getpid()}"}
    return {str(box.name) for box in engine.containers.list(all=True, filters=filters, ignore_removed=True)}


def eventually_gone(engine: docker.DockerClient, names: set[str], owner: int | None = None) -> bool:
    """Whether these boxes go within some seconds; the engine removes a box a moment after its end."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if not names & ours(engine, owner):
            return True
        time.sleep(0.05)
    return False


@pytest.fixture
def nothing_left(engine: docker.DockerClient) -> Iterator[None]:
    before = ours(engine)
    yield
    assert eventually_gone(engine, ours(engine) - before)


# -- opening ------------------------------------------------------------------------------------------------------


def test_without_an_engine_the_error_says_so_and_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    begin = time.monotonic()
    for backend in ("docker", "auto"):
        with pytest.raises(SandboxUnavailable, match="Docker"):
            open_session(backend)
    assert time.monotonic() - begin < 5


def test_a_missing_image_is_told_and_not_pulled(image: str) -> None:
    with pytest.raises(ImageMissing, match="no-such-image"):
        open_session("docker", image="actloop-no-such-image:latest")


def test_an_unknown_backend_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="docker"):
        open_session("host")


@pytest.mark.usefixtures("nothing_left")
def test_a_failure_after_the_start_leaves_no_box(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(limits: Limits, ttl_s: float | None) -> bytes:
        raise RuntimeError("the handshake failed")

    monkeypatch.setattr(docker_box, "supervisor_program", fail)
    with pytest.raises(RuntimeError, match="handshake"):
        open_session("docker")


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("broke off"), docker.errors.APIError("refused")])
def test_a_failing_start_leaves_no_box(
    image: str, monkeypatch: pytest.MonkeyPatch, error: BaseException | type[BaseException]
) -> None:
    def fail(self: Any, **options: object) -> None:
        raise error

    monkeypatch.setattr(docker.models.containers.Container, "start", fail)
    with pytest.raises((KeyboardInterrupt, SandboxUnavailable)):
        open_session("docker")


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(
    ("boot", "complaint"),
    [
        ("import sys; sys.exit('no interpreter for you')", "no interpreter for you"),
        ("import os; os._exit(0)", "box"),
        ("import time; time.sleep(60)", "no answer"),
        ("raise SyntaxError('old Python')", "old Python"),
    ],
)
def test_an_interpreter_that_does_not_start_is_told_and_leaves_no_box(
    image: str, monkeypatch: pytest.MonkeyPatch, boot: str, complaint: str
) -> None:
    monkeypatch.setattr(docker_box, "BOOT", boot)
    monkeypatch.setattr(docker_box, "START_S", 2.0)
    with pytest.raises(SandboxUnavailable, match=complaint):
        open_session("docker")


def test_an_interpreter_that_starts_slowly_is_waited_for(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_box, "BOOT", "import time; time.sleep(3)\n" + BOOT)
    with open_session("docker") as session:
        assert session.run("1 + 1").result == "2"


def test_limits_that_the_engine_refuses_are_one_error(image: str) -> None:
    with pytest.raises(SandboxUnavailable, match="CPU"):
        open_session("docker", limits=Limits.model_validate({"cpus": 256}))


def test_a_name_that_is_taken_is_neither_adopted_nor_removed(
    engine: docker.DockerClient, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, free = uuid.uuid4(), uuid.uuid4()
    stranger = engine.containers.create(image, ["true"], name=f"actloop-{taken.hex[:12]}")
    try:
        given = iter([taken, free])
        fake = SimpleNamespace(uuid4=lambda: next(given))
        monkeypatch.setattr(docker_box, "uuid", fake)
        with open_session("docker") as session:
            assert session.id == f"actloop-{free.hex[:12]}"
            assert session.run("1").result == "1"
        stranger.reload()
        assert stranger.status == "created"
    finally:
        stranger.remove(force=True)


@pytest.mark.usefixtures("nothing_left")
def test_two_sessions_at_once_do_not_see_each_other(open_box: Open) -> None:
    first, second = open_box(), open_box()
    first.put("own.txt", b"1")
    first.run("x = 1")
    assert second.run("x").outcome == "error"
    assert second.ls() == []
    cells = [session.start("import time; time.sleep(0.3); 'done'") for session in (first, second)]
    assert [cell.wait().result for cell in cells] == ["'done'", "'done'"]
    assert first.id != second.id


def test_eight_sessions_may_open_at_once(image: str, engine: docker.DockerClient) -> None:
    results: list[str | None] = []

    def work(number: int) -> None:
        with open_session("docker") as session:
            results.append(session.run(f"{number} * 2").result)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results, key=str) == sorted(map(str, range(0, 16, 2)))


async def test_an_async_session_opens_and_closes(engine: docker.DockerClient, image: str) -> None:
    async with aopen_session("docker") as session:
        name = session.id
        assert (await session.arun("1 + 1")).result == "2"
    assert eventually_gone(engine, {name})


# -- the end ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("nothing_left")
def test_sessions_leave_no_box_whatever_their_cells_did(image: str) -> None:
    for code in (
        "1",
        "1 / 0",
        "import os; os._exit(3)",
        "while True: pass",
        "import subprocess; subprocess.Popen(['sleep', '99'])",
    ):
        with open_session("docker") as session:
            session.run(code, timeout=0.3)


@pytest.mark.usefixtures("nothing_left")
def test_an_exception_in_the_with_block_removes_the_box(image: str) -> None:
    with pytest.raises(ZeroDivisionError), open_session("docker"):
        raise ZeroDivisionError


def test_closing_a_session_that_floods_is_quick(image: str) -> None:
    session = open_session("docker")
    session.start("while True: print('x' * 10_000)")
    time.sleep(0.3)
    begin = time.monotonic()
    session.close()
    assert time.monotonic() - begin < 5
    session.close()


CHILD = """
import sys, time
from actloop.sandbox import open_session
session = open_session("docker")
session.run("x = 1")
session.start("while True: pass")
print(session.id, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_box_of_a_killed_host_process_goes_and_a_new_one_opens(
    engine: docker.DockerClient, image: str, number: signal.Signals
) -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        name = child.stdout.readline().strip()
        assert name in ours(engine, child.pid)
        child.send_signal(number)
        child.wait()
    with open_session("docker") as session:
        assert session.run("1").result == "1"
    assert eventually_gone(engine, {name}, child.pid)


@pytest.mark.parametrize("end", ["remove", "kill", "stop"])
def test_a_box_that_goes_between_cells_is_lost_before_the_next(
    engine: docker.DockerClient, open_box: Open, end: str
) -> None:
    session = open_box()
    session.run("x = 1")
    _end(engine, session, end)
    for _ in range(2):
        with pytest.raises(SandboxLost, match="gone"):
            session.run("x")
    with pytest.raises(SandboxLost):
        session.get("a")
    assert not session.alive


@pytest.mark.parametrize("end", ["remove", "kill", "stop"])
def test_a_box_that_goes_under_a_running_cell_gives_lost(engine: docker.DockerClient, open_box: Open, end: str) -> None:
    session = open_box()
    session.run("x = 1; y = 2")
    cell = session.start("print('begun')\nwhile True: pass")
    assert next(iter(cell.events())).text == "begun\n"
    _end(engine, session, end)
    record = cell.wait(10)
    assert (record.outcome, record.exit_code, record.state, record.ok) == ("lost", None, "lost", False)
    assert record.lost_names == ("x", "y")
    with pytest.raises(SandboxLost):
        session.run("1")


def _end(engine: docker.DockerClient, session: BoxSession, how: str) -> None:
    box = engine.containers.get(session.id)
    with contextlib.suppress(docker.errors.APIError):
        if how == "remove":
            box.remove(force=True)
        elif how == "kill":
            box.kill()
        else:
            box.stop(timeout=2)
    deadline = time.monotonic() + 5
    while session.alive and time.monotonic() < deadline:
        time.sleep(0.01)


async def test_a_box_that_goes_under_an_async_cell_gives_lost(engine: docker.DockerClient, open_box: Open) -> None:
    session = open_box()
    timer = threading.Timer(0.3, lambda: engine.containers.get(session.id).remove(force=True))
    timer.start()
    record = await session.arun("while True: pass")
    timer.join()
    assert record.outcome == "lost"


@pytest.mark.parametrize("live", [False, True])
def test_a_box_that_falls_silent_is_given_up(
    engine: docker.DockerClient, open_box: Open, monkeypatch: pytest.MonkeyPatch, live: bool
) -> None:
    monkeypatch.setattr(cells, "SILENCE_S", 0.5)
    session = open_box()
    box = engine.containers.get(session.id)
    box.pause()
    begin = time.monotonic()
    record = session.run("1", timeout=0.5, on_event=(lambda event: None) if live else None)
    assert time.monotonic() - begin < 5
    assert record.outcome == "lost"
    assert any("said nothing" in note for note in record.notes)
    session.close()
    assert eventually_gone(engine, {session.id})


async def test_a_silent_box_is_given_up_for_async_callers_too(
    engine: docker.DockerClient, open_box: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "SILENCE_S", 0.5)
    session = open_box()
    box = engine.containers.get(session.id)
    box.pause()
    assert (await session.arun("1", timeout=0.5)).outcome == "lost"
    await session.aclose()
    assert eventually_gone(engine, {session.id})


def test_a_quiet_cell_outlasts_the_clients_own_time_limit(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_box, "connect", lambda: connect(timeout=1))
    with open_session("docker") as session:
        assert session.run("import time\ntime.sleep(3)\nprint('done')", timeout=20).stdout.text == "done\n"


def test_trouble_of_the_sandbox_is_an_error_and_trouble_of_the_code_is_data(
    engine: docker.DockerClient, open_box: Open
) -> None:
    session = open_box()
    assert session.run("raise SystemExit(1)").outcome == "exit"
    engine.containers.get(session.id).remove(force=True)
    with contextlib.suppress(SandboxError):
        record = session.run("1")
        assert record.outcome == "lost"
    with pytest.raises(SandboxError):
        session.run("1")


# -- isolation ----------------------------------------------------------------------------------------------------


def test_a_box_has_no_mount_of_the_host_no_network_and_no_privilege(
    engine: docker.DockerClient, session: BoxSession
) -> None:
    facts = engine.containers.get(session.id).attrs
    host = facts["HostConfig"]
    assert facts["Mounts"] == []
    assert not host["Binds"]
    assert host["NetworkMode"] == "none"
    assert not host["PortBindings"]
    assert host["ReadonlyRootfs"] is True
    assert host["Privileged"] is False
    assert host["CapDrop"] == ["ALL"]
    assert host["PidsLimit"] == 128
    assert "no-new-privileges:true" in host["SecurityOpt"]
    assert facts["Config"]["User"] == "10001:10001"


def test_nothing_of_the_hosts_environment_is_in_the_box(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SECRET_OF_THE_HOST", "canary-5512")
    with open_session("docker") as session:
        seen = session.run("import os, glob\nprint(dict(os.environ), open('/proc/1/cmdline').read())")
    assert "canary" not in seen.stdout.text


def test_the_supervisor_can_be_neither_read_nor_ended(session: BoxSession) -> None:
    record = session.run(
        "import os, signal\nopened = []\nfor part in ('mem', 'environ', 'maps', 'fd/0', 'fd/1'):\n"
        "    try:\n        open('/proc/1/' + part, 'rb').read(1); opened.append(part)\n    except OSError: pass\n"
        "for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, "
        "signal.SIGHUP): os.kill(1, number)\n"
        "opened"
    )
    assert (record.outcome, record.result) == ("ok", "[]"), record
    assert session.run("1").result == "1"


def test_the_root_is_read_only_and_the_user_is_nobody(session: BoxSession) -> None:
    record = session.run(
        "import os\nfailed = []\nfor path in ('/x', '/etc/x', '/usr/x', '/opt/venv/x'):\n"
        "    try: open(path, 'w')\n    except OSError: failed.append(path)\nos.getuid(), len(failed)"
    )
    assert record.result == "(10001, 4)"


@pytest.mark.usefixtures("image")
def test_an_interpreter_that_cannot_start_is_told_at_once_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = tuple(name for name in program._WORKER if name != "box_show")
    monkeypatch.setattr(program, "_WORKER", parts)
    began = time.monotonic()
    with pytest.raises(SandboxUnavailable, match=r"No module named '_box\.box_show'"):
        open_session("docker")
    assert time.monotonic() - began < 30
