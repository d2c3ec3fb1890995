"""What to compare with: the engine's own commands, and the least loop that can run code over an attached stream."""

import contextlib
import struct
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import docker.errors

from actloop.config import DEFAULT_IMAGE, Limits
from actloop.sandbox.docker import container_options
from actloop.sandbox.engine import connect
from actloop.sandbox.link import AttachedLink

RAW_LOOP = """
import os, struct
def read(n):
    data = b""
    while len(data) < n:
        part = os.read(0, n - len(data))
        if not part: os._exit(0)
        data += part
    return data
names = {}
while True:
    size, = struct.unpack("!I", read(4))
    exec(compile(read(size).decode(), "<cell>", "exec"), names)
    os.write(1, b"ok\\n")
"""
"""It caps nothing, catches nothing and keeps nothing: not a design, a floor."""


def seconds(call: Any, *arguments: Any) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - start


def docker_run(image: str = DEFAULT_IMAGE) -> None:
    """`docker run` of `print(1)`, as a person types it."""
    _docker("run", "--rm", image, "python3", "-c", "print(1)")


def docker_exec(container: str) -> None:
    """`docker exec` of `print(1)` in a container that runs already."""
    _docker("exec", container, "python3", "-c", "print(1)")


def _docker(*arguments: str) -> None:
    subprocess.run(["docker", *arguments], check=True, capture_output=True)


class RawLoop:
    """The raw loop in a container with the same limits as a session's."""

    def __init__(self, limits: Limits, image: str = DEFAULT_IMAGE) -> None:
        self._client = connect()
        options = container_options(limits, {})
        options["entrypoint"] = ["python3", "-I", "-S", "-c", RAW_LOOP]
        self._container: Any = self._client.containers.create(image, **options)
        sock = self._container.attach_socket(params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
        self._link = AttachedLink(sock)
        self._container.start()
        self._replies: Iterator[bytes] = self._link.receive()
        self.turn("pass")

    def turn(self, code: str) -> None:
        """Run code and wait for its end."""
        self._link.send(struct.pack("!I", len(code)) + code.encode())
        next(self._replies)

    @property
    def container(self) -> str:
        """Name of the container."""
        return str(self._container.name)

    def close(self) -> None:
        """Remove the container."""
        self._link.close()
        # The loop ends with its stream, and the container with the loop: it may be going already.
        with contextlib.suppress(docker.errors.APIError):
            self._container.remove(force=True)
        self._client.close()
