"""The image that cells run in: building it, finding it, and what it holds.

Nothing is fetched in silence: only `build_image` fetches, and everything else stops where an image is missing
and says how to build it.
"""

import json
import os
import re
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from importlib import resources
from typing import Any

import docker
from docker.errors import APIError, ImageNotFound
from docker.utils import parse_repository_tag

from actloop.config import DEFAULT_IMAGE
from actloop.errors import ConfigError, ImageMissing, SandboxError
from actloop.protocols import Record

from .base_image import REGISTRY_BASE, Base, require_base
from .building import LOG_TAIL, OnLine, authorities, build_failed, run_build
from .engine import connect, translate_errors

_VERSION = r"(?:===|==|~=|!=|<=|>=|<|>)[A-Za-z0-9.*+!_-]+"
_SPEC = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"  # name
    r"(?:\[[A-Za-z0-9._-]+(?:,[A-Za-z0-9._-]+)*\])?"  # extras
    rf"(?:{_VERSION}(?:,{_VERSION})*)?"
)

# What a person asked for, not what that brought along: pip leaves a file REQUESTED beside the former, but not
# where the package was there already, so names that were asked for now are looked up as well.
_FACTS = """
import json, platform, re, sys
from importlib.metadata import distributions
plain = lambda name: re.sub("[-_.]+", "-", name).lower()
now = {plain(re.match("[A-Za-z0-9._-]+", spec)[0]) for spec in sys.argv[1:]}
there = {plain(found.name): found for found in distributions() if found.name != "pip"}
asked = [name for name in there if name in now or there[name].read_text("REQUESTED") is not None]
packages = [f"{there[name].name} {there[name].version}" for name in sorted(asked)]
print(json.dumps({"python": platform.python_version(), "packages": packages}))
"""


class ImageFacts(Record):
    """What is known of an image without starting it."""

    tag: str
    id: str
    """Content address on this engine, `sha256:...`."""
    size: int
    """Bytes on disk, with the layers it shares."""
    python: str | None = None
    """Version, for example `3.12.4`; None for an image that actloop did not build."""
    packages: tuple[str, ...] = ()
    """Name and version of each package that was asked for: `("numpy 2.4.0", ...)`."""


def packages_tag(packages: Sequence[str]) -> str:
    """Tag of the default image with further packages; the order in which they are named does not matter.

    Raises:
        ConfigError: one of them is not a package name with optional extras and versions.
    """
    return f"{_repository(DEFAULT_IMAGE)}:p-{sha256(' '.join(_checked(packages)).encode()).hexdigest()[:12]}"


def image_facts(client: docker.DockerClient, tag: str = DEFAULT_IMAGE) -> ImageFacts:
    """Look at an image.

    Raises:
        ImageMissing: it is not on the engine.
        SandboxUnavailable: the engine cannot be asked.
    """
    with translate_errors("looking at the image"):
        try:
            found = client.api.inspect_image(tag)
        except ImageNotFound:
            raise ImageMissing(
                f"The sandbox image {tag} is not on this engine. Build it with `actloop image build`"
                " (`actloop image build --from debian` where no registry can be reached)."
            ) from None
    labels: Mapping[str, str] = found["Config"].get("Labels") or {}
    packages = labels.get("actloop.packages", "")
    return ImageFacts(
        tag=tag,
        id=found["Id"],
        size=found["Size"],
        python=labels.get("actloop.python"),
        packages=tuple(packages.split(", ")) if packages else (),
    )


def require_image(client: docker.DockerClient, tag: str = DEFAULT_IMAGE) -> str:
    """Id of the image, so that a box starts from exactly what was looked at.

    Raises:
        ImageMissing: it is not on the engine; the message says how to build it. Nothing is pulled.
    """
    return image_facts(client, tag).id


def ensure_image(on_line: OnLine, *, tag: str = DEFAULT_IMAGE) -> str:
    """Build the default image unless it is there: from a registry's Python, else from Debian.

    Raises:
        SandboxError: it is not there and cannot be built.
    """
    with _client() as client, suppress(ImageMissing):
        require_image(client, tag)
        return tag
    try:
        return build_image(base="registry", tag=tag, on_line=on_line)
    except ImageMissing:
        on_line(f"No registry gives {REGISTRY_BASE}; building on Debian instead.")
        return build_image(base="debian", tag=tag, on_line=on_line)


def build_image(
    *,
    base: Base = "registry",
    packages: Sequence[str] = (),
    tag: str | None = None,
    on_line: OnLine,
) -> str:
    """Build the sandbox's image on the engine.

    Args:
        base: where Python comes from: a registry's image, or Debian's packages put together on this machine.
        packages: further Python packages, as pip names them (`duckdb`, `polars>=1,<2`). They go on top of the
            default image, which is built first where it is missing, and change none of its versions.
        tag: name for the result; without it `DEFAULT_IMAGE`, or `packages_tag(packages)`.
        on_line: called with each line of the log.

    Returns:
        The tag.

    Raises:
        ConfigError: `packages` holds something that is not a package.
        ImageMissing: the base cannot be fetched; nothing was built.
        SandboxError: the build failed; the message ends with the last lines of its log.
    """
    extra = _checked(packages)
    with _client() as client:
        if extra:
            with translate_errors("looking for the default image"):
                present = client.images.list(name=DEFAULT_IMAGE)
            below = DEFAULT_IMAGE if present else build_image(base=base, on_line=on_line)
            return _build(client, below, tag or packages_tag(extra), extra, on_line)
        below = require_base(client, base, on_line)
        return _build(client, below, tag or DEFAULT_IMAGE, (), on_line)


def _build(client: docker.DockerClient, base: str, tag: str, extra: Sequence[str], on_line: OnLine) -> str:
    stage = uuid.uuid4().hex
    recipe = resources.files("actloop.sandbox").joinpath("Dockerfile").read_bytes()
    context = {"Dockerfile": recipe, "ca.pem": authorities()}
    arguments = {"BASE": base, "BUILD": stage}
    if extra:
        arguments["PACKAGES"] = " ".join(extra)
    try:
        built = run_build(client, context, arguments, on_line)
        facts = _probe(client, built, extra)
        _label(client, built, tag, facts)
    finally:
        # The first stage holds the host's authorities, and weighs as much as the image.
        with translate_errors("removing the build's first stage"):
            client.api.prune_images({"dangling": True, "label": [f"actloop.stage={stage}"]})
    on_line(f"{tag}: Python {facts['python']}, {', '.join(facts['packages'])}")
    return tag


def _label(client: docker.DockerClient, image: str, tag: str, facts: Mapping[str, Any]) -> None:
    """Write the facts on the image and give it the tag. What had it goes, unless it has another or a box uses it."""
    labels = {"actloop.python": facts["python"], "actloop.packages": ", ".join(facts["packages"])}
    with translate_errors("looking for an older image"):
        older = [found.id for found in client.images.list(name=tag) if found.tags == [tag]]
    recipe = {"Dockerfile": f"FROM {image}\n".encode()}
    newer = run_build(client, recipe, {}, lambda line: None, tag=tag, labels=labels)
    for image_id in set(older) - {newer}:
        with suppress(APIError):
            client.api.remove_image(image_id)


def _probe(client: docker.DockerClient, image: str, extra: Sequence[str]) -> Any:
    """Ask a new image what is in it, in a box that can do nothing else."""
    with translate_errors("looking into the new image"):
        box = client.containers.create(
            image, ["python3", "-c", _FACTS, *extra], network_mode="none", read_only=True, cap_drop=["ALL"],
            security_opt=["no-new-privileges"], labels={"actloop": "1", "actloop.owner": str(os.getpid())},
        )  # fmt: skip
        try:
            box.start()
            status = box.wait(timeout=120)["StatusCode"]
            output = box.logs(stdout=True, stderr=status != 0).decode("utf-8", "replace")
        finally:
            box.remove(force=True)
    if status != 0:
        raise build_failed("Python does not start in it", output.splitlines()[-LOG_TAIL:])
    return json.loads(output)


def _checked(packages: Sequence[str]) -> list[str]:
    """The packages, each once and in order. Options, addresses, paths and blanks are not package names."""
    specs = [re.sub(" *([=<>!~,]+) *", r"\1", package.strip(" ")) for package in packages]
    for spec in specs:
        if not _SPEC.fullmatch(spec):
            raise ConfigError(
                f"{spec!r} is not a package. Write a name, perhaps with versions: 'duckdb', 'polars>=1,<2'."
            )
    return sorted(set(specs), key=str.lower)


def _repository(tag: str) -> str:
    return str(parse_repository_tag(tag)[0])


@contextmanager
def _client() -> Iterator[docker.DockerClient]:
    client = connect()
    try:
        yield client
    finally:
        client.close()


def main() -> int:
    """Build the default image unless it is there, and show the gist of its log. For `make`."""

    def gist(line: str) -> None:
        if not line.startswith((" ", "Removing", "Collecting", "Requirement", "Downloading", "I: ")):
            print(f"image: {line[:100]}", flush=True)

    try:
        ensure_image(gist)
    except SandboxError as error:
        print(f"image: {error}", file=sys.stderr)
        return 1
    return 0
