"""What snapshots cost a turn of the whole loop: the same run with and without them, in turn.

A turn is timed from one observation to the next, without the pause that stands for the model's thinking.
"""

import itertools
import statistics
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from actloop import Agent, create_agent
from actloop.testing import ScriptedModel

TURNS = 20
ROUNDS = 3
THINKING_S = 0.1
CELL = """```python
rows = [*rows, {"turn": len(rows), "text": "x" * 100}] if "rows" in globals() else []
table = {number: str(number) for number in range(1000)}
with open("log.txt", "a") as file:
    file.write(f"{len(rows)}\\n")
print(len(rows))
```"""


def turns() -> None:
    """Print the medians of both, and their difference."""
    with tempfile.TemporaryDirectory() as folder:
        took: dict[bool, list[float]] = {True: [], False: []}
        agents = {kept: _agent(Path(folder), kept) for kept in took}
        with agents[True].sessions, agents[False].sessions:
            for _ in range(ROUNDS):
                for kept, agent in agents.items():
                    took[kept] += _run(agent)
    on, off = (statistics.median(took[kept]) * 1000 for kept in (True, False))
    print(
        f"turn with snapshots: {on:.2f} ms; without: {off:.2f} ms; difference {on - off:+.2f} ms (aim: at most +5 ms)"
    )


def _agent(folder: Path, kept: bool) -> Agent:
    def reply(messages: Sequence[BaseMessage]) -> str:
        time.sleep(THINKING_S)
        return CELL if sum(message.type == "ai" for message in messages) < TURNS else "FINAL ANSWER: done"

    return create_agent(
        ScriptedModel(reply),
        checkpointer=folder / f"{kept}.sqlite",
        snapshots=folder / "snapshots" if kept else False,
        max_turns=TURNS + 1,
    )


def _run(agent: Agent) -> list[float]:
    """Seconds of each turn but the first two, which start the box."""
    config: RunnableConfig = {"configurable": {"thread_id": uuid.uuid4().hex}}
    ends = [
        time.perf_counter()
        for update in agent.stream({"task": "Count 20 rows."}, config, stream_mode="updates")
        if "observe" in update
    ]
    agent.sessions.drop(str(config["configurable"]["thread_id"]))
    return [end - start - THINKING_S for start, end in itertools.pairwise(ends[1:])]
