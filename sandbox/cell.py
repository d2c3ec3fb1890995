"""A cell that is running, as its caller sees it."""

import asyncio
import contextvars
import queue
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Set
from concurrent.futures import Future

from pydantic import ValidationError

from actloop.errors import CallPending, SandboxLost
from actloop.protocols import Display, Event, Execution, PendingCall

from .box_wire import Message

MAX_WAITING = 1000
"""Events kept for a reader that is slow; the oldest are dropped after that, and how many bytes they had is said."""
MAX_WAITING_BYTES = 4 << 20
"""Size of these events; one that is larger is kept as long as it is the only one."""


def event_of(message: Message) -> Event | None:
    """An event from what the box says, or None if it is none."""
    try:
        match message.get("ev"):
            case "out":
                return Event(kind="stderr" if message["stream"] == "stderr" else "stdout", text=message["text"])
            case "display":
                return Event(kind="display", display=Display.model_validate(message["display"]))
            case "skipped":
                return Event(kind="skipped", text=str(int(message["bytes"])))
    except (KeyError, TypeError, ValueError, ValidationError):
        pass
    return None


def _size(event: Event) -> int:
    """Bytes of an event."""
    return len(event.text.encode()) + (len(event.display.data) if event.display is not None else 0)


def record_of(message: Message, cell_id: str) -> Execution:
    """The record as the supervisor gives it; one that does not fit is what an impostor or a fault would send."""
    record: Message = message.get("record") or {}
    try:
        return Execution.model_validate({**record, "cell_id": cell_id})
    except ValidationError as error:
        note = f"the record of the cell was not readable: {error.errors()[0]['msg']}"
        return Execution(cell_id=cell_id, outcome="crashed", exit_code=1, state="kept", notes=(note,))


def lost_record(cell_id: str, names: Set[str], why: str) -> Execution:
    """The record of a cell whose box went away."""
    return Execution(
        cell_id=cell_id, outcome="lost", exit_code=None, state="lost", lost_names=tuple(sorted(names)), notes=(why,)
    )


class RunningCell:
    """One cell.

    Args:
        id: of the cell.
        interrupt: ends it.
        patience: seconds after which the box must have said something of its end.
        on_silence: called where it has not; the end is then known.
    """

    def __init__(self, id: str, interrupt: Callable[[], None], patience: float, on_silence: Callable[[], None]) -> None:
        self.id = id
        self.context = contextvars.copy_context()
        """Of whoever started it: what is done for the cell on the host belongs to that."""
        self._interrupt = interrupt
        self._patience = patience
        self._overdue = time.monotonic() + patience
        self._held = False
        self._on_silence = on_silence
        self._future: Future[Execution] = Future()
        self._lock = threading.Lock()
        self._waiting: deque[Event] = deque()
        self._size = 0
        self._dropped = 0
        self._wake: Callable[[], None] | None = None

    def poll(self) -> Execution | None:
        """The record if the cell has ended, else None."""
        return self._future.result() if self._future.done() and self._future.exception() is None else None

    def wait(self, timeout: float | None = None) -> Execution:
        """Wait for the record.

        Raises:
            TimeoutError: `timeout` seconds passed; the cell runs on.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = self._left()
            if until is not None and until - time.monotonic() < left:
                return self._future.result(max(0.0, until - time.monotonic()))
            try:
                return self._future.result(left)
            except TimeoutError:
                if self._left() <= 0:
                    self._on_silence()
                    return self._future.result(timeout)

    def _left(self) -> float:
        """Seconds until the box must have said something; they count anew after each call to the host."""
        return self._patience if self._held else max(0.0, self._overdue - time.monotonic())

    async def await_end(self) -> Execution:
        """Wait for the record without blocking the event loop."""
        end = asyncio.wrap_future(self._future)
        while not (await asyncio.wait([end], timeout=self._left()))[0]:
            if self._left() <= 0:
                self._on_silence()
                break
        return await asyncio.shield(end)

    def cancel(self) -> None:
        """Interrupt the cell, and kill it if it does not obey."""
        if not self._future.done():
            self._interrupt()

    def events(self) -> Iterator[Event]:
        """Everything the cell shows, as it comes, up to its end."""
        bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._listen(lambda: bell.put(None))
        while True:
            yield from self._take()
            if self._future.done():
                yield from self._take()
                return
            try:
                bell.get(timeout=self._left())
            except queue.Empty:
                if self._left() <= 0:
                    self._on_silence()
                    self.wait()

    async def aevents(self) -> AsyncIterator[Event]:
        """`events` for async callers."""
        bell = asyncio.Event()
        loop = asyncio.get_running_loop()

        def ring() -> None:
            loop.call_soon_threadsafe(bell.set)

        self._listen(ring)
        while True:
            bell.clear()
            for event in self._take():
                yield event
            if self._future.done():
                for event in self._take():
                    yield event
                return
            try:
                await asyncio.wait_for(bell.wait(), self._left())
            except TimeoutError:
                if self._left() <= 0:
                    self._on_silence()
                    await self.await_end()

    # -- the session's side ---------------------------------------------------------------------------------------

    def push(self, event: Event) -> None:
        """Take an event from the box."""
        with self._lock:
            self._waiting.append(event)
            self._size += _size(event)
            while len(self._waiting) > MAX_WAITING or (self._size > MAX_WAITING_BYTES and len(self._waiting) > 1):
                oldest = self._waiting.popleft()
                self._size -= _size(oldest)
                self._dropped += int(oldest.text) if oldest.kind == "skipped" else _size(oldest)
            wake = self._wake
        if wake is not None:
            wake()

    def finish(self, execution: Execution | None) -> None:
        """Take the record; None if the cell never reached the box."""
        if self._future.done():
            return
        if execution is None:
            self._future.set_exception(SandboxLost("The cell was not started: the box was gone before."))
        else:
            self._future.set_result(execution)
        if self._wake is not None:
            self._wake()

    def when_over(self, call: Callable[[], None]) -> None:
        """Have a function called once nobody waits for this cell any more."""
        self._future.add_done_callback(lambda _: call())

    def hold(self) -> None:
        """The cell waits for the host, which may take any time."""
        self._held = True

    def go_on(self) -> None:
        """It does not wait any more."""
        self._overdue = time.monotonic() + self._patience
        self._held = False

    def leave(self, call: PendingCall) -> None:
        """Nobody follows the cell any more: it waits for a person, who is not here."""
        if not self._future.done():
            self._future.set_exception(CallPending(self.id, call))
            if self._wake is not None:
                self._wake()

    def _listen(self, wake: Callable[[], None]) -> None:
        with self._lock:
            self._wake = wake
        wake()

    def _take(self) -> list[Event]:
        with self._lock:
            events, self._waiting = list(self._waiting), deque()
            dropped, self._dropped, self._size = self._dropped, 0, 0
        return [Event(kind="skipped", text=str(dropped)), *events] if dropped else events
