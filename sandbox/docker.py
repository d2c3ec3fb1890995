"""The Docker box: one hardened container for a session.

Each option below has a reason; what they cost together is under a quarter of a container's start, and nothing in a
turn. A container holds nothing that anybody else needs: no mount, no network, no privilege, no secret.
"""

import contextlib
import http
import json
import os
import socket
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import docker
import docker.errors
from docker.types import LogConfig, Ulimit

from actloop.config import DEFAULT_IMAGE, Limits
from actloop.errors import SandboxError, SandboxLost, SandboxUnavailable

from .boxes import LABEL, POOL_PREFIX, PREFIX, PROGRAM_S, age_s, attached, box_name, creator, find_box
from .engine import connect, translate_errors
from .image import require_image
from .link import AttachedLink
from .naming import finish_naming
from .order import Order
from .program import BOOT, WORKSPACE, supervisor_program
from .session import BoxSession
from .talk import START_S

USER = "10001:10001"
TMP_BYTES = 64 << 20
SHM_BYTES = 32 << 20
SPARE_FILES = 32
NAME_ATTEMPTS = 3
ATTEMPTS = 4
"""Attempts to open a box, where each time it is taken away meanwhile."""
SETTLE_S = 10.0
"""Seconds that a box may take to start, or to be gone, when another process has begun either."""
ATTACH_S = 10.0
"""Seconds that the box of a thread has to answer before it is given up."""


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


def container_options(limits: Limits, labels: Mapping[str, str], lasting: bool = False) -> dict[str, Any]:
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
        # A box ends when its stream does, even if this process is killed. That of a thread lives on for the process
        # that goes on with the thread, and ends by itself when none comes. Nothing of either stays.
        "auto_remove": True,
        "detach": lasting,
        "environment": environment(limits),
        "labels": {LABEL: "1", f"{LABEL}.owner": str(os.getpid()), f"{LABEL}.host": socket.gethostname(), **labels},
    }


def open_docker_session(limits: Limits, image: str = DEFAULT_IMAGE, order: Order | None = None) -> BoxSession:
    """Start a container and the interpreter in it, or attach to the one that a thread has.

    Args:
        limits: of the box.
        image: any image with Python 3.9 or later.
        order: whose box it is, and where its snapshots go.

    Raises:
        SandboxUnavailable: no engine, or it refuses the container.
        ImageMissing: the image is not on the engine.
        SessionBusy: another process holds the thread's box.
    """
    client = connect()
    opening = _Opening(client, limits, image, order or Order())
    try:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with translate_errors("starting the box"):
                    return opening.open()
            except SandboxLost:
                # Somebody removed the box, this one or the one before it, while we were at it.
                if attempt == ATTEMPTS:
                    raise SandboxUnavailable(
                        f"The interpreter in the box did not start: {ATTEMPTS} boxes ended at once. Check that the "
                        "image has Python 3.9 or later (actloop doctor)."
                    ) from None
                time.sleep(0.1 * attempt)
                opening.client.close()
                opening.client = connect()
    except BaseException as error:
        opening.client.close()
        if isinstance(error, OSError) and not isinstance(error, SandboxError):
            raise SandboxUnavailable(f"The stream to the box broke off: {error}. Try again.") from error
        raise
    raise AssertionError


@dataclass
class _Opening:
    """The way to one box."""

    client: docker.DockerClient
    limits: Limits
    image: str
    order: Order

    def open(self) -> BoxSession:
        """A new box, or the thread's own."""
        if not self.order.key:
            return self._open_new()
        until = time.monotonic() + SETTLE_S
        finish_naming(self.order.key)
        while True:
            found = find_box(self.client, self.order.key)
            if found is None:
                container = self._create(box_name(self.order.key))
                if container is not None:
                    return self._start(container)
            elif (session := self._attach(found, until)) is not None:
                return session
            if time.monotonic() > until + SETTLE_S:
                raise SandboxUnavailable(f"The box {box_name(self.order.key)} is there but cannot be used. Remove it.")
            time.sleep(0.1)

    def _open_new(self) -> BoxSession:
        prefix = POOL_PREFIX if self.order.pooled else PREFIX
        for _ in range(NAME_ATTEMPTS):
            container = self._create(f"{prefix}{uuid.uuid4().hex[:12]}")
            if container is not None:
                return self._start(container)
        raise SandboxUnavailable("Every name for a new box is taken on this engine; run `actloop gc`.")

    def _create(self, name: str) -> Any:
        """Make a container; None where somebody has its name, whose container is neither taken nor touched."""
        options = container_options(self.limits, self.order.labels(), self.order.lasting)
        require_image(self.client, self.image)
        try:
            return self.client.containers.create(self.image, name=name, **options)
        except docker.errors.APIError as error:
            if error.status_code == http.HTTPStatus.CONFLICT:
                return None
            raise

    def _start(self, container: Any) -> BoxSession:
        link: AttachedLink | None = None
        try:
            link = attached(container)
            container.start()
            with contextlib.suppress(OSError):
                # It may have ended at once; the greeting finds out why.
                link.send(supervisor_program(self.limits, self.limits.idle_s if self.order.lasting else None))
            return self._session(container, link, START_S)
        except BaseException:
            # Whatever went wrong after the container was made must not leave it behind.
            if link is not None:
                link.close()
            _remove(self.client, container)
            raise

    def _attach(self, container: Any, until: float) -> BoxSession | None:
        """Attach to a box that runs; None where it does not yet, or not any more."""
        if container.status == "paused":
            container.unpause()
        elif container.status != "running" or age_s(container) < PROGRAM_S:
            # Another process is starting it, or it is being removed; one that stays so is of no use to anybody.
            if container.status != "running" and (time.monotonic() > until or creator(container.labels).ended()):
                _remove_quietly(container)
            return None
        try:
            session = self._session(container, attached(container), ATTACH_S)
        except (SandboxUnavailable, SandboxLost):
            # It never got its program, or hangs; its session has removed it, and closed the client.
            self.client = connect()
            return None
        if str(container.name) != box_name(self.order.key):
            # Whoever took it from a pool was killed before it had its name.
            session.be_named_after(self.order.key)
        return session

    def _session(self, container: Any, link: AttachedLink, start_s: float) -> BoxSession:
        return BoxSession(
            str(container.name),
            link,
            lambda: _remove(self.client, container),
            self.limits,
            rename=lambda key: _rename(container, box_name(key)),
            thread=self.order.key,
            title=self.order.thread,
            snapshots=self.order.snapshots,
            every_cell=self.order.every_cell,
            start_s=start_s,
        )


def _remove_quietly(container: Any) -> None:
    """Remove a container that may be gone, or going, already."""
    with contextlib.suppress(SandboxError), translate_errors():
        container.remove(force=True, v=True)


def _remove(client: docker.DockerClient, container: Any) -> None:
    _remove_quietly(container)
    with contextlib.suppress(Exception):
        client.close()


def _rename(container: Any, name: str) -> str:
    with translate_errors("naming the box after its thread"):
        container.rename(name)
    return name


def remove_docker_box(key: str) -> None:
    """Remove the box of a thread, if this engine has one; where there is no engine there is none."""
    try:
        client = connect()
    except SandboxUnavailable:
        return
    try:
        with translate_errors("removing the box"):
            found = find_box(client, key)
        if found is not None:
            _remove_quietly(found)
    finally:
        client.close()
