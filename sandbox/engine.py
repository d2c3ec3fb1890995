"""The way to the Docker engine, and what its failures mean.

docker-py raises errors of four families (its own, requests', urllib3's and the operating system's); which one
it is depends on the moment the engine went away. `translate_errors` is the one place that makes them ours.
"""

import http
import http.client
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

import docker
import docker.errors as foreign
import requests
import urllib3
from docker.context import ContextAPI

from actloop.errors import ImageMissing, SandboxError, SandboxLost, SandboxUnavailable

ANSWER_S = 5.0
"""Seconds that an engine has to say its version. One that is well takes milliseconds."""

TABLE: Mapping[type[Exception], type[SandboxError]] = MappingProxyType(
    {
        foreign.ImageNotFound: ImageMissing,
        foreign.NotFound: SandboxLost,
        foreign.APIError: SandboxUnavailable,
        foreign.BuildError: SandboxError,
        foreign.ContainerError: SandboxError,
        foreign.ImageLoadError: SandboxError,
        foreign.InvalidArgument: SandboxError,
        foreign.InvalidRepository: SandboxError,
        foreign.NullResource: SandboxError,
        foreign.DeprecatedMethod: SandboxError,
        foreign.StreamParseError: SandboxLost,
        foreign.InvalidVersion: SandboxUnavailable,
        foreign.InvalidConfigFile: SandboxUnavailable,
        foreign.TLSParameterError: SandboxUnavailable,
        foreign.MissingContextParameter: SandboxUnavailable,
        foreign.ContextAlreadyExists: SandboxUnavailable,
        foreign.ContextNotFound: SandboxUnavailable,
        foreign.ContextException: SandboxUnavailable,
        foreign.DockerException: SandboxUnavailable,
        requests.RequestException: SandboxUnavailable,
        urllib3.exceptions.HTTPError: SandboxUnavailable,
        http.client.HTTPException: SandboxUnavailable,
        ConnectionError: SandboxUnavailable,
        TimeoutError: SandboxUnavailable,
        EOFError: SandboxLost,
    }
)
"""Foreign error -> ours, found along the foreign class's bases. Any other `OSError` is about a file."""

_FOREIGN = tuple(TABLE)
_UNREACHED: tuple[type[Exception], ...] = (*_FOREIGN, OSError, ValueError)

_NEXT: Mapping[type[SandboxError], str] = MappingProxyType(
    {
        ImageMissing: "Build it with `actloop image build`.",
        SandboxLost: "Open a new session.",
        SandboxUnavailable: "Run `actloop doctor` to see what the engine lacks.",
        SandboxError: "Run `actloop doctor`; if all is well there, this is a bug.",
    }
)


def connect(timeout: float = 60.0) -> docker.DockerClient:
    """Reach the engine that `DOCKER_HOST`, the current Docker context or the default socket names.

    The engine must say its version within `ANSWER_S` seconds, whatever `timeout` is.

    Args:
        timeout: seconds that later requests of the client may take.

    Returns:
        A client; the caller closes it.

    Raises:
        SandboxUnavailable: no engine answers, or it does not let us in. The message says what to do.
    """
    try:
        _knock()
        client = docker.DockerClient.from_env(timeout=ANSWER_S)
        try:
            client.ping()
        except BaseException:
            client.close()
            raise
    except _UNREACHED as error:
        raise _unreachable(error) from error
    client.api.timeout = timeout
    return client


@contextmanager
def translate_errors(doing: str = "the request") -> Iterator[None]:
    """Turn an error of docker-py, or of the connection below it, into one of ours.

    Args:
        doing: what is being done, as the subject of a sentence: "starting the box".

    Raises:
        SandboxError: the class that `TABLE` names. Errors that are ours already pass unchanged.
    """
    try:
        yield
    except SandboxError:
        raise
    except _FOREIGN as error:
        raise translated(error, doing) from error


def translated(error: Exception, doing: str = "the request") -> SandboxError:
    """Our error for a foreign one, with one sentence about what happened and one about what to do next."""
    ours = next((TABLE[base] for base in type(error).__mro__ if base in TABLE), SandboxError)
    if isinstance(error, foreign.APIError) and error.status_code == http.HTTPStatus.CONFLICT:
        ours = SandboxLost  # the box is there, but stopped, paused or being removed
    return ours(f"{doing[:1].upper()}{doing[1:]} failed: {reason(error)}. {_NEXT[ours]}")


def reason(error: BaseException) -> str:
    """What the engine said, without addresses and layers of wrapping; one line without a full stop."""
    if isinstance(error, requests.Timeout | TimeoutError | urllib3.exceptions.TimeoutError):
        return "the engine did not answer in time"
    if isinstance(error, ConnectionError | requests.ConnectionError | urllib3.exceptions.HTTPError):
        return "the engine cannot be reached any more"
    text = str(getattr(error, "explanation", None) or error) or type(error).__name__
    return " ".join(text.split()).rstrip(".")


def _knock() -> None:
    """Try the engine's socket, because docker-py leaks its own where nobody listens."""
    host = os.environ.get("DOCKER_HOST") or _context_host()
    if host.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as knock:
            knock.settimeout(ANSWER_S)
            knock.connect("/" + host.removeprefix("unix://").lstrip("/"))


def _context_host() -> str:
    context = ContextAPI.get_context(os.environ.get("DOCKER_CONTEXT"))
    return str(context.Host) if context else ""


def _unreachable(error: BaseException) -> SandboxUnavailable:
    host = os.environ.get("DOCKER_HOST", "")
    where = f"at DOCKER_HOST={host}" if host else "on this machine"
    chain = list(_chain(error))
    text = " ".join(str(link) for link in chain)
    if any(isinstance(link, PermissionError) for link in chain) or "Permission denied" in text:
        return SandboxUnavailable(
            f"The Docker engine {where} does not let this user in. Add the user to the group `docker`"
            " (`sudo usermod -aG docker $USER`) and log in again."
        )
    remedy = (
        "Correct DOCKER_HOST, or unset it to use the engine on this machine."
        if host
        else "Start Docker, or run `scripts/engine`, which installs and starts one on Debian and Ubuntu."
    )
    if any(isinstance(link, TimeoutError | requests.Timeout) for link in chain) or "timed out" in text:
        return SandboxUnavailable(f"The Docker engine {where} did not answer within {ANSWER_S:g} seconds. {remedy}")
    if any(isinstance(link, FileNotFoundError | ConnectionError | requests.ConnectionError) for link in chain):
        return SandboxUnavailable(f"No Docker engine answers {where}. {remedy}")
    return SandboxUnavailable(f"The Docker engine {where} cannot be used: {reason(error)}. {remedy}")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and whatever caused it; requests and urllib3 wrap the one that tells in their arguments."""
    seen: set[int] = set()
    waiting: list[object] = [error]
    while waiting:
        link = waiting.pop()
        if isinstance(link, BaseException) and id(link) not in seen:
            seen.add(id(link))
            yield link
            waiting += [link.__cause__, link.__context__, getattr(link, "reason", None), *link.args]
