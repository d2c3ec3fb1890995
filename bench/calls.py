"""What a call from a cell to a function of the host costs: a thousand in one cell, one after the other and gathered."""

import statistics

from actloop.config import Limits
from actloop.sandbox import open_session
from actloop.sandbox.host_functions import HostFunction

CALLS = 1000
ROUNDS = 3
IN_TURN = f"""
import time
start = time.perf_counter()
total = sum(double(i) for i in range({CALLS}))
print((time.perf_counter() - start) * 1000 / {CALLS})
total
"""
GATHERED = f"""
import asyncio, time
start = time.perf_counter()
total = sum(await asyncio.gather(*(double(i) for i in range({CALLS}))))
print((time.perf_counter() - start) * 1000 / {CALLS})
total
"""


def double(number: int) -> int:
    return number * 2


async def adouble(number: int) -> int:
    return number * 2


def calls() -> None:
    """Print milliseconds a call, for functions and for coroutine functions."""
    with open_session("docker", limits=Limits(wall_s=120)) as session:
        for kind, function in (("a function", double), ("a coroutine function", adouble)):
            session.offer([HostFunction("double", function, "(number: int) -> int")])
            for how, code in (("in turn", IN_TURN), ("gathered", GATHERED)):
                took = []
                for _ in range(ROUNDS):
                    record = session.run(code)
                    if record.result != str(CALLS * (CALLS - 1)) or len(record.host_calls) != CALLS:
                        raise RuntimeError(f"the cell did not do its {CALLS} calls: {record.error or record.result}")
                    took.append(float(record.stdout.text))
                print(f"{CALLS} calls of {kind}, {how}: {statistics.median(took):.2f} ms a call", flush=True)
