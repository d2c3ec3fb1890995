"""`python -m bench growth`: what a turn costs the store of checkpoints, at the beginning of a thread and at its end."""

import random
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from actloop import Agent, create_agent
from actloop.config import Settings
from actloop.graph.checkpoints import SqliteCheckpoints, open_checkpoints
from actloop.graph.postgres import PostgresCheckpoints
from actloop.testing import ScriptedModel

from .postgres import PostgresServer

MESSAGE = 2048
"""Characters of each reply and of each cell's output."""
PARTS = ((10, 50), (240, 250), (450, 500))
"""Turns between which growth is taken."""
_WORDS = [f"{a}{b}" for a in ("re", "tra", "mon", "ki", "sal", "ver") for b in ("gion", "de", "th", "lo", "sum", "ta")]


def growth() -> None:
    """Print kilobytes a turn for both stores: in one long run, and in many short runs of one thread."""
    with tempfile.TemporaryDirectory() as folder, PostgresServer() as server:
        for store, where in (("SQLite", f"{folder}/c.sqlite"), ("Postgres", server.create("growth"))):
            for name, runs, turns in (("one run of 500 turns", 1, 500), ("50 runs of 10 turns", 50, 10)):
                sizes, seconds, read_s = measure(where, runs, turns)
                parts = [(sizes[last] - sizes[first]) / (last - first) / 1000 for first, last in PARTS]
                shown = ", ".join(f"{kb:.1f} KB at {a}..{b}" for kb, (a, b) in zip(parts, PARTS, strict=True))
                print(f"{store}, {name}: a turn takes {shown}; last/first = {parts[-1] / parts[0]:.2f}", flush=True)
                print(f"  {seconds:.0f} s in all; the state of the thread is read in {read_s * 1e3:.0f} ms", flush=True)
    print("aim: under 40 KB, last/first between 0.8 and 1.2, the state read in well under a second")


def measure(where: str, runs: int, turns: int, kind: str = "plain") -> tuple[list[int], float, float]:
    """Run a thread.

    Args:
        where: its store.
        runs: of the thread.
        turns: of each run.
        kind: of its cells: `plain` print, `busy` ones also bind a new variable and write a new file each.

    Returns:
        Bytes of the store when each turn begins and at the end; seconds that all took; seconds to read the state.
    """
    saver = open_checkpoints(where, Settings())
    sizes: list[int] = []

    def reply(messages: list[BaseMessage]) -> str:
        asked = sum(isinstance(message, AIMessage) for message in messages)
        if asked % (turns + 1) == turns:
            return "FINAL ANSWER: done"
        sizes.append(stored_bytes(saver))
        return cell(len(sizes), kind)

    config: Any = {"configurable": {"thread_id": uuid.uuid4().hex}}
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as data:
        agent = create_agent(
            ScriptedModel(reply), checkpointer=saver, max_turns=turns, settings=Settings(data_dir=Path(data))
        )
        with agent.sessions:
            for number in range(runs):
                out = agent.invoke({"task": f"Part {number}: go on with the table."}, config)
                assert (out["status"], out["turns"]) == ("success", turns), out["summary"]
    took = time.perf_counter() - began
    sizes.append(stored_bytes(saver))
    # The least of a few: what else the machine does is no matter here.
    read_s = min(_seconds(agent, config) for _ in range(5))
    saver.close()
    return sizes, took, read_s


def cell(number: int, kind: str) -> str:
    """A reply with a cell; each differs, and neither it nor its output repeats itself."""
    text = random.Random(number)
    words = [text.choice(_WORDS) for _ in range(MESSAGE)]
    more = f"v{number} = {number}\nopen('out-{number}.txt', 'w').write('{number}')\n" if kind == "busy" else ""
    code = f"import random\n_r = random.Random({number})\n"
    code += f"print(' '.join('%.6f' % _r.random() for _ in range({MESSAGE // 9})))\n" + more
    comment = " ".join(words)[: MESSAGE - len(code) - 40]
    return f"Step {number}.\n```python\n# {comment}\n{code}```"


def stored_bytes(saver: SqliteCheckpoints | PostgresCheckpoints) -> int:
    """What the store takes on disk: its tables with their indexes."""
    if isinstance(saver, SqliteCheckpoints):
        with saver.lock:
            pages, free, size = (
                saver.conn.execute(f"PRAGMA {what}").fetchone()[0]
                for what in ("page_count", "freelist_count", "page_size")
            )
        return int((pages - free) * size)
    pool: Any = saver.conn
    with pool.connection() as connection:
        row = connection.execute(
            "SELECT sum(pg_total_relation_size(oid))::bigint AS size FROM pg_class "
            "WHERE relkind = 'r' AND relname IN ('checkpoints', 'checkpoint_blobs', 'checkpoint_writes')"
        ).fetchone()
    return int(row["size"])


def _seconds(agent: Agent, config: Any) -> float:
    began = time.perf_counter()
    agent.get_state(config)
    return time.perf_counter() - began
