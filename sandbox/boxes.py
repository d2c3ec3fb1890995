"""The boxes on an engine: how they are called, who made each, and what it says of itself.

Labels are written once, when a container is made, and never change: they name the process that made it. Who holds the
box now, when it was last heard and which thread has it changes, so that is kept in the box, which tells whoever asks.
"""

import contextlib
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, TypeAlias

import docker
import docker.errors

from actloop.protocols import Record

from .engine import connect, translate_errors
from .link import AttachedLink
from .naming import finish_naming
from .owner import Owner, owner_of
from .visiting import facts_of

LABEL = "actloop"
PREFIX = "actloop-"
POOL_PREFIX = "actloop-pool-"
"""Begins the names of boxes that wait for a thread."""
PROGRAM_S = 2.0
"""Seconds after its start in which a box is left to the process that started it, which is sending its program."""
ANSWER_S = 5.0
"""Seconds that a box has to say how it is."""
AT_A_TIME = 16
"""Boxes that are asked at once."""

Mine: TypeAlias = Callable[[Mapping[str, str]], bool]
"""Says by its labels whether a box is to be looked at."""
Summary: TypeAlias = dict[str, Any]
"""What the engine's list says of one container."""


class Box(Record):
    """A box, as its engine and it itself describe it."""

    id: str
    """Of the container."""
    name: str
    thread: str = ""
    """The thread that has it, as people call it; empty where none has."""
    status: str
    """As Docker calls it: `created`, `running`, `paused`, `exited`, `dead`, `removing`."""
    owner: str
    """The process that holds it; where none does, or it does not say, the one that made it."""
    owner_ended: bool | None
    """Whether that process has ended; None where it lives on another machine."""
    age_s: float
    """Seconds since it was started, or made where it never was, by the engine's clock."""
    lasting: bool
    """It outlives the stream of the process that made it."""
    answers: bool | None = None
    """Whether it says how it is; None where it was not asked."""
    idle_s: float | None = None
    """Seconds since anything was done in it."""
    idle_limit_s: float | None = None
    """Seconds without work after which it ends."""
    running: str | None = None
    """Id of the cell that runs in it."""
    waits: bool = False
    """The cell that runs waits for the host."""

    @property
    def works(self) -> bool:
        """Whether a cell runs that waits for nobody."""
        return self.running is not None and not self.waits


def box_name(key: str) -> str:
    """Name of the container of a thread."""
    return f"{PREFIX}{key}"


def creator(labels: Mapping[str, str]) -> Owner:
    """The process that made a box, as its labels say."""
    pid, started = (
        int(text) if text.isdigit() else 0
        for text in (labels.get(f"{LABEL}.{name}", "") for name in ("owner", "started"))
    )
    return Owner(host=labels.get(f"{LABEL}.host", ""), space=labels.get(f"{LABEL}.space", ""), pid=pid, started=started)


def attached(container: Any) -> AttachedLink:
    """A stream of one's own to a box."""
    return AttachedLink(container.attach_socket(params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}))


def find_box(client: docker.DockerClient, key: str) -> Any:
    """The container of a thread, or None.

    One that came from a pool gets its name some milliseconds after its thread; until then only the box itself knows
    whose it is. So the boxes in pools are asked, except those of a process of this machine that lives: before it frees
    a thread for others, its box has a name (`BoxSession.settle`). That leaves none to ask where nobody was killed, and
    the answer costs one request to the engine.
    """
    name = box_name(key)
    found = client.api.containers(all=True, filters={"label": LABEL, "name": [f"^/{name}$", f"^/{POOL_PREFIX}"]})
    pooled = []
    for summary in found:
        if name in _names(summary):
            return _container(client, summary)
        if summary["State"] == "running" and creator(summary["Labels"]).ended() is not False:
            pooled.append(summary)

    def ask(summary: Summary) -> Any:
        container = _container(client, summary)
        # A process that has ended sends no program; one on another machine may be sending it right now.
        if container is None or (creator(summary["Labels"]).ended() is None and age_s(container) < PROGRAM_S):
            return None
        facts = _facts(container, ANSWER_S)
        return container if facts is not None and facts.get("thread") == key else None

    with ThreadPoolExecutor(AT_A_TIME) as asking:
        return next((container for container in asking.map(ask, pooled) if container is not None), None)


class EngineLookup:
    """Tells which threads have a box, by one connection that it keeps."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._client: docker.DockerClient | None = None

    def has_box(self, key: str) -> bool:
        """Whether the engine has a box of the thread with this key.

        Raises:
            SandboxError: the engine does not tell.
        """
        with self._lock:
            if self._client is None:
                self._client = connect()
            client = self._client
        finish_naming(key)
        with translate_errors("looking for the box"):
            return find_box(client, key) is not None

    def close(self) -> None:
        """Close the connection; safe to repeat."""
        with self._lock:
            if self._client is not None:
                self._client.close()
            self._client = None


def look(
    client: docker.DockerClient,
    then: Callable[[Any, Box], Any],
    *,
    mine: Mine | None = None,
    settled_s: float,
    answer_s: float = ANSWER_S,
    of_ended_only: bool = False,
) -> list[Any]:
    """Look at every box of the engine, several at a time.

    Args:
        client: of the engine.
        then: is called with each container and what is known of it, in one of several threads.
        mine: says which boxes are looked at; all if not given.
        settled_s: seconds since its start before which a box is not asked.
        answer_s: seconds that each has to answer.
        of_ended_only: ask only those whose maker has ended.

    Returns:
        What `then` gave, but for None, in the order in which the boxes were made.

    Raises:
        SandboxError: the engine does not say which there are.
    """
    with translate_errors("listing the boxes"):
        now = _time(str(client.info()["SystemTime"]))
        found = client.api.containers(all=True, filters={"label": LABEL})
    chosen = sorted((each for each in found if mine is None or mine(each["Labels"])), key=lambda each: each["Created"])

    def one(summary: Summary) -> Any:
        container = _container(client, summary)
        if container is None:
            return None
        asked = container.status == "running" and _may_be_asked(container) and age_s(container, now) >= settled_s
        if of_ended_only and creator(container.labels).ended() is not True:
            asked = False
        facts = _facts(container, answer_s) if asked else None
        return then(container, _box(container, now, facts, asked))

    with ThreadPoolExecutor(AT_A_TIME) as looking:
        return [result for result in looking.map(one, chosen) if result is not None]


def age_s(container: Any, now: datetime | None = None) -> float:
    """Seconds since a container was started, or made where it never was.

    Args:
        container: a container.
        now: the present by the engine's clock; this machine's where it is not given.
    """
    started = _time(str(container.attrs["State"]["StartedAt"]))
    if started.year == 1:
        started = _time(str(container.attrs["Created"]))
    return ((now or datetime.now(UTC)) - started).total_seconds()


def _time(text: str) -> datetime:
    """A time as Docker writes it, with nanoseconds."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _names(summary: Summary) -> list[str]:
    return [str(name).lstrip("/") for name in summary["Names"] or ()]


def _container(client: docker.DockerClient, summary: Summary) -> Any:
    """All about a container that was in a list; None where it has gone since."""
    try:
        return client.containers.get(summary["Id"])
    except docker.errors.APIError:
        # Gone, or going: then the engine may answer with an error that is not "not found".
        return None


def _may_be_asked(container: Any) -> bool:
    """Whether a question does no harm.

    A box that ends with its stream would end with ours. One without `space` runs no supervisor of ours.
    """
    return not container.attrs["Config"]["StdinOnce"] and bool(creator(container.labels).space)


def _facts(container: Any, answer_s: float) -> dict[str, Any] | None:
    try:
        with translate_errors():
            return facts_of(attached(container), answer_s)
    except (OSError, RuntimeError):
        return None


def _box(container: Any, now: datetime, facts: dict[str, Any] | None, asked: bool) -> Box:
    said = facts or {}
    owner = owner_of(said.get("holder")) or creator(container.labels)
    return Box(
        id=str(container.id),
        name=str(container.name),
        thread=str(said.get("title") or container.labels.get(f"{LABEL}.thread") or said.get("thread") or ""),
        status=str(container.status),
        owner=str(owner),
        owner_ended=owner.ended(),
        age_s=round(age_s(container, now), 1),
        lasting=not container.attrs["Config"]["StdinOnce"],
        answers=(facts is not None) if asked else None,
        idle_s=_seconds(said.get("idle_s")),
        idle_limit_s=_seconds(said.get("ttl_s")),
        running=said.get("running"),
        waits=bool(said.get("waits")),
    )


def _seconds(said: Any) -> float | None:
    with contextlib.suppress(TypeError, ValueError):
        return round(float(said), 1)
    return None
