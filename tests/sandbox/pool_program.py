"""The program that the pool tests start: it takes a box from its pool for a thread, and ends in one of several ways.

Arguments: `exit`, or `wait` to be killed; key of the thread. Prints the name of the box while that is still the pool's.
"""

import sys
import threading
import time

from actloop.sandbox import docker
from actloop.sandbox.opening import open_pool
from actloop.sandbox.order import Order

if __name__ == "__main__":
    end, key = sys.argv[1:]
    # As if it were killed before the engine has named the box.
    never = threading.Event()
    if end == "wait":
        docker._rename = lambda container, name: str(never.wait())
    pool = open_pool(1, "docker")
    while not pool.ready:
        time.sleep(0.02)
    session = pool.take(Order(key=key, thread="taken"))
    assert session is not None
    print(session.id, flush=True)
    session.run("x = 41", cell_id="first")
    while not pool.ready:
        time.sleep(0.02)
    print("ready", flush=True)
    if end == "wait":
        time.sleep(600)
    session.close()
