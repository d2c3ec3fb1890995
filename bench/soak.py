"""`python -m bench.soak`: many sessions, several at a time; afterwards nothing of them may be left."""

import os
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from actloop.config import Limits
from actloop.sandbox import open_session
from actloop.sandbox.engine import connect

SESSIONS = 200
AT_A_TIME = 8


def session(number: int) -> tuple[str, float]:
    """One session of three cells, the second of which is stopped at its time limit.

    Returns:
        What went wrong, or nothing; and how long it took.
    """
    began = time.perf_counter()
    try:
        with open_session(limits=Limits(memory="256m", disk="32m")) as box:
            first = box.run(f"x = {number}\nprint('hello')")
            second = box.run("while True: pass", timeout=0.3)
            third = box.run("x + 1")
    except Exception as error:
        return f"{type(error).__name__}: {error}", time.perf_counter() - began
    seen = (first.stdout.text, second.outcome, third.result)
    wrong = "" if seen == ("hello\n", "timeout", str(number + 1)) else f"session {number}: {seen}"
    return wrong, time.perf_counter() - began


def stock(client: Any) -> dict[str, int]:
    """What could be left behind."""
    return {
        "containers": len(client.containers.list(all=True)),
        "volumes": len(client.volumes.list()),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
    }


def main() -> int:
    """Run them all.

    Returns:
        0 if none failed and nothing is left, else 1.
    """
    client = connect()
    session(0)
    before = stock(client)
    began = time.perf_counter()
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        results = list(pool.map(session, range(SESSIONS)))
    took = time.perf_counter() - began
    # The engine removes a container a moment after it was told to.
    deadline = time.monotonic() + 15
    while (after := stock(client)) != before and time.monotonic() < deadline:
        time.sleep(0.5)
    client.close()
    failures = [wrong for wrong, _ in results if wrong]
    print(f"{SESSIONS} sessions of 3 cells, {AT_A_TIME} at a time: {took:.1f} s, {SESSIONS / took * 60:.0f} a minute")
    print(f"median session: {statistics.median(each for _, each in results):.2f} s; failures: {len(failures)}")
    for failure in failures[:10]:
        print(f"  {failure}")
    left = {name: (before[name], after[name]) for name in before if after[name] > before[name]}
    print(f"left behind: {left or 'nothing'}")
    return 1 if failures or left else 0


if __name__ == "__main__":
    sys.exit(main())
