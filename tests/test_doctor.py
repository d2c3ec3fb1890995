"""Each thing that a run needs is looked at, and each lack comes with its remedy."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from actloop.config import Settings
from actloop.doctor import Check, diagnose

NOWHERE = "unix:///nowhere/docker.sock"


class ModelServer(ThreadingHTTPServer):
    """An OpenAI-compatible server with one model and one key; `status` makes it fail."""

    status = 200
    key = "right"

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: ModelServer

    def do_GET(self) -> None:
        status = self.server.status
        if self.headers.get("Authorization") != f"Bearer {self.server.key}":
            status = 401
        body = json.dumps({"object": "list", "data": [{"id": "small-model"}]}).encode()
        if self.path != "/v1/models":
            status = 404
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the tests look at what the client makes of it."""


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the tests of the model's settings the questions to the engine."""
    monkeypatch.setenv("DOCKER_HOST", NOWHERE)


def _model(monkeypatch: pytest.MonkeyPatch, **settings: str) -> Check:
    for name, value in settings.items():
        monkeypatch.setenv(f"ACTLOOP_{name.upper()}", value)
    return _named(diagnose(), "Model")


def _named(checks: list[Check], name: str) -> Check:
    return next(check for check in checks if check.name == name)


def test_a_machine_with_engine_and_image_lacks_a_model_only(image: str) -> None:
    checks = diagnose()
    assert [check.name for check in checks if not check.ok] == ["Model"]
    assert "memory, cpu, processes, seccomp" in _named(checks, "Limits").detail
    assert "pandas" in _named(checks, "Sandbox image").detail


def test_a_missing_image_names_what_builds_it(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACTLOOP_IMAGE", "actloop-no-such-image:latest")
    check = _named(diagnose(), "Sandbox image")
    assert not check.ok
    assert "actloop image build" in check.remedy


def test_without_an_engine_everything_else_is_still_looked_at(no_engine: None) -> None:
    checks = diagnose()
    assert [check.name for check in checks] == ["Python", "Docker engine", "Model", "Data folder"]
    assert NOWHERE in _named(checks, "Docker engine").detail


def test_every_failed_check_has_a_remedy(no_engine: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("ACTLOOP_DATA_DIR", str(tmp_path / "file" / "data"))
    failed = [check for check in diagnose() if not check.ok]
    assert [check.name for check in failed] == ["Docker engine", "Model", "Data folder"]
    assert all(check.detail and check.remedy for check in failed)


def test_no_model_names_the_variables_to_set(no_engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    check = _model(monkeypatch)
    assert not check.ok
    assert "OPENAI_API_KEY" in check.remedy
    assert "ACTLOOP_BASE_URL" in check.remedy


@pytest.mark.parametrize("name", ["small-model", "openai:small-model"])
def test_a_server_that_has_the_model_is_well(
    no_engine: None, server: ModelServer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    check = _model(monkeypatch, base_url=server.address, api_key="right", model=name)
    assert check.ok
    assert check.detail == f"{server.address} answers and has small-model"


def test_a_model_that_the_server_lacks_is_reported_with_those_it_has(
    no_engine: None, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = _model(monkeypatch, base_url=server.address, api_key="right", model="large-model")
    assert not check.ok
    assert "small-model" in check.remedy


def test_a_wrong_key_is_reported_and_never_shown(
    no_engine: None, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = _model(monkeypatch, base_url=server.address, api_key="wrong-key")
    assert not check.ok
    assert "refuses the key" in check.detail
    assert "wrong-key" not in str(check)


def test_a_missing_key_is_told_from_a_wrong_one(
    no_engine: None, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "wants a key" in _model(monkeypatch, base_url=server.address).detail


def test_a_server_without_a_list_of_models_is_well(
    no_engine: None, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = _model(monkeypatch, base_url=server.address.replace("/v1", "/other"), api_key="right")
    assert check.ok


def test_an_overloaded_server_is_not_well(
    no_engine: None, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.status = 503
    assert not _model(monkeypatch, base_url=server.address, api_key="right").ok


def test_a_server_that_nobody_started_is_reported(no_engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    check = _model(monkeypatch, base_url=f"http://127.0.0.1:{port}/v1")
    assert not check.ok
    assert "cannot be reached" in check.detail


@pytest.mark.parametrize("address", ["127.0.0.1:8000/v1", "file:///etc/passwd", "http://[::1/v1", "nonsense"])
def test_something_else_than_an_address_is_reported(
    no_engine: None, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    check = _model(monkeypatch, base_url=address)
    assert not check.ok
    assert "ACTLOOP_BASE_URL" in check.remedy


def test_settings_can_be_given_instead_of_the_environment(no_engine: None, tmp_path: Path) -> None:
    checks = diagnose(Settings(data_dir=tmp_path / "own"))
    assert _named(checks, "Data folder").detail == str(tmp_path / "own")
