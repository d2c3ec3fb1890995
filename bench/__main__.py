"""`python -m bench`: print what a session costs beside its floors, as ratios of medians from one run."""

import resource
import statistics
import sys
import time

from actloop.config import Limits
from actloop.sandbox import open_session
from actloop.sandbox.session import BoxSession

from .calls import calls
from .floors import RawLoop, docker_exec, docker_run, seconds
from .growth import growth
from .policy import main as policy
from .pool import pool
from .turns import turns

ROUNDS = 7
TURNS = 60
THINKING_S = 0.03
"""Pause between two turns, far below that of any model: what the box does meanwhile is not on the turn's path."""


def cold() -> None:
    """First result of a new session, against `docker run` of `print(1)`, in turn."""

    def session() -> None:
        box = open_session()
        box.run("print(1)")
        took.append(time.perf_counter() - start)
        box.close()

    took: list[float] = []
    runs = []
    for _ in range(ROUNDS):
        runs.append(seconds(docker_run))
        start = time.perf_counter()
        session()
    report("cold session, first result", took, "docker run print(1)", runs, "at most 1.3")


def warm() -> None:
    """A turn in a session, against the raw loop and against `docker exec`, in turn."""
    limits = Limits()
    raw = RawLoop(limits)
    with open_session(limits=limits) as session:
        execs, turns, floors, busy = [], [], [], []
        for number in range(TURNS):
            time.sleep(THINKING_S)
            turns.append(seconds(session.run, "print(1)"))
            time.sleep(THINKING_S)
            floors.append(seconds(raw.turn, "x = 1"))
            if number % (TURNS // ROUNDS) == 0:
                execs.append(seconds(docker_exec, raw.container))
        for _ in range(TURNS):
            busy.append(seconds(session.run, "print(1)"))
        report("warm cell", turns, "docker exec print(1)", execs, "at most 0.05")
        report("warm cell", turns, "raw loop on the same kind of stream", floors, "at most 2")
        report("warm cell without a pause before it", busy, "raw loop on the same kind of stream", floors, "no aim")
        loaded(session, turns)
    raw.close()


def loaded(session: BoxSession, bare: list[float]) -> None:
    """A turn with pandas and a 200 MB array in memory, against one without."""
    session.run("import numpy, pandas; big = numpy.ones(25_000_000)")
    turns = []
    for _ in range(TURNS // 2):
        time.sleep(THINKING_S * 5)
        turns.append(seconds(session.run, "print(1)"))
    more = (statistics.median(turns) - statistics.median(bare)) * 1e3
    print(f"warm cell with pandas and 200 MB: {more:+.2f} ms (aim: at most +10 ms)")


def flood() -> None:
    """Memory that 50 MB of output costs the host."""
    with open_session(limits=Limits(wall_s=120)) as session:
        session.run("1")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        took = seconds(session.run, "print('x' * 50_000_000)")
        lines = seconds(session.run, "for i in range(500_000): print('x' * 99)")
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"50 MB in one print: {took:.2f} s; in 500,000 prints: {lines:.2f} s")
    print(f"host memory for both: {(after - before) / 1024:.1f} MB more (aim: under 20 MB)")


def report(name: str, mine: list[float], floor_name: str, floor: list[float], aim: str) -> None:
    """Print one ratio with its medians."""
    own, base = statistics.median(mine) * 1e3, statistics.median(floor) * 1e3
    print(f"{name}: {own:.2f} ms / {floor_name}: {base:.2f} ms = {own / base:.3f} (aim: {aim})", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["policy"]:
        policy(sys.argv[2:])  # takes options of its own
        sys.exit()
    benches = {
        "flood": flood,
        "cold": cold,
        "warm": warm,
        "turns": turns,
        "growth": growth,
        "pool": pool,
        "calls": calls,
    }
    for name in sys.argv[1:] or benches:
        benches[name]()
