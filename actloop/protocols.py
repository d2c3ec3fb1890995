"""What crosses between the parts: the record of a cell's run, and the session that makes it.

The record is plain data (pydantic, JSON both ways) so that it can enter a checkpoint, a trace or a file. Values made
by user code enter it only as text.
"""

from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Literal, Protocol, Self, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

Outcome: TypeAlias = Literal["ok", "error", "exit", "timeout", "out_of_memory", "crashed", "cancelled", "lost"]
"""How a cell ended. `lost`: the box went away and nothing is known of the cell's end."""

After: TypeAlias = Literal["kept", "rolled_back", "restored", "lost"]
"""What became of the variables: as the cell left them; as they were before the cell; from a snapshot; gone."""


class Record(BaseModel):
    """Base of all records: unknown fields are an error, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Output(Record):
    """One output stream of a cell, or both in the order in which they were written."""

    text: str = ""
    """Everything, or head, a line that says how much is left out, and tail. Bytes that are not UTF-8 are replaced."""
    total_bytes: int = 0
    """Bytes that were written."""
    path: str | None = None
    """File in the workspace with the full text (up to the disk limit), where `text` is cut."""

    @property
    def cut(self) -> bool:
        """Whether `text` is less than what was written."""
        return self.path is not None


class ErrorInfo(Record):
    """The exception that ended a cell."""

    type: str
    """Class name, as a traceback prints it."""
    message: str = ""
    line: int | None = None
    """Line of the cell that raised, from 1; None where the cell's own code is not on the stack."""
    source: str | None = None
    """Text of that line."""
    traceback: str = ""
    """Traceback that begins at the cell's own first frame."""


def _from_base64(value: object) -> object:
    return b64decode(value, validate=True) if isinstance(value, str) else value


Base64 = Annotated[
    bytes,
    BeforeValidator(_from_base64),
    PlainSerializer(lambda data: b64encode(data).decode("ascii"), when_used="json"),
]


class Display(Record):
    """Something a cell showed: a figure, a table, JSON."""

    media_type: str
    """`image/png`, `text/html`, `application/json`, ..."""
    data: Base64 = b""
    """The bytes themselves, base64 in JSON; empty when only named (in a checkpoint they are an artifact)."""
    name: str
    """File name that fits, unique in the cell: `figure-1.png`."""


class NameInfo(Record):
    """A variable as the model reads it."""

    name: str
    type: str
    detail: str = ""
    """Shape or length where it has one: `12 x 3`, `len 5`."""


class Names(Record):
    """What a cell did to the names of the session."""

    created: tuple[NameInfo, ...] = ()
    changed: tuple[NameInfo, ...] = ()
    deleted: tuple[str, ...] = ()


class FileInfo(Record):
    """A regular file of the workspace."""

    path: str
    """Relative to the workspace, with `/`."""
    size: int
    """Bytes."""


class Files(Record):
    """What a cell did to the files of the workspace."""

    created: tuple[FileInfo, ...] = ()
    changed: tuple[FileInfo, ...] = ()
    deleted: tuple[str, ...] = ()


class HostCall(Record):
    """A call from the cell to a tool on the host."""

    number: int
    tool: str
    arguments: str
    """JSON."""
    result: str | None = None
    """JSON, where the call succeeded."""
    error: str | None = None


class Execution(Record):
    """The record of one cell's run (DESIGN.md, section 6)."""

    cell_id: str
    outcome: Outcome
    exit_code: int | None
    """0 ok, 1 exception, n `SystemExit(n)`, 124 time-out, 130 cancelled, 137 out of memory, 128+n signal, None lost."""
    stdout: Output = Output()
    stderr: Output = Output()
    output: Output = Output()
    """stdout and stderr together, in the order in which they were written."""
    result: str | None = None
    """`repr` of the last expression; None where it has none, is None, or ends in `;`."""
    answer: str | None = None
    """Text given to `final_answer(...)`, where the cell called it."""
    answer_type: str | None = None
    """Type name of the value given to `final_answer`."""
    question: str | None = None
    """Text given to `ask_user(...)`, where the cell called it, whatever it did afterwards."""
    displays: tuple[Display, ...] = ()
    error: ErrorInfo | None = None
    names: Names = Names()
    files: Files = Files()
    host_calls: tuple[HostCall, ...] = ()
    more_host_calls: int = 0
    """How many were made besides those in `host_calls`."""
    wall_s: float = 0.0
    cpu_s: float = 0.0
    """Processor seconds of the interpreter and the children it waited for."""
    peak_bytes: int = 0
    """Highest resident memory of the interpreter, or of a child it waited for, in this cell."""
    state: After = "kept"
    lost_names: tuple[str, ...] = ()
    """Names that were there before the cell and are not any more, through no wish of the cell."""
    notes: tuple[str, ...] = ()
    """Whatever else is true and useful: processes that live on, output that came late, a child killed for memory."""

    @property
    def ok(self) -> bool:
        """Whether the cell reached its end, or left with exit code 0."""
        return self.exit_code == 0


class Restored(Record):
    """What a session holds after it was brought to a snapshot."""

    point: str = ""
    """Id of the cell, or of the snapshot, whose state it is in; empty where it was emptied."""
    names: tuple[str, ...] = ()
    """Variables that are there."""
    files: tuple[str, ...] = ()
    """Files that are there."""
    missing: dict[str, str] = {}
    """Variables that were there at the point and are not now, each with the reason."""
    missing_files: dict[str, str] = {}
    """Files, likewise."""
    notes: tuple[str, ...] = ()
    """What is there, and yet not as it was."""


class Event(Record):
    """Something that a running cell did, while it runs."""

    kind: Literal["stdout", "stderr", "display", "skipped"]
    text: str = ""
    """Output as it came; for `skipped`, how many bytes of live output were passed over because the reader was slow."""
    display: Display | None = None


OnEvent: TypeAlias = Callable[[Event], None]


class PendingCall(Record):
    """A call of a cell that waits for a person."""

    number: int
    """Of the call in its cell, from 1."""
    tool: str
    arguments: str
    """JSON with `args` and `kwargs`."""


class CallAnswer(Record):
    """What a person says to a call."""

    approved: bool
    arguments: str | None = None
    """JSON with `args` and `kwargs`, in place of the cell's."""
    reason: str = ""
    """Why it is refused, as the cell reads it."""


class CallRules(Record):
    """What holds for the calls of one cell to functions of the host."""

    most: int = 10_000
    """Calls that the cell may make."""
    over: str = ""
    """What the cell is told of a call beyond them, where it is not its own limit that is reached."""
    ask: bool = False
    """Whether somebody can be asked: a call that needs approval then raises `CallPending` for who runs the cell."""
    answers: Mapping[int, CallAnswer] = {}
    """Answers to questions that were put before, by the numbers of the calls."""


class Function(Protocol):
    """A function of the host that cells may call; see `actloop.sandbox.host_functions`."""

    @property
    def name(self) -> str:
        """By which cells call it."""
        ...

    @property
    def idempotent(self) -> bool:
        """Whether a call whose outcome is unknown may be made again."""
        ...

    @property
    def needs_approval(self) -> bool:
        """Whether a person is asked before each call."""
        ...

    @property
    def awaits(self) -> bool:
        """Whether it is called by `acall`, on an event loop."""
        ...

    def described(self) -> dict[str, Any]:
        """`name`, `signature` and `doc`, and whether tables may come as `arrow`, as the box needs them."""
        ...

    def call(self, arguments: str, arrow: bool = False) -> dict[str, str]:
        """Make a call: JSON with `args` and `kwargs` in, `result` as JSON or `error` as text out."""
        ...

    async def acall(self, arguments: str, arrow: bool = False) -> dict[str, str]:
        """`call` for a function that awaits."""
        ...


class Cell(Protocol):
    """A cell that was started in the background."""

    id: str

    def poll(self) -> Execution | None:
        """The record if the cell has ended, else None."""
        ...

    def wait(self, timeout: float | None = None) -> Execution:
        """Wait for the record.

        Raises:
            TimeoutError: `timeout` seconds passed; the cell runs on.
        """
        ...

    def cancel(self) -> None:
        """Interrupt the cell, and kill it if it does not obey."""
        ...

    def events(self) -> Iterator[Event]:
        """Everything the cell shows, as it comes, up to its end."""
        ...

    async def await_end(self) -> Execution:
        """Wait for the record without blocking the event loop."""
        ...

    def aevents(self) -> AsyncIterator[Event]:
        """`events` for async callers."""
        ...


class Session(Protocol):
    """A live interpreter with a workspace. Thread-safe; one cell at a time.

    Each method has an async twin with an `a` before its name. Leaving the context closes the session and removes
    its box.
    """

    @property
    def id(self) -> str:
        """Name of the box, unique on its engine."""
        ...

    def run(
        self,
        code: str,
        *,
        timeout: float | None = None,
        cell_id: str | None = None,
        on_event: OnEvent | None = None,
        calls: CallRules | None = None,
    ) -> Execution:
        """Run a cell and wait for its record.

        Args:
            code: Python source.
            timeout: seconds, at most the session's `wall_s`.
            cell_id: id of the cell; the same id never runs twice in one box.
            on_event: called with each event, in a thread of the session's.
            calls: what holds for its calls to functions of the host; without, they are bounded by the session's limits
                and nobody is asked.

        Raises:
            SessionBusy: another cell is running.
            SandboxLost: the box was gone before the cell began.
            CallPending: a call waits for a person; the cell waits in the box, for `follow` with the answer.
        """
        ...

    async def arun(
        self,
        code: str,
        *,
        timeout: float | None = None,
        cell_id: str | None = None,
        on_event: OnEvent | None = None,
        calls: CallRules | None = None,
    ) -> Execution:
        """`run` for async callers; cancelling the task cancels the cell."""
        ...

    def start(self, code: str, *, timeout: float | None = None, cell_id: str | None = None) -> Cell:
        """Start a cell in the background."""
        ...

    def interrupt(self) -> None:
        """End the running cell, if there is one, and keep the session."""
        ...

    @property
    def point(self) -> str:
        """Id of the cell, or of the snapshot, whose state the session is in; empty where it is new."""
        ...

    def knows(self, cell_id: str) -> bool:
        """Whether the box runs, or has run, this cell, and can still tell of it."""
        ...

    def attach(self, cell_id: str, calls: CallRules | None = None) -> Cell:
        """Wait for a cell that the box knows, and that another process may have started."""
        ...

    def follow(self, cell_id: str, *, on_event: OnEvent | None = None, calls: CallRules | None = None) -> Execution:
        """`attach` to a cell and wait for its record, as `run` does."""
        ...

    async def afollow(
        self, cell_id: str, *, on_event: OnEvent | None = None, calls: CallRules | None = None
    ) -> Execution:
        """`follow` for async callers."""
        ...

    def stop_stray(self) -> None:
        """End a cell that another process started and nobody wants, and wait for its end."""
        ...

    def offer(self, functions: Sequence[Function]) -> None:
        """Let cells call functions of the host; they replace those that were offered before."""
        ...

    def snapshot(self) -> str:
        """Store variables and files as they are now, and give a reference for `restore`.

        Raises:
            SessionBusy: a cell is running.
            SnapshotError: it could not be made or stored.
        """
        ...

    def restore(self, reference: str | None) -> Restored:
        """Bring variables and files back to a snapshot; None leaves the box empty.

        Raises:
            SnapshotError: there is no such snapshot, or it cannot be read.
            SnapshotRefused: it was altered, or belongs to another thread.
            SessionBusy: a cell is running.
            SandboxLost: the box is gone.
        """
        ...

    def settle(self, timeout: float = 20.0) -> None:
        """Wait until the snapshots that are under way are stored, or have failed, or `timeout` seconds have passed."""
        ...

    def restore_nearest(self, points: Sequence[str]) -> Restored:
        """Bring variables and files back to the newest of these points of which there is a snapshot, or empty the box.

        Args:
            points: ids of cells, oldest first.
        """
        ...

    def put(self, path: str, data: bytes | Path) -> None:
        """Write a file into the workspace.

        Raises:
            FileRefused: the path leaves the workspace, or the size passes a limit.
        """
        ...

    async def aput(self, path: str, data: bytes | Path) -> None:
        """`put` for async callers."""
        ...

    def get(self, path: str) -> bytes:
        """Read a regular file of the workspace.

        Raises:
            FileRefused: not a regular file inside the workspace, or too large.
            FileNotFoundError: there is no such file.
        """
        ...

    async def aget(self, path: str) -> bytes:
        """`get` for async callers."""
        ...

    def ls(self) -> list[FileInfo]:
        """The regular files of the workspace."""
        ...

    async def als(self) -> list[FileInfo]:
        """`ls` for async callers."""
        ...

    def close(self) -> None:
        """End the session and remove its box; safe to repeat."""
        ...

    async def aclose(self) -> None:
        """`close` for async callers."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
