"""The Docker box: one hardened container for a session.

Each option below has a reason; what they cost together is under a quarter of a container's start, and nothing in a
turn. A container holds nothing that anybody else needs: no mount, no network, no privilege, no secret.
"""

import contextlib
import http
import json
import os
import socket
import uuid
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import docker
import docker.errors
from docker.types import LogConfig, Ulimit

from actloop.config import DEFAULT_IMAGE, Limits
from actloop.errors import SandboxError, SandboxUnavailable

from .engine import connect, translate_errors
from .image import require_image
from .link import AttachedLink
from .program import BOOT, WORKSPACE, supervisor_program
from .session import BoxSession

USER = "10001:10001"
LABEL = "actloop"
TMP_BYTES = 64 << 20
SHM_BYTES = 32 << 20
SPARE_FILES = 32
NAME_ATTEMPTS = 3


@cache
def seccomp_profile() -> str:
    """The system calls that a box may make, as JSON text in Docker's format."""
    return json.dumps(json.loads(files("actloop.sandbox").joinpath("seccomp.json").read_text("utf-8")))


def environment(limits: Limits) -> dict[str, str]:
    """Environment of the box: nothing of the host's enters it."""
    threads = str(max(1, int(limits.cpus)))
    return {
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "MPLBACKEND": "agg",
        # A thread pool as wide as the host has processors would fight over this box's share, and count as processes.
        "OPENBLAS_NUM_THREADS": threads,
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "NUMEXPR_NUM_THREADS": threads,
    }


def container_options(limits: Limits, labels: Mapping[str, str]) -> dict[str, Any]:
    """Options of `containers.create`, with the reason beside each."""
    owner = f"uid={USER.split(':')[0]},gid={USER.split(':')[1]}"
    return {
        "entrypoint": ["python3", "-I", "-S", "-c", BOOT],
        "command": [],
        "stdin_open": True,
        # PID 1 has no handler for any other, so that nothing inside can end it.
        "stop_signal": "SIGKILL",
        "user": USER,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true", f"seccomp={seccomp_profile()}"],
        "read_only": True,
        # No route, no name service, no other box; loopback works.
        "network_mode": "none",
        "ipc_mode": "private",
        "shm_size": SHM_BYTES,
        "hostname": "sandbox",
        "working_dir": WORKSPACE,
        # Memory file systems with a size and a number of files: no program can fill the host's disk. The workspace
        # allows execution, because packages installed into it hold shared libraries; `noexec` is no boundary anyhow.
        "tmpfs": {
            WORKSPACE: f"rw,exec,nosuid,nodev,size={limits.disk},nr_inodes={limits.files},mode=0700,{owner}",
            "/tmp": f"rw,noexec,nosuid,nodev,size={TMP_BYTES},nr_inodes=4096,mode=1777",
        },
        # Files in memory count as memory: the kernel's limit is the sum, so that a full disk is an error of the
        # program that writes and not the end of the interpreter.
        "mem_limit": limits.memory + limits.disk + TMP_BYTES + SHM_BYTES,
        "memswap_limit": limits.memory + limits.disk + TMP_BYTES + SHM_BYTES,
        "nano_cpus": int(limits.cpus * 1e9),
        "pids_limit": limits.pids,
        # Not `nproc`: it counts one user's processes over all containers.
        "ulimits": [
            # What is between the two is the interpreter's own, so that a cell that opens all can still be reported.
            Ulimit(name="nofile", soft=limits.open_files, hard=limits.open_files + SPARE_FILES),
            Ulimit(name="fsize", soft=limits.disk, hard=limits.disk),
            Ulimit(name="core", soft=0, hard=0),
        ],
        # What the box prints is ours to read and must not land on the host's disk as well.
        "log_config": LogConfig(type="none"),
        # The box ends when its stream does, and nothing of it stays, even if this process is killed.
        "auto_remove": True,
        "environment": environment(limits),
        "labels": {LABEL: "1", f"{LABEL}.owner": str(os.getpid()), f"{LABEL}.host": socket.gethostname(), **labels},
    }


def open_docker_session(limits: Limits, image: str = DEFAULT_IMAGE, thread: str | None = None) -> BoxSession:
    """Start a container and the interpreter in it.

    Args:
        limits: of the box.
        image: any image with Python 3.9 or later.
        thread: thread that owns the box, for its label.

    Raises:
        SandboxUnavailable: no engine, or it refuses the container.
        ImageMissing: the image is not on the engine.
    """
    client = connect()
    container: Any = None
    link: AttachedLink | None = None
    try:
        with translate_errors():
            require_image(client, image)
            labels = {f"{LABEL}.thread": thread} if thread else {}
            container = _create(client, image, container_options(limits, labels))
            sock = container.attach_socket(params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
            link = AttachedLink(sock)
            container.start()
            link.send(supervisor_program(limits))
        return BoxSession(str(container.name), link, lambda: _remove(client, container), limits)
    except BaseException as error:
        # Whatever went wrong after the container was made must not leave it behind.
        if link is not None:
            link.close()
        if container is not None:
            _remove(client, container)
        else:
            client.close()
        if isinstance(error, OSError) and not isinstance(error, SandboxError):
            raise SandboxUnavailable(f"The stream to the new box broke off: {error}. Try again.") from error
        raise


def _create(client: docker.DockerClient, image: str, options: dict[str, Any]) -> Any:
    """Make a container under a name that nobody has; a stranger's is neither taken nor touched."""
    for attempt in range(NAME_ATTEMPTS):
        try:
            return client.containers.create(image, name=f"actloop-{uuid.uuid4().hex[:12]}", **options)
        except docker.errors.APIError as error:
            if error.status_code != http.HTTPStatus.CONFLICT or attempt == NAME_ATTEMPTS - 1:
                raise
    raise AssertionError


def _remove(client: docker.DockerClient, container: Any) -> None:
    """Remove a container that may be gone, or going, already."""
    with contextlib.suppress(SandboxError), translate_errors():
        container.remove(force=True, v=True)
    with contextlib.suppress(Exception):
        client.close()
