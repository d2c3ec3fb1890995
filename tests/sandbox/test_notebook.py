"""What an analyst expects of a notebook: values, tables, figures, sources of functions, no input."""

from collections.abc import Callable

import pytest

from actloop.protocols import Execution
from actloop.sandbox.session import BoxSession

Run = Callable[..., Execution]

PNG = b"\x89PNG\r\n\x1a\n"


def kinds(record: Execution) -> list[str]:
    return [shown.media_type for shown in record.displays]


# -- the value of the last expression -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("x = 6 * 7\nx", "42"),
        ("'a'", "'a'"),
        ("None", None),
        ("x = 5", None),
        ("5;", None),
        ("5 ; # quiet", None),
        ("(1,\n 2\n);", None),
        ("'a;b'", "'a;b'"),
        ("5 # not quiet;", "5"),
        ("5\n\n# after\n", "5"),
        ("1; 2", "2"),
        ("if True:\n    7", None),
        ("def f(): pass", None),
        ("[i for i in range(3)]", "[0, 1, 2]"),
        ("lambda: 0;", None),
        ("s = 'x\u2028;'\ns", "'x\\u2028;'"),
        ("f'{1}'; f'{2}'", "'2'"),
        ("\u00e4 = 'straße'; \u00e4", "'stra\u00dfe'"),
    ],
)
def test_the_last_expression_gives_its_value(run: Run, code: str, result: str | None) -> None:
    assert run(code).result == result


def test_a_value_that_is_printed_too_is_in_both_places(run: Run) -> None:
    record = run("print('a')\n'b'")
    assert (record.stdout.text, record.result) == ("a\n", "'b'")


def test_a_long_value_is_cut_and_says_so(run: Run) -> None:
    record = run("'x' * 1_000_000")
    assert record.result is not None
    assert len(record.result) < 20_000
    assert "left out" in record.result


@pytest.mark.parametrize("body", ["return 1 / 0", "return 5", "raise ValueError", "raise RecursionError"])
def test_a_value_whose_repr_fails_is_named(run: Run, body: str) -> None:
    record = run(f"class Odd:\n    def __repr__(self): {body}\nOdd()")
    assert record.result is not None
    assert "Odd" in record.result


def test_a_value_before_an_error_is_not_shown(session: BoxSession) -> None:
    record = session.run("5\n1 / 0")
    assert (record.outcome, record.result) == ("error", None)


# -- tables and pictures ------------------------------------------------------------------------------------------


def test_a_table_as_value_is_text_and_html(run: Run) -> None:
    record = run("import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})\ndf")
    assert record.result is not None
    assert record.result.split() == ["a", "0", "1", "1", "2"]
    assert kinds(record) == ["text/html"]
    assert b"<table" in record.displays[0].data
    assert record.displays[0].name == "table-1.html"
    assert [(info.type, info.detail) for info in record.names.created if info.name == "df"] == [
        ("pandas.DataFrame", "2 x 1")
    ]


def test_display_of_a_table_prints_its_text_and_shows_html(run: Run) -> None:
    record = run(
        "import pandas as pd\ndisplay(pd.DataFrame({'a': [1]}), 'text', 5)\ndisplay(pd.DataFrame({'b': [1]}));"
    )
    assert kinds(record) == ["text/html", "text/html"]
    assert [shown.name for shown in record.displays] == ["table-1.html", "table-2.html"]
    assert "text\n5\n" in record.stdout.text
    assert record.result is None


def test_open_figures_are_shown_at_the_end(run: Run) -> None:
    record = run("import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.figure(); plt.bar([1], [2]);")
    assert kinds(record) == ["image/png", "image/png"]
    assert all(shown.data.startswith(PNG) for shown in record.displays)
    assert [shown.name for shown in record.displays] == ["figure-1.png", "figure-2.png"]
    assert record.stderr.text == ""
    assert run("plt.get_fignums()").result == "[]"


def test_saving_and_showing_a_plot_is_harmless(run: Run, session: BoxSession) -> None:
    record = run(
        "import matplotlib.pyplot as plt, os\nplt.plot([1, 2])\nplt.savefig('p.png')\nplt.show()\n"
        "print(os.path.getsize('p.png') > 0)"
    )
    assert record.output.text == "True\n"
    assert kinds(record) == ["image/png"]
    assert [info.path for info in record.files.created] == ["p.png"]
    assert session.get("p.png").startswith(PNG)


@pytest.mark.parametrize(
    "code",
    [
        "fig, ax = plt.subplots(); ax.plot([1]); fig",
        "fig, ax = plt.subplots(); ax.plot([1]); fig.show()",
        "fig, ax = plt.subplots(); ax.plot([1]); plt.show(block=True)",
        "from matplotlib.pyplot import show, plot\nplot([1]); show()",
        "fig, ax = plt.subplots(); ax.plot([1]); display(fig)",
        "from matplotlib.figure import Figure\nf = Figure(); f.subplots().plot([1]); f",
        "import pandas as pd\npd.Series([1, 2]).plot();",
        "import seaborn as sns\nsns.lineplot(x=[1, 2], y=[1, 2]);",
        "from PIL import Image\nImage.new('RGB', (4, 4))",
        "from PIL import Image\ndisplay(Image.new('L', (4, 4)))",
    ],
)
def test_every_way_to_show_a_picture_shows_it_once(run: Run, code: str) -> None:
    record = run("import matplotlib.pyplot as plt", code)
    assert kinds(record) == ["image/png"], record
    assert record.stderr.text == ""


def test_figures_of_a_failing_cell_are_shown(session: BoxSession) -> None:
    record = session.run("import matplotlib.pyplot as plt\nplt.plot([1])\n1 / 0")
    assert record.outcome == "error"
    assert kinds(record) == ["image/png"]


def test_a_figure_that_cannot_be_drawn_does_not_fail_the_cell(run: Run) -> None:
    record = run("import matplotlib.pyplot as plt\nplt.title('$\\\\badcommand{$');")
    assert "cannot be drawn" in record.stderr.text


def test_too_many_displays_are_left_out_and_the_record_says_so(run: Run) -> None:
    record = run(
        "class T:\n    def _repr_html_(self): return '<b>x</b>'\n"
        "    def __repr__(self): return 'T'\nfor _ in range(100): display(T())"
    )
    assert 0 < len(record.displays) < 100
    assert any("left out" in note for note in record.notes)
    assert record.stdout.text == "T\n" * 100


def test_an_object_with_a_picture_of_its_own_is_shown(run: Run) -> None:
    record = run("class P:\n    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\nx'\nP()")
    assert record.displays[0].data == PNG + b"x"


@pytest.mark.parametrize("body", ["return 1 / 0", "return 5", "return None"])
def test_a_failing_display_method_is_passed_over(run: Run, body: str) -> None:
    record = run(f"class P:\n    def _repr_html_(self): {body}\n    def __repr__(self): return 'plain'\nP()")
    assert (record.result, record.displays) == ("plain", ())


def test_a_figure_of_a_child_process_does_not_disturb_the_record(run: Run) -> None:
    record = run(
        "import matplotlib.pyplot as plt, multiprocessing as mp, pandas as pd\n"
        "def draw(n):\n    plt.plot([n]); plt.show(); display(pd.DataFrame({'a': [n]})); return n\n"
        "with mp.Pool(2) as pool: print(sum(pool.map(draw, range(6))))"
    )
    assert record.stdout.text.endswith("15\n")
    assert record.displays == ()


def test_threads_may_display_at_once(run: Run) -> None:
    record = run(
        "import threading\nclass T:\n    def _repr_html_(self): return 'x' * 100_000\n"
        "    def __repr__(self): return ''\n"
        "ts = [threading.Thread(target=display, args=(T(), T(), T())) for _ in range(5)]\n"
        "for t in ts: t.start()\nfor t in ts: t.join()"
    )
    assert [len(shown.data) for shown in record.displays] == [100_000] * 15


# -- sources ------------------------------------------------------------------------------------------------------


def test_the_source_of_functions_and_classes_is_found(run: Run) -> None:
    run(
        "import inspect\nclass Früh:\n    '''Doc.'''\n    def m(self):\n        return 1\n\n"
        "def f(a, b=2):\n    # why\n    return a"
    )
    record = run("print(inspect.getsource(f)); print(inspect.getsource(Früh)); print(inspect.getsource(Früh.m))")
    assert "def f(a, b=2):\n    # why\n    return a" in record.stdout.text
    assert "class Früh:\n    '''Doc.'''" in record.stdout.text
    assert record.stdout.text.count("def m(self):") == 2
    assert run("inspect.signature(f), inspect.getdoc(Früh)").result == "(<Signature (a, b=2)>, 'Doc.')"


def test_a_class_that_is_defined_again_has_its_new_source(run: Run) -> None:
    run("import inspect\nclass C:\n    a = 1", "class C:\n    a = 2")
    assert "a = 2" in (run("inspect.getsource(C)").result or "")


def test_cloudpickle_carries_functions_and_classes_to_another_process(run: Run) -> None:
    record = run(
        "import cloudpickle, subprocess, sys\nk = 3\nclass A:\n    def v(self): return k\n"
        "data = cloudpickle.dumps(lambda: A().v() * 2)\n"
        "subprocess.run([sys.executable, '-c', 'import sys, pickle; "
        "print(pickle.load(sys.stdin.buffer)())'], input=data,"
        " capture_output=True).stdout"
    )
    assert record.result == "b'6\\n'"


def test_doctest_timeit_and_pdb_post_mortem_modules_work(run: Run) -> None:
    record = run(
        "import doctest, timeit\ndef inc(n):\n    '''\n    >>> inc(1)\n    2\n    '''\n    return n + 1\n"
        "doctest.testmod().failed, timeit.timeit('inc(1)', globals=globals(), number=3) > 0"
    )
    assert record.result == "(0, True)"


# -- input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        'name = input("who? ")',
        "import sys; sys.stdin.read()",
        "import sys; sys.stdin.readline()",
        "import sys; sys.stdin.readlines()",
        "import sys\nfor line in sys.stdin: pass",
        "import sys; next(sys.stdin)",
        "import sys; sys.stdin.buffer.read()",
        "import sys; sys.__stdin__.read()",
        "import builtins; builtins.input()",
        "import pdb; pdb.set_trace(); x = 1",
        "breakpoint(); x = 1",
    ],
)
def test_input_fails_at_once_with_a_hint_and_the_next_cell_runs(session: BoxSession, code: str) -> None:
    record = session.run(code, timeout=10)
    assert record.outcome == "error", record
    assert record.error is not None
    if "pdb" not in code and "breakpoint" not in code:
        assert record.error.type == "EOFError"
        assert "no input is possible" in record.error.message
    assert record.wall_s < 5
    assert session.run("print(1 + 1)").stdout.text == "2\n"


def test_descriptor_0_and_children_see_an_end_of_file(run: Run) -> None:
    record = run("import os, subprocess\nos.read(0, 10), subprocess.run(['cat'], capture_output=True).stdout")
    assert record.result == "(b'', b'')"


# -- answers ------------------------------------------------------------------------------------------------------


def test_a_final_answer_is_text_whatever_it_is(run: Run) -> None:
    record = run('class R:\n    pass\nfinal_answer({"gen": (i for i in range(3)), "obj": R(), "f": open})')
    assert record.answer is not None
    assert "<generator" in record.answer
    assert record.answer_type == "dict"
    assert run("final_answer('plain')").answer == "plain"
    assert run("final_answer({'a': [1, None]})").answer == '{"a": [1, null]}'
    assert run("1").answer is None


def test_a_wrong_call_of_final_answer_is_an_error_of_the_cell(session: BoxSession) -> None:
    record = session.run('final_answer(reason="42")')
    assert record.error is not None
    assert record.error.type == "TypeError"
    assert session.run('final_answer("42")').answer == "42"


def test_display_can_be_imported_as_in_a_notebook(run: Run) -> None:
    execution = run(
        "from IPython.display import display, HTML, Markdown\nimport IPython\n"
        "display(HTML('<b>bold</b>'), Markdown('*x*'), 5)\nIPython.get_ipython()"
    )
    assert execution.outcome == "ok"
    assert execution.stdout.text == "<b>bold</b>\n*x*\n5\n"
    assert kinds(execution) == ["text/html", "text/html"]


def test_an_integer_with_too_many_digits_is_named_by_its_size(run: Run) -> None:
    assert run("10**6000").result == "<an integer of 19932 bits; too many digits to write out>"
