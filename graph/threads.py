"""Threads that are kept: list them, read their history, go on with one, fork one, delete one.

```python
from actloop import threads

for info in threads.ls():
    print(info.id, info.status, info.turns, info.goal)
branch = threads.fork("t1", at=3)               # the state after turn 3, in a thread of its own
out = threads.resume(branch, model="openai:gpt-5")
```

All but `resume` work on the store alone: they need neither a model nor an engine. `checkpoints` says which store: a
saver, the path of a SQLite file, a URL as `create_agent` takes it, or None for the user's own.
"""

import uuid
from pathlib import Path
from typing import Any, cast

from langgraph.types import Command, StateSnapshot

from actloop.config import Settings
from actloop.errors import ConfigError
from actloop.sandbox.opening import remove_box

from .agent import Agent
from .builder import create_agent
from .copying import copy_branch
from .history import TurnInfo, branch_of, turns_of
from .sessions import box_key, hold_everywhere, snapshots_of
from .thread_store import (
    Checkpoints,
    Graph,
    ThreadInfo,
    enumerated,
    head_of,
    held,
    ids_of,
    infos_of,
    kernel_of,
    opened,
    reader_of,
    state_of,
    unknown,
)

__all__ = ["ThreadInfo", "TurnInfo", "find", "fork", "ls", "question", "resume", "rm", "show"]

_NO_ANSWER: Any = object()


def ls(checkpoints: Checkpoints = None) -> list[ThreadInfo]:
    """All threads, the one that was used last first.

    Args:
        checkpoints: the store.

    Raises:
        ConfigError: the store cannot be opened.
    """
    with opened(checkpoints) as saver:
        return infos_of(saver)


def show(thread: str, checkpoints: Checkpoints = None) -> list[TurnInfo]:
    """What happened in a thread, over all its runs; what was left by going back to an earlier state is not told.

    Args:
        thread: id.
        checkpoints: the store.

    Raises:
        ConfigError: there is no such thread, or the store cannot be opened.
    """
    with opened(checkpoints) as saver:
        head_of(reader_of(saver), thread)
        return turns_of(branch_of(saver, thread))


def resume(
    thread: str, agent: Agent | None = None, *, answer: Any = _NO_ANSWER, checkpoints: Checkpoints = None, **how: Any
) -> dict[str, Any]:
    """Go on with a run that has not ended.

    Args:
        thread: id.
        agent: that goes on, with the store it has; None makes one, and closes its boxes at the end.
        answer: to the question that the run waits with: `True`, `False`, or what `nodes/approve.py` takes.
        checkpoints: the store, where an agent is made.
        how: what `create_agent` takes, where an agent is made.

    Returns:
        The result, as `agent.invoke` gives it.

    Raises:
        ConfigError: there is no such thread; its run has ended; it waits for an answer and there is none, or the other
            way round.
        SessionBusy: the thread has a run that goes on.
        ModelAccessDenied: there is no key for the model.
    """
    if agent is not None:
        if how or checkpoints is not None:
            raise ConfigError("Give an agent, or what one is made of, and not both.")
        return _go_on(agent, thread, answer)
    with opened(checkpoints) as saver:
        # Before an agent is made: an unknown thread is no reason to ask for a key.
        _step(_unfinished(reader_of(saver), thread), answer)
        made = create_agent(checkpointer=saver, **how)
        with made.sessions:
            return _go_on(made, thread, answer)


def fork(thread: str, at: int | None = None, name: str | None = None, checkpoints: Checkpoints = None) -> str:
    """Make a thread that begins where another one stands or stood; the other stays as it is.

    The new thread has the same past. It goes on with `resume` where that state was in the middle of a run, and takes
    a new task in any case.

    Args:
        thread: id of the one to begin from.
        at: number of the turn after which the new one begins, as `show` counts; None is the present state, with the
            answer or the question that it ends in.
        name: id of the new one; None makes one up.
        checkpoints: the store.

    Returns:
        The id of the new thread.

    Raises:
        ConfigError: there is no such thread or turn, or the name is taken.
    """
    if name is not None and not name.strip():
        raise ConfigError("The name of the fork is empty; give one, or none to have one made up.")
    target = name or uuid.uuid4().hex[:12]
    with opened(checkpoints) as saver:
        reader = reader_of(saver)
        head = head_of(reader, thread)
        if state_of(reader, target).created_at is not None:
            raise ConfigError(f"There is a thread {target!r} already; choose another name for the fork.")
        points = branch_of(saver, thread)
        ids = [point.id for point in points]
        if at is not None:
            ids = ids[: ids.index(_turn(turns_of(points), at, thread).checkpoint_id) + 1]
        copy_branch(saver, ids, source=thread, target=target, waiting=at is None and bool(head.interrupts))
    return target


def rm(thread: str, checkpoints: Checkpoints = None, snapshots: str | Path | None = None) -> None:
    """Delete a thread: its checkpoints, its box, and its snapshots unless another thread goes on from them.

    Files that its runs made stay in the artifacts, which keep each content once for all threads.

    Args:
        thread: id.
        checkpoints: the store.
        snapshots: folder or URL of the snapshots; None is what the settings say.

    Raises:
        ConfigError: there is no such thread.
        SessionBusy: it has a run that goes on, here or, where the store knows that, in another process.
        SnapshotError: its snapshots cannot be deleted; the thread is still there.
    """
    with opened(checkpoints) as saver:
        reader = reader_of(saver)
        kernel = head_of(reader, thread).values.get("kernel") or ""
        shared = any(kernel_of(saver, other) == kernel for other in ids_of(saver) if other != thread)
        with hold_everywhere(thread) as everyone, held(saver, thread):
            for sessions in everyone:
                sessions.drop(thread, kernel, wait=True)
            if kernel:
                remove_box(box_key(thread, kernel))
                if not shared:
                    snapshots_of(kernel, str(snapshots or Settings().snapshot_store)).delete()
            saver.delete_thread(thread)


def find(beginning: str, checkpoints: Checkpoints = None) -> str:
    """The id of the one thread that begins so; an id that is whole always counts.

    Args:
        beginning: of the id, or all of it.
        checkpoints: the store.

    Raises:
        ConfigError: there is none, or more than one.
    """
    with opened(checkpoints) as saver:
        ids = ids_of(saver)
        found = [id for id in ids if id == beginning] or [id for id in ids if beginning and id.startswith(beginning)]
        if not found:
            raise unknown(saver, beginning)
    if len(found) > 1:
        raise ConfigError(
            f"{len(found)} threads begin with {beginning!r}: {enumerated(sorted(found))}; give more of the id."
        )
    return found[0]


def question(thread: str, checkpoints: Checkpoints = None) -> Any:
    """What the run of a thread waits for.

    Args:
        thread: id.
        checkpoints: the store.

    Returns:
        The question that waits for an answer (`kind`, `code`, `findings`); None where the run was cut off and just
        goes on.

    Raises:
        ConfigError: there is no such thread, or its run has ended.
    """
    with opened(checkpoints) as saver:
        state = _unfinished(reader_of(saver), thread)
    return state.interrupts[0].value if state.interrupts else None


def _go_on(agent: Agent, thread: str, answer: Any) -> dict[str, Any]:
    result: Any = agent.invoke(_step(_unfinished(agent, thread), answer), {"configurable": {"thread_id": thread}})
    return cast(dict[str, Any], result)


def _unfinished(graph: Graph, thread: str) -> StateSnapshot:
    state = head_of(graph, thread)
    if not state.next:
        raise ConfigError(
            f"The run of the thread {thread!r} has ended with {state.values.get('status')}; give it a new task."
        )
    return state


def _step(state: StateSnapshot, answer: Any) -> Command[Any] | None:
    thread = state.config["configurable"]["thread_id"]
    if state.interrupts and answer is _NO_ANSWER:
        raise ConfigError(
            f"The thread {thread!r} asks whether a cell may run; answer with answer=True or answer=False."
        )
    if not state.interrupts and answer is not _NO_ANSWER:
        raise ConfigError(f"The thread {thread!r} does not wait for an answer; resume it without one.")
    return Command(resume=answer) if state.interrupts else None


def _turn(turns: list[TurnInfo], at: int, thread: str) -> TurnInfo:
    known = {turn.number: turn for turn in turns if turn.number is not None}
    if at not in known:
        there = f"its turns are 1 to {len(known)}" if known else "it has none yet; leave the turn out"
        raise ConfigError(f"The thread {thread!r} has no turn {at}: {there}.")
    return known[at]
