"""What the sandbox's image stands on: Python from a registry, or a small Debian made on this machine.

The second needs nothing but Debian's packages, for machines that reach no registry of images.
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Literal, TypeAlias

import docker
from docker.utils import parse_repository_tag

from actloop.errors import ImageMissing, SandboxError

from .building import OnLine, run_program
from .engine import reason, translate_errors

REGISTRY_BASE = "python:3.12-slim"
DEBIAN_BASE = "actloop-base:debian-bookworm"

Base: TypeAlias = Literal["registry", "debian"]


def require_base(client: docker.DockerClient, base: Base, on_line: OnLine) -> str:
    """Tag of the base, which is fetched or made where it is missing.

    Raises:
        ImageMissing: no registry gives it.
        SandboxError: it cannot be made.
    """
    tag, make = (REGISTRY_BASE, _pull) if base == "registry" else (DEBIAN_BASE, _bootstrap)
    with translate_errors("looking for the base image"):
        present = client.images.list(name=tag)
    if not present:
        make(client, on_line)
    return tag


def _pull(client: docker.DockerClient, on_line: OnLine) -> None:
    repository, version = parse_repository_tag(REGISTRY_BASE)
    on_line(f"Fetching {REGISTRY_BASE}")
    try:
        with translate_errors(f"fetching {REGISTRY_BASE}"):
            client.images.pull(repository, tag=version)
    except SandboxError as error:
        why = reason(error.__cause__ or error)
        raise ImageMissing(
            f"{REGISTRY_BASE} cannot be fetched: {why}."
            " Use `actloop image build --from debian`, which needs no registry."
        ) from error


def _bootstrap(client: docker.DockerClient, on_line: OnLine) -> None:
    """Put a small Debian with Python together and import it as `DEBIAN_BASE`."""
    _require_mmdebstrap(on_line)
    on_line("Putting a Debian with Python together")
    repository, version = parse_repository_tag(DEBIAN_BASE)
    with tempfile.TemporaryDirectory(prefix="actloop-") as folder:
        archive = Path(folder) / "base.tar"
        run_program(
            [
                "mmdebstrap", "--variant=minbase", "--include=python3,python3-venv,ca-certificates",
                *(f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in ("doc", "locale", "man")),
                '--customize-hook=rm -rf "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d/*',
                "bookworm", str(archive),
            ],
            on_line,
        )  # fmt: skip
        with translate_errors("importing the Debian base"):
            client.api.import_image(str(archive), repository=repository, tag=version, changes='CMD ["python3"]')


def _require_mmdebstrap(on_line: OnLine) -> None:
    if shutil.which("mmdebstrap"):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise SandboxError(
            "mmdebstrap, which puts a Debian together, is not installed. Install it"
            " (`sudo apt-get install mmdebstrap`), or build from a registry with `actloop image build`."
        )
    on_line("Installing mmdebstrap with apt-get")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run_program(["apt-get", "-q", "update"], lambda line: None, environment)
    install = ["apt-get", "-qy", "--no-install-recommends", "install"]
    run_program([*install, "mmdebstrap", "debian-archive-keyring"], lambda line: None, environment)
