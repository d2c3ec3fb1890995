"""What the model is told of a failed cell."""

from typing import Any

import pytest

from actloop.nodes.attempts import MAX_FAILED, MAX_SAME, MAX_TOLD, again, count, count_refused, tried
from actloop.nodes.diagnosis import advice, kind_of
from actloop.nodes.nearby import Here
from actloop.nodes.run import new_run
from actloop.protocols import ErrorInfo, Execution, Output

PACKAGES = "matplotlib 3.11.2, numpy 2.4.6, pandas 3.1.1, pillow 13.0.0, scikit-learn 1.9.1"


def failed(type: str = "", message: str = "", line: int | None = None, **fields: Any) -> Execution:
    error = ErrorInfo(type=type, message=message, line=line, source="total = f(x)") if type else None
    return Execution(**{"cell_id": "c", "outcome": "error", "exit_code": 1, "error": error, **fields})


@pytest.mark.parametrize(
    ("execution", "kind"),
    [
        (failed("SyntaxError", "invalid syntax"), "syntax"),
        (failed("IndentationError", "unexpected indent"), "syntax"),
        (failed("NameError", "name 'x' is not defined"), "name"),
        (failed("ModuleNotFoundError", "No module named 'x'"), "import"),
        (failed("ImportError", "cannot import name 'x' from 'y'"), "import"),
        (failed("AttributeError", "'DataFrame' object has no attribute 'append'"), "attribute"),
        (failed("TypeError", "unsupported operand type(s)"), "type"),
        (failed("KeyError", "'amount'"), "key"),
        (failed("IndexError", "list index out of range"), "index"),
        (failed("ValueError", "could not convert string to float"), "value"),
        (failed("ZeroDivisionError", "division by zero"), "value"),
        (failed("FileNotFoundError", "[Errno 2] No such file or directory: 'a.csv'"), "file"),
        (failed("PermissionError", "[Errno 13] Permission denied: '/etc/x'"), "file"),
        (failed("UnicodeDecodeError", "'utf-8' codec can't decode"), "encoding"),
        (failed("pandas.errors.ParserError", "Error tokenizing data"), "layout"),
        (failed("EOFError", "EOF when reading a line"), "input"),
        (failed("urllib.error.URLError", "<urlopen error [Errno -3]>"), "network"),
        (failed("requests.exceptions.ConnectionError", "Max retries exceeded"), "network"),
        (failed("MemoryError"), "memory"),
        (failed(outcome="timeout", exit_code=124), "time"),
        (failed("KeyboardInterrupt", outcome="timeout", exit_code=124), "time"),
        (failed(outcome="out_of_memory", exit_code=137), "memory"),
        (failed(outcome="crashed", exit_code=139), "crash"),
        (failed(outcome="exit", exit_code=3), "exit"),
        (failed(outcome="lost", exit_code=None), "lost"),
        (failed("mylib.OddError", "odd"), "other"),
    ],
)
def test_each_failure_has_its_kind(execution: Execution, kind: str) -> None:
    assert kind_of(execution) == kind
    text = advice(execution, "Attempts left: 2.")
    assert text.startswith(f"The cell failed ({kind}")
    assert text.endswith("Attempts left: 2.")


def test_the_line_that_failed_is_named() -> None:
    assert "line 7" in advice(failed("TypeError", "no", 7), "")


@pytest.mark.parametrize(
    ("error", "message", "expected"),
    [
        ("NameError", "name 'totl' is not defined", "Do you mean total"),
        ("NameError", "name 'pd' is not defined", "import pandas as pd"),
        ("NameError", "name 'json' is not defined", "import json"),
        ("NameError", "name 'prnt' is not defined", "Do you mean print"),
        ("NameError", "name 'zzz' is not defined", "Variables that exist: sales, total"),
        ("KeyError", "'Amont_EUR'", "amount_eur"),
        ("KeyError", "'Amount EUR'", "amount_eur"),
        ("KeyError", "\"['regoin'] not in index\"", "region"),
        ("KeyError", "'unit price'", "Unit Price"),
        ("FileNotFoundError", "[Errno 2] No such file or directory: '/data/Sales.csv'", "Do you mean sales.csv?"),
        ("FileNotFoundError", "[Errno 2] No such file or directory: 'zzz'", "Files that exist: out.png, sales.csv"),
        ("ModuleNotFoundError", "No module named 'panda'", "Do you mean pandas?"),
        ("ModuleNotFoundError", "No module named 'jsn'", "Do you mean json"),
        ("ModuleNotFoundError", "No module named 'torch'", "Installed: matplotlib, numpy, pandas"),
        ("ModuleNotFoundError", "No module named 'sklearn.nothing'", "sklearn is installed, but has no part"),
        ("AttributeError", "'DataFrame' object has no attribute 'Region'", "region"),
    ],
)
def test_what_may_have_been_meant_is_named(error: str, message: str, expected: str) -> None:
    seen = "orders.csv begins\nid,region,amount_eur\n1,north,5\n<output>\n   id  Unit Price  region\n</output>"
    here = Here(["total", "sales"], ["sales.csv", "out.png"], PACKAGES, seen)
    assert expected in advice(failed(error, message), "", here)


@pytest.mark.parametrize(
    ("error", "message"),
    [("KeyError", "'quite_another_thing'"), ("KeyError", "3"), ("NameError", "odd"), ("KeyError", "")],
)
def test_nothing_is_made_up_where_nothing_is_close(error: str, message: str) -> None:
    assert "Close to" not in advice(failed(error, message), "", Here([], [], PACKAGES, "id,region,amount_eur"))


# What was tried


def test_earlier_failures_of_the_run_are_listed_and_the_last_one_is_not() -> None:
    run = new_run(True)
    for number in range(1, 8):
        run["turns"] = number
        count(run, f"f({number})", failed("ValueError", f"bad {number}", 1))
    assert tried(run) == [f"cell {n}: ValueError: bad {n} in line 1, total = f(x)" for n in (4, 5, 6)]
    assert len(tried(run)) == MAX_TOLD
    assert len(run["failed"]) == MAX_FAILED
    text = advice(failed("ValueError", "bad"), "", None, tried(run))
    assert "Tried before" in text
    assert "bad 6" in text


def test_the_same_code_with_the_same_end_counts_once_among_the_failures() -> None:
    run = new_run(True)
    for number in (1, 2, 3):
        run["turns"] = number
        assert count(run, f"f( 1 )  # try {number}", failed("ValueError", "bad")) == number
    assert [attempt["cell"] for attempt in run["failed"]] == [3]
    assert tried(run) == []
    assert count(run, "f(1)", failed("TypeError", "other")) == 1


def test_cells_that_end_well_are_counted_and_are_no_failures() -> None:
    run = new_run(True)
    good = Execution(cell_id="c", outcome="ok", exit_code=0, output=Output(text="7\n"))
    assert [count(run, "print(7)", good) for _ in range(2)] == [1, 2]
    assert run.get("failed", []) == []
    assert [count_refused(run, "print(7)") for _ in range(2)] == [1, 2]


def test_a_repetition_is_told_at_once_and_more_strongly_the_third_time() -> None:
    for ok in (True, False):
        assert again(1, ok) == ""
        assert "before" in again(2, ok)
        assert "Change your plan" in again(MAX_SAME, ok)
        assert again(MAX_SAME + 1, ok) == ""
