"""Threads on the command line, and `actloop chat`, as a person and as a program use them."""

import io
import json
import os
import pty
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import docker
import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphRecursionError

from actloop import create_agent, threads
from actloop.testing import ScriptedModel

if TYPE_CHECKING:
    from tests.conftest import Command, Ended, Shell
    from tests.fake_server import FakeServer

pytestmark = pytest.mark.docker

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
UP, CTRL_C, CTRL_D = "\x1b[A", "\x03", "\x04"
ASKED = "import subprocess\nprint('ran', subprocess.run(['true']).returncode)"


def cell(code: str) -> str:
    return f"```python\n{code}\n```"


def at(server: "FakeServer") -> list[str]:
    return ["--base-url", server.url, "--model", "fake-model"]


THREE = [cell("print(1)"), cell("1 / 0"), cell("open('three.txt', 'w').write('3')\nprint(3)"), "FINAL ANSWER: 3"]


@pytest.fixture
def begin() -> Callable[..., None]:
    """Run a task in a thread of the user's own store, or so many turns of it."""

    def run(thread: str, *replies: str, turns: int | None = None, task: str = "Compute 1.") -> None:
        agent = create_agent(ScriptedModel(replies))
        config: RunnableConfig = {"configurable": {"thread_id": thread}}
        if turns is not None:
            config["recursion_limit"] = 5 * turns
        with agent.sessions:
            try:
                agent.invoke({"task": task}, config)
            except GraphRecursionError:
                assert turns is not None

    return run


@pytest.fixture
def talk(shell: "Shell", monkeypatch: pytest.MonkeyPatch) -> Callable[..., "Ended"]:
    """Hold a chat with lines from a pipe."""

    def run(lines: str | bytes, *args: str) -> "Ended":
        data = lines if isinstance(lines, bytes) else lines.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
        return shell("chat", *args)

    return run


# -- run --thread -------------------------------------------------------------------------------------------------


def test_a_run_goes_on_in_the_thread_that_is_given(shell: "Shell", server: "FakeServer") -> None:
    server.writes("Hello.", "Hello again.")
    first = shell("run", "Greet me.", "--thread", "t1", *at(server))
    assert (first.code, first.out) == (0, "Hello.\n")
    assert first.lines[-1].endswith(", thread t1")
    second = shell("run", "Greet me again.", "--thread", "t1", "--json", *at(server))
    assert json.loads(second.out)["thread"] == "t1"
    asked = [message["content"] for message in server.requests[1]["messages"]]
    assert asked[1:] == ["Greet me.", "Hello.", "Greet me again."]


def test_a_run_names_the_thread_that_it_began(shell: "Shell", server: "FakeServer") -> None:
    server.writes("Hello.", "Hello.")
    ids = [shell("run", "Greet me.", *at(server)).lines[-1].rpartition(" ")[2] for _ in range(2)]
    assert {info.id for info in threads.ls()} == set(ids)
    assert len(set(ids)) == 2


@pytest.mark.parametrize("thread", ["", "two words", "a\x1b[2J", "tab\t"])
def test_a_thread_id_that_nobody_could_type_is_refused(shell: "Shell", server: "FakeServer", thread: str) -> None:
    for command in (["run", "Greet me."], ["chat"]):
        ended = shell(*command, "--thread", thread, *at(server))
        assert (ended.code, ended.out, len(ended.lines)) == (2, "", 1)
        assert "cannot be used; give one of letters, digits and signs" in ended.err
        assert "\x1b" not in ended.err


# -- threads ------------------------------------------------------------------------------------------------------


def test_threads_are_listed_as_lines_or_as_json(shell: "Shell", begin: Callable[..., None]) -> None:
    assert (shell("threads", "ls").out, shell("threads", "ls", "--json").out) == ("", "[]\n")
    begin("t1", *THREE)
    begin("t2", *THREE, turns=1, task="Count\tto\n2.")
    begin("t3", cell(ASKED))
    rows = [line.split("\t") for line in shell("threads", "ls").out.splitlines()]
    assert [row[:3] for row in rows] == [["t3", "waiting", "0"], ["t2", "unfinished", "1"], ["t1", "success", "3"]]
    assert [row[5] for row in rows] == ["Compute 1.", "Count to 2.", "Compute 1."]
    assert all(int(row[4]) > 1000 for row in rows)
    infos = json.loads(shell("threads", "ls", "--json").out)
    assert [(info["id"], info["status"]) for info in infos] == [("t3", "waiting"), ("t2", None), ("t1", "success")]
    assert infos[1]["goal"] == "Count\tto\n2."
    assert infos[0]["updated"].startswith(rows[0][3][:19])


def test_a_history_is_shown_as_lines_with_code_or_as_json(shell: "Shell", begin: Callable[..., None]) -> None:
    begin("thread-1", *THREE)
    plain = shell("threads", "show", "thr")
    rows = [line.split("\t") for line in plain.out.splitlines()]
    assert [row[:3] for row in rows] == [["1", "ok", "0"], ["2", "error", "1"], ["3", "ok", "0"]]
    assert [row[4:7] for row in rows] == [["", "Compute 1.", ""], ["", "", ""], ["success", "", "3"]]
    assert "    print(1)\n2\terror" in shell("threads", "show", "thr", "--code").out
    turns = json.loads(shell("threads", "show", "thr", "--json").out)
    assert [turn["code"] for turn in turns][:2] == ["print(1)", "1 / 0"]
    assert [turn["checkpoint_id"] for turn in turns] == [row[7] for row in rows]


def test_a_model_cannot_drive_the_terminal_by_what_is_kept(shell: "Shell", begin: Callable[..., None]) -> None:
    begin("t1", cell("print(1)  # \x1b[2J"), "FINAL ANSWER: \x1b]0;1\x07", task="Compute \x1b[2J 1.")
    for command in (["ls"], ["ls", "--json"], ["show", "t1", "--code"], ["show", "t1", "--json"]):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", shell("threads", *command).out.replace("\t", ""))


def test_a_run_that_was_cut_off_goes_on_and_its_files_are_saved(
    shell: "Shell", server: "FakeServer", begin: Callable[..., None], folder: Path
) -> None:
    begin("t1", *THREE, turns=2)
    server.writes(*THREE[2:])
    ended = shell("threads", "resume", "t", "--out", "made", *at(server))
    assert (ended.code, ended.out) == (0, "3\n")
    assert "Task  Compute 1." in ended.err
    assert "✓ exit 0" in ended.err
    assert ended.lines[-1].endswith(", thread t1")
    assert (folder / "made" / "three.txt").read_text() == "3"
    again = shell("threads", "resume", "t1", *at(server))
    assert (again.code, again.lines) == (
        2,
        ["actloop: The run of the thread 't1' has ended with success; give it a new task."],
    )


@pytest.mark.parametrize(("option", "turns"), [("--approve", 1), ("--reject", 0)])
def test_a_cell_that_waits_is_answered_by_an_option_where_nobody_is(
    shell: "Shell", server: "FakeServer", begin: Callable[..., None], option: str, turns: int
) -> None:
    begin("t1", cell(ASKED))
    refused = shell("threads", "resume", "t1", *at(server))
    assert (refused.code, server.requests) == (2, [])
    assert "t1 asks whether a cell may run; add --approve or --reject." in refused.err
    server.writes("QUESTION: What now?")
    ended = shell("threads", "resume", "t1", option, "--json", *at(server))
    result = json.loads(ended.out)
    assert (ended.code, result["status"], result["turns"]) == (1, "needs_input", turns)


def test_an_answer_that_nothing_waits_for_is_refused(
    shell: "Shell", server: "FakeServer", begin: Callable[..., None]
) -> None:
    begin("t1", *THREE, turns=1)
    ended = shell("threads", "resume", "t1", "--approve", *at(server))
    assert (ended.code, len(ended.lines)) == (2, 1)
    assert "leave out --approve and --reject" in ended.err


def test_a_fork_prints_its_id_alone_and_goes_on(
    shell: "Shell", server: "FakeServer", begin: Callable[..., None]
) -> None:
    begin("t1", *THREE)
    made = shell("threads", "fork", "t1", "--at", "2")
    branch = made.out.strip()
    assert (made.code, made.err, len(branch.split())) == (0, "", 1)
    server.writes("QUESTION: And now?")
    assert shell("threads", "resume", branch, *at(server)).out == "And now?\n"
    assert shell("threads", "fork", "t1", "--name", "named").out == "named\n"
    assert {info.id for info in threads.ls()} == {"t1", "named", branch}


def test_threads_are_deleted_after_a_word(shell: "Shell", begin: Callable[..., None]) -> None:
    for id in ("a1", "a2", "b1"):
        begin(id, "Hello.", task="Greet me.")
    asked = shell("threads", "rm", "a1", "b")
    assert (asked.code, "a1, b1 may be deleted; add --yes if so." in asked.err) == (2, True)
    unknown = shell("threads", "rm", "a1", "x", "--yes")
    assert (unknown.code, "no thread 'x'" in unknown.err) == (2, True)
    assert len(threads.ls()) == 3
    assert shell("threads", "rm", "a1", "b", "b1", "--yes").code == 0
    assert [info.id for info in threads.ls()] == ["a2"]


def test_what_cannot_be_used_is_named_in_a_sentence(shell: "Shell", begin: Callable[..., None], folder: Path) -> None:
    (folder / "taken").touch()
    begin("t1", *THREE)
    begin("t2", *THREE, turns=1)
    for args, words in (
        (["show", "x"], "no thread 'x'; there are: t2, t1."),
        (["show", "t"], "2 threads begin with 't'"),
        (["fork", "t1", "--at", "9"], "no turn 9: its turns are 1 to 3"),
        (["fork", "t1", "--name", "t2"], "choose another name"),
        (["fork", "t1", "--name", "t 3"], "cannot be used; give one of letters"),
        (["resume", "t2", "--policy", "lax"], "choose one of"),
        (["resume", "t2", "--max-turns", "0"], "give 1 or more"),
        (["resume", "t2"], "Set OPENAI_API_KEY"),
        (["resume", "t2", "--out", "taken"], "Choose another with --out"),
    ):
        ended = shell("threads", *args)
        assert (args, ended.code, ended.out, len(ended.lines)) == (args, 2, "", 1)
        assert words in ended.err
    assert len(threads.ls()) == 2


@pytest.mark.parametrize("store", ["file", "postgres"])
def test_another_store_is_named_by_an_option(
    request: pytest.FixtureRequest, talk: Callable[..., "Ended"], shell: "Shell", server: "FakeServer", store: str
) -> None:
    where = ["--checkpoints", "kept.sqlite" if store == "file" else request.getfixturevalue("postgres_url")]
    server.writes("Hello.", "Hello again.")
    assert shell("run", "Greet me.", "--thread", "t1", *where, *at(server)).out == "Hello.\n"
    assert talk("Greet me again.", "--thread", "t1", *where, *at(server)).out == "Hello again.\n"
    assert shell("threads", "fork", "t1", "--name", "t2", *where).code == 0
    assert [line[:2] for line in shell("threads", "ls", *where).out.splitlines()] == ["t2", "t1"]
    assert len(shell("threads", "show", "t2", *where).out.splitlines()) == 2
    assert "has ended with success" in shell("threads", "resume", "t2", *where, *at(server)).err
    assert shell("threads", "rm", "t1", "t2", "--yes", *where).code == 0
    assert (shell("threads", "ls", *where).out, threads.ls()) == ("", [])


def test_a_store_that_cannot_be_used_is_named(shell: "Shell", server: "FakeServer") -> None:
    for command in (["threads", "ls"], ["threads", "rm", "t1", "--yes"], ["run", "Greet me.", *at(server)]):
        ended = shell(*command, "--checkpoints", "mysql://root:secret@host/db")
        assert (ended.code, ended.out, len(ended.lines)) == (2, "", 1)
        assert "give a path" in ended.err
        assert "secret" not in ended.err


# -- chat, from a pipe --------------------------------------------------------------------------------------------


def test_variables_and_files_live_on_from_line_to_line(
    talk: Callable[..., "Ended"], server: "FakeServer", folder: Path
) -> None:
    (folder / "in.csv").write_text("x\n41\n")
    server.writes(
        cell("x = int(open('in.csv').read().split()[1])\nopen('one.txt', 'w').write('1')\nprint(x)"),
        "FINAL ANSWER: 41",
        cell("print(x + 1, open('one.txt').read())\nopen('two.txt', 'w').write('2')"),
        "FINAL ANSWER: 42",
    )
    ended = talk("Read 41.\n\nAdd 1.\n/vars\n/files\n", "-f", "in.csv", "--thread", "t1", *at(server))
    assert (ended.code, ended.out) == (0, "41\n42\nx\nin.csv\none.txt\ntwo.txt\n")
    assert "42 1" in ended.err
    assert (folder / "out" / "one.txt").read_text() + (folder / "out" / "two.txt").read_text() == "12"
    assert [turn.goal for turn in threads.show("t1")] == ["Read 41.", "Add 1."]
    assert str(server.requests[2]["messages"]).count("in.csv (") == 1
    assert "actloop chat --thread t1 goes on with this." in ended.err


def test_a_question_is_answered_by_the_next_line(talk: Callable[..., "Ended"], server: "FakeServer") -> None:
    server.writes("QUESTION: Which region?", "East it is.")
    ended = talk("Tell me about it.\nEast\n", *at(server))
    assert (ended.code, ended.out) == (0, "Which region?\nEast it is.\n")
    assert [message["content"] for message in server.requests[1]["messages"][1:]] == [
        "Tell me about it.",
        "QUESTION: Which region?",
        "East",
    ]


def test_a_chat_goes_on_with_a_thread(talk: Callable[..., "Ended"], server: "FakeServer") -> None:
    server.writes("Hello.", "Hello again.")
    talk("Greet me.\n", "--thread", "t1", *at(server))
    ended = talk("Greet me again.", "--thread", "t1", *at(server))
    assert ended.out == "Hello again.\n"
    assert len(server.requests[1]["messages"]) == 4


def test_a_chat_says_that_the_last_run_has_not_ended(
    talk: Callable[..., "Ended"], server: "FakeServer", begin: Callable[..., None]
) -> None:
    begin("t1", *THREE, turns=1)
    ended = talk("", "--thread", "t1", *at(server))
    assert (ended.code, ended.out, server.requests) == (0, "", [])
    assert "`actloop threads resume t1` goes on with it" in ended.err


def test_commands_are_no_tasks_and_a_path_is_no_command(talk: Callable[..., "Ended"], server: "FakeServer") -> None:
    server.writes("Nothing.")
    ended = talk("/help\n/vars\n/files\n/nonsense\n/a/path holds what?\n/quit\nNever.\n", *at(server))
    assert "/vars   names that the interpreter holds" in ended.out
    assert "The interpreter holds no names yet.\nThe workspace holds no files yet.\nNothing.\n" in ended.out
    assert "There is no command /nonsense; /help lists them." in ended.err
    assert len(server.requests) == 1


def test_one_failure_does_not_end_a_chat_and_the_exit_code_is_the_last_ones(
    talk: Callable[..., "Ended"], server: "FakeServer", folder: Path
) -> None:
    (folder / "out" / "table.csv").mkdir(parents=True)
    server.writes(cell("open('table.csv', 'w').write('x')\nprint(42)"), "FINAL ANSWER: 42", "Hello.")
    server.refuses(400, message="no")
    ended = talk("Compute 42.\nGreet me.\n", *at(server))
    assert (ended.code, ended.out) == (0, "42\nHello.\n")
    assert "table.csv cannot be written" in ended.err
    failed = talk("Greet me.\n", *at(server))
    assert (failed.code, failed.out) == (2, "")
    assert "model_unavailable" in failed.err


def test_bytes_that_are_no_text_do_not_end_a_chat(talk: Callable[..., "Ended"], server: "FakeServer") -> None:
    server.writes("Hello.")
    ended = talk(b"Gr\xff\xfc me.\n", *at(server))
    assert (ended.code, ended.out) == (0, "Hello.\n")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["-f", "missing.csv"], "missing.csv cannot be read"),
        (["--policy", "lax"], "choose one of"),
        (["--max-turns", "0"], "give 1 or more"),
        (["-o", "taken"], "Choose another with --out"),
        ([], "Set OPENAI_API_KEY"),
    ],
)
def test_a_chat_that_cannot_begin_says_why(
    talk: Callable[..., "Ended"], folder: Path, server: "FakeServer", args: list[str], words: str
) -> None:
    (folder / "taken").touch()
    ended = talk("Greet me.\n", *args, *(at(server) if args else []))
    assert (ended.code, ended.out, len(ended.lines)) == (2, "", 1)
    assert words in ended.err


# -- a terminal ---------------------------------------------------------------------------------------------------


class Terminal:
    """A command at a terminal of its own."""

    def __init__(self, start: Callable[..., "Command"], *args: str) -> None:
        self._ours, theirs = pty.openpty()
        env = {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}
        self.process = start(*args, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True)
        os.close(theirs)
        self.shown = ""
        self._seen = 0

    def awaits(self, text: str) -> str:
        """Read until a text is there that was not there before; what was read since the last one."""
        until = time.monotonic() + 60
        while (found := self.shown.find(text, self._seen)) < 0:
            assert time.monotonic() < until, self.shown[self._seen :]
            assert self._read(), self.shown[self._seen :]
        part, self._seen = self.shown[self._seen : found], found + len(text)
        return part

    def types(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def stops(self) -> None:
        """Press Ctrl-C, as the terminal's driver passes it on."""
        # A signal between a prompt and the wait behind it would be seen with the next key.
        time.sleep(0.3)
        self.process.send_signal(signal.SIGINT)

    def ends(self) -> int:
        while self._read():
            pass
        return self.process.wait(timeout=60)

    def close(self) -> None:
        os.close(self._ours)

    def _read(self) -> bool:
        if not select.select([self._ours], [], [], 60)[0]:
            return False
        try:
            data = os.read(self._ours, 1 << 16)
        except OSError:
            return False
        self.shown += ESCAPE.sub("", data.decode(errors="replace"))
        return bool(data)


@pytest.fixture
def terminal(command: Callable[..., "Command"]) -> Iterator[Callable[..., Terminal]]:
    made: list[Terminal] = []

    def start(*args: str) -> Terminal:
        made.append(Terminal(command, *args))
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_a_person_talks_with_history_and_ends_with_ctrl_d(
    terminal: Callable[..., Terminal], server: "FakeServer"
) -> None:
    server.writes("QUESTION: Whom?", "Hello, you.", "Hello, you, again.")
    chat = terminal("chat", "--thread", "t1", *at(server))
    chat.awaits("> ")
    chat.types("Greet mee\x7f.\n")
    chat.awaits("Whom?")
    chat.awaits("answer> ")
    chat.types("You.\n")
    chat.awaits("Hello, you.")
    chat.awaits("\n> ")
    chat.types(f"{UP}\n")
    chat.awaits("Hello, you, again.")
    chat.awaits("\n> ")
    chat.types(CTRL_D)
    assert chat.ends() == 0
    assert [turn.goal for turn in threads.show("t1")] == ["Greet me.", "You.", "You."]


def test_ctrl_c_stops_the_run_and_not_the_chat(
    terminal: Callable[..., Terminal], server: "FakeServer", engine: docker.DockerClient
) -> None:
    server.writes(
        cell("kept = 41\nprint(kept)"), "FINAL ANSWER: 41",
        cell("import time\nprint('go' + 'ing', flush=True)\ntime.sleep(60)"),
        cell("print(kept + 1)"), "FINAL ANSWER: 42",
    )  # fmt: skip
    chat = terminal("chat", *at(server))
    chat.awaits("> ")
    chat.types("Keep 41.\n")
    chat.awaits("success")
    chat.awaits("\n> ")
    chat.types("Wait 60 seconds.\n")
    chat.awaits("going")
    chat.stops()
    chat.awaits("cancelled: Stopped by Ctrl-C.")
    chat.awaits("\n> ")
    chat.types("Add 1.\n")
    chat.awaits("FINAL ANSWER: 42")
    chat.awaits("success: Solved with 1 cell.")
    chat.awaits("\n> ")
    chat.types("/quit\n")
    assert chat.ends() == 0
    label = f"actloop.owner={chat.process.pid}"
    assert engine.containers.list(all=True, filters={"label": label}, ignore_removed=True) == []


def test_ctrl_c_at_an_empty_prompt_ends_the_chat_when_it_comes_twice(
    terminal: Callable[..., Terminal], server: "FakeServer"
) -> None:
    chat = terminal("chat", *at(server))
    chat.awaits("> ")
    chat.types("half a li")
    chat.awaits("half a li")
    chat.stops()
    chat.awaits("\n> ")
    chat.stops()
    chat.awaits("Ctrl-C once more, or Ctrl-D, ends the chat.")
    chat.awaits("\n> ")
    chat.stops()
    assert chat.ends() == 0
    assert "Traceback" not in chat.shown
    assert server.requests == []


@pytest.mark.parametrize(("key", "left"), [("y", []), ("n", ["t1"]), (CTRL_D, ["t1"])])
def test_a_person_is_asked_before_a_thread_is_deleted(
    terminal: Callable[..., Terminal], begin: Callable[..., None], key: str, left: list[str]
) -> None:
    begin("t1", "Hello.", task="Greet me.")
    rm = terminal("threads", "rm", "t1")
    rm.awaits("Delete t1 for good? [y/N]")
    rm.types(key if key == CTRL_D else f"{key}\n")
    assert rm.ends() == 0
    assert [info.id for info in threads.ls()] == left


def test_a_person_sees_the_cell_that_waits_before_the_question(
    terminal: Callable[..., Terminal], server: "FakeServer", begin: Callable[..., None]
) -> None:
    begin("t1", cell(ASKED))
    server.writes("FINAL ANSWER: ran 0")
    resumed = terminal("threads", "resume", "t1", *at(server))
    before = resumed.awaits("Run this cell? [y/N]")
    assert "import subprocess" in before
    assert "ask: line 1: subprocess starts" in before
    resumed.types("y\n")
    resumed.awaits("success: Solved with 1 cell.")
    assert resumed.ends() == 0


def test_a_person_gets_tables(terminal: Callable[..., Terminal], begin: Callable[..., None]) -> None:
    begin("a-thread-with-a-long-name", *THREE)
    listed = terminal("threads", "ls")
    assert listed.ends() == 0
    assert re.search(r"thread +status +turns +updated \(UTC\) +size +task", listed.shown)
    assert re.search(r"a-thread-with-a-long-name +success +3 .* kB +Compute 1\.", listed.shown)
    shown = terminal("threads", "show", "a")
    assert shown.ends() == 0
    assert re.search(r" 2 +error +1 +\d+ bytes", shown.shown)
    with_code = terminal("threads", "show", "a", "--code")
    assert with_code.ends() == 0
    assert re.search(r"turn 2: error, exit 1, \d+ bytes observed\n +1 1 / 0", with_code.shown)


def test_nothing_is_lost_of_a_thread_that_a_person_looks_at(begin: Callable[..., None], shell: "Shell") -> None:
    begin("t1", *THREE)
    before: Any = threads.show("t1")
    for command in (["ls"], ["show", "t1"], ["fork", "t1"]):
        shell("threads", *command)
    assert threads.show("t1") == before
