"""`execute`: run the cell in the thread's session, and keep what it made."""

import asyncio
import mimetypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer
from langgraph.runtime import get_runtime
from langgraph.types import Command

from actloop.errors import Call, CallPending, FileRefused, SandboxError, SandboxLost
from actloop.protocols import CallAnswer, CallRules, Display, Event, Execution, HostCall, Session
from actloop.state import Artifact, Change, State, change

from .call_arguments import shown
from .context import Context, thread_of
from .masking import mask
from .place import Place, after, take_place
from .plain import plain
from .run import Run, end, run_of, usable

Next = Command[Literal["observe", "approve", "__end__"]]

Ran: TypeAlias = tuple[Session, Place, Execution]
"""The session after a cell, where it stood before it, and the record."""
_ATTEMPTS = (False, False, True)
"""To find a box that lasts until the cell has begun; True is the last one."""
MAX_KEPT = 256 << 20
"""Bytes of files that one cell may add to the artifacts."""
MAX_CALLS = 20
"""Calls to the host that enter the state."""
MAX_CALL = 500
"""Characters of the arguments, and of the result, of one of them there."""


@dataclass
class Task:
    """One cell that is to run."""

    state: State
    context: Context
    thread: str
    kernel: str
    code: str
    cell_id: str
    run: Run
    writer: Callable[[Any], None]
    waiting: dict[str, Any]
    """The call that a person has decided on; empty where the cell begins now."""
    place_now: Place = field(default_factory=Place)

    def tell(self, event: Event) -> None:
        """Hand an event of the cell to whoever streams the graph."""
        shown = event.model_dump(exclude={"display"}, exclude_defaults=True) | {"kind": event.kind}
        if event.display is not None:
            shown |= {"name": event.display.name, "media_type": event.display.media_type}
        self.writer(_masked(shown, self.context.secrets))

    def place(self) -> tuple[Session, Place]:
        """The session, where the state says."""
        session, self.place_now = take_place(self.state, self.thread, self.kernel, self.context, self.cell_id)
        if self.waiting and session.knows(self.cell_id):
            # What was found when the cell began is told with its record.
            for name, value in self.waiting["place"].items():
                setattr(self.place_now, name, value)
        return session, self.place_now

    def rules(self) -> CallRules:
        """What holds for the cell's calls to the host."""
        most, over = self.context.limits.host_calls, ""
        if (budget := self.context.budget.host_calls) is not None:
            left = max(0, budget - self.run.get("host_calls", 0))
            if left < most:
                most, over = left, f"the budget of this run, {budget} calls to the host, is used up"
        answer = self.waiting.get("answer")
        answers = {int(self.waiting["number"]): CallAnswer.model_validate(answer)} if answer else {}
        return CallRules(most=most, over=over, ask=True, answers=answers)


def execute(state: State, config: RunnableConfig, *, context: Context) -> Next:
    """Run the cell, or wait for its end where it was started already: no cell runs twice.

    Returns:
        To `observe` with the record, or to the end where the sandbox failed: that is never shown to the model as the
        result of its code.
    """
    task = _task(state, config, context)
    try:
        for last in _ATTEMPTS:
            try:
                return _after(task, *_run(task))
            except SandboxLost:
                # The box went away before the cell began.
                if last:
                    raise
    except CallPending as pending:
        return _ask(task, pending.call)
    except SandboxError as error:
        return _failed(task, error)
    raise AssertionError


async def aexecute(state: State, config: RunnableConfig, *, context: Context) -> Next:
    """`execute` for async callers; cancelling the task interrupts the cell."""
    task = _task(state, config, context)
    try:
        for last in _ATTEMPTS:
            try:
                return await asyncio.to_thread(_after, task, *await _arun(task))
            except SandboxLost:
                if last:
                    raise
    except CallPending as pending:
        return _ask(task, pending.call)
    except SandboxError as error:
        return _failed(task, error)
    raise AssertionError


def _run(task: Task) -> Ran:
    session, place, undone = _begun(task)
    if undone is not None:
        return session, place, undone
    execution = (
        session.follow(task.cell_id, on_event=task.tell, calls=task.rules())
        if session.knows(task.cell_id)
        else session.run(task.code, cell_id=task.cell_id, on_event=task.tell, calls=task.rules())
    )
    return (session, place, execution) if execution.outcome != "lost" else _after_loss(task, session, execution)


async def _arun(task: Task) -> Ran:
    session, place, undone = await asyncio.to_thread(_begun, task)
    if undone is not None:
        return session, place, undone
    execution = await (
        session.afollow(task.cell_id, on_event=task.tell, calls=task.rules())
        if session.knows(task.cell_id)
        else session.arun(task.code, cell_id=task.cell_id, on_event=task.tell, calls=task.rules())
    )
    if execution.outcome != "lost":
        return session, place, execution
    return await asyncio.to_thread(_after_loss, task, session, execution)


def _task(state: State, config: RunnableConfig, context: Context) -> Task:
    run = run_of(state)
    thread, kernel = thread_of(state, config)
    # The task's id is derived from the checkpoint that the node starts from: a crash and a retry start from the same
    # one, another branch of the thread from another one.
    info = get_runtime().execution_info
    part = info.task_id[:13] if info is not None else run["id"]
    waiting = state.get("call") or {}
    cell_id = str(waiting.get("cell_id") or f"{run['id']}-{run['turns'] + 1}-{part}")
    return Task(state, context, thread, kernel, usable(state).code, cell_id, run, get_stream_writer(), waiting)


def _failed(task: Task, error: SandboxError) -> Next:
    return end("sandbox_error", str(error), task.run)


def _begun(task: Task) -> tuple[Session, Place, Execution | None]:
    """The session, where it stands; and a record where the cell must not run.

    The model wrote the cell for a state that is not there any more, if cells before it were lost with their box.
    """
    session, place = task.place()
    if task.waiting and not session.knows(task.cell_id):
        # It must not begin again: its calls would be made once more.
        why = "the box was lost while the cell waited for a person to approve a call; what the cell did before is gone"
        if place.became == "kept":
            place.became = "lost"
    elif place.undone and not task.waiting:
        why = "the box was lost before this cell, which was not run"
    else:
        return session, place, None
    return session, place, Execution(cell_id=task.cell_id, outcome="lost", exit_code=None, notes=(why,))


def _after_loss(task: Task, lost: Session, execution: Execution) -> Ran:
    """Look whether only the stream was lost and the cell goes on; otherwise bring back the state before it."""
    names, files = sorted(task.state.get("names") or []), sorted(task.state.get("workspace") or [])
    gone = Place("lost", missing=dict.fromkeys(names, ""), missing_files=dict.fromkeys(files, "its box is gone"))
    try:
        session, place = task.place()
        if session.knows(task.cell_id):
            found = session.follow(task.cell_id, on_event=task.tell, calls=task.rules())
            return (session, place, found) if found.outcome != "lost" else (lost, gone, execution)
    except SandboxError as error:
        return lost, gone, execution.model_copy(update={"notes": (*execution.notes, str(error))})
    if place.became == "kept":
        # There was nothing yet that could have been lost.
        place.became = "lost"
    return session, place, execution


def _after(task: Task, session: Session, place: Place, execution: Execution) -> Next:
    """Put the record into the state, and what the cell made into the artifacts."""
    bound = {info.name for info in (*execution.names.created, *execution.names.changed)}
    if place.became != "kept":
        gone = (set(place.missing) - bound) | (set(execution.lost_names) - place.names)
        notes = (*execution.notes, *place.notes())
        told = {"state": place.became, "lost_names": tuple(sorted(gone)), "notes": notes}
        execution = execution.model_copy(update=told)
    if execution.outcome == "lost":
        names, workspace = place.names, place.files
        kept: list[Artifact] = []
    else:
        kept = _keep(task, session, execution)
        names = (place.names | bound) - set(execution.names.deleted) - set(execution.lost_names)
        made = {file.path for file in (*execution.files.created, *execution.files.changed)}
        workspace = (place.files | made) - set(execution.files.deleted)
    task.run["host_calls"] = task.run.get("host_calls", 0) + len(execution.host_calls)
    small = {
        "displays": tuple(_bare(display) for display in execution.displays),
        "host_calls": tuple(_small(call) for call in execution.host_calls[:MAX_CALLS]),
        "more_host_calls": len(execution.host_calls[MAX_CALLS:]),
    }
    bare = execution.model_copy(update=small)
    return Command(
        goto="observe",
        update={
            "execution": plain(_masked(bare.model_dump(mode="json"), task.context.secrets)),
            "run": task.run,
            "call": {},
            "unplaced": [],
            "points": after(place, execution),
            "names": change(task.state.get("names") or (), names),
            "workspace": change(task.state.get("workspace") or (), workspace),
            "artifacts": Change(added=kept),
        },
    )


def _ask(task: Task, call: Call) -> Next:
    """Put a call to a person. What is stored names the cell, which waits in the box for whoever has the answer."""
    place = task.place_now
    functions = {function.name: function.signature for function in task.context.functions}
    found = {name: getattr(place, name) for name in ("became", "missing", "missing_files", "changed")}
    pending = {
        "cell_id": task.cell_id,
        "number": call.number,
        "tool": call.tool,
        "arguments": shown(functions.get(call.tool, ""), call.arguments),
        "place": found | {"changed": list(place.changed)},
    }
    return Command(
        goto="approve",
        update={
            "call": plain(_masked(pending, task.context.secrets)),
            "unplaced": [],
            "points": place.points,
            "names": change(task.state.get("names") or (), place.names),
            "workspace": change(task.state.get("workspace") or (), place.files),
        },
    )


def _small(call: HostCall) -> HostCall:
    """A call as it enters the state."""
    texts = {"arguments": call.arguments, "result": call.result, "error": call.error}
    cut = {name: f"{text[:MAX_CALL]} ..." for name, text in texts.items() if text is not None and len(text) > MAX_CALL}
    return call.model_copy(update=cut)


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
