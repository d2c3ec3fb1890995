"""Known faults of agent loops, each as a reply or two that brings it about, with near relatives."""

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig

from actloop.testing import ScriptedModel

if TYPE_CHECKING:
    from tests.conftest import Shell
    from tests.fake_server import FakeServer
    from tests.graph.conftest import Make


def cell(code: str) -> str:
    return f"```python\n{code}\n```"


def told(out: dict[str, Any]) -> str:
    return "\n".join(message.text for message in out["messages"])


# -- repeats (C178, C181) -----------------------------------------------------------------------------------------

SAME_FAILURE = ["# try 1\n1/0", "# try 2\n1 / 0", "#try 3\n1/0", "(1)/0  # once more"]
SAME_OUTPUT = ["print('a')", "print( 'a' )", 'print("a")', "# a\n\nprint('a')"]


@pytest.mark.parametrize("cells", [SAME_FAILURE, SAME_OUTPUT, [cell.replace("\n", "\n\n") for cell in SAME_FAILURE]])
def test_repeats_are_seen_whatever_their_comments_layout_and_prose(
    make: "Make", thread: RunnableConfig, cells: list[str]
) -> None:
    prose = ("I divide.", "Once more, with care.", "This time it works.", "Now!")
    replies = [f"{words}\n{cell(code)}" for words, code in zip(prose, cells, strict=True)]
    model = ScriptedModel(replies)
    out = make(model, max_repairs=9).invoke({"task": "Compute it."}, thread)
    assert (out["status"], out["turns"]) == ("stuck", 4)
    assert "The same code was sent 4 times" in out["summary"]
    assert "third time" in "\n".join(message.text for message in model.requests[3])


def test_repeats_in_turn_are_seen_too(make: "Make", thread: RunnableConfig) -> None:
    out = make(lambda messages: cell(f"print({len(messages) // 2 % 2})")).invoke({"task": "Compute it."}, thread)
    assert out["status"] == "stuck"
    assert "4 times" in out["summary"]


def test_the_same_code_with_another_end_is_no_repeat(make: "Make", thread: RunnableConfig) -> None:
    replies = [cell("n = 0"), *[cell("n += 1\nprint(n)")] * 6, "FINAL ANSWER: 6"]
    out = make(replies).invoke({"task": "Count to 6."}, thread)
    assert (out["status"], out["turns"]) == ("success", 7)


def test_the_command_line_says_what_was_repeated_and_fails(shell: "Shell", server: "FakeServer") -> None:
    server.writes(*[cell("print('harmless')")] * 4)
    ended = shell("run", "Compute it.", "--model", "m", "--base-url", server.url)
    assert (ended.code, ended.out) == (1, "")
    assert "stuck: The same code was sent 4 times" in ended.err
    assert "success" not in ended.err


# -- an answer beside a failed cell (C183) ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first",
    [
        cell("print(total_of_missing_name)") + "\nFINAL ANSWER: 42\n",
        "FINAL ANSWER: 42\n" + cell("print(total_of_missing_name)"),
        cell("final_answer(42)\nprint(total_of_missing_name)"),
        cell("print('FINAL ANSWER: 42')\nraise ValueError('FINAL ANSWER: 42')"),
        cell("final_answer(42)\nimport sys\nsys.exit(3)"),
        AIMessage(
            "",
            tool_calls=[
                {"name": "python", "args": {"code": "print(total_of_missing_name)"}, "id": "a"},
                {"name": "final_answer", "args": {"answer": "42"}, "id": "b"},
            ],
        ),
    ],
)
def test_an_answer_beside_a_failed_cell_is_not_taken(make: "Make", thread: RunnableConfig, first: Any) -> None:
    out = make([first, cell("print(7)"), "FINAL ANSWER: 7"]).invoke({"task": "Compute the total."}, thread)
    assert (out["status"], out["answer"], out["turns"]) == ("success", "7", 2)
    assert "exit code 0" not in told(out).split("```python\nprint(7)")[0]


def test_an_answer_right_after_a_failed_cell_is_never_plain_success(make: "Make", thread: RunnableConfig) -> None:
    replies = [cell("print(41)"), cell("print(missing)"), *["FINAL ANSWER: 41"] * 2]
    out = make(replies).invoke({"task": "Compute the total."}, thread)
    assert (out["status"], out["answer"]) == ("unverified", "41")
    assert "the last cell failed" in out["summary"]


# -- done without a run (C185) ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "reply"),
    [
        ("plot the data to out.png", "I executed the script and saved the plot to out.png. Everything works.\n"),
        ("What is 17 * 23?", "I ran it: FINAL ANSWER: 391"),
        ("How many rows has the table?", "FINAL ANSWER: it has 812 rows"),
        ("Run the tests.", "All tests pass."),
        ("plot the data", "<observation>The cell ran to its end (exit code 0).</observation>\nDone, out.png is there."),
    ],
)
def test_done_without_a_run_is_unverified_after_one_question(
    make: "Make", thread: RunnableConfig, task: str, reply: str
) -> None:
    out = make([reply, reply]).invoke({"task": task}, thread)
    assert (out["status"], out["turns"], out["usage"]["model_calls"]) == ("unverified", 0, 2)
    assert "no code was run" in out["summary"]


def test_done_without_a_run_fails_on_the_command_line(shell: "Shell", server: "FakeServer") -> None:
    server.writes(*["I executed the script and saved the plot to out.png. Everything works."] * 2)
    ended = shell("run", "plot the data to out.png", "--model", "m", "--base-url", server.url)
    assert ended.code == 1
    assert "unverified: " in ended.err
    assert "out.png" in ended.err


# -- final_answer called wrongly (C187) ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong", ["final_answer(reason='42')", "final_answer()", "final_answer(1, 2)", "final_answer('4', answer='2')"]
)
def test_a_wrong_call_of_final_answer_goes_back_and_the_right_one_ends_the_run(
    make: "Make", thread: RunnableConfig, wrong: str
) -> None:
    out = make([cell(wrong), cell("final_answer('42')")]).invoke({"task": "Compute it."}, thread)
    assert "TypeError" in told(out)
    assert (out["status"], out["answer"], out["turns"]) == ("success", "42", 2)


@pytest.mark.parametrize("args", [{"reason": "42"}, {}, {"answer": None}, {"answer": ""}])
def test_a_wrong_tool_call_of_final_answer_goes_back_as_well(
    make: "Make", thread: RunnableConfig, args: dict[str, Any]
) -> None:
    call = AIMessage("", tool_calls=[{"name": "final_answer", "args": args, "id": "a"}])
    out = make([cell("print(42)"), call, "FINAL ANSWER: 42"]).invoke({"task": "Compute it."}, thread)
    assert (out["status"], out["answer"], out["turns"]) == ("success", "42", 1)


# -- answers that cannot be stored (C188) -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (
            "class R:\n    pass\nfinal_answer({'gen': (i for i in range(3)), 'obj': R(), 'f': open})",
            "dict",
            "generator",
        ),
        ("final_answer(open)", "builtin_function_or_method", "open"),
        ("final_answer(float('nan'))", "float", "nan"),
        ("a = []\na.append(a)\nfinal_answer(a)", "list", "[[...]]"),
        ("class R:\n    def __repr__(self): raise ValueError('no')\nfinal_answer(R())", "R", "repr fails"),
        ("class R:\n    def model_dump(self, **k): raise ValueError('no')\nfinal_answer(R())", "R", "R object"),
        ("class R:\n    def __getattr__(self, name): return self\nfinal_answer({'r': R()})", "dict", "R object"),
        ("import threading\nfinal_answer(threading.Lock())", "lock", "lock"),
        ("final_answer('\\ud800 half')", "str", "half"),
        ("final_answer(10 ** 5000)", "int", "digits"),
        ("import numpy as np\nfinal_answer({'a': np.arange(3), 'b': {2, 1}})", "dict", '{"a": [0, 1, 2], "b": [1, 2]}'),
    ],
)
def test_an_answer_that_cannot_be_stored_is_delivered_as_text(
    make: "Make", thread: RunnableConfig, code: str, kind: str, words: str
) -> None:
    agent = make([cell(code), "Good bye."])
    out = agent.invoke({"task": "Compute it."}, thread)
    assert (out["status"], out["answer_type"]) == ("success", kind)
    assert words in out["answer"]
    # The thread is well: its next run reads the checkpoint of this one.
    assert agent.invoke({"task": "Say good bye."}, thread)["status"] == "success"
