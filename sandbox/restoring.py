"""Bringing a session back to a snapshot, from the host's side."""

import graphlib
from collections.abc import Iterator, Sequence

from actloop.errors import FileRefused
from actloop.protocols import Restored

from .box_memory import SESSION_UNIT
from .box_wire import Message
from .manifest import Manifest, Unit
from .snapshots import Snapshots
from .talk import Talk
from .transfer import PART, part

EMPTY_S = 60.0
UNIT_S = 60.0


def restore(talk: Talk, store: Snapshots | None, manifest: Manifest | None, python: str) -> Restored:
    """Empty the box and bring back a snapshot.

    Args:
        talk: with the box, which runs no cell.
        store: holds the snapshot.
        manifest: says what is in it; None leaves the box empty.
        python: version of the box's interpreter.

    Raises:
        SnapshotError: a part of the snapshot is missing or altered; the box is empty then.
        SandboxLost: the box is gone.
        SessionBusy: it runs a cell.
    """
    if store is None or manifest is None:
        talk.ask({"op": "empty"}, EMPTY_S)
        return Restored()
    fatal: dict[str, str] = {}
    while True:
        talk.ask({"op": "empty"}, EMPTY_S)
        missing = {item.name: item.why for item in manifest.skipped} | fatal
        missing_files = {item.path: item.why for item in manifest.skipped_files}
        missing_files |= _put_files(talk, store, manifest)
        if not _same_python(manifest.python, python):
            why = f"it was made under Python {manifest.python} and this is {python}"
            missing |= {name: why for unit in manifest.units for name in unit.names}
            break
        whole = [unit for unit in manifest.units if not set(unit.names) & set(fatal)]
        failed, ended = _put_units(talk, store, whole)
        missing |= failed
        if ended is None:
            break
        fatal |= dict.fromkeys(ended.names, "the interpreter ended while it was restored")
    names = sorted({name for unit in manifest.units for name in unit.names} - {SESSION_UNIT} - set(missing))
    missing.pop(SESSION_UNIT, None)
    talk.ask(
        {
            "op": "arrive",
            "point": manifest.point,
            "cells": manifest.cells,
            "names": names,
            "folders": manifest.folders,
            "links": manifest.links,
            "files": [file.model_dump(mode="json") for file in manifest.files],
            "digests": [digest for unit in manifest.units for content in unit.contents for digest in content],
        },
        UNIT_S,
    )
    files = tuple(file.path for file in manifest.files if file.path not in missing_files)
    return Restored(point=manifest.point, names=tuple(names), files=files, missing=missing, missing_files=missing_files)


def _same_python(made: str, here: str) -> bool:
    """Whether code objects of one version mean the same in another."""
    return made.split(".")[:2] == here.split(".")[:2]


def _put_files(talk: Talk, store: Snapshots, manifest: Manifest) -> dict[str, str]:
    """Put the files back.

    Returns:
        Those that the box refuses, with the reason.
    """
    refused: dict[str, str] = {}
    for file in manifest.files:
        facts: Message = {"op": "put", "path": file.path, "mode": file.mode, "mtime_ns": file.mtime_ns}
        try:
            for piece in _parts(talk, store, [file.chunks]):
                talk.ask({**facts, **piece}, UNIT_S)
        except FileRefused as error:
            refused[file.path] = str(error)
    return refused


def _put_units(talk: Talk, store: Snapshots, units: Sequence[Unit]) -> tuple[dict[str, str], Unit | None]:
    """Load the variables.

    Returns:
        Those that could not be made, with the reason; and the unit that ended the interpreter, if one did.
    """
    failed: dict[str, str] = {}
    for unit in _in_order(units):
        reply: Message = {}
        for piece in _parts(talk, store, unit.contents):
            reply = talk.ask({"op": "unit", "names": unit.names, "sizes": unit.sizes, **piece}, UNIT_S)
        if reply.get("ended"):
            return failed, unit
        failed |= {str(name): str(why)[:300] for name, why in (reply.get("failed") or {}).items()}
    return failed, None


def _in_order(units: Sequence[Unit]) -> list[Unit]:
    """Units, each after those that it needs; as they come, where they need one another in circles."""
    holders = {name: place for place, unit in enumerate(units) for name in unit.names}
    graph = {
        place: [holders[name] for name in unit.needs if name in holders and holders[name] != place]
        for place, unit in enumerate(units)
    }
    try:
        order = list(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError:
        return list(units)
    session = [place for place in order if units[place].names == (SESSION_UNIT,)]
    return [units[place] for place in (*session, *(place for place in order if place not in session))]


def _parts(talk: Talk, store: Snapshots, contents: Sequence[Sequence[str]]) -> Iterator[Message]:
    """Contents, one after the other, in messages; at least one."""
    number = next(talk.numbers)
    waiting, first = b"", True
    for chunk in store.chunks(digest for content in contents for digest in content):
        waiting += chunk
        while len(waiting) > PART:
            yield part(number, waiting[:PART], first, last=False)
            waiting, first = waiting[PART:], False
    yield part(number, waiting, first, last=True)
