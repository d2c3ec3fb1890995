"""The cells of a session, one at a time: how they start, are followed and end, and where that leaves the session."""

import asyncio
import contextlib
import threading
from collections.abc import Iterable

from actloop.config import Limits
from actloop.errors import CallPending, SandboxLost
from actloop.protocols import Execution, OnEvent, PendingCall

from .box_wire import Message
from .cell import RunningCell, event_of, lost_record, record_of
from .talk import Talk, busy

SILENCE_S = 30.0
"""Seconds beyond a cell's time limit after which a box that says nothing is given up."""


class Cells:
    """The cell that runs, and what is known of those before it.

    Args:
        talk: with the box.
        limits: of the box.
    """

    def __init__(self, talk: Talk, limits: Limits) -> None:
        self._talk = talk
        self._limits = limits
        self._lock = threading.Lock()
        self._now: RunningCell | None = None
        self._known: set[str] = set()
        self.point = ""
        """Id of the cell, or of the snapshot, whose state the session is in; empty where it is new."""
        self.names: frozenset[str] = frozenset()
        """Variables that the session holds, as far as its records tell."""
        self.ran = 0
        """Cells that have led to this point, as far as this process knows."""
        self.running: str | None = None
        """Id of the cell that ran when this process took hold of the box."""
        self.silent = False
        """The box said nothing when it had to, and was cut off."""

    def welcome(self, welcome: Message) -> None:
        """Take what the box says of itself when this process takes hold of it."""
        running = welcome.get("running")
        self.point = str(welcome.get("point") or "")
        self.names = frozenset(str(name) for name in welcome.get("names") or [])
        self.running = str(running) if running else None
        self._known = {str(cell) for cell in welcome.get("cells") or []} | ({self.running} if self.running else set())

    def leave_point(self) -> None:
        """The box is about to be emptied, and knows of no cell afterwards."""
        self._known, self.names, self.point = set(), frozenset(), ""

    def arrive(self, point: str, names: Iterable[str], ran: int) -> None:
        """The box has been brought to a point, which this number of cells has led to."""
        self.point, self.names, self.ran = point, frozenset(names), ran

    def knows(self, cell_id: str) -> bool:
        """Whether the box runs, or has run, this cell, and can still tell of it."""
        return cell_id in self._known

    @property
    def unfinished(self) -> str | None:
        """Id of the cell that runs, or waits in the box for whoever follows it."""
        cell = self._now
        return cell.id if cell is not None else self.running

    def check_idle(self) -> None:
        """Raise SessionBusy if a cell runs."""
        if self._now is not None:
            raise busy(self._talk.name)

    # -- the beginning --------------------------------------------------------------------------------------------

    def begin(self, cell_id: str | None, timeout: float | None) -> RunningCell:
        """Make room for a cell; the box knows nothing of it yet.

        Args:
            cell_id: of the cell; None for one that is given now.
            timeout: seconds; None for the limit of the box.

        Raises:
            SessionBusy: another cell runs.
            SandboxLost: the box is gone.
        """
        cell_id = cell_id or f"{self._talk.token}-{next(self._talk.numbers)}"
        with self._lock:
            self._talk.check_alive()
            self.check_idle()
            patience = self._limits.cell_timeout(timeout) + self._limits.grace_s + SILENCE_S
            cell = RunningCell(cell_id, self.interrupt, patience, self._on_silence)
            self._now = cell
            self._known.add(cell_id)
        return cell

    def run(self, cell: RunningCell, code: str, timeout: float | None, live: bool, snapshot: bool) -> None:
        """Have the box run a cell that has begun.

        Args:
            cell: from `begin`.
            code: Python source.
            timeout: as for `begin`.
            live: its output is wanted while it runs.
            snapshot: one is wanted after it.

        Raises:
            SandboxLost: the box is gone; the cell was not started.
        """
        request = {
            "op": "run",
            "id": cell.id,
            # Lone surrogates cannot travel as JSON text of valid UTF-8; the interpreter names them when it compiles.
            "code": code,
            "timeout": self._limits.cell_timeout(timeout),
            "live": live,
            "snapshot": snapshot,
        }
        self._order(cell, request)

    def ask(self, cell: RunningCell) -> None:
        """Have the box tell of a cell that has begun here, and that it knows from before.

        Raises:
            SandboxLost: the box is gone.
        """
        if self.running == cell.id:
            self.running = None
        self._order(cell, {"op": "cell", "id": cell.id})

    def leave(self, cell: RunningCell, call: PendingCall) -> None:
        """Leave a cell that waits for a person where it is; whoever attaches to it goes on with it."""
        with self._lock:
            if self._now is not cell:
                return
            self._now, self.running = None, cell.id
        cell.leave(call)

    def _order(self, cell: RunningCell, request: Message) -> None:
        try:
            self._talk.send(request)
        except SandboxLost:
            self._end(cell, None)
            if cell.poll() is None:
                raise

    # -- until the end --------------------------------------------------------------------------------------------

    def follow(self, cell: RunningCell, on_event: OnEvent | None) -> Execution:
        """Wait for the record of a cell; whatever ends the waiting ends the cell."""
        try:
            if on_event is not None:
                for event in cell.events():
                    on_event(event)
            return cell.wait()
        except CallPending:
            raise
        except BaseException:
            self._give_up(cell)
            raise

    async def afollow(self, cell: RunningCell, on_event: OnEvent | None) -> Execution:
        """`follow` for async callers."""
        try:
            if on_event is not None:
                async for event in cell.aevents():
                    on_event(event)
            return await cell.await_end()
        except CallPending:
            raise
        except BaseException:
            await asyncio.to_thread(self._give_up, cell)
            raise

    def interrupt(self) -> None:
        """End the running cell, if there is one, and keep the session."""
        cell = self._now
        if cell is not None:
            with contextlib.suppress(SandboxLost):
                self._talk.send({"op": "interrupt", "id": cell.id})

    def stop_stray(self) -> None:
        """End a cell that this process did not start and does not want, and wait for its end."""
        if self.running is not None and self._now is None:
            cell = self.begin(self.running, None)
            self.ask(cell)
            self._give_up(cell)

    def _give_up(self, cell: RunningCell) -> None:
        """Interrupt a cell that nobody waits for any more, and wait until the session is free again."""
        if cell.poll() is None:
            cell.cancel()
            with contextlib.suppress(TimeoutError):
                cell.wait(self._limits.grace_s + 10)

    def _on_silence(self) -> None:
        """Cut off a box that says nothing though it should have ended the cell: paused, or its engine hangs."""
        self.silent = True
        self._talk.cut()

    # -- what the box says ----------------------------------------------------------------------------------------

    def of(self, message: Message) -> RunningCell | None:
        """The running cell, if the message is about it."""
        cell = self._now
        return cell if cell is not None and message.get("id") == cell.id else None

    def on_message(self, cell: RunningCell, message: Message) -> None:
        """Take an event of the running cell, or its end."""
        kind = message.get("ev")
        if kind == "done":
            self._end(cell, record_of(message, cell.id))
        elif kind == "status" and message.get("status") == "unknown":
            self._end(cell, None)
        else:
            event = event_of(message)
            if event is not None:
                cell.push(event)

    def on_end(self) -> None:
        """The stream has ended, or somebody else has the box."""
        cell = self._now
        if cell is not None:
            self._end(cell, lost_record(cell.id, self.names, self._why_gone()))

    def _why_gone(self) -> str:
        if self._talk.holder:
            return f"{self._talk.holder} took the box over while the cell ran"
        if self._talk.closed:
            return "the session was closed while the cell ran"
        if self.silent:
            return "the box said nothing long after the cell's time was over; what the cell did is not known"
        return "the box was removed or killed, or its engine stopped; what the cell did until then is not known"

    def _end(self, cell: RunningCell, execution: Execution | None) -> None:
        if execution is not None:
            made = {info.name for info in (*execution.names.created, *execution.names.changed)}
            self.names = (self.names | made) - set(execution.names.deleted) - set(execution.lost_names)
            if execution.outcome != "lost":
                self.point = cell.id
                self.ran += 1
        with self._lock:
            if self._now is cell:
                self._now = None
        cell.finish(execution)
