from collections.abc import Callable

from actloop.sandbox.session import BoxSession

FORK_BOMB = """
import os, time
kids = []
try:
    for _ in range(2000):
        pid = os.fork()
        if pid == 0:
            time.sleep(5)
            os._exit(0)
        kids.append(pid)
except OSError as error:
    print(type(error).__name__, error.errno)
"""


def test_one_session_survives_every_kind_of_end(open_box: Callable[..., BoxSession]) -> None:
    session = open_box(wall_s=60)
    box = session.id
    session.run("x = 41")

    loop = session.run("while True: pass", timeout=2)
    assert (loop.outcome, loop.exit_code, loop.state) == ("timeout", 124, "kept")

    memory = session.run("data = bytearray(10 * 1024**3)")
    assert (memory.outcome, memory.exit_code) == ("out_of_memory", 137)

    left = session.run("import os\nprint('before')\nos._exit(3)")
    assert (left.outcome, left.exit_code, left.state) == ("exit", 3, "rolled_back")
    assert left.stdout.text == "before\n"

    crash = session.run("import ctypes\nctypes.string_at(0)")
    assert (crash.outcome, crash.exit_code, crash.state) == ("crashed", 139, "rolled_back")

    bomb = session.run(FORK_BOMB)
    assert bomb.stdout.text == "BlockingIOError 11\n"
    assert any("were ended" in note for note in bomb.notes)

    flood = session.run("for _ in range(300): print('x' * (1 << 20))")
    assert flood.outcome == "ok"
    assert flood.stdout.total_bytes == 300 * ((1 << 20) + 1)
    assert flood.stdout.cut
    assert len(flood.stdout.text) < 40_000

    last = session.run("x + 1")
    assert (last.result, last.lost_names, session.id) == ("42", (), box)
