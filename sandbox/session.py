"""A session: the host's end of a box, the same for every kind of box."""

import asyncio
import base64
import contextlib
import threading
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from actloop.config import Limits
from actloop.errors import FileRefused, SandboxLost, SessionBusy, SnapshotError
from actloop.protocols import Execution, FileInfo, Function, OnEvent, Restored

from .box_wire import Message
from .cell import RunningCell, event_of, lost_record, record_of
from .host_functions import no_such_function, unknown_outcome
from .keeping import Keeping
from .link import Link
from .manifest import Manifest
from .naming import Naming
from .restoring import PART, restore
from .snapshots import Snapshots
from .talk import START_S, Talk

MAX_FILES = 4096
SILENCE_S = 30.0
"""Seconds beyond a cell's time limit after which a box that says nothing is given up."""
SNAPSHOT_S = 120.0
"""Seconds that a snapshot which somebody waits for may take."""
LAST_SNAPSHOT_S = 20.0
"""Seconds to wait for the last snapshot to be stored when a run, or a session, ends."""
ADOPT_S = 2.0
"""Seconds that a box from a pool has to answer its thread."""


class BoxSession:
    """A live interpreter with a workspace.

    Args:
        name: of the box.
        link: stream to its supervisor, which has been sent its program.
        remove: removes the box; called once, unless the box was left to somebody else.
        limits: of the box.
        thread: key of the thread that the box belongs to.
        title: the thread, as people call it.
        snapshots: gives the store of the thread's snapshots when one is needed.
        every_cell: make a snapshot after each cell.
        start_s: seconds that the box has to answer.
        rename: names the box after the thread with this key, and says how it is called then.

    Raises:
        SandboxUnavailable: the interpreter did not answer in time.
        SessionBusy: another process holds the box.
    """

    def __init__(
        self,
        name: str,
        link: Link,
        remove: Callable[[], None],
        limits: Limits,
        *,
        thread: str = "",
        title: str = "",
        snapshots: Callable[[], Snapshots] | None = None,
        every_cell: bool = False,
        start_s: float = START_S,
        rename: Callable[[str], str] | None = None,
    ) -> None:
        self._name = name
        self._remove = remove
        self._rename = rename
        self._naming: Naming | None = None
        self.limits = limits
        self._open_store = snapshots
        self._every_cell = every_cell
        self._lock = threading.Lock()
        self._cell: RunningCell | None = None
        self._functions: dict[str, Function] = {}
        self._known: set[str] = set()
        self._names: set[str] = set()
        self._ran = 0
        self._silent = False
        self._keeping: Keeping | None = None
        self.point = ""
        """Id of the cell, or of the snapshot, whose state the session is in; empty where it is new."""
        self._talk = Talk(name, link, self._on_message, self._on_end)
        try:
            self._be_welcomed(self._talk.greet(thread, title or thread, start_s))
        except SessionBusy:
            self._talk.close()
            raise
        except BaseException:
            self.close()
            raise

    def _be_welcomed(self, welcome: Message) -> None:
        self.python = str(welcome.get("python"))
        self.point = str(welcome.get("point") or "")
        self._names = {str(name) for name in welcome.get("names") or []}
        running = welcome.get("running")
        self.running: str | None = str(running) if running else None
        """Id of the cell that ran when this process took hold of the box."""
        self._known = {str(cell) for cell in welcome.get("cells") or []} | ({self.running} if self.running else set())

    @property
    def id(self) -> str:
        """Name of the box, unique on its engine."""
        return self._name

    @property
    def names(self) -> frozenset[str]:
        """Variables that the session holds, as far as its records tell."""
        return frozenset(self._names)

    @property
    def alive(self) -> bool:
        """Whether the box still answers."""
        return not (self._talk.gone or self._talk.closed)

    def adopt(self, thread: str, title: str, snapshots: Callable[[], Snapshots] | None, every_cell: bool) -> None:
        """Give the box, which waited in a pool, to a thread for good.

        It is named after its thread a moment later; until then the box itself says whose it is.

        Args:
            thread: key of the thread.
            title: the thread, as people call it.
            snapshots: gives the store of the thread's snapshots when one is needed.
            every_cell: make a snapshot after each cell.

        Raises:
            SandboxLost, SandboxUnavailable: the box is gone, or does not answer.
        """
        self._be_welcomed(self._talk.greet(thread, title or thread, ADOPT_S))
        self._open_store, self._every_cell = snapshots, every_cell
        self.be_named_after(thread)

    def be_named_after(self, thread: str) -> None:
        """Begin to name the box after the thread with this key, which has it."""
        if self._rename is not None:
            self._naming = Naming(thread, self._rename, self._on_name)

    def _on_name(self, name: str) -> None:
        self._name = self._talk.name = name

    # -- cells ----------------------------------------------------------------------------------------------------

    def run(
        self, code: str, *, timeout: float | None = None, cell_id: str | None = None, on_event: OnEvent | None = None
    ) -> Execution:
        """Run a cell and wait for its record; see `actloop.protocols.Session`.

        Ctrl-C ends the cell, not the session: the cell is interrupted, then KeyboardInterrupt goes on.
        """
        return self._follow(self._start(code, timeout, cell_id, live=on_event is not None), on_event)

    async def arun(
        self, code: str, *, timeout: float | None = None, cell_id: str | None = None, on_event: OnEvent | None = None
    ) -> Execution:
        """`run` for async callers; cancelling the task cancels the cell and waits for its end."""
        return await self._afollow(self._start(code, timeout, cell_id, live=on_event is not None), on_event)

    def start(self, code: str, *, timeout: float | None = None, cell_id: str | None = None) -> RunningCell:
        """Start a cell in the background.

        Raises:
            SessionBusy: another cell is running.
            SandboxLost: the box is gone; the cell was not started.
        """
        return self._start(code, timeout, cell_id, live=True)

    def knows(self, cell_id: str) -> bool:
        """Whether the box runs, or has run, this cell, and can still tell of it."""
        return cell_id in self._known

    def attach(self, cell_id: str) -> RunningCell:
        """Wait for a cell that the box knows, and that this process may not have started.

        Raises:
            SessionBusy: the box runs another cell.
            SandboxLost: the box is gone.
        """
        cell = self._begin(cell_id, None)
        self._order(cell, {"op": "cell", "id": cell_id})
        return cell

    def follow(self, cell_id: str, *, on_event: OnEvent | None = None) -> Execution:
        """`attach` to a cell and wait for its record, as `run` does."""
        return self._follow(self.attach(cell_id), on_event)

    async def afollow(self, cell_id: str, *, on_event: OnEvent | None = None) -> Execution:
        """`follow` for async callers."""
        return await self._afollow(self.attach(cell_id), on_event)

    def _follow(self, cell: RunningCell, on_event: OnEvent | None) -> Execution:
        try:
            if on_event is not None:
                for event in cell.events():
                    on_event(event)
            return cell.wait()
        except BaseException:
            self._give_up(cell)
            raise

    async def _afollow(self, cell: RunningCell, on_event: OnEvent | None) -> Execution:
        try:
            if on_event is not None:
                async for event in cell.aevents():
                    on_event(event)
            return await cell.await_end()
        except BaseException:
            await asyncio.to_thread(self._give_up, cell)
            raise

    def _start(self, code: str, timeout: float | None, cell_id: str | None, live: bool) -> RunningCell:
        cell = self._begin(cell_id or f"{self._talk.token}-{next(self._talk.numbers)}", timeout)
        if self._every_cell:
            self._ready_to_keep().expect(cell.id, self.point or None, self._ran + 1)
        request = {
            "op": "run",
            "id": cell.id,
            # Lone surrogates cannot travel as JSON text of valid UTF-8; the interpreter names them when it compiles.
            "code": code,
            "timeout": self.limits.cell_timeout(timeout),
            "live": live,
            "snapshot": self._every_cell,
        }
        self._order(cell, request)
        return cell

    def _begin(self, cell_id: str, timeout: float | None) -> RunningCell:
        with self._lock:
            self._talk.check_alive()
            if self._cell is not None:
                raise SessionBusy(f"The session {self.id} is running a cell; wait for its end or interrupt it first.")
            patience = self.limits.cell_timeout(timeout) + self.limits.grace_s + SILENCE_S
            cell = RunningCell(cell_id, self.interrupt, patience, self._on_silence)
            self._cell = cell
            self._known.add(cell_id)
        return cell

    def _order(self, cell: RunningCell, request: Message) -> None:
        try:
            self._talk.send(request)
        except SandboxLost:
            self._end_cell(cell, None)
            if cell.poll() is None:
                raise

    def stop_stray(self) -> None:
        """End a cell that this process did not start and does not want, and wait for its end."""
        running, self.running = self.running, None
        if running is not None and self._cell is None:
            self._give_up(self.attach(running))

    def interrupt(self) -> None:
        """End the running cell, if there is one, and keep the session."""
        cell = self._cell
        if cell is not None:
            with contextlib.suppress(SandboxLost):
                self._talk.send({"op": "interrupt", "id": cell.id})

    def _on_silence(self) -> None:
        """Cut off a box that says nothing though it should have ended the cell: paused, or its engine hangs."""
        self._silent = True
        self._talk.cut()

    def _give_up(self, cell: RunningCell) -> None:
        """Interrupt a cell that nobody waits for any more, and wait until the session is free again."""
        if cell.poll() is None:
            cell.cancel()
            with contextlib.suppress(TimeoutError):
                cell.wait(self.limits.grace_s + 10)

    # -- functions of the host ------------------------------------------------------------------------------------

    def offer(self, functions: Sequence[Function]) -> None:
        """Let cells call functions of the host; they replace those that were offered before."""
        self._functions = {function.name: function for function in functions}
        self._talk.send({"op": "tools", "tools": [function.described() for function in functions]})

    def _on_call(self, cell: RunningCell, message: Message) -> None:
        """Make a call in a thread of its own, in the context of whoever runs the cell."""
        threading.Thread(target=cell.context.copy().run, args=(self._call, message), daemon=True).start()

    def _call(self, message: Message) -> None:
        function = self._functions.get(str(message.get("tool")))
        about = {"id": message.get("id"), "number": message.get("number")}
        with contextlib.suppress(SandboxLost):
            if function is None:
                outcome = {"error": no_such_function(str(message.get("tool")))}
            elif message.get("taken") and not function.idempotent:
                outcome = {"error": unknown_outcome(function.name)}
            else:
                self._talk.send({"op": "taken", **about})
                outcome = function.call(str(message.get("arguments")))
            self._talk.send({"op": "result", **about, **outcome})

    # -- files ----------------------------------------------------------------------------------------------------

    def put(self, path: str, data: bytes | Path) -> None:
        """Write a file into the workspace; see `actloop.protocols.Session`."""
        content = data.read_bytes() if isinstance(data, Path) else bytes(data)
        if len(content) > self.limits.transfer:
            raise FileRefused(f"{path} has {len(content)} bytes; a file that goes in may have {self.limits.transfer}.")
        number = next(self._talk.numbers)
        parts = range(0, len(content), PART) or range(1)
        for start in parts:
            self._talk.ask(
                {
                    "op": "put",
                    "n": number,
                    "path": path,
                    "data": base64.b64encode(content[start : start + PART]).decode("ascii"),
                    "first": start == 0,
                    "last": start + PART >= len(content),
                },
            )

    async def aput(self, path: str, data: bytes | Path) -> None:
        """`put` for async callers."""
        await asyncio.to_thread(self.put, path, data)

    def get(self, path: str) -> bytes:
        """Read a regular file of the workspace; see `actloop.protocols.Session`."""
        content = bytearray()
        total = 1
        while len(content) < total:
            reply = self._talk.ask({"op": "get", "path": path, "offset": len(content), "size": PART})
            part = base64.b64decode(reply["data"])
            total = min(int(reply["total"]), self.limits.transfer)
            content += part
            if not part:
                break
        return bytes(content[: self.limits.transfer])

    async def aget(self, path: str) -> bytes:
        """`get` for async callers."""
        return await asyncio.to_thread(self.get, path)

    def ls(self) -> list[FileInfo]:
        """The regular files of the workspace, at most 4,096."""
        reply = self._talk.ask({"op": "ls"})
        return [FileInfo.model_validate(entry) for entry in reply["files"][:MAX_FILES]]

    async def als(self) -> list[FileInfo]:
        """`ls` for async callers."""
        return await asyncio.to_thread(self.ls)

    # -- snapshots ------------------------------------------------------------------------------------------------

    def snapshot(self) -> str:
        """Store the variables and the files as they are now.

        Returns:
            A reference for `restore`, in this session or in another one of the same thread.

        Raises:
            SessionBusy: a cell is running.
            SnapshotError: it could not be made or stored.
        """
        if self._cell is not None:
            raise SessionBusy(f"The session {self.id} is running a cell; wait for its end or interrupt it first.")
        snapshot_id = f"snapshot-{uuid.uuid4().hex[:12]}"
        coming = self._ready_to_keep().expect(snapshot_id, self.point or None, self._ran)
        self._talk.send({"op": "snapshot", "id": snapshot_id})
        try:
            return coming.result(SNAPSHOT_S)
        except TimeoutError:
            raise SnapshotError(f"The snapshot was not stored within {SNAPSHOT_S:g} s; try again.") from None

    def settle(self, timeout: float = LAST_SNAPSHOT_S) -> None:
        """Wait until the box can be found, and the snapshots that are under way are stored, or have failed.

        Args:
            timeout: seconds to wait for them at most.
        """
        if self._naming is not None:
            self._naming.finish()
        if self._keeping is not None and self.alive:
            self._keeping.wait(timeout)

    async def asnapshot(self) -> str:
        """`snapshot` for async callers."""
        return await asyncio.to_thread(self.snapshot)

    def restore(self, reference: str | None) -> Restored:
        """Bring variables and files back to a snapshot; everything else in the box is removed.

        Args:
            reference: what `snapshot` gave, or None for an empty box.

        Returns:
            What is there now, and what could not be brought back.

        Raises:
            SnapshotError: there is no such snapshot, or it cannot be read.
            SnapshotRefused: it was altered, or belongs to another thread.
            SessionBusy: a cell is running.
            SandboxLost: the box is gone.
        """
        manifest = None
        if reference is not None:
            manifest = self._ready_to_keep().store.load(reference)
            if manifest is None:
                raise SnapshotError(f"There is no snapshot {reference} in this store; check the reference.")
        return self._restore(manifest)

    async def arestore(self, reference: str | None) -> Restored:
        """`restore` for async callers."""
        return await asyncio.to_thread(self.restore, reference)

    def restore_nearest(self, points: Sequence[str]) -> Restored:
        """Bring variables and files back to the newest of these points of which there is a snapshot.

        Args:
            points: ids of cells, oldest first.

        Returns:
            What is there now: nothing, where there is no snapshot of any.

        Raises:
            as `restore` does.
        """
        if not points or self._open_store is None:
            return self._restore(None)
        return self._restore(self._ready_to_keep().store.nearest(points))

    def _restore(self, manifest: Manifest | None) -> Restored:
        with self._lock:
            if self._cell is not None:
                raise SessionBusy(f"The session {self.id} is running a cell; wait for its end or interrupt it first.")
        # What was asked for belongs to the point that is left now, which somebody may come back to.
        self.settle()
        self._known, self._names, self.point = set(), set(), ""
        store = self._ready_to_keep().store if manifest is not None else None
        back = restore(self._talk, store, manifest, self.python)
        self._names, self.point = set(back.names), back.point
        self._ran = manifest.cells if manifest is not None else 0
        return back

    def _ready_to_keep(self) -> Keeping:
        with self._lock:
            if self._keeping is None:
                if self._open_store is None:
                    raise SnapshotError("This session has no store for snapshots; open it with `snapshots=`.")
                self._keeping = Keeping(self._open_store(), self.limits.snapshot, self._talk.send)
            return self._keeping

    # -- end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the session and remove its box; safe to repeat."""
        with self._lock:
            if self._talk.closed:
                return
            lost = bool(self._talk.holder)
        if self._naming is not None:
            self._naming.drop()
        self.settle()
        self._talk.close()
        if not lost:
            self._remove()

    def leave(self) -> None:
        """Cut the stream off and leave the box, unless it did not answer any more; safe to repeat."""
        if self._silent:
            self.close()
        else:
            self._talk.close()

    def detach(self) -> None:
        """Leave the box, with whatever runs in it, to the next process that opens its thread."""
        self.settle()
        self._talk.let_go()

    async def aclose(self) -> None:
        """`close` for async callers."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # -- what the box says ----------------------------------------------------------------------------------------

    def _on_message(self, message: Message) -> None:
        kind = message.get("ev")
        cell = self._cell
        if kind in ("chunk", "snapshot"):
            if self._keeping is not None:
                self._keeping.on_message(message)
        elif cell is not None and message.get("id") == cell.id:
            if kind == "done":
                self._end_cell(cell, record_of(message, cell.id))
            elif kind == "call":
                self._on_call(cell, message)
            elif kind == "status" and message.get("status") == "unknown":
                self._end_cell(cell, None)
            else:
                event = event_of(message)
                if event is not None:
                    cell.push(event)

    def _on_end(self) -> None:
        """The stream has ended, or somebody else has the box."""
        cell = self._cell
        if cell is not None:
            self._end_cell(cell, lost_record(cell.id, self._names, self._why_gone()))
        if self._keeping is not None:
            self._keeping.end()

    def _why_gone(self) -> str:
        if self._talk.holder:
            return f"{self._talk.holder} took the box over while the cell ran"
        if self._talk.closed:
            return "the session was closed while the cell ran"
        if self._silent:
            return "the box said nothing long after the cell's time was over; what the cell did is not known"
        return "the box was removed or killed, or its engine stopped; what the cell did until then is not known"

    def _end_cell(self, cell: RunningCell, execution: Execution | None) -> None:
        if execution is not None:
            made = {info.name for info in (*execution.names.created, *execution.names.changed)}
            self._names = (self._names | made) - set(execution.names.deleted) - set(execution.lost_names)
            if execution.outcome != "lost":
                self.point = cell.id
                self._ran += 1
        with self._lock:
            if self._cell is cell:
                self._cell = None
        cell.finish(execution)
