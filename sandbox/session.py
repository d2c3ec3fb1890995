"""A session: the host's end of a box, the same for every kind of box."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from actloop.config import Limits
from actloop.errors import SessionBusy
from actloop.protocols import CallRules, Execution, FileInfo, Function, OnEvent, Restored

from .box_wire import Message
from .cell import RunningCell
from .cells import Cells
from .host_calls import HostCalls
from .link import Link
from .manifest import Manifest
from .naming import Naming
from .points import LAST_SNAPSHOT_S, Points
from .snapshots import Snapshots
from .talk import START_S, Talk
from .transfer import Transfer

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
        self._remove = remove
        self._rename = rename
        self._naming: Naming | None = None
        self.limits = limits
        self._talk = Talk(name, link, self._on_message, self._on_end)
        self._cells = Cells(self._talk, limits)
        self._calls = HostCalls(self._talk, self._cells.leave)
        self._files = Transfer(self._talk, limits.transfer)
        self._points = Points(self._talk, self._cells, limits.snapshot, snapshots, every_cell)
        self._talk.start()
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
        self._cells.welcome(welcome)

    @property
    def id(self) -> str:
        """Name of the box, unique on its engine."""
        return self._talk.name

    @property
    def point(self) -> str:
        """Id of the cell, or of the snapshot, whose state the session is in; empty where it is new."""
        return self._cells.point

    @property
    def running(self) -> str | None:
        """Id of the cell that ran when this process took hold of the box."""
        return self._cells.running

    @property
    def waits(self) -> bool:
        """Whether the box has a cell that nobody here follows: it waits for a person, or another process left it."""
        return self.alive and self._cells.running is not None

    @property
    def names(self) -> frozenset[str]:
        """Variables that the session holds, as far as its records tell."""
        return self._cells.names

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
        self._points.keep_in(snapshots, every_cell)
        self.be_named_after(thread)

    def be_named_after(self, thread: str) -> None:
        """Begin to name the box after the thread with this key, which has it."""
        if self._rename is not None:
            self._naming = Naming(thread, self._rename, self._on_name)

    def _on_name(self, name: str) -> None:
        self._talk.name = name

    # -- cells ----------------------------------------------------------------------------------------------------

    def run(
        self,
        code: str,
        *,
        timeout: float | None = None,
        cell_id: str | None = None,
        on_event: OnEvent | None = None,
        calls: CallRules | None = None,
    ) -> Execution:
        """Run a cell and wait for its record; see `actloop.protocols.Session`.

        Ctrl-C ends the cell, not the session: the cell is interrupted, then KeyboardInterrupt goes on.
        """
        return self._cells.follow(self._start(code, timeout, cell_id, on_event is not None, calls), on_event)

    async def arun(
        self,
        code: str,
        *,
        timeout: float | None = None,
        cell_id: str | None = None,
        on_event: OnEvent | None = None,
        calls: CallRules | None = None,
    ) -> Execution:
        """`run` for async callers; cancelling the task cancels the cell and waits for its end."""
        return await self._cells.afollow(self._start(code, timeout, cell_id, on_event is not None, calls), on_event)

    def start(self, code: str, *, timeout: float | None = None, cell_id: str | None = None) -> RunningCell:
        """Start a cell in the background.

        Raises:
            SessionBusy: another cell is running.
            SandboxLost: the box is gone; the cell was not started.
        """
        return self._start(code, timeout, cell_id, True, None)

    def knows(self, cell_id: str) -> bool:
        """Whether the box runs, or has run, this cell, and can still tell of it."""
        return self._cells.knows(cell_id)

    def attach(self, cell_id: str, calls: CallRules | None = None) -> RunningCell:
        """Wait for a cell that the box knows, and that this process may not have started.

        Args:
            cell_id: of the cell.
            calls: what holds for its calls, with the answers to those that wait for a person.

        Raises:
            SessionBusy: the box runs another cell.
            SandboxLost: the box is gone.
        """
        cell = self._cells.begin(cell_id, None)
        self._serve(cell, calls)
        self._cells.ask(cell)
        return cell

    def follow(self, cell_id: str, *, on_event: OnEvent | None = None, calls: CallRules | None = None) -> Execution:
        """`attach` to a cell and wait for its record, as `run` does."""
        return self._cells.follow(self.attach(cell_id, calls), on_event)

    async def afollow(
        self, cell_id: str, *, on_event: OnEvent | None = None, calls: CallRules | None = None
    ) -> Execution:
        """`follow` for async callers."""
        return await self._cells.afollow(self.attach(cell_id, calls), on_event)

    def interrupt(self) -> None:
        """End the running cell, if there is one, and keep the session."""
        self._cells.interrupt()

    def stop_stray(self) -> None:
        """End a cell that this process did not start and does not want, and wait for its end."""
        self._cells.stop_stray()

    def offer(self, functions: Sequence[Function]) -> None:
        """Let cells call functions of the host; they replace those that were offered before."""
        self._calls.offer(functions)

    def _serve(self, cell: RunningCell, calls: CallRules | None) -> None:
        self._calls.begin(cell, calls or CallRules(most=self.limits.host_calls))

    def _start(
        self, code: str, timeout: float | None, cell_id: str | None, live: bool, calls: CallRules | None
    ) -> RunningCell:
        snapshot = self._points.every_cell
        if snapshot:
            # Before the cell begins: a store that cannot be opened must not leave the session busy.
            self._points.open()
        cell = self._cells.begin(cell_id, timeout)
        self._serve(cell, calls)
        if snapshot:
            self._points.expect(cell.id)
        self._cells.run(cell, code, timeout, live, snapshot)
        return cell

    # -- files ----------------------------------------------------------------------------------------------------

    def put(self, path: str, data: bytes | Path) -> None:
        """Write a file into the workspace; see `actloop.protocols.Session`."""
        self._files.put(path, data)

    async def aput(self, path: str, data: bytes | Path) -> None:
        """`put` for async callers."""
        await asyncio.to_thread(self.put, path, data)

    def get(self, path: str) -> bytes:
        """Read a regular file of the workspace; see `actloop.protocols.Session`."""
        return self._files.get(path)

    async def aget(self, path: str) -> bytes:
        """`get` for async callers."""
        return await asyncio.to_thread(self.get, path)

    def ls(self) -> list[FileInfo]:
        """The regular files of the workspace, at most 4,096."""
        return self._files.ls()

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
        return self._points.snapshot()

    async def asnapshot(self) -> str:
        """`snapshot` for async callers."""
        return await asyncio.to_thread(self.snapshot)

    def settle(self, timeout: float = LAST_SNAPSHOT_S) -> None:
        """Wait until the box can be found, and the snapshots that are under way are stored, or have failed.

        Args:
            timeout: seconds to wait for them at most.
        """
        if self._naming is not None:
            self._naming.finish()
        if self.alive:
            self._points.settle(timeout)

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
        return self._restore(self._points.find(reference) if reference is not None else None)

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
        return self._restore(self._points.nearest(points))

    def _restore(self, manifest: Manifest | None) -> Restored:
        self._cells.check_idle()
        # What was asked for belongs to the point that is left now, which somebody may come back to.
        self.settle()
        return self._points.go_to(manifest, self.python)

    # -- end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the session and remove its box; safe to repeat."""
        if self._talk.closed:
            return
        lost = bool(self._talk.holder)
        if self._naming is not None:
            self._naming.drop()
        self.settle()
        self._calls.close()
        self._talk.close()
        if not lost:
            self._remove()

    def leave(self) -> None:
        """Cut the stream off and leave the box, unless it did not answer any more; safe to repeat."""
        self._calls.close()
        if self._cells.silent:
            self.close()
        else:
            self._talk.close()

    def detach(self) -> None:
        """Leave the box, with whatever runs in it, to the next process that opens its thread."""
        self.settle()
        self._calls.close()
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
        if kind in ("chunk", "snapshot"):
            self._points.on_message(message)
        elif (cell := self._cells.of(message)) is not None:
            if kind == "call":
                self._calls.take(cell, message)
            else:
                self._cells.on_message(cell, message)

    def _on_end(self) -> None:
        """The stream has ended, or somebody else has the box."""
        self._cells.on_end()
        self._points.on_end()
