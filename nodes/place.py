"""Bringing the sandbox to where the conversation is, before a cell runs or the model is asked.

A checkpoint names the cell after which its sandbox stands. The box may stand elsewhere: it is new, because the old one
was lost or lives on another machine; or it went on, because somebody went back to an earlier checkpoint. Then it is
emptied and restored from the snapshot of that point, or of the nearest one before it.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from actloop.errors import FileRefused, SandboxError
from actloop.protocols import Execution, Session
from actloop.state import State

from .context import Context, input_files

MAX_POINTS = 16
"""Points that the state remembers."""
SETTLE_S = 2.0
"""Seconds to wait at most, before a cell runs, for the snapshot of the one before it to be stored."""
SHOWN = 8
"""Reasons that are told."""


@dataclass
class Place:
    """Where the sandbox stands, as against where the state says that it should."""

    became: Literal["kept", "restored", "lost"] = "kept"
    names: set[str] = field(default_factory=set)
    """Variables that are there."""
    files: set[str] = field(default_factory=set)
    """Files that are there."""
    missing: dict[str, str] = field(default_factory=dict)
    """Variables that should be there and are not, with the reason."""
    missing_files: dict[str, str] = field(default_factory=dict)
    """Files, likewise."""
    changed: tuple[str, ...] = ()
    """What is there, and yet not as it was."""
    points: list[str] = field(default_factory=list)
    """Ids of the last cells whose effects are there, oldest first."""
    undone: int = 0
    """Cells whose effects are gone, the last ones before: there was no snapshot of them yet."""

    def notes(self) -> list[str]:
        """What the model is told of what could not be restored, besides the names of variables."""
        notes = [f"{name} could not be restored: {why}" for name, why in list(self.missing.items())[:SHOWN] if why]
        notes += self.changed[:SHOWN]
        if self.undone:
            cells = "last cell" if self.undone == 1 else f"last {self.undone} cells"
            notes.insert(
                0, f"The effects of the {cells} before are gone as well, for there was no snapshot of them yet."
            )
        return notes + [f"the file {path} is gone: {why}" for path, why in list(self.missing_files.items())[:SHOWN]]


def take_place(state: State, thread: str, kernel: str, context: Context, cell_id: str = "") -> tuple[Session, Place]:
    """Get the thread's session, and bring it to the point of the state.

    Args:
        state: of the run.
        thread: its thread.
        kernel: the thread's secret.
        context: of the agent.
        cell_id: the cell that is to run next; where the box knows it already, it is left as it is.

    Returns:
        The session, and where it stands now.

    Raises:
        SandboxError: there is no session to be had, or a snapshot is refused.
    """
    session = context.sessions.get(thread, kernel)
    names, files = set(state.get("names") or []), set(state.get("workspace") or [])
    points = list(state.get("points") or [])
    place = Place(names=names, files=files, points=points)
    if cell_id and session.knows(cell_id):
        return session, place
    session.stop_stray()
    # The model has had its time meanwhile. What is stored now cannot be lost with the box in the next cell.
    session.settle(SETTLE_S)
    if session.point != (points[-1] if points else ""):
        back = session.restore_nearest(points)
        if names or files or back.point:
            place.became = "restored" if back.point else "lost"
        place.names, place.files, place.changed = set(back.names), set(back.files), back.notes
        place.points = points[: points.index(back.point) + 1] if back.point in points else []
        place.undone = len(points) - len(place.points) if place.became != "kept" else 0
        place.missing = {name: back.missing.get(name, "") for name in sorted(names - place.names)}
        place.missing_files = {
            path: back.missing_files.get(path, "there is no snapshot of it") for path in sorted(files - place.files)
        }
    inputs = input_files(state)
    unplaced = set(state.get("unplaced") or [])
    if not session.point:
        unplaced |= inputs.keys()
    _put(session, {name: inputs[name] for name in sorted(unplaced)})
    place.missing_files = {path: why for path, why in place.missing_files.items() if path not in unplaced}
    return session, place


def _put(session: Session, inputs: dict[str, Path]) -> None:
    for name, path in inputs.items():
        try:
            session.put(name, path)
        except OSError as error:
            if isinstance(error, SandboxError):
                raise
            why = error.strerror or error
            raise FileRefused(f"The input file {name} cannot be read any more: {why}. Give it again.") from error


def after(place: Place, execution: Execution) -> list[str]:
    """The points of the state after a cell."""
    return place.points if execution.outcome == "lost" else [*place.points, execution.cell_id][-MAX_POINTS:]
