"""Removing the boxes that nobody needs any more.

Two rules, for two occasions. A person who asks for a sweep gets rid of every box whose owner has ended. A process that
opens its first session asked for nothing: it removes only what no process can want, and leaves the boxes of threads
whose owner was killed, because the thread may be resumed from them. Only the box knows whether the cell that was under
way has run, so without it that cell could not be told from one that never began, and its effects on the host's tools
would be lost or doubled. Such a box ends by itself at its idle limit.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any, TypeAlias

from actloop.errors import SandboxError
from actloop.protocols import Record

from .boxes import ANSWER_S, Box, Mine, attached, look
from .engine import connect, translate_errors
from .owner import owner_of
from .visiting import take_hold

YOUNG_S = 30.0
"""Seconds since its start in which a box is left alone, whoever made it: another process may be starting it."""
FORGOTTEN_S = 3600.0
"""Seconds after which a box that was never started is nobody's, though its owner may live on another machine."""
PATIENCE_S = 15.0
"""Seconds that the sweep at the start gives a box to answer; nobody waits for it."""
AFTER_S = 1.0
"""Seconds that this sweep keeps out of the way of the session that began it."""
_NOT_STARTED = ("created",)
_ENDED = ("exited", "dead")

Rule: TypeAlias = Callable[[Box], str]
"""Says why a box may go; nothing where it stays."""

_log = logging.getLogger("actloop.sandbox")
_swept: set[str] = set()
_lock = threading.Lock()


class Swept(Record):
    """A box, and what became of it."""

    box: Box
    reason: str = ""
    """Why it is garbage; empty where it is not."""
    removed: bool = False


def sweep(*, dry_run: bool = False, running_too: bool = False, mine: Mine | None = None) -> list[Swept]:
    """Remove the boxes whose owner has ended, and those that do not run or do not answer.

    A box whose owner lives is never touched, nor one in which a cell runs, nor one that was started less than 30 s ago.
    Threads go on from their snapshots.

    Args:
        dry_run: only look.
        running_too: also those in which a cell runs.
        mine: says by its labels which boxes are looked at; all if not given.

    Returns:
        Every box that was looked at, in the order in which they were made.

    Raises:
        SandboxUnavailable: no engine answers.
    """
    return _sweep(lambda box: why_garbage(box, running_too), dry_run, mine, ANSWER_S, of_ended_only=False)


def sweep_in_background() -> None:
    """Remove, once for each engine in the life of this process, what no process can want; never fails, never waits."""
    engine = f"{os.environ.get('DOCKER_HOST')} {os.environ.get('DOCKER_CONTEXT')}"
    with _lock:
        if engine in _swept:
            return
        _swept.add(engine)
    threading.Thread(target=_sweep_quietly, name="actloop sweep", daemon=True).start()


def sweep_useless(mine: Mine | None = None) -> list[Swept]:
    """Remove what no process can want; see `why_useless`.

    Raises:
        SandboxUnavailable: no engine answers.
    """
    return _sweep(why_useless, False, mine, PATIENCE_S, of_ended_only=True)


def why_garbage(box: Box, running_too: bool = False) -> str:
    """Why a person who asks for a sweep wants a box gone; empty where it stays.

    Args:
        box: a box.
        running_too: a running cell does not protect it.
    """
    if box.age_s < YOUNG_S or box.owner_ended is False:
        return ""
    if (why := _why_not_running(box)) or box.owner_ended is None:
        return why
    if box.status == "paused":
        return f"it is paused, and {_has_ended(box)}"
    if box.answers is False:
        return f"it does not answer, and {_has_ended(box)}"
    if box.works:
        return f"{_has_ended(box)}, though a cell runs" if running_too else ""
    return _has_ended(box)


def why_useless(box: Box) -> str:
    """Why no process can want a box any more; empty where one might.

    A thread may be gone on with from a box that runs, though its owner has ended: it stays. One that ends with the
    stream of its owner, or that waited in its pool, is of no use to anybody else.
    """
    if box.age_s < YOUNG_S or box.owner_ended is False:
        return ""
    if (why := _why_not_running(box)) or box.owner_ended is None or box.status != "running":
        return why
    if not box.lasting:
        return f"{_has_ended(box)}, with which it should have ended"
    if box.answers is False:
        return f"it does not answer, and {_has_ended(box)}"
    if box.answers and not box.thread:
        return f"no thread has it, and {_has_ended(box)}"
    return ""


def _why_not_running(box: Box) -> str:
    if box.status in _ENDED:
        return f"it has ended ({box.status})"
    if box.status in _NOT_STARTED and (box.owner_ended or box.age_s > FORGOTTEN_S):
        return "it was never started"
    return ""


def _has_ended(box: Box) -> str:
    return f"its owner, {box.owner}, has ended"


def _sweep(rule: Rule, dry_run: bool, mine: Mine | None, answer_s: float, of_ended_only: bool) -> list[Swept]:
    client = connect()
    try:

        def judge(container: Any, box: Box) -> Swept:
            reason = rule(box)
            removed = bool(reason) and not dry_run and _removed(container, box)
            return Swept(box=box, reason=reason, removed=removed)

        return look(client, judge, mine=mine, settled_s=YOUNG_S, answer_s=answer_s, of_ended_only=of_ended_only)
    finally:
        client.close()


def _removed(container: Any, box: Box) -> bool:
    """Remove a box; False where a process has taken hold of it since it was looked at, or the engine refuses."""
    if box.answers and not _seize(container):
        return False
    with contextlib.suppress(SandboxError), translate_errors():
        container.remove(force=True, v=True)
        return True
    return False


def _seize(container: Any) -> bool:
    """Take hold of a box, so that nobody begins to work in it while it is removed."""
    take = False
    while True:
        try:
            with translate_errors():
                answer = take_hold(attached(container), take, ANSWER_S)
        except (OSError, RuntimeError):
            return True
        if answer is None or answer.get("ok"):
            return True
        holder = owner_of(answer.get("holder"))
        if take or holder is None or holder.ended() is not True:
            return False
        take = True


def _sweep_quietly() -> None:
    time.sleep(AFTER_S)
    try:
        for swept in sweep_useless():
            if swept.removed:
                _log.info("removed the box %s: %s", swept.box.name, swept.reason)
    except Exception as error:
        # Whoever opened a session did not ask for this; what keeps it from its work is told where it is their own.
        _log.debug("the boxes that nobody needs were not removed: %s", error)
