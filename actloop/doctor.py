"""What this machine lacks to run actloop, and how to mend it.

Every check is made even where an earlier one failed, except those that need what is missing. Nothing on the
network is asked but the model's server that the settings name.
"""

import http.client
import json
import platform
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, TypeAlias

import docker

from actloop.config import Settings
from actloop.errors import ImageMissing, SandboxError
from actloop.protocols import Record
from actloop.sandbox.engine import connect, translate_errors
from actloop.sandbox.image import image_facts
from actloop.sandbox.sweeping import sweep

OLDEST_PYTHON = (3, 11)
OPENAI_URL = "https://api.openai.com/v1"
"""Where a bare `OPENAI_API_KEY` leads."""
MODEL_S = 5.0
"""Seconds that a model's server has to answer."""

Facts: TypeAlias = dict[str, Any]
"""What an engine says of itself."""


class Check(Record):
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str
    """What was found."""
    remedy: str = ""
    """What to do about it, where it is not ok."""


def diagnose(settings: Settings | None = None) -> list[Check]:
    """Look at everything that a run needs.

    Args:
        settings: what to check; without it the environment is read.

    Returns:
        The checks in the order in which a person would mend them. It takes a few seconds at most.
    """
    settings = settings or Settings()
    return [_python(), *_sandbox(settings), _model(settings), _data_folder(settings)]


def _well(name: str, detail: str) -> Check:
    return Check(name=name, ok=True, detail=detail)


def _ill(name: str, detail: str, remedy: str) -> Check:
    return Check(name=name, ok=False, detail=detail, remedy=remedy)


def _from_error(name: str, error: SandboxError) -> Check:
    """A check from an error of ours, whose message is a sentence about what happened and then what to do."""
    happened, _, remedy = str(error).partition(". ")
    return _ill(name, happened, remedy)


def _python() -> Check:
    if sys.version_info >= OLDEST_PYTHON:
        return _well("Python", platform.python_version())
    wanted = ".".join(map(str, OLDEST_PYTHON))
    return _ill("Python", platform.python_version(), f"Install Python {wanted} or newer and make a new environment.")


def _sandbox(settings: Settings) -> Iterator[Check]:
    try:
        client = connect(timeout=10)
    except SandboxError as error:
        yield _from_error("Docker engine", error)
        return
    try:
        with translate_errors("asking the engine about itself"):
            facts: Facts = client.info()
        yield _engine(facts)
        yield _limits(facts)
        yield _image(client, settings.image)
        yield _boxes()
    except SandboxError as error:
        yield _from_error("Docker engine", error)
    finally:
        client.close()


def _engine(facts: Facts) -> Check:
    system, machine = facts.get("OSType", "?"), facts.get("Architecture", "?")
    detail = f"{facts.get('ServerVersion', '?')}, {system}/{machine}"
    if system == "linux":
        return _well("Docker engine", detail)
    return _ill("Docker engine", detail, "Switch Docker to Linux containers.")


def _limits(facts: Facts) -> Check:
    """Whether the kernel enforces what `Limits` promises: an engine leaves out a limit that it cannot set."""
    needed = {"MemoryLimit": "memory", "CpuCfsQuota": "cpu", "PidsLimit": "processes"}
    lacking = [word for key, word in needed.items() if not facts.get(key)]
    if not any("seccomp" in option for option in facts.get("SecurityOptions") or ()):
        lacking.append("seccomp")
    version = f"cgroup v{facts.get('CgroupVersion', '1')}"
    if lacking:
        return _ill(
            "Limits",
            f"the engine cannot limit {', '.join(lacking)} ({version})",
            "Mount the missing cgroup controllers (rootless: delegate them to the user); restart the engine.",
        )
    swap = "" if facts.get("SwapLimit") else "; swap is not limited"
    return _well("Limits", f"memory, cpu, processes, seccomp ({version}){swap}")


def _image(client: docker.DockerClient, tag: str) -> Check:
    try:
        facts = image_facts(client, tag)
    except ImageMissing as error:
        return _from_error("Sandbox image", error)
    if facts.python is None:
        return _well("Sandbox image", f"{tag}, not built by actloop: its contents are not known")
    return _well("Sandbox image", f"{tag}: Python {facts.python}, {', '.join(facts.packages)}")


def _boxes() -> Check:
    found = sweep(dry_run=True)
    garbage = sum(bool(each.reason) for each in found)
    detail = f"{len(found)} there, {garbage} of them of no use any more"
    return _well("Boxes", f"{detail}; `actloop gc` removes those" if garbage else detail)


def _model(settings: Settings) -> Check:
    key = settings.api_key or settings.openai_api_key
    if not key and not settings.base_url:
        return _ill(
            "Model",
            "no model is configured",
            "Set OPENAI_API_KEY, or ACTLOOP_BASE_URL and ACTLOOP_MODEL for an OpenAI-compatible server.",
        )
    address = (settings.base_url or OPENAI_URL).rstrip("/")
    if not address.startswith(("http://", "https://")):
        return _ill(
            "Model",
            f"{address} is not an address",
            "Set ACTLOOP_BASE_URL to one that begins with http:// or https://.",
        )
    return _ask_models(address, key, (settings.model or "").removeprefix("openai:"))


def _ask_models(address: str, key: str | None, model: str) -> Check:
    """Ask the server for its models, which costs nothing and needs a valid key."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        request = urllib.request.Request(f"{address}/models", headers=headers)
        with urllib.request.urlopen(request, timeout=MODEL_S) as answer:
            names = _model_names(answer.read(4 << 20))
    except urllib.error.HTTPError as error:
        error.close()
        return _refusal(address, error.code, key)
    except (OSError, ValueError, http.client.HTTPException) as error:
        why = getattr(error, "reason", None) or error
        return _ill(
            "Model",
            f"{address} cannot be reached: {why}",
            "Start that server, or correct ACTLOOP_BASE_URL.",
        )
    if model and names and model not in names:
        shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
        return _ill(
            "Model",
            f"{address} answers, but has no model {model!r}",
            f"Set ACTLOOP_MODEL to one that it has: {shown}.",
        )
    return _well("Model", f"{address} answers" + (f" and has {model}" if model in names else ""))


def _refusal(address: str, status: int, key: str | None) -> Check:
    if status in (401, 403):
        return _ill(
            "Model",
            f"{address} refuses the key ({status})" if key else f"{address} wants a key ({status})",
            "Set ACTLOOP_API_KEY (or OPENAI_API_KEY) to a valid key of that server.",
        )
    if status == 429 or status >= 500:
        return _ill(
            "Model",
            f"{address} answers with an error ({status})",
            "Try again later, or look at that server's log.",
        )
    return _well("Model", f"{address} answers, without a list of models ({status})")


def _model_names(body: bytes) -> list[str]:
    """Names in an OpenAI-compatible list; none where the server answers with something else."""
    try:
        return sorted(str(entry["id"]) for entry in json.loads(body)["data"])
    except (ValueError, KeyError, TypeError):
        return []


def _data_folder(settings: Settings) -> Check:
    try:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=settings.data_dir) as probe:
            probe.write(b"x")
    except OSError as error:
        return _ill(
            "Data folder",
            f"{settings.data_dir} cannot be written: {error.strerror or error}",
            "Make it writable, or set ACTLOOP_DATA_DIR to another folder.",
        )
    return _well("Data folder", str(settings.data_dir))
