"""`actloop gc`: remove the boxes that nobody needs any more, and say which and why."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

from .config import Settings
from .sandbox.boxes import Box
from .sandbox.sweeping import Swept, sweep

COUNTING_S = 1.0
"""Seconds that the size of the snapshots is counted; nothing is said of a larger store."""


def clean(dry_run: bool, running_too: bool, as_json: bool) -> Iterator[str]:
    """Sweep.

    Args:
        dry_run: only look.
        running_too: also the boxes of ended owners in which a cell runs.
        as_json: tell of every box, in one text of JSON.

    Returns:
        Lines for stdout.

    Raises:
        SandboxUnavailable: no engine answers.
    """
    found = sweep(dry_run=dry_run, running_too=running_too)
    size = snapshot_bytes(Settings().snapshot_store)
    if as_json:
        boxes = [{**each.box.model_dump(), "reason": each.reason, "removed": each.removed} for each in found]
        yield json.dumps({"boxes": boxes, "snapshot_bytes": size}, indent=2)
        return
    for each in found:
        if each.reason:
            yield f"{_did(each, dry_run)} {each.box.name}{_whose(each.box)}: {each.reason}"
    yield _sum(found, dry_run)
    if size is not None:
        yield f"Snapshots of threads: {_shown(size)} in {Settings().snapshot_store}"


def snapshot_bytes(store: str) -> int | None:
    """Size of the files of a store in a folder of this machine; None elsewhere, and where counting takes too long."""
    if "://" in store:
        return None
    until = time.monotonic() + COUNTING_S
    total = 0
    for folder, _, names in os.walk(store):
        for name in names:
            try:
                total += Path(folder, name).lstat().st_size
            except OSError:
                continue
        if time.monotonic() > until:
            return None
    return total


def _did(each: Swept, dry_run: bool) -> str:
    if dry_run:
        return "would remove"
    return "removed" if each.removed else "could not remove"


def _whose(box: Box) -> str:
    return f" (thread {box.thread})" if box.thread else ""


def _sum(found: list[Swept], dry_run: bool) -> str:
    gone = sum(bool(each.reason) if dry_run else each.removed for each in found)
    left = len(found) - gone
    verb = "would be removed" if dry_run else "removed"
    return f"{gone} {'box' if gone == 1 else 'boxes'} {verb}, {left} left."


def _shown(size: float) -> str:
    for unit in ("bytes", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
