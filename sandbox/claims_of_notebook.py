"""Claims: what analysts expect of a notebook."""

from actloop.protocols import Session

from .claims import claim, ended, holds, same


def _prints(session: Session, code: str, wanted: str) -> None:
    same(session.run(code).output.text, wanted)


@claim()
def the_last_expression_is_the_value(session: Session) -> None:
    """Except `None`, and behind a semicolon."""
    same(session.run("6 * 7").result, "42")
    same(session.run("None").result, None)
    same(session.run("6 * 7;").result, None)


@claim()
def the_namespace_is_the_main_module(session: Session) -> None:
    """So that scripts and pickles work."""
    _prints(session, "def main():\n print('ran')\nif __name__ == '__main__':\n main()", "ran\n")
    session.run("import pickle\nclass Point:\n pass")
    _prints(session, "print(type(pickle.loads(pickle.dumps(Point()))) is Point)", "True\n")


@claim()
def recursion_and_late_imports_work(session: Session) -> None:
    """One dict serves as globals and locals."""
    session.run("import re\ndef fib(n):\n return n if n < 2 else fib(n - 1) + fib(n - 2)")
    session.run("def parts(s):\n return re.split(',', s)")
    _prints(session, "print(fib(10), parts('1,2'))", "55 ['1', '2']\n")


@claim()
def await_works_at_the_top_and_run_inside(session: Session) -> None:
    """Both forms in one session."""
    _prints(session, "import asyncio\nasync def seven():\n return 7\nprint(asyncio.run(seven()))", "7\n")
    _prints(session, "r = await asyncio.gather(asyncio.sleep(0, 1), asyncio.sleep(0, 2))\nprint(r)", "[1, 2]\n")


@claim()
def source_of_functions_and_classes_is_found(session: Session) -> None:
    """By `inspect`."""
    session.run("def area(r):\n    return 3 * r\nclass Shape:\n    sides = 4")
    execution = session.run("import inspect\nprint(inspect.getsource(area), inspect.getsource(Shape))")
    holds("3 * r" in execution.stdout.text and "sides = 4" in execution.stdout.text, execution)


@claim()
def a_pool_runs_functions_of_the_session(session: Session) -> None:
    """By fork."""
    code = (
        "import multiprocessing\ndef square(n):\n return n * n\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool:\n print(pool.map(square, [1, 2, 3]))"
    )
    _prints(session, code, "[1, 4, 9]\n")


@claim()
def names_made_and_changed_are_told(session: Session) -> None:
    """With types and sizes."""
    session.run("changing = [1]")
    names = session.run("made = {'a': 1}\nchanging = [1, 2]\ndel made['a']").names
    same([(info.name, info.type, info.detail) for info in names.created], [("made", "dict", "len 0")])
    same([(info.name, info.detail) for info in names.changed], [("changing", "len 2")])
    same(session.run("del changing").names.deleted, ("changing",))


@claim()
def a_final_answer_is_kept_as_text(session: Session) -> None:
    """Whatever was given."""
    execution = session.run("final_answer({'total': 3})")
    same((execution.answer, execution.answer_type), ('{"total": 3}', "dict"))
    record = "import dataclasses, datetime\n@dataclasses.dataclass\nclass R:\n    day: object\n    seen: set\n"
    session.run(
        record + "class M:\n    def model_dump(self, mode): return {'inner': R(datetime.date(2026, 1, 2), {2, 1})}"
    )
    execution = session.run("final_answer(M())")
    same((execution.answer, execution.answer_type), ('{"inner": {"day": "2026-01-02", "seen": [1, 2]}}', "M"))
    odd = session.run("final_answer({'f': open})")
    ended(odd, "ok")
    holds(odd.answer is not None and "open" in odd.answer, odd.answer)
    ended(session.run("final_answer(reason='42')"), "error")


@claim()
def a_value_with_a_hostile_repr_does_no_harm(session: Session) -> None:
    """It is named by its type."""
    execution = session.run("class Evil:\n def __repr__(self): raise ValueError('no')\nEvil()")
    ended(execution, "ok")
    holds(execution.result is not None and "Evil" in execution.result, execution.result)


@claim()
def tables_and_figures_are_shown(session: Session) -> None:
    """Where the image has pandas and matplotlib."""
    has = session.run("import importlib.util as u\nall(u.find_spec(n) for n in ('pandas', 'matplotlib'))").result
    if has != "True":
        return
    table = session.run("import pandas as pd\npd.DataFrame({'a': [1]})")
    holds(table.result is not None and "a" in table.result, table.result)
    same([display.media_type for display in table.displays], ["text/html"])
    figure = session.run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nplt.plot([3])\nNone")
    same(figure.output.text, "")
    same([display.media_type for display in figure.displays], ["image/png"] * 2)
    holds(figure.displays[0].data.startswith(b"\x89PNG"), "no PNG")
