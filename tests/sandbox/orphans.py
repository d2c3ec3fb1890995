"""The program whose boxes the sweep tests look at: it makes some, says their names, and waits to be killed.

Arguments: the kinds of boxes to make. Prints a line of JSON: the name of each.
"""

import json
import sys
import time
import uuid

from actloop.config import DEFAULT_IMAGE, Limits
from actloop.sandbox.docker import container_options, open_docker_session
from actloop.sandbox.engine import connect
from actloop.sandbox.host_functions import HostFunction
from actloop.sandbox.order import Order

LIMITS = Limits(wall_s=600)


def order(kind: str) -> Order:
    """An order for the box of a thread of that name."""
    return Order(key=uuid.uuid4().hex[:24], thread=kind)


def session(kind: str) -> str:
    """A box with an interpreter, and what goes on in it."""
    asked = Order(pooled=True) if kind == "pooled" else order(kind)
    box = open_docker_session(LIMITS, order=asked)
    box.run("x = 41")
    if kind == "works":
        box.start("import time\nwhile True: time.sleep(0.1)", cell_id="endless")
    elif kind == "waits":
        box.offer([HostFunction("ask", ask)])
        cell = box.start("ask()", cell_id="asks")
        while not asked_for:
            time.sleep(0.01)
        assert cell.poll() is None
    elif kind == "detached":
        box.detach()
    return box.id


asked_for: list[bool] = []


def ask() -> None:
    """A function of the host that takes its time."""
    asked_for.append(True)
    time.sleep(600)


def container(kind: str) -> str:
    """A box without one of our supervisors in it."""
    options = container_options(LIMITS, order(kind).labels(), lasting=kind != "ephemeral")
    options["entrypoint"] = ["sleep", "600"]
    client = connect()
    made = client.containers.create(DEFAULT_IMAGE, name=f"actloop-{uuid.uuid4().hex[:12]}", **options)
    if kind != "created":
        made.start()
    if kind == "paused":
        made.pause()
    client.close()
    return str(made.name)


if __name__ == "__main__":
    kinds = dict.fromkeys(("idle", "works", "waits", "detached", "pooled"), session)
    kinds |= dict.fromkeys(("created", "hung", "paused", "ephemeral"), container)
    print(json.dumps({kind: kinds[kind](kind) for kind in sys.argv[1:]}), flush=True)
    time.sleep(600)
