"""The engine is reached, or one sentence says why not; and no foreign error gets past the table."""

import http.client
import inspect
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import docker.errors
import pytest
import requests
import urllib3

from actloop import errors
from actloop.sandbox.engine import ANSWER_S, TABLE, connect, translate_errors

FOREIGN = [
    found
    for _, found in inspect.getmembers(docker.errors, inspect.isclass)
    if issubclass(found, Exception) and found.__module__ == "docker.errors"
]


@pytest.fixture
def silent() -> Iterator[str]:
    """Address of a server that accepts and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"


def test_the_engine_answers(engine: docker.DockerClient) -> None:
    client = connect(timeout=7)
    assert client.version()["Version"] == engine.version()["Version"]
    assert client.api.timeout == 7
    client.close()


@pytest.mark.parametrize(
    "host",
    [
        "unix:///nowhere/docker.sock",
        "unix:///etc/hostname",
        "tcp://127.0.0.1:1",
        "tcp://127.0.0.1:none",
        "carrier-pigeon://loft",
        "ssh://nobody@127.0.0.1",
        "-",
    ],
)
def test_a_wrong_docker_host_is_one_error_with_the_next_step(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    with pytest.raises(errors.SandboxUnavailable, match="DOCKER_HOST"):
        connect()


def test_an_engine_that_says_nothing_costs_seconds_not_minutes(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", silent)
    began = time.monotonic()
    with pytest.raises(errors.SandboxUnavailable, match="did not answer within 5 seconds"):
        connect(timeout=600)
    assert time.monotonic() - began < ANSWER_S + 2


def test_without_docker_host_the_error_names_the_script_that_starts_an_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr("actloop.sandbox.engine._context_host", lambda: f"unix://{tmp_path}/docker.sock")
    with pytest.raises(errors.SandboxUnavailable, match="scripts/engine"):
        connect()


def test_a_socket_that_is_not_ours_to_use_names_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise docker.errors.DockerException("Error while fetching server API version") from PermissionError(
            13, "denied"
        )

    monkeypatch.setattr(docker.DockerClient, "from_env", refused)
    monkeypatch.setattr("actloop.sandbox.engine._knock", lambda: None)
    with pytest.raises(errors.SandboxUnavailable, match="group `docker`"):
        connect()


@pytest.mark.parametrize("kind", FOREIGN)
def test_every_class_of_docker_errors_is_in_the_table(kind: type[Exception]) -> None:
    assert kind in TABLE


def _response(status: int) -> requests.Response:
    response = requests.Response()
    response.status_code = status
    return response


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (docker.errors.ImageNotFound("x", _response(404), "no such image"), errors.ImageMissing),
        (docker.errors.NotFound("x", _response(404), "no such container"), errors.SandboxLost),
        (docker.errors.APIError("x", _response(409), "container is not running"), errors.SandboxLost),
        (docker.errors.APIError("x", _response(400), "unknown runtime"), errors.SandboxUnavailable),
        (docker.errors.APIError("x", _response(500), "no space left"), errors.SandboxUnavailable),
        (docker.errors.StreamParseError("x"), errors.SandboxLost),
        (requests.ConnectionError("refused"), errors.SandboxUnavailable),
        (requests.ReadTimeout("slow"), errors.SandboxUnavailable),
        (requests.exceptions.ChunkedEncodingError("cut"), errors.SandboxUnavailable),
        (urllib3.exceptions.ProtocolError("cut"), errors.SandboxUnavailable),
        (http.client.IncompleteRead(b""), errors.SandboxUnavailable),
        (BrokenPipeError(32, "broken"), errors.SandboxUnavailable),
        (TimeoutError(), errors.SandboxUnavailable),
        (EOFError(), errors.SandboxLost),
    ],
)
def test_a_foreign_error_becomes_ours(raised: Exception, expected: type[errors.SandboxError]) -> None:
    sentences = r"^Starting the box failed: .+\. .+\.$"
    with pytest.raises(errors.SandboxError, match=sentences) as caught, translate_errors("starting the box"):
        raise raised
    assert type(caught.value) is expected
    assert caught.value.__cause__ is raised


@pytest.mark.parametrize("raised", [errors.SandboxLost("gone"), FileNotFoundError("x.csv"), KeyError("x")])
def test_errors_that_are_not_the_engines_pass_unchanged(raised: Exception) -> None:
    with pytest.raises(type(raised)) as caught, translate_errors():
        raise raised
    assert caught.value is raised


def test_a_real_refusal_names_what_the_engine_said(engine: docker.DockerClient, image: str) -> None:
    unknown = engine.api.create_host_config(runtime="no-such-runtime")
    said = r"runtime.*\. Run `actloop doctor`"
    with pytest.raises(errors.SandboxUnavailable, match=said), translate_errors("starting the box"):
        engine.api.create_container(image, host_config=unknown)


def test_a_box_that_went_away_is_lost(engine: docker.DockerClient) -> None:
    with pytest.raises(errors.SandboxLost), translate_errors("looking at the box"):
        engine.containers.get("no-such-box")
