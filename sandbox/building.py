"""Running what makes an image: a build on the engine, or a program here, with its log and its failures."""

import io
import os
import re
import subprocess
import tarfile
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import docker

from actloop.errors import SandboxError

from .engine import translate_errors

OnLine: TypeAlias = Callable[[str], None]
"""Called with each line of a build's log."""

LOG_TAIL = 15
"""Lines of a failed build's log that its error repeats."""

_BUILDERS_OWN = ("Step ", " ---> ", "Removing intermediate ")
"""How lines begin that no command wrote."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_COMMAND = re.compile("The command '.*'", re.DOTALL)


def build_failed(problem: str, log: Iterable[str]) -> SandboxError:
    """The error of a build, with the end of its log below its two sentences."""
    lines = "\n".join(f"    {line[:300]}" for line in log)
    return SandboxError(
        f"The image was not built: {' '.join(problem.split())}. Mend what the log's last lines say and run"
        f" `actloop image build` again.\n{lines}"
    )


def run_build(
    client: docker.DockerClient,
    context: Mapping[str, bytes],
    arguments: Mapping[str, str],
    on_line: OnLine,
    **options: Any,
) -> str:
    """Run one build.

    Args:
        client: of the engine that builds.
        context: name -> bytes of each file that the build sees, the Dockerfile among them.
        arguments: of the Dockerfile. The host's proxies are handed on as well.
        on_line: called with each line of the log.
        options: of docker-py's `build`.

    Returns:
        The image's id.

    Raises:
        SandboxError: a step failed.
    """
    tail: deque[str] = deque(maxlen=LOG_TAIL)
    image_id = problem = ""
    with translate_errors("building the image"):
        steps = client.api.build(
            fileobj=_tar(context), custom_context=True, buildargs={**_proxies(), **arguments},
            rm=True, forcerm=True, decode=True, timeout=None,  # a step may be silent for minutes
            **options,
        )  # fmt: skip
        for step in steps:
            image_id = step.get("aux", {}).get("ID", image_id)
            problem = step.get("error", problem)
            text = _COLOURS.sub("", step.get("stream", ""))
            for line in filter(None, map(str.rstrip, text.splitlines())):
                on_line(line)
                if not line.startswith(_BUILDERS_OWN):
                    tail.append(line)
    if problem:
        raise build_failed(_COMMAND.sub("a command", problem), tail)
    return image_id


def run_program(command: Sequence[str], on_line: OnLine, environment: Mapping[str, str] | None = None) -> None:
    """Run a program of this machine.

    Raises:
        SandboxError: it ended with another code than 0.
    """
    tail: deque[str] = deque(maxlen=LOG_TAIL)
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
        text=True, errors="replace",
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for line in map(str.rstrip, process.stdout):
            tail.append(line)
            on_line(line)
    if process.returncode != 0:
        raise build_failed(f"{command[0]} ended with {process.returncode}", tail)


def authorities() -> bytes:
    """The certificates that this host trusts, so that pip in the build does so too; empty where unknown."""
    names = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE")
    files = [os.environ.get(name) for name in names] + ["/etc/ssl/certs/ca-certificates.crt"]
    for file in filter(None, files):
        with suppress(OSError):
            return Path(file).read_bytes()
    return b""


def _proxies() -> dict[str, str]:
    """The host's proxies. Docker knows these names and leaves them out of the image's history."""
    names = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
    return {name: os.environ[name] for both in names for name in (both, both.lower()) if os.environ.get(name)}


def _tar(files: Mapping[str, bytes]) -> io.BytesIO:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    archive.seek(0)
    return archive
