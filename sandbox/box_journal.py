"""The cells of a box, as the supervisor keeps them: the one that runs, and the records of those before it.

A host that missed a record, or that comes after another one has died, asks for a cell by its id and gets the record.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .box_calls import Calls
from .box_cell import Cell
from .box_wire import Message

JOURNAL = 16
"""Records kept, so that a host that missed one can ask again."""


class Journal:
    """What is known of the cells.

    Args:
        settings: limits, as `sandbox/program.py` writes them.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._records: dict[str, Message] = {}
        self._news: list[str] = []
        self._missing: set[str] = set()
        self._number = 0
        self.cell: Cell | None = None
        """The cell that runs, or is about to."""
        self.calls = Calls("")
        """The host calls of that cell."""
        self.point = ""
        """Id of the cell, or of the snapshot, after which the box stands; empty where it is new."""

    @property
    def started(self) -> Cell | None:
        """The cell that the worker has got and has not ended."""
        return self.cell if self.cell is not None and self.cell.started else None

    @property
    def working(self) -> bool:
        """Whether a cell is there that does not wait for the host."""
        return self.cell is not None and not self.calls.pending

    @property
    def ids(self) -> list[str]:
        """The cells whose records are kept, oldest first."""
        return list(self._records)

    def runs(self, cell_id: object) -> bool:
        """Whether this is the cell that runs."""
        return self.cell is not None and self.cell.id == cell_id

    def status(self, cell_id: str) -> Message:
        """What there is to say of a cell: its record, or that it runs, or that it is unknown."""
        if cell_id in self._records:
            return self._records[cell_id]
        return {"ev": "status", "id": cell_id, "status": "running" if self.runs(cell_id) else "unknown"}

    def begin(self, message: Message) -> Message | None:
        """Take the order to run a cell.

        Returns:
            The answer where it is not taken: another one runs, or this one runs or has run.
        """
        cell_id = str(message["id"])
        if cell_id in self._records or self.runs(cell_id):
            return self.status(cell_id)
        if self.cell is not None:
            return {"ev": "refused", "id": cell_id}
        self._number += 1
        self.cell = Cell(message, self._number, self._settings)
        self.calls = Calls(cell_id)
        return None

    def note(self, text: str, once: bool = False) -> None:
        """Have the next record say something.

        Args:
            text: in words.
            once: not again where it is to be said already.
        """
        if not (once and text in self._news):
            self._news.append(text)

    def miss(self, names: Iterable[str]) -> None:
        """Have the next record name variables that are lost."""
        self._missing.update(names)

    def end(self, cell: Cell, record: Message, survivors: list[str]) -> Message:
        """Keep the record of the cell that has ended.

        Args:
            cell: the cell.
            record: its record; what has been noted since the one before is added.
            survivors: notes on the processes that it left.

        Returns:
            What the host is told.
        """
        record["lost_names"] = sorted(self._missing)
        record["notes"] += self._news + survivors
        record["host_calls"] = self.calls.close()
        self._news, self._missing = [], set()
        for older in self._records.values():
            # The newest is the one that a host may have missed; the displays of all would fill the memory.
            older["record"]["displays"] = []
        message = {"ev": "done", "id": cell.id, "record": record}
        self._records[cell.id] = message
        while len(self._records) > JOURNAL:
            del self._records[next(iter(self._records))]
        self.cell, self.point = None, cell.id
        return message

    def forget(self) -> None:
        """The box has been emptied; nothing is known of the cells before."""
        self._records, self._news, self._missing, self.point = {}, [], set(), ""

    def arrive(self, point: str, number: int) -> None:
        """The box has been brought to a point.

        Args:
            point: id of the cell or of the snapshot.
            number: of the cells before it; numbers are not given twice in one box.
        """
        self.point = point
        self._number = max(self._number, number)
