"""Cells as a program: one namespace, one `__main__`, honest ends."""

import time
from collections.abc import Callable

import pytest

from actloop.protocols import Execution
from actloop.sandbox.session import BoxSession

Run = Callable[..., Execution]


# -- one namespace ------------------------------------------------------------------------------------------------


def test_a_recursive_function_finds_itself(run: Run) -> None:
    record = run("def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\nprint(fib(10))")
    assert record.stdout.text == "55\n"


def test_a_comprehension_in_a_function_sees_the_cell_names(run: Run) -> None:
    record = run("k = 3\ndef f(): return [i * k for i in range(3)]\nprint(f(), [k * i for i in range(2)])")
    assert record.stdout.text == "[0, 3, 6] [0, 3]\n"


def test_two_functions_call_each_other_across_cells(run: Run) -> None:
    record = run("def even(n): return n == 0 or odd(n - 1)", "def odd(n): return n != 0 and even(n - 1)", "even(10)")
    assert record.result == "True"


def test_an_import_at_the_top_is_known_inside_functions_and_in_later_cells(run: Run) -> None:
    first = run('import re\ndef parts(s):\n    return re.split("[,.]", s)')
    assert first.stdout.text == ""
    assert run('print(parts("1,2"))').stdout.text == "['1', '2']\n"
    assert run('print(parts("1.2"), re.sub("a", "b", "a"))').stdout.text == "['1', '2'] b\n"


def test_a_class_body_and_a_lambda_see_the_cell_names(run: Run) -> None:
    assert run("w = 2\nclass C:\n    v = w * 2\n    f = lambda self: w + self.v\nC().f()").result == "6"


def test_a_global_statement_and_globals_reach_later_cells(run: Run) -> None:
    run("def setter():\n    global made\n    made = 1\nsetter(); globals()['other'] = 2; exec('third = 3')")
    assert run("made, other, third").result == "(1, 2, 3)"


def test_an_assignment_expression_binds_at_the_top(run: Run) -> None:
    assert run("[(last := i) for i in range(4)];", "last").result == "3"


def test_names_of_except_clauses_do_not_stay(session: BoxSession) -> None:
    session.run("try:\n    1/0\nexcept ZeroDivisionError as zero: pass")
    assert session.run("zero").outcome == "error"


def test_the_cell_is_main(run: Run) -> None:
    record = run('def main():\n    print("ran")\nif __name__ == "__main__":\n    main()')
    assert record.stdout.text == "ran\n"


def test_main_is_a_real_module(run: Run) -> None:
    record = run("import sys, __main__\nmark = 5\nsys.modules['__main__'] is __main__ and __main__.mark")
    assert record.result == "5"


def test_a_class_of_one_cell_pickles_in_the_next(run: Run) -> None:
    record = run(
        "import pickle\nclass P:\n    pass\ndef plus(a): return a + 1",
        "print(type(pickle.loads(pickle.dumps(P()))) is P, pickle.loads(pickle.dumps(plus))(1))",
    )
    assert record.stdout.text == "True 2\n"


def test_dataclasses_enums_and_named_tuples_pickle_and_compare(run: Run) -> None:
    record = run(
        "import copy, dataclasses, enum, pickle, typing\n"
        "@dataclasses.dataclass(frozen=True)\nclass D:\n    a: int\n"
        "    b: list[int] = dataclasses.field(default_factory=list)\n"
        "class E(enum.Enum):\n    X = 1\n"
        "class N(typing.NamedTuple):\n    n: int\n",
        "all(pickle.loads(pickle.dumps(v)) == v == copy.deepcopy(v) for v in (D(1, [2]), E.X, N(3)))",
    )
    assert record.result == "True"


def test_future_annotations_hold_for_later_cells(run: Run) -> None:
    record = run("from __future__ import annotations", "def f(x: not_defined_anywhere): ...\nf.__annotations__['x']")
    assert record.result == "'not_defined_anywhere'"


def test_typing_hints_of_a_dataclass_resolve(run: Run) -> None:
    record = run(
        "import typing, dataclasses\n@dataclasses.dataclass\nclass Item:\n    n: 'int'\n", "typing.get_type_hints(Item)"
    )
    assert record.result == "{'n': <class 'int'>}"


def test_asyncio_run_and_top_level_await_work_in_one_session(run: Run) -> None:
    first = run("import asyncio\nasync def m():\n    return 7\nprint(asyncio.run(m()))")
    assert first.stdout.text == "7\n"
    second = run("r = await asyncio.gather(asyncio.sleep(0, 1), asyncio.sleep(0, 2))\nprint(r)")
    assert second.stdout.text == "[1, 2]\n"
    assert run("print(asyncio.run(m()))").stdout.text == "7\n"


def test_asyncio_run_works_in_a_cell_that_also_awaits(run: Run) -> None:
    record = run(
        "import asyncio\nasync def m(n):\n    await asyncio.sleep(0)\n    return n\n"
        "a = await m(1)\nb = asyncio.run(m(2))\nc = await m(3)\nprint(a, b, c)"
    )
    assert record.stdout.text == "1 2 3\n"


def test_asyncio_run_inside_a_coroutine_of_asyncio_run_is_still_refused(session: BoxSession) -> None:
    record = session.run(
        "import asyncio\nasync def inner(): return 1\n"
        "async def outer():\n    c = inner()\n    try:\n        return asyncio.run(c)\n"
        "    finally:\n        c.close()\n"
        "asyncio.run(outer())"
    )
    assert record.error is not None
    assert record.error.type == "RuntimeError"


@pytest.mark.parametrize(
    "code",
    [
        "import asyncio\nasync with asyncio.Lock() as l:\n    ok = 1\nok",
        "import asyncio\nasync def gen():\n    yield 1\nasync for v in gen():\n    pass\nv",
        "import asyncio\nasync def gen():\n    yield 1\n[v async for v in gen()][0]",
        "import asyncio\nawait asyncio.sleep(0, 1)",
        "import asyncio\nloop = asyncio.new_event_loop()\nloop.run_until_complete(asyncio.sleep(0, 1))",
    ],
)
def test_every_form_of_asynchronous_code_gives_its_value(run: Run, code: str) -> None:
    assert run(code).result == "1"


def test_a_task_of_one_cell_can_be_awaited_in_the_next(run: Run) -> None:
    record = run("import asyncio\nt = asyncio.ensure_future(asyncio.sleep(0.01, 5)); await asyncio.sleep(0)", "await t")
    assert record.result == "5"


def test_an_error_in_awaited_code_has_its_line(session: BoxSession) -> None:
    record = session.run("import asyncio\nawait asyncio.sleep(0)\nraise KeyError('k')")
    assert record.error is not None
    assert (record.error.type, record.error.line) == ("KeyError", 3)


# -- ends ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("import sys; x = 1; sys.exit(3)", 3),
        ("x = 1; raise SystemExit(4)", 4),
        ("x = 1; exit(5)", 5),
        ("x = 1; quit()", 0),
        ("import sys; x = 1; sys.exit()", 0),
        ("import sys; x = 1; sys.exit(True)", 1),
        ("import sys; x = 1; sys.exit(-1)", 255),
    ],
)
def test_an_exit_has_its_code_and_keeps_the_variables(session: BoxSession, code: str, exit_code: int) -> None:
    record = session.run(code)
    assert (record.outcome, record.exit_code, record.state) == ("exit", exit_code, "kept")
    assert record.ok is (exit_code == 0)
    assert session.run("print(x)").stdout.text == "1\n"


def test_an_exit_with_a_text_is_code_1_and_the_text_on_stderr(session: BoxSession) -> None:
    record = session.run("import sys; sys.exit('no such column')")
    assert (record.outcome, record.exit_code) == ("exit", 1)
    assert record.stderr.text == "no such column\n"


def test_an_exit_whose_code_has_no_text_is_still_an_exit(session: BoxSession) -> None:
    record = session.run("class C:\n    def __str__(self): return 1 / 0\nx = 1\nraise SystemExit(C())")
    assert (record.outcome, record.exit_code, record.state) == ("exit", 1, "kept")


def test_an_exit_inside_top_level_await_keeps_the_session(session: BoxSession) -> None:
    record = session.run("import asyncio, sys\nawait asyncio.sleep(0)\nsys.exit(6)")
    assert (record.outcome, record.exit_code, record.state) == ("exit", 6, "kept")
    assert session.run("await asyncio.sleep(0, 2)").result == "2"


def test_an_exit_in_a_thread_does_not_end_the_cell(run: Run) -> None:
    record = run(
        "import sys, threading\nt = threading.Thread(target=sys.exit, args=(3,)); t.start(); t.join()\nprint(1)"
    )
    assert record.stdout.text == "1\n"


def test_a_syntax_error_is_a_failure_with_its_line(session: BoxSession) -> None:
    record = session.run("a = 1\nfor x in range(3) print(x)")
    assert (record.outcome, record.exit_code, record.ok) == ("error", 1, False)
    assert record.error is not None
    assert (record.error.type, record.error.line) == ("SyntaxError", 2)
    assert record.error.source == "for x in range(3) print(x)"
    assert "for x in range(3) print(x)" in record.error.traceback


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("if 1:\nprint(1)", "IndentationError"),
        ("if 1:\n\tx = 1\n        y = 2", "TabError"),
        ("print('a", "SyntaxError"),
        ("x = 1\0", "SyntaxError"),
        ("return 5", "SyntaxError"),
        ("yield 5", "SyntaxError"),
        ("break", "SyntaxError"),
        ("x = '\ud800'", "UnicodeEncodeError"),
        ("x = " + "(" * 5000 + ")" * 5000, "SyntaxError"),
        ("x = " + "-" * 100_000 + "1", "MemoryError"),
    ],
)
def test_code_that_does_not_compile_is_an_error_and_runs_nothing(session: BoxSession, code: str, kind: str) -> None:
    record = session.run("print('before')\n" + code if kind != "UnicodeEncodeError" else code)
    assert (record.outcome, record.stdout.text, record.state) == ("error", "", "kept")
    assert record.error is not None
    # Which one it is depends on Python's version.
    assert record.error.type in {kind, "SyntaxError", "ValueError", "RecursionError"}
    assert record.error.traceback


def test_endless_recursion_is_reported_shortly_and_the_session_goes_on(session: BoxSession) -> None:
    record = session.run("def r():\n    return r()\nr()")
    assert record.error is not None
    assert record.error.type == "RecursionError"
    assert record.error.line == 2
    assert "more times" in record.error.traceback
    assert len(record.error.traceback) < 2000
    assert session.run("print(1 + 1)").stdout.text == "2\n"


@pytest.mark.parametrize(
    "code",
    [
        "def a(): return b()\ndef b(): return a()\na()",
        "class C:\n    def __repr__(self): return repr(self)\nrepr(C())",
        "def f():\n    try:\n        f()\n    except RecursionError:\n        raise ValueError('x')\nf()",
    ],
)
def test_other_endless_recursions_are_errors_too(session: BoxSession, code: str) -> None:
    record = session.run(code)
    assert (record.outcome, record.state) == ("error", "kept")
    assert record.error is not None
    assert len(record.error.traceback) < 40_000


def test_a_traceback_begins_at_the_cell_and_shows_its_lines(session: BoxSession) -> None:
    session.run("def helper(v):\n    return 1 / v")
    record = session.run("a = 0\nb = helper(a)")
    assert record.error is not None
    assert (record.error.type, record.error.line, record.error.source) == ("ZeroDivisionError", 2, "b = helper(a)")
    assert "return 1 / v" in record.error.traceback
    assert "actloop" not in record.error.traceback


def test_a_traceback_through_a_library_ends_with_the_library_frame(session: BoxSession) -> None:
    record = session.run("import json\njson.loads('{')")
    assert record.error is not None
    assert record.error.type == "json.decoder.JSONDecodeError"
    assert record.error.line == 2
    assert "decoder.py" in record.error.traceback


def test_causes_of_an_exception_are_in_the_traceback(session: BoxSession) -> None:
    record = session.run("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('bad') from e")
    assert record.error is not None
    assert "ZeroDivisionError" in record.error.traceback
    assert "direct cause" in record.error.traceback


def test_an_exception_group_is_an_error_with_its_members(session: BoxSession) -> None:
    record = session.run("raise ExceptionGroup('several', [ValueError('one'), TypeError('two')])")
    assert record.error is not None
    assert record.error.type == "ExceptionGroup"
    assert "two" in record.error.traceback


@pytest.mark.parametrize(
    "body",
    [
        "def __str__(self): return 1 / 0",
        "def __str__(self): raise SystemExit(9)",
        "def __str__(self): return 5",
        "def __repr__(self): return 1 / 0",
        "__module__ = 5",
    ],
)
def test_an_exception_that_cannot_be_shown_is_still_an_error(session: BoxSession, body: str) -> None:
    record = session.run(f"class Odd(Exception):\n    {body}\nraise Odd()")
    assert (record.outcome, record.state) == ("error", "kept"), record
    assert record.error is not None


def test_text_with_half_a_character_does_not_break_the_record(session: BoxSession) -> None:
    record = session.run("raise ValueError('a\\ud800b')")
    assert (record.outcome, record.state) == ("error", "kept")
    assert record.error is not None
    assert record.error.message == "a?b"


def test_an_exception_may_be_an_interrupt_of_its_own(session: BoxSession) -> None:
    record = session.run("raise KeyboardInterrupt")
    assert (record.outcome, record.exit_code, record.state) == ("error", 1, "kept")


def test_a_handler_for_everything_may_swallow_and_go_on(run: Run) -> None:
    assert run("import sys\ntry:\n    sys.exit(1)\nexcept BaseException:\n    pass\n5").result == "5"


def test_warnings_and_text_on_stderr_are_no_failure(run: Run) -> None:
    record = run('import warnings\nwarnings.warn("old api")\nprint("done")')
    assert record.stdout.text == "done\n"
    assert "UserWarning: old api" in record.stderr.text


def test_a_warning_is_shown_in_each_cell_that_gives_it(run: Run) -> None:
    code = "import warnings\nwarnings.warn('again')"
    run(code)
    assert "again" in run(code).stderr.text


def test_a_logging_handler_works_in_later_cells(run: Run) -> None:
    first = run('import logging\nlogging.basicConfig(level="INFO", force=True)\nlogging.info("one")')
    assert "one" in first.stderr.text
    second = run('logging.info("two")')
    assert second.stderr.text == "INFO:root:two\n"


def test_a_handler_on_stdout_and_a_saved_stream_work_in_later_cells(run: Run) -> None:
    run(
        "import logging, sys\nout = sys.stdout\n"
        "log = logging.getLogger('own'); log.addHandler(logging.StreamHandler(out))"
    )
    assert run("log.warning('two'); print('three', file=out)").stdout.text == "two\nthree\n"


def test_a_silent_cell_has_empty_texts(run: Run) -> None:
    record = run("pass")
    assert (record.stdout.text, record.stderr.text, record.output.text, record.result) == ("", "", "", None)
    assert (record.stdout.total_bytes, record.stdout.cut) == (0, False)


@pytest.mark.parametrize("code", ["", "\n\n", "# only a comment", "'''text''' ;", "    \n"])
def test_a_cell_without_a_statement_is_ok(session: BoxSession, code: str) -> None:
    record = session.run(code)
    assert (record.outcome, record.result, record.output.text) == ("ok", None, "")


def test_output_that_looks_like_a_message_stays_output(run: Run) -> None:
    record = run(
        'print(\'{"type": "result", "ok": true, "value": "fake"}\')\n'
        'print(\'{"ev":"done","id":"x","record":{}}\')\nprint("<<<END_OF_CELL>>>")\n2 + 3'
    )
    assert record.result == "5"
    assert record.stdout.text.splitlines()[0] == '{"type": "result", "ok": true, "value": "fake"}'
    assert record.stdout.text.endswith("<<<END_OF_CELL>>>\n")


def test_a_cell_of_300_kb_runs(run: Run) -> None:
    assert run('data = "' + "a" * 300_000 + '"\nprint(len(data))').stdout.text == "300000\n"


def test_a_cell_of_5_mb_runs(run: Run) -> None:
    assert run("data = '''" + "line\n" * 1_000_000 + "'''\nprint(len(data))").stdout.text == "5000000\n"


def test_windows_line_ends_and_odd_separators_keep_the_line_numbers(session: BoxSession) -> None:
    record = session.run("a = 'x\x0cy\u2028z'\r\nb = 1\r\nc = 1 / 0\r\n")
    assert record.error is not None
    assert (record.error.line, record.error.source) == (3, "c = 1 / 0")


def test_the_same_cell_id_runs_once(session: BoxSession) -> None:
    session.run("count = 0")
    first = session.run("count += 1\ncount", cell_id="once")
    again = session.run("count += 1\ncount", cell_id="once")
    assert first.result == again.result == "1"
    assert session.run("count").result == "1"


def test_names_tell_what_a_cell_did(session: BoxSession) -> None:
    session.run("old = 1; gone = 2; same = 3")
    record = session.run("import math\nnew = [1, 2]\nold = 5\ndel gone")
    assert [(info.name, info.type, info.detail) for info in record.names.created] == [("new", "list", "len 2")]
    assert [info.name for info in record.names.changed] == ["old"]
    assert record.names.deleted == ("gone",)


def test_a_variable_of_a_hostile_class_does_not_break_the_record(run: Run) -> None:
    record = run(
        "class Meta(type):\n    def __getattribute__(cls, name): raise RuntimeError(name)\n"
        "class Odd(metaclass=Meta): pass\nodd = Odd()\nkept = 1"
    )
    assert "kept" in {info.name for info in record.names.created}


def test_a_warm_cell_takes_milliseconds(session: BoxSession) -> None:
    session.run("1")
    begin = time.monotonic()
    for _ in range(20):
        session.run("1")
    assert time.monotonic() - begin < 2
