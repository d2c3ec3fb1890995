"""The program that the kill tests start, kill and start again: a run of ten turns in a thread.

Each cell appends a line to a file of the workspace, changes a variable and calls two functions of the host, one of
which writes to a file of the host's. Arguments: database, snapshots, folder for the host's file, thread.
"""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from actloop import create_agent
from actloop.testing import ScriptedModel

TURNS = 10
CELL = """
with open("lines.txt", "a") as file:
    file.write("{number}\\n")
total = total + {number} if {number} > 1 else 1
try:
    record({number})
except HostCallError:
    if not recorded({number}):
        record({number})
print("turn {number}")
"""
LAST = """
lines = open("lines.txt").read().split()
final_answer(f"{total} {','.join(lines)}")
"""
RIGHT = "55 1,2,3,4,5,6,7,8,9,10"
"""The answer where every cell has had its effect once."""


def reply(messages: Sequence[BaseMessage]) -> str:
    """The next cell, after the last one of which the effects are there: a box may take some along when it is killed."""
    done = 0
    for message in messages:
        text = str(message.text)
        undone = re.search(r"The effects of the last (\d*) ?cells? before are gone", text)
        done -= int(undone[1] or 1) if undone else 0
        if finished := re.search(r"^turn (\d+)$", text, re.MULTILINE):
            done = int(finished[1])
    return f"```python{CELL.format(number=done + 1) if done < TURNS else LAST}```"


def main(checkpoints: str, snapshots: str, folder: str, thread: str) -> None:
    """Begin the run, or go on with it, and print its result."""
    calls = Path(folder) / "calls.txt"

    def record(number: int) -> None:
        """Count a call."""
        fd = os.open(calls, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(fd, f"{number}\n".encode())
        os.close(fd)

    def recorded(number: int) -> bool:
        """Whether a call was counted."""
        return str(number) in (calls.read_text().split() if calls.exists() else [])

    recorded.idempotent = True  # type: ignore[attr-defined]
    agent = create_agent(
        ScriptedModel(reply), checkpointer=checkpoints, snapshots=snapshots, tools=[record, recorded], max_turns=30
    )
    config: RunnableConfig = {"configurable": {"thread_id": thread}}
    begun = bool(agent.get_state(config).values)
    with agent.sessions:
        out: Any = agent.invoke(None if begun else {"task": "Count to ten."}, config)
    print(out["status"], out["answer"] or out["summary"], flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
