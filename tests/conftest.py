"""What every test may rely on: a real engine and image where there is one, and no way to a model's provider.

Tests that need the engine carry the mark `docker`, or ask for `engine` or `image` and get the mark. Without
an engine they are skipped and counted in the closing lines; with `CI=true` they fail.
"""

import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import docker
import pytest

from actloop import cli
from actloop.config import DEFAULT_IMAGE
from actloop.errors import ImageMissing, SandboxError
from actloop.sandbox.engine import connect
from actloop.sandbox.image import ensure_image, require_image

if TYPE_CHECKING:
    from bench.postgres import PostgresServer
    from tests.fake_server import FakeServer

_FOREIGN = ("ACTLOOP_", "OPENAI_", "AZURE_OPENAI_", "ANTHROPIC_", "LANGSMITH_", "LANGCHAIN_")
"""Settings of the person who runs the tests; none of them may change a result or lead to a provider."""


@dataclass
class _Engine:
    """What the session knows of the engine, found out once, before the first test's clock runs."""

    client: docker.DockerClient | None = None
    problem: str = "no test asked for it"
    before: set[str] = field(default_factory=set)


_engine = _Engine()


def pytest_configure(config: pytest.Config) -> None:
    _scrub_environment()


def _scrub_environment() -> None:
    for name in [name for name in os.environ if name.startswith(_FOREIGN)]:
        del os.environ[name]
    os.environ["LANGSMITH_TRACING"] = "false"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"engine", "image"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("docker")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Reach the engine and build the image here, because a build takes longer than a test may."""
    wanted = any(item.get_closest_marker("docker") for item in session.items)
    if not wanted or session.config.option.collectonly:
        return
    try:
        client = connect()
        _engine.client = client
        try:
            require_image(client, DEFAULT_IMAGE)
        except ImageMissing:
            ensure_image(lambda line: None)
        _engine.before = {box.id for box in _boxes(client)}
    except SandboxError as error:
        _engine.problem = str(error).splitlines()[0]


def _boxes(client: docker.DockerClient) -> list[Any]:
    return list(client.containers.list(all=True, filters={"label": "actloop"}, ignore_removed=True))


@pytest.fixture(scope="session")
def engine() -> docker.DockerClient:
    """A client of a real engine that has the sandbox's image."""
    if _engine.client is None or not _has_image(_engine.client):
        complaint = f"no Docker engine with the image: {_engine.problem}"
        if os.environ.get("CI") == "true":
            pytest.fail(complaint, pytrace=False)
        pytest.skip(complaint)
    return _engine.client


def _has_image(client: docker.DockerClient) -> bool:
    try:
        require_image(client, DEFAULT_IMAGE)
    except SandboxError:
        return False
    return True


@pytest.fixture(scope="session")
def image(engine: docker.DockerClient) -> str:
    """Tag of the sandbox's image, which is there."""
    return DEFAULT_IMAGE


@pytest.fixture(scope="session")
def postgres_server() -> "Iterator[PostgresServer]":
    """A real Postgres, started for this session; where none can be had, the tests that want one fail."""
    # The folder of the repository is not on the path: `graph` and `nodes` would be names of the top level.
    path = Path(__file__).parent.parent / "bench" / "postgres.py"
    spec = importlib.util.spec_from_file_location("actloop_bench_postgres", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    with module.PostgresServer() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: "PostgresServer") -> Iterator[str]:
    """URL of an empty database of the test's own."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    yield postgres_server.create(name)
    postgres_server.drop(name)


@pytest.fixture(autouse=True)
def _engine_for_marked(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("docker"):
        request.getfixturevalue("image")


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep each test's data in its own folder, and undo what an earlier one left in the environment."""
    _scrub_environment()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg-data"))


@pytest.fixture(autouse=True, scope="session")
def _no_way_out() -> Iterator[None]:
    """Let sockets reach this machine and the engine only, so that no test can talk to a provider."""
    allowed = {"localhost", "::1", urlsplit(os.environ.get("DOCKER_HOST", "")).hostname}
    connect_really = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        host = address[0] if isinstance(address, tuple) else ""
        outside = self.family in (socket.AF_INET, socket.AF_INET6) and host not in allowed
        if outside and not host.startswith("127."):
            self.close()
            pytest.fail(f"a test tried to reach {host!r}: tests talk to this machine only")
        connect_really(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        yield


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where this session left a box behind, and remove it."""
    client = _engine.client
    if client is None:
        return
    left = [box for box in _boxes(client) if box.id not in _engine.before and _is_ours(box.labels)]
    for box in left:
        box.remove(force=True)
    client.close()
    if left:
        _leftovers.extend(f"{box.name} ({box.status})" for box in left)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.strip()]


Shell = Callable[..., Ended]


class Command(subprocess.Popen[str]):
    """A command that runs as a process of its own."""

    def finish(self, typed: str | None = None) -> Ended:
        """Wait for its end; `typed` is all that it reads."""
        out, err = self.communicate(typed, timeout=90)
        assert "Traceback" not in (err or "")
        return Ended(self.returncode, out, err)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def shell(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    """Run a command within this process, which spares it two seconds of imports."""

    def run(*args: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["actloop", *args])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return Ended(int(ended.value.code or 0), out, err)

    return run


@pytest.fixture
def command(folder: Path) -> Iterator[Callable[..., Command]]:
    """Start a command as a process of its own."""
    started: list[Command] = []

    def start(*args: str, **options: Any) -> Command:
        env = {**os.environ, **options.pop("env", {})}
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = Command([sys.executable, "-m", "actloop", *args], text=True, env=env, **{**pipes, **options})
        started.append(process)
        return process

    yield start
    for process in started:
        with contextlib.suppress(OSError):
            process.kill()
        process.communicate()


@pytest.fixture
def server() -> Iterator["FakeServer"]:
    """An OpenAI-compatible server on loopback."""
    path = Path(__file__).parent / "fake_server.py"
    spec = importlib.util.spec_from_file_location("actloop_tests_fake_server", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules.setdefault(spec.name, importlib.util.module_from_spec(spec))
    if not hasattr(module, "serve"):
        spec.loader.exec_module(module)
    yield from module.serve()


_leftovers: list[str] = []


def _is_ours(labels: dict[str, str]) -> bool:
    """Whether this process owns the box; in CI, where nobody else works, also whether its owner is gone."""
    owner = labels.get("actloop.owner", "")
    if owner == str(os.getpid()):
        return True
    return os.environ.get("CI") == "true" and owner.isdigit() and not Path(f"/proc/{owner}").exists()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: Any) -> Iterator[None]:
    """Say at the very end what did not run and why: a green run without an engine is not a whole one."""
    yield
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else str(report.longrepr)
        for report in terminalreporter.stats.get("skipped", ())
    )
    for why, count in reasons.most_common():
        terminalreporter.write_line(f"did not run: {count} tests ({why.removeprefix('Skipped: ')})", yellow=True)
    for line in _leftovers:
        terminalreporter.write_line(f"left behind by this session, removed now: {line}", red=True)
