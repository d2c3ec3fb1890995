"""What a thread waits for its first result: with a box from the pool, with a new one, and the floor of both."""

import statistics
import time
import uuid
from collections.abc import Callable

from actloop.config import Limits
from actloop.graph.sessions import ThreadSessions
from actloop.sandbox.opening import open_pool, open_session, session_facts

from .floors import RawLoop, seconds

THREADS = 20
COLD = 7
SIZE = 4
AIM_MS = 20.0


def pool() -> None:
    """Time from `get` to the end of the first cell, for threads that nobody has used, in turn with the floor."""
    limits = Limits()
    raw = RawLoop(limits)
    warm = sessions(limits, SIZE)
    cold = sessions(limits, 0)
    first, new, floors = [], [], []
    with warm, cold:
        for number in range(THREADS):
            wait_for(lambda: warm.pool is not None and warm.pool.ready == SIZE)
            floors.append(seconds(raw.turn, "x = 1"))
            thread = f"bench-{uuid.uuid4().hex[:12]}"
            first.append(seconds(first_result, warm, thread))
            warm.drop(thread, "kernel")
            if number % (THREADS // COLD) == 0:
                new.append(seconds(first_result, cold, f"bench-{uuid.uuid4().hex[:12]}"))
    raw.close()
    mine, floor, other = (statistics.median(times) * 1e3 for times in (first, floors, new))
    print(f"first result of a thread with a box from the pool: {mine:.2f} ms (median of {THREADS})")
    print(f"warm cell in the raw loop: {floor:.2f} ms; {mine - floor:+.2f} ms over it (aim: at most +{AIM_MS:g} ms)")
    print(f"first result of a thread with a new box: {other:.2f} ms; the pool takes {mine / other:.3f} of it")


def sessions(limits: Limits, size: int) -> ThreadSessions:
    """Sessions as an agent has them, without snapshots."""
    return ThreadSessions(
        lambda order: open_session(limits=limits, order=order),
        session_facts,
        pool=open_pool(size, limits=limits) if size else None,
    )


def first_result(of: ThreadSessions, thread: str) -> None:
    """Run the first cell of a thread."""
    record = of.get(thread, "kernel").run("1")
    assert record.result == "1", record


def wait_for(condition: Callable[[], bool], timeout: float = 60.0) -> None:
    """Wait until something is so, and a moment more, in which what led to it comes to rest."""
    until = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"it did not become so within {timeout:g} s")
        time.sleep(0.02)
    time.sleep(0.3)
