"""The command line as a person uses it: what it prints, how it exits, and what it leaves behind."""

import json
import os
import pty
import re
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import docker
import pytest

if TYPE_CHECKING:
    from tests.conftest import Command, Ended, Shell
    from tests.fake_server import FakeServer

pytestmark = pytest.mark.docker

CTRL_C = "\x03"
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def says(server: "FakeServer", *replies: str) -> "FakeServer":
    """Stream each reply."""
    return server.writes(*replies)


def cell(code: str) -> str:
    return f"```python\n{code}\n```"


def at(server: "FakeServer") -> list[str]:
    return ["--base-url", server.url, "--model", "fake-model"]


def boxes_of(client: docker.DockerClient, pid: int) -> list[Any]:
    label = f"actloop.owner={pid}"
    return list(client.containers.list(all=True, filters={"label": label}, ignore_removed=True))


# -- demo ---------------------------------------------------------------------------------------------------------


def test_the_demo_solves_its_question_and_leaves_an_answer_a_table_and_a_figure(
    command: Callable[..., "Command"], folder: Path, engine: docker.DockerClient
) -> None:
    process = command("demo", "--out", "made")
    ended = process.finish()
    assert ended.code == 0
    assert ended.out.startswith("East grew fastest")
    assert len(ended.out.splitlines()) == 1
    assert "recorded replies are replayed; the code really runs" in ended.err
    assert "✗ exit 1" in ended.err
    assert "✓ exit 0" in ended.err
    assert "success: Solved with 3 cells." in ended.err
    assert (folder / "made" / "revenue.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "made" / "growth.csv").read_text().startswith("region")
    assert "\x1b" not in ended.err
    assert boxes_of(engine, process.pid) == []


def test_the_demo_takes_the_model_that_is_set(shell: "Shell", server: "FakeServer") -> None:
    says(server, "QUESTION: Which region?")
    ended = shell("demo", *at(server))
    assert (ended.code, ended.out) == (1, "Which region?\n")
    assert "replayed" not in ended.err


# -- run ----------------------------------------------------------------------------------------------------------


def test_a_run_prints_the_answer_alone_on_stdout_and_its_work_on_stderr(
    shell: "Shell", server: "FakeServer", folder: Path
) -> None:
    (folder / "in.csv").write_text("x\n41\n")
    code = "value = int(open('in.csv').read().split()[1])\nopen('out.txt', 'w').write('made')\nprint(value + 1)"
    says(server, f"I read the file.\n{cell(code)}", "FINAL ANSWER: 42")
    ended = shell("run", "What is x + 1?", "-f", "in.csv", *at(server))
    assert (ended.code, ended.out) == (0, "42\n")
    for shown in ("What is x + 1?", "I read the file.", "3 print(value + 1)", "\n42\n", "✓ exit 0", "out/out.txt"):
        assert shown in ended.err
    assert ended.lines[-1].startswith("1 cell, 2 requests, ")
    assert (folder / "out" / "out.txt").read_text() == "made"
    assert {path.name for path in folder.iterdir()} == {"in.csv", "out"}


def test_json_is_all_there_is_on_stdout(shell: "Shell", server: "FakeServer", folder: Path) -> None:
    says(server, cell("open('out.txt', 'w').write('made')\nprint('noise')"), "FINAL ANSWER: the \x1b[1mred one")
    ended = shell("run", "Write it.", "--json", "--out", "made", *at(server))
    result = json.loads(ended.out)
    assert (ended.code, ended.err) == (0, "")
    assert (result["status"], result["turns"], result["artifacts"]) == ("success", 1, ["made/out.txt"])
    assert set(result["usage"]) == {"input_tokens", "output_tokens", "model_calls", "cost_usd"}
    assert result["usage"]["input_tokens"] == 22
    assert set(result) >= {"answer", "answer_type", "summary", "thread"}


def test_long_lines_are_not_broken_where_no_terminal_is(shell: "Shell", server: "FakeServer") -> None:
    line = "w " * 150 + "end"
    says(server, cell(f"print('{line}')"), "FINAL ANSWER: done")
    ended = shell("run", "Print it.", *at(server))
    assert ended.err.count(line) == 2


def test_a_cell_cannot_write_to_the_terminal_behind_the_person(shell: "Shell", server: "FakeServer") -> None:
    code = (
        "import sys, time\nsys.stdout.write('\\x1b'); sys.stdout.flush(); time.sleep(0.2)\n"
        "print(']0;owned\\x07\\x1b[2Jgone')\n"
        "class R:\n    def __repr__(self): return 'x\\x1b[2Jy\\x9b2Jz'\nR()"
    )
    says(server, "\x1b]0;title\x07Look.\n" + cell(code), cell("raise ValueError('\\x1b[2Jboo')"), "QUESTION: \x1b[2J?")
    ended = shell("run", "Compute it.", *at(server))
    assert ended.code == 1
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", ended.err + ended.out)


def test_a_cell_that_needs_approval_is_refused_where_nobody_is(shell: "Shell", server: "FakeServer") -> None:
    says(server, *[cell("import subprocess\nsubprocess.run(['true'])")] * 3)
    ended = shell("run", "Compute it.", *at(server))
    assert ended.code == 1
    assert "Nobody is here to approve this cell" in ended.err
    assert "denied: " in ended.err


# -- what cannot be used ------------------------------------------------------------------------------------------


def test_each_lack_is_named_in_a_sentence_with_the_next_step(
    shell: "Shell", server: "FakeServer", folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    for name in ("a/x.csv", "b/x.csv", "taken"):
        (folder / name).touch()
    os.mkfifo(folder / "pipe")
    before = sorted(folder.rglob("*"))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
    cases: Mapping[str, tuple[list[str], str]] = {
        "no key": (["x"], "Set OPENAI_API_KEY"),
        "no server": (["x", "-u", nobody, "-m", "m"], "Check that the server runs"),
        "no address": (["x", "-u", "nonsense", "-m", "m"], "Write scheme, host and path"),
        "no image": (["x", "--image", "nosuch:latest", *at(server)], "actloop image build"),
        "no file": (["x", "-f", "missing.csv", *at(server)], "missing.csv cannot be read"),
        "a folder for a file": (["x", "-f", "a", *at(server)], "no regular file"),
        "a pipe for a file": (["x", "-f", "pipe", *at(server)], "no regular file"),
        "a file for the folder": (["x", "-o", "taken", *at(server)], "Choose another with --out"),
        "a folder below a file": (["x", "-o", "taken/sub", *at(server)], "Choose another with --out"),
        "two files of one name": (["x", "-f", "a/x.csv", "-f", "b/x.csv", *at(server)], "rename one"),
        "no turns": (["x", "--max-turns", "0", *at(server)], "give 1 or more"),
        "no words": (["  \t", *at(server)], "say in words"),
        "no such policy": (["x", "--policy", "lax", *at(server)], "choose one of"),
    }
    for name, (args, words) in cases.items():
        ended = shell("run", *args)
        assert (name, ended.code, ended.out) == (name, 2, "")
        assert words in ended.err, name
        said = [line for line in ended.lines if not line.startswith("Task  ")]
        assert len(said) == 1, (name, said)
        assert sorted(folder.rglob("*")) == before, name
    assert server.requests == []


def test_a_daemon_that_is_down_is_named_with_the_next_step(
    shell: "Shell", server: "FakeServer", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    ended = shell("run", "x", *at(server))
    assert ended.code == 2
    assert "sandbox_error: No Docker engine answers at DOCKER_HOST=unix:///nonexistent.sock." in ended.err
    assert server.requests == []


def test_a_wrong_key_is_named_without_the_key(
    shell: "Shell", server: "FakeServer", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACTLOOP_API_KEY", "sk-wrong-key-0123456789")
    server.refuses(401, code="invalid_api_key", message="Incorrect API key provided: sk-wrong-key-0123456789.")
    ended = shell("run", "x", *at(server))
    assert (ended.code, ended.out) == (2, "")
    assert "key" in ended.err
    assert "sk-wrong-key" not in ended.err
    assert len(server.requests) == 1


def test_a_data_folder_that_cannot_be_made_is_named(
    shell: "Shell", server: "FakeServer", folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "taken").touch()
    monkeypatch.setenv("ACTLOOP_DATA_DIR", str(folder / "taken" / "data"))
    ended = shell("run", "x", *at(server))
    assert ended.code == 2
    assert "or ACTLOOP_DATA_DIR to such a folder" in ended.err


def test_a_model_that_answers_nothing_ends_with_1(shell: "Shell", server: "FakeServer", folder: Path) -> None:
    says(server, "", "", "")
    ended = shell("run", "x", *at(server))
    assert (ended.code, ended.out) == (1, "")
    assert "stuck: The model answered nothing, 3 times in a row; try another model." in ended.err
    assert list(folder.iterdir()) == []


def test_files_that_cannot_be_written_at_the_end_do_not_cost_the_answer(
    shell: "Shell", server: "FakeServer", folder: Path
) -> None:
    (folder / "out" / "table.csv").mkdir(parents=True)
    says(server, cell("open('table.csv', 'w').write('x')\nprint(42)"), "FINAL ANSWER: 42")
    ended = shell("run", "Compute it.", *at(server))
    assert (ended.code, ended.out) == (2, "42\n")
    assert "table.csv cannot be written" in ended.lines[-1]


def test_text_that_the_output_cannot_encode_is_escaped(command: Callable[..., "Command"], server: "FakeServer") -> None:
    says(server, cell("print('größe €')"), "FINAL ANSWER: größe €")
    env = {"PYTHONIOENCODING": "ascii", "NO_COLOR": "1"}
    ended = command("run", "Grüße \udcff", *at(server), env=env).finish()
    assert (ended.code, ended.out) == (0, "gr\\xf6\\xdfe \\u20ac\n")


# -- Ctrl-C and pipes ---------------------------------------------------------------------------------------------


def test_ctrl_c_ends_a_request_at_once(
    command: Callable[..., "Command"], server: "FakeServer", engine: docker.DockerClient
) -> None:
    fake = sys.modules["actloop_tests_fake_server"]
    server.answers.append(fake.Answer(b"", delay_s=6))
    process = command("run", "x", *at(server))
    wait_for(lambda: bool(server.requests), process)
    ended, seconds = interrupted(process)
    assert (ended.code, ended.out) == (1, "")
    assert "cancelled: Stopped by Ctrl-C." in ended.err
    assert seconds < 4
    assert boxes_of(engine, process.pid) == []


def test_ctrl_c_ends_a_cell_that_does_not_listen_and_removes_its_box(
    command: Callable[..., "Command"], server: "FakeServer", engine: docker.DockerClient
) -> None:
    code = "import time\nprint('go' + 'ing', flush=True)\nwhile True:\n    try:\n        time.sleep(30)\n"
    says(server, cell(code + "    except KeyboardInterrupt:\n        pass"))
    process = command("run", "x", "--json", *at(server))
    wait_for(lambda: bool(boxes_of(engine, process.pid)), process)
    time.sleep(1)
    ended, seconds = interrupted(process)
    assert ended.code == 1
    assert json.loads(ended.out)["status"] == "cancelled"
    assert seconds < 8
    assert boxes_of(engine, process.pid) == []


def wait_for(true: Callable[[], bool], process: "Command") -> None:
    until = time.monotonic() + 40
    while not true():
        assert time.monotonic() < until
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def interrupted(process: "Command") -> "tuple[Ended, float]":
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    return process.finish(), time.monotonic() - start


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_that_went_away_ends_the_command_quietly(
    command: Callable[..., "Command"], engine: docker.DockerClient, stream: str
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = command("demo", **{stream: writer})
    os.close(writer)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Traceback" not in (err or "")
    assert "BrokenPipe" not in (err or "") + (out or "")
    assert boxes_of(engine, process.pid) == []


# -- a terminal ---------------------------------------------------------------------------------------------------


def on_a_terminal(command: Callable[..., "Command"], *args: str, keys: str = "", **env: str) -> tuple[int, str]:
    """Run a command with a terminal for all its streams; `keys` are typed once it asks."""
    ours, theirs = pty.openpty()
    settings = {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40", **env}
    process = command(*args, stdin=theirs, stdout=theirs, stderr=theirs, env=settings)
    os.close(theirs)
    shown = b""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if not select.select([ours], [], [], 0.5)[0]:
            continue
        try:
            data = os.read(ours, 1 << 16)
        except OSError:
            break
        shown += data
        if not data:
            break
        if keys and b"[y/N]" in shown:
            if keys == CTRL_C:
                # A signal between the question and the wait for its answer would be seen with the next key.
                time.sleep(0.3)
                process.send_signal(signal.SIGINT)
            else:
                os.write(ours, keys.encode())
            keys = ""
    os.close(ours)
    return process.wait(timeout=30), shown.decode()


def test_a_person_at_the_terminal_approves_a_cell(command: Callable[..., "Command"], server: "FakeServer") -> None:
    says(server, cell("import subprocess\nprint('ran', subprocess.run(['true']).returncode)"), "FINAL ANSWER: ran 0")
    code, shown = on_a_terminal(command, "run", "Run it.", *at(server), keys="y\n")
    assert code == 0
    assert "\x1b[" in shown
    plain = ESCAPE.sub("", shown)
    assert "ran 0" in plain
    assert "success" in plain


def test_no_color_is_heeded_on_a_terminal(command: Callable[..., "Command"]) -> None:
    code, shown = on_a_terminal(command, "run", "   ", NO_COLOR="1")
    assert code == 2
    assert "\x1b[" not in shown


def test_no_answer_at_the_question_is_a_no(command: Callable[..., "Command"], server: "FakeServer") -> None:
    says(server, cell("import subprocess\nsubprocess.run(['true'])"), "QUESTION: What else?")
    code, shown = on_a_terminal(command, "run", "Run it.", *at(server), keys="\x04")
    assert code == 1
    assert "needs_input" in shown
    assert "a person refused" in server.requests[1]["messages"][-1]["content"]


def test_ctrl_c_at_the_question_ends_the_command(command: Callable[..., "Command"], server: "FakeServer") -> None:
    says(server, cell("import subprocess\nsubprocess.run(['true'])"))
    code, shown = on_a_terminal(command, "run", "Run it.", *at(server), keys=CTRL_C)
    assert code == 1
    assert "cancelled: Stopped by Ctrl-C." in ESCAPE.sub("", shown)
    assert "Traceback" not in shown
