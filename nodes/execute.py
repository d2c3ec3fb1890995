"""`execute`: run the cell in the thread's session, and keep what it made."""

import asyncio
import mimetypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer
from langgraph.types import Command

from actloop.errors import FileRefused, SandboxError
from actloop.protocols import Display, Event, Execution, Session
from actloop.state import Artifact, State

from .context import Context, input_files, session_key
from .masking import mask
from .plain import plain
from .run import Run, end, run_of, usable

Next = Command[Literal["observe", "__end__"]]

MAX_KEPT = 256 << 20
"""Bytes of files that one cell may add to the artifacts."""


@dataclass
class Task:
    """One cell that is to run."""

    state: State
    context: Context
    key: str
    code: str
    cell_id: str
    run: Run
    writer: Callable[[Any], None]

    def tell(self, event: Event) -> None:
        """Hand an event of the cell to whoever streams the graph."""
        shown = event.model_dump(exclude={"display"}, exclude_defaults=True) | {"kind": event.kind}
        if event.display is not None:
            shown |= {"name": event.display.name, "media_type": event.display.media_type}
        self.writer(_masked(shown, self.context.secrets))


def execute(state: State, config: RunnableConfig, *, context: Context) -> Next:
    """Run the cell.

    Returns:
        To `observe` with the record, or to the end where the sandbox failed: that is never shown to the model as the
        result of its code.
    """
    task = _task(state, config, context)
    try:
        session, fresh = _session(task)
        execution = session.run(task.code, cell_id=task.cell_id, on_event=task.tell)
        return _after(task, session, execution, fresh)
    except SandboxError as error:
        return _failed(task, error)


async def aexecute(state: State, config: RunnableConfig, *, context: Context) -> Next:
    """`execute` for async callers; cancelling the task interrupts the cell."""
    task = _task(state, config, context)
    try:
        session, fresh = await asyncio.to_thread(_session, task)
        execution = await session.arun(task.code, cell_id=task.cell_id, on_event=task.tell)
        return await asyncio.to_thread(_after, task, session, execution, fresh)
    except SandboxError as error:
        return _failed(task, error)


def _task(state: State, config: RunnableConfig, context: Context) -> Task:
    run = run_of(state)
    key = session_key(state, config)
    return Task(state, context, key, usable(state).code, f"{run['id']}-{run['turns'] + 1}", run, get_stream_writer())


def _session(task: Task) -> tuple[Session, bool]:
    """The thread's session with the caller's files in it, and whether it had to be started."""
    fresh = not task.context.sessions.has(task.key)
    session = task.context.sessions.get(task.key)
    inputs = input_files(task.state)
    for name in inputs if fresh else task.state.get("unplaced") or []:
        try:
            session.put(name, inputs[name])
        except OSError as error:
            if isinstance(error, SandboxError):
                raise
            why = error.strerror or error
            raise FileRefused(f"The input file {name} cannot be read any more: {why}. Give it again.") from error
    return session, fresh


def _failed(task: Task, error: SandboxError) -> Next:
    return end("sandbox_error", str(error), task.run)


def _after(task: Task, session: Session, execution: Execution, fresh: bool) -> Next:
    """Put the record into the state, and what the cell made into the artifacts."""
    names = set(task.state.get("names") or [])
    workspace = set(task.state.get("workspace") or [])
    bound = {info.name for info in (*execution.names.created, *execution.names.changed)}
    if fresh and names:
        # The box that held them went away between two turns; what the cell has made anew is there again.
        gone = tuple(sorted((names - bound) | set(execution.lost_names)))
        why = "the box was lost before this cell; the cell ran in a new one"
        execution = execution.model_copy(update={"state": "lost", "lost_names": gone, "notes": (*execution.notes, why)})
        names, workspace = set(), set()
    if execution.outcome == "lost":
        task.context.sessions.drop(task.key)
        workspace = set()
        kept: list[Artifact] = []
    else:
        kept = _keep(task, session, execution)
    names = (names | bound) - set(execution.names.deleted) - set(execution.lost_names)
    made = {file.path for file in (*execution.files.created, *execution.files.changed)}
    workspace = (workspace | made) - set(execution.files.deleted)
    bare = execution.model_copy(update={"displays": tuple(_bare(display) for display in execution.displays)})
    artifacts = {artifact["name"]: artifact for artifact in [*(task.state.get("artifacts") or []), *kept]}
    return Command(
        goto="observe",
        update={
            "execution": plain(_masked(bare.model_dump(mode="json"), task.context.secrets)),
            "unplaced": [],
            "names": sorted(names),
            "workspace": sorted(workspace),
            "artifacts": list(artifacts.values()),
        },
    )


def _masked(value: Any, secrets: Sequence[str]) -> Any:
    """Mask known secrets in every text of a record: what enters the state goes into checkpoints and traces."""
    if not secrets:
        return value
    if isinstance(value, str):
        return mask(value, secrets)
    if isinstance(value, dict):
        return {name: _masked(item, secrets) for name, item in value.items()}
    return [_masked(item, secrets) for item in value] if isinstance(value, list) else value


def _bare(display: Display) -> Display:
    return display.model_copy(update={"data": b""})


def _keep(task: Task, session: Session, execution: Execution) -> list[Artifact]:
    """Copy out what the cell made: a box that is lost later takes its files along."""
    turn = task.run["turns"] + 1
    kept: list[Artifact] = []
    room = MAX_KEPT
    for file in (*execution.files.created, *execution.files.changed):
        if file.size > room:
            continue
        try:
            data = session.get(file.path)
        except (FileRefused, FileNotFoundError):
            # Gone again, or larger than what may cross: the record still lists it.
            continue
        room -= len(data)
        media_type = mimetypes.guess_type(file.path)[0] or "application/octet-stream"
        kept.append(task.context.artifacts.keep(file.path, data, media_type, turn))
    known = {artifact["sha256"] for artifact in kept}
    for display in execution.displays:
        artifact = task.context.artifacts.keep(f"turn-{turn}-{display.name}", display.data, display.media_type, turn)
        # A figure that the cell saved as well is there already.
        if artifact["sha256"] not in known:
            kept.append(artifact)
    return kept
