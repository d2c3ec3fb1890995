"""The points of a session: snapshots that are made of it, and the way back to one."""

import threading
import uuid
from collections.abc import Callable, Sequence

from actloop.errors import SnapshotError
from actloop.protocols import Restored

from .box_wire import Message
from .cells import Cells
from .keeping import Keeping
from .manifest import Manifest
from .restoring import restore
from .snapshots import Snapshots
from .talk import Talk

SNAPSHOT_S = 120.0
"""Seconds that a snapshot which somebody waits for may take."""
LAST_SNAPSHOT_S = 20.0
"""Seconds to wait for the last snapshot to be stored when a run, or a session, ends."""


class Points:
    """Where a session can go back to.

    Args:
        talk: with the box.
        cells: of the session, whose present point they know.
        size: bytes that one snapshot may have.
        open_store: gives the store when one is needed; None for a session that has none.
        every_cell: a snapshot is made after each cell.
    """

    def __init__(
        self, talk: Talk, cells: Cells, size: int, open_store: Callable[[], Snapshots] | None, every_cell: bool
    ) -> None:
        self._talk = talk
        self._cells = cells
        self._size = size
        self._open_store = open_store
        self.every_cell = every_cell
        self._lock = threading.Lock()
        self._keeping: Keeping | None = None

    def keep_in(self, open_store: Callable[[], Snapshots] | None, every_cell: bool) -> None:
        """Keep the snapshots to come there; the arguments are those of the class."""
        self._open_store, self.every_cell = open_store, every_cell

    # -- snapshots ------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the store.

        Raises:
            SnapshotError: there is none, or it cannot be opened.
            ConfigError: its driver is missing.
        """
        self._ready()

    def expect(self, cell_id: str) -> None:
        """Say that the box will make a snapshot after the cell that comes next; the store is open."""
        self._ready().expect(cell_id, self._cells.point or None, self._cells.ran + 1)

    def snapshot(self) -> str:
        """Store the variables and the files as they are now; see `BoxSession.snapshot`."""
        self._cells.check_idle()
        snapshot_id = f"snapshot-{uuid.uuid4().hex[:12]}"
        coming = self._ready().expect(snapshot_id, self._cells.point or None, self._cells.ran)
        self._talk.send({"op": "snapshot", "id": snapshot_id})
        try:
            return coming.result(SNAPSHOT_S)
        except TimeoutError:
            raise SnapshotError(f"The snapshot was not stored within {SNAPSHOT_S:g} s; try again.") from None

    def settle(self, timeout: float) -> None:
        """Wait until the snapshots that are under way are stored, or have failed, or `timeout` seconds have passed."""
        if self._keeping is not None:
            self._keeping.wait(timeout, self._cells.unfinished)

    def on_message(self, message: Message) -> None:
        """Take a chunk, or the end of a snapshot, from the box."""
        if self._keeping is not None:
            self._keeping.on_message(message)

    def on_end(self) -> None:
        """The box is gone: what has not come will not."""
        if self._keeping is not None:
            self._keeping.end()

    # -- the way back ---------------------------------------------------------------------------------------------

    def find(self, reference: str) -> Manifest:
        """The snapshot with this reference.

        Raises:
            SnapshotError: there is none, or it cannot be read.
            SnapshotRefused: it was altered, or belongs to another thread.
        """
        manifest = self._ready().store.load(reference)
        if manifest is None:
            raise SnapshotError(f"There is no snapshot {reference} in this store; check the reference.")
        return manifest

    def nearest(self, points: Sequence[str]) -> Manifest | None:
        """The snapshot of the newest of these points that has one, oldest first; None where none has.

        Raises:
            as `find` does.
        """
        if not points or self._open_store is None:
            return None
        return self._ready().store.nearest(points)

    def go_to(self, manifest: Manifest | None, python: str) -> Restored:
        """Bring the box, in which nothing runs, to a snapshot; None leaves it empty.

        Args:
            manifest: of the snapshot.
            python: version of the box's interpreter.
        """
        self._cells.leave_point()
        store = self._ready().store if manifest is not None else None
        back = restore(self._talk, store, manifest, python)
        self._cells.arrive(back.point, back.names, manifest.cells if manifest is not None else 0)
        return back

    def _ready(self) -> Keeping:
        with self._lock:
            if self._keeping is None:
                if self._open_store is None:
                    raise SnapshotError("This session has no store for snapshots; open it with `snapshots=`.")
                self._keeping = Keeping(self._open_store(), self._size, self._talk.send)
            return self._keeping
