"""The orders of whoever holds the box. Runs inside the box, in the supervisor.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

from .box_files import Workspace
from .box_host import Host
from .box_interpreters import Interpreters
from .box_journal import Journal
from .box_restoring import Restoring
from .box_saving import Saving
from .box_wire import Message


class Orders:
    """What the holder may ask for.

    Args:
        host: gets the answers.
        files: the workspace.
        interpreters: which know the functions of the host.
        journal: of cells.
        saving: the snapshots that are being made.
        restoring: the way to another point.
    """

    def __init__(
        self,
        host: Host,
        files: Workspace,
        interpreters: Interpreters,
        journal: Journal,
        saving: Saving,
        restoring: Restoring,
    ) -> None:
        self._host = host
        self._files = files
        self._interpreters = interpreters
        self._journal = journal
        self._saving = saving
        self._restoring = restoring

    def obey(self, message: Message) -> None:
        """Do what a message says; one that nobody understands changes nothing."""
        op, cell = message.get("op"), self._journal.cell
        if op == "run":
            self._answer(self._journal.begin(message))
        elif op == "interrupt":
            if cell is not None and message.get("id") in (None, cell.id):
                cell.stop("cancelled", self._interpreters.worker)
        elif op == "cell":
            self._on_asked(str(message.get("id")))
        elif op in ("put", "get", "ls"):
            self._answer(self._files.answer(message))
        elif op == "tools":
            self._interpreters.tools = message["tools"]
        elif op in ("taken", "result"):
            self._on_call(message)
        elif op == "stored":
            self._saving.stored(str(message.get("id")))
        elif op == "confirmed":
            self._saving.confirmed(message)
        elif cell is not None:
            self._answer({"ev": "reply", "n": message.get("n"), "ok": False, "error": "busy", "text": "a cell runs"})
        elif op == "snapshot":
            self._saving.ask(str(message["id"]))
        elif op == "empty":
            self._restoring.empty(message)
        elif op == "unit":
            self._restoring.unit(message)
        elif op == "arrive":
            self._restoring.arrive(message)

    def _answer(self, message: Message | None) -> None:
        if message is not None:
            self._host.send(message)

    def _on_asked(self, cell_id: str) -> None:
        """Tell a host that has come anew of a cell, and of what it waits for."""
        self._host.send(self._journal.status(cell_id))
        cell = self._journal.cell
        if cell is not None and cell.id == cell_id:
            cell.live = True
            self._journal.calls.tell_again(self._host)

    def _on_call(self, message: Message) -> None:
        """The host has taken up a call of the running cell, or answers it."""
        cell, calls = self._journal.cell, self._journal.calls
        if cell is None or message.get("id") != cell.id:
            return
        if message.get("op") == "taken":
            calls.take_up(message)
            return
        calls.answer(message)
        if not calls.pending:
            cell.go_on()
