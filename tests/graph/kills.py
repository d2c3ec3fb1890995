"""Kill a run at random moments and go on: every cell must have had its effect once, and every call been made once.

Where the container is killed the cell in it is lost, which the model is told and does again: its calls to the host may
come twice then, but variables and files are those of the last snapshot, so that they cannot.

`python -m tests.graph.kills TIMES [sqlite|postgres] [--boxes]` prints one line for each kill. What is killed is the
process of the host, or with `--boxes` the container.
"""

import contextlib
import random
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import docker

from bench.postgres import PostgresServer
from tests.graph.kill_program import RIGHT, TURNS

PROGRAM = "tests.graph.kill_program"
GONE_S = 10.0
"""Seconds that a removed box may still be listed."""
ROOT = Path(__file__).parents[2]


@dataclass
class Killed:
    """What became of one run."""

    after_s: float
    """When it was killed; negative where it had ended before."""
    said: str
    """What the program printed in the end: status and answer."""
    calls: list[str]
    """Calls that the function of the host counted."""
    boxes: int
    """Containers of the thread that are left."""

    @property
    def right(self) -> bool:
        """Whether variables and files are as if nothing had been killed, and nothing is left behind."""
        return self.said == f"success {RIGHT}" and not self.boxes

    @property
    def once(self) -> bool:
        """Whether every call was made once as well."""
        return self.right and self.calls == [str(number) for number in range(1, TURNS + 1)]


def kill_host(folder: Path, after_s: float, checkpoints: str | None = None) -> Killed:
    """Start a run, kill its process, and let another one go on."""
    thread = f"kill-{uuid.uuid4().hex[:8]}"
    command = _command(folder, checkpoints, thread)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as first:
        try:
            said, _ = first.communicate(timeout=after_s)
        except subprocess.TimeoutExpired:
            first.kill()
            first.communicate()
            said = ""
    killed = not said
    if killed:
        said = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, timeout=300, check=False).stdout
    return _result(folder, after_s if killed else -1, said, thread)


def kill_box(folder: Path, after_s: float, checkpoints: str | None = None) -> Killed:
    """Start a run and kill its container, once."""
    thread = f"kill-{uuid.uuid4().hex[:8]}"
    client = docker.from_env()
    with subprocess.Popen(_command(folder, checkpoints, thread), stdout=subprocess.PIPE, text=True, cwd=ROOT) as run:
        until = time.monotonic() + after_s
        killed = False
        while run.poll() is None and not killed:
            boxes = _boxes(client, thread) if time.monotonic() >= until else []
            for box in boxes:
                box.kill()
                killed = True
            time.sleep(0.02)
        said, _ = run.communicate(timeout=300)
    client.close()
    return _result(folder, after_s if killed else -1, said, thread)


def _command(folder: Path, checkpoints: str | None, thread: str) -> list[str]:
    where = checkpoints or str(folder / "threads.sqlite")
    return [sys.executable, "-m", PROGRAM, where, str(folder / "snapshots"), str(folder), thread]


def _boxes(client: docker.DockerClient, thread: str) -> list[docker.models.containers.Container]:
    label = f"actloop.thread={thread}"
    return list(client.containers.list(filters={"label": label}, ignore_removed=True))


def _result(folder: Path, after_s: float, said: str, thread: str) -> Killed:
    calls = folder / "calls.txt"
    client = docker.from_env()
    until = time.monotonic() + GONE_S
    # The engine may still be removing it.
    while (left := len(_boxes(client, thread))) and time.monotonic() < until:
        time.sleep(0.1)
    client.close()
    return Killed(after_s, said.strip(), calls.read_text().split() if calls.exists() else [], left)


def main(times: int, store: str, boxes: bool) -> int:
    """Kill so many runs, and print what became of each.

    Returns:
        How many were not as if nothing had been killed.
    """
    bad = killed_at_all = 0
    with contextlib.ExitStack() as stack:
        checkpoints = stack.enter_context(PostgresServer()).create("kills") if store == "postgres" else None
        for number in range(times):
            with tempfile.TemporaryDirectory() as folder:
                killed = (kill_box if boxes else kill_host)(Path(folder), random.uniform(0.5, 5.0), checkpoints)
            good = killed.right if boxes else killed.once
            bad += not good
            killed_at_all += killed.after_s >= 0
            print(number + 1, "ok " if good else "BAD", killed, flush=True)
    what = "boxes" if boxes else "processes"
    print(f"{times - bad} of {times} runs on {store} as if nothing had happened; {killed_at_all} {what} killed in time")
    return bad


if __name__ == "__main__":
    given = [argument for argument in sys.argv[1:] if argument != "--boxes"]
    sys.exit(bool(main(int(given[0]), given[1] if given[1:] else "sqlite", "--boxes" in sys.argv)))
