"""A session: the host's end of a box, the same for every kind of box.

One thread of the session reads what the box says and hands it to whoever waits: the caller of a cell, of a file
transfer. Callers never read the stream themselves, so that an async caller blocks nothing and a slow one delays no
other.
"""

import asyncio
import base64
import contextlib
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self

from actloop.config import Limits
from actloop.errors import FileRefused, SandboxError, SandboxLost, SandboxUnavailable, SessionBusy
from actloop.protocols import Execution, FileInfo, OnEvent

from .box_wire import LineReader, Message, encode_line
from .cell import RunningCell, event_of, lost_record, record_of
from .link import Link

PART = 192 << 10
"""Bytes of a file in one message."""
START_S = 60.0
"""Seconds a box may take until its interpreter answers."""
MAX_FILES = 4096
SILENCE_S = 30.0
"""Seconds beyond a cell's time limit after which a box that says nothing is given up."""


class BoxSession:
    """A live interpreter with a workspace.

    Args:
        name: of the box.
        link: stream to its supervisor, which has been sent its program.
        remove: removes the box; called once.
        limits: of the box.

    Raises:
        SandboxUnavailable: the interpreter did not answer in time.
    """

    def __init__(self, name: str, link: Link, remove: Callable[[], None], limits: Limits) -> None:
        self._name = name
        self._link = link
        self._remove = remove
        self.limits = limits
        self._sending = threading.Lock()
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._replies: dict[int, Future[Message]] = {}
        self._cell: RunningCell | None = None
        self._names: set[str] = set()
        self._ready: Future[str] = Future()
        self._closed = False
        self._gone = False
        self._silent = False
        self._reader = threading.Thread(target=self._read, name=f"actloop {name}", daemon=True)
        self._reader.start()
        try:
            self.python = self._ready.result(START_S)
        except (TimeoutError, SandboxError) as error:
            self.close()
            why = link.complaint.splitlines()[-2:] or [str(error) or f"no answer within {START_S:.0f} s"]
            raise SandboxUnavailable(
                f"The interpreter in the box did not start: {'; '.join(why)}. Check that the image has Python 3.9 or "
                "later (actloop doctor)."
            ) from None

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
        return not (self._gone or self._closed)

    # -- cells ----------------------------------------------------------------------------------------------------

    def run(
        self, code: str, *, timeout: float | None = None, cell_id: str | None = None, on_event: OnEvent | None = None
    ) -> Execution:
        """Run a cell and wait for its record; see `actloop.protocols.Session`.

        Ctrl-C ends the cell, not the session: the cell is interrupted, then KeyboardInterrupt goes on.
        """
        cell = self._start(code, timeout, cell_id, live=on_event is not None)
        try:
            if on_event is not None:
                for event in cell.events():
                    on_event(event)
            return cell.wait()
        except BaseException:
            self._give_up(cell)
            raise

    async def arun(
        self, code: str, *, timeout: float | None = None, cell_id: str | None = None, on_event: OnEvent | None = None
    ) -> Execution:
        """`run` for async callers; cancelling the task cancels the cell and waits for its end."""
        cell = self._start(code, timeout, cell_id, live=on_event is not None)
        try:
            if on_event is not None:
                async for event in cell.aevents():
                    on_event(event)
            return await cell.await_end()
        except BaseException:
            await asyncio.to_thread(self._give_up, cell)
            raise

    def start(self, code: str, *, timeout: float | None = None, cell_id: str | None = None) -> RunningCell:
        """Start a cell in the background.

        Raises:
            SessionBusy: another cell is running.
            SandboxLost: the box is gone; the cell was not started.
        """
        return self._start(code, timeout, cell_id, live=True)

    def _start(self, code: str, timeout: float | None, cell_id: str | None, live: bool) -> RunningCell:
        with self._lock:
            self._check_alive()
            if self._cell is not None:
                raise SessionBusy(f"The session {self.id} is running a cell; wait for its end or interrupt it first.")
            patience = self.limits.cell_timeout(timeout) + self.limits.grace_s + SILENCE_S
            cell = RunningCell(
                cell_id or f"{self._name}-{next(self._numbers)}", self.interrupt, patience, self._on_silence
            )
            self._cell = cell
        request = {
            "op": "run",
            "id": cell.id,
            # Lone surrogates cannot travel as JSON text of valid UTF-8; the interpreter names them when it compiles.
            "code": code,
            "timeout": self.limits.cell_timeout(timeout),
            "live": live,
        }
        try:
            self._send(request)
        except SandboxLost:
            self._end_cell(cell, None)
            if cell.poll() is None:
                raise
        return cell

    def interrupt(self) -> None:
        """End the running cell, if there is one, and keep the session."""
        cell = self._cell
        if cell is not None:
            with contextlib.suppress(SandboxLost):
                self._send({"op": "interrupt", "id": cell.id})

    def _on_silence(self) -> None:
        """Cut off a box that says nothing though it should have ended the cell: paused, or its engine hangs."""
        self._silent = True
        self._link.close()

    def _give_up(self, cell: RunningCell) -> None:
        """Interrupt a cell that nobody waits for any more, and wait until the session is free again."""
        if cell.poll() is None:
            cell.cancel()
            with contextlib.suppress(TimeoutError):
                cell.wait(self.limits.grace_s + 10)

    # -- files ----------------------------------------------------------------------------------------------------

    def put(self, path: str, data: bytes | Path) -> None:
        """Write a file into the workspace; see `actloop.protocols.Session`."""
        content = data.read_bytes() if isinstance(data, Path) else bytes(data)
        if len(content) > self.limits.transfer:
            raise FileRefused(f"{path} has {len(content)} bytes; a file that goes in may have {self.limits.transfer}.")
        number = next(self._numbers)
        parts = range(0, len(content), PART) or range(1)
        for start in parts:
            self._ask(
                number,
                {
                    "op": "put",
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
            reply = self._ask(next(self._numbers), {"op": "get", "path": path, "offset": len(content), "size": PART})
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
        reply = self._ask(next(self._numbers), {"op": "ls"})
        return [FileInfo.model_validate(entry) for entry in reply["files"][:MAX_FILES]]

    async def als(self) -> list[FileInfo]:
        """`ls` for async callers."""
        return await asyncio.to_thread(self.ls)

    # -- end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the session and remove its box; safe to repeat."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._link.close()
        self._remove()
        if threading.current_thread() is not self._reader:
            self._reader.join(5)

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

    # -- the stream -----------------------------------------------------------------------------------------------

    def _check_alive(self) -> None:
        if self._closed:
            raise SandboxLost(f"The session {self.id} is closed; open a new one.")
        if self._gone:
            raise SandboxLost(
                f"The box {self.id} is gone: it was removed, killed, or its engine stopped. Open a new session; its "
                "variables and files are lost."
            )

    def _send(self, message: Message) -> None:
        self._check_alive()
        try:
            with self._sending:
                self._link.send(encode_line(message))
        except OSError:
            self._gone = True
            self._check_alive()

    def _ask(self, number: int, message: Message) -> Message:
        """Send a request and wait for its reply."""
        future: Future[Message] = Future()
        self._replies[number] = future
        try:
            self._send({**message, "n": number})
            reply = future.result()
        finally:
            self._replies.pop(number, None)
        if reply.get("ok"):
            return reply
        path, text = message.get("path", ""), reply.get("text", "")
        if reply.get("error") == "missing":
            raise FileNotFoundError(f"There is no file {path} in the workspace.")
        raise FileRefused(f"The file {path} cannot cross the border of the box: {text}.")

    def _read(self) -> None:
        lines = LineReader()
        for data in self._link.receive():
            for message in lines.feed(data):
                self._on_message(message)
        self._gone = True
        lost = SandboxLost(f"The box {self.id} is gone.")
        if not self._ready.done():
            self._ready.set_exception(lost)
        for reply in list(self._replies.values()):
            if not reply.done():
                reply.set_exception(lost)
        cell = self._cell
        if cell is not None:
            self._end_cell(cell, lost_record(cell.id, self._names, self._why_gone()))

    def _on_message(self, message: Message) -> None:
        kind = message.get("ev")
        cell = self._cell
        if kind == "reply":
            future = self._replies.get(message.get("n", 0))
            if future is not None and not future.done():
                future.set_result(message)
        elif kind == "ready" and not self._ready.done():
            self._ready.set_result(str(message.get("python")))
        elif cell is not None and message.get("id") == cell.id:
            if kind == "done":
                self._end_cell(cell, record_of(message, cell.id))
            else:
                event = event_of(message)
                if event is not None:
                    cell.push(event)

    def _why_gone(self) -> str:
        if self._closed:
            return "the session was closed while the cell ran"
        if self._silent:
            return "the box said nothing long after the cell's time was over; what the cell did is not known"
        return "the box was removed or killed, or its engine stopped; what the cell did until then is not known"

    def _end_cell(self, cell: RunningCell, execution: Execution | None) -> None:
        if execution is not None:
            made = {info.name for info in (*execution.names.created, *execution.names.changed)}
            self._names = (self._names | made) - set(execution.names.deleted) - set(execution.lost_names)
        with self._lock:
            if self._cell is cell:
                self._cell = None
        cell.finish(execution)
