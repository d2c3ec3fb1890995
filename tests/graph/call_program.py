"""The program of the test in which a question stays open while its process is killed.

Arguments: database, snapshots, a file on the host in which each call leaves a line, thread, and the answer as JSON;
without one the run begins. It prints what is asked, or the status and the answer of the run.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from actloop import create_agent
from actloop.testing import ScriptedModel

CELL = """```python
print("before", look_up("first"))
print("sent", send_mail(to="ann@example.org", text="hello"))
print("after", look_up("last"))
final_answer("done")
```"""


def main(checkpoints: str, snapshots: str, log: str, thread: str, answer: str = "") -> None:
    """Begin the run and wait to be killed, or go on with the answer."""

    def note(what: str) -> None:
        with Path(log).open("a") as file:
            file.write(f"{what}\n")

    def look_up(name: str) -> int:
        """Look something up."""
        note(f"look_up {name}")
        return 1

    def send_mail(to: str, text: str) -> str:
        """Send a mail."""
        note(f"send_mail {to} {text}")
        return to

    agent = create_agent(
        ScriptedModel([CELL, "FINAL ANSWER: done"]),
        checkpointer=checkpoints,
        snapshots=snapshots,
        tools=[look_up, send_mail],
        approve=["send_mail"],
    )
    config: RunnableConfig = {"configurable": {"thread_id": thread}}
    step: Any = Command(resume=json.loads(answer)) if answer else {"task": "Send the mail."}
    out: Any = agent.invoke(step, config)
    if "__interrupt__" in out:
        print(json.dumps(out["__interrupt__"][0].value), flush=True)
        time.sleep(60)
    print(out["status"], out["answer"], flush=True)
    agent.sessions.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
