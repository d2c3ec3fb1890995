"""Variables survive: saved in one interpreter, loaded in another, as good as before.

The interpreters are made as the worker makes them. cloudpickle comes along; they need no package of the host.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .interpreters import Forks, Interpreters, forks
from .kinds_of_values import KINDS


@pytest.fixture(scope="module", name="forks")
def _forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    with forks(tmp_path_factory.mktemp("forks")) as made:
        yield made


@pytest.fixture
def interpreters(forks: Forks, tmp_path: Path) -> Interpreters:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return Interpreters(forks, folder)


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_is_as_good_as_before(interpreters: Interpreters, kind: str) -> None:
    cells, then = KINDS[kind]
    taken = interpreters.save(*([cells] if isinstance(cells, str) else cells), then=[then])
    loaded = interpreters.load(taken, then)
    assert (taken.skipped, loaded.failed, loaded.problems) == ({}, {}, [])
    assert loaded.results == taken.results


def test_a_restored_function_sees_what_a_later_cell_defines(interpreters: Interpreters) -> None:
    taken = interpreters.save("x = 1\ndef f(): return x, later()")
    assert interpreters.load(taken, "x = 2\ndef later(): return 'now'\nf()").results == ["(2, 'now')"]


def test_what_variables_share_is_still_shared(interpreters: Interpreters) -> None:
    cell = "part = [1]; a = []; b = a; c = {'x': a}; d = {'p': part}; e = [part]; del part"
    loaded = interpreters.load(interpreters.save(cell), "b is a, c['x'] is a, d['p'] is e[0], a, e")
    assert loaded.results == ["(True, True, True, [], [[1]])"]


def test_an_object_held_by_another_variable_is_named_and_not_pickled_twice(interpreters: Interpreters) -> None:
    taken = interpreters.save("class C: pass\nbig = C(); big.data = 'x' * 5000; holder = {'one': big}")
    assert [(unit[0], unit[1]) for unit in taken.units] == [(["C"], []), (["big"], ["C"]), (["holder"], ["big"])]
    assert len(taken.contents("holder")[0]) < 200


def test_a_change_of_one_variable_leaves_the_bytes_of_the_others(interpreters: Interpreters) -> None:
    cell = (
        "class C:\n    def f(self): return {'a', 'b'}\nc = C(); s = {str(i) for i in range(50)}\ndef g(): return s, c"
    )
    before = interpreters.save(cell, "x = [1]")
    after = interpreters.save(cell, "x = [1, 2]; y = 0")
    assert [before.contents(name) == after.contents(name) for name in ("C", "c", "g", "x")] == [True, True, True, False]


SKIPPED = {
    "file = open('/dev/null')": ("_io.TextIOWrapper", "an open file cannot be kept"),
    "gen = (i for i in 'ab')": ("generator", "a generator cannot be kept"),
    "import threading\nlock = threading.Lock(); lock.acquire()": ("_thread.lock", "a lock that is held cannot be kept"),
    "import threading\nthread = threading.Thread()": ("threading.Thread", "a thread cannot be kept"),
    "import sqlite3\ndb = sqlite3.connect(':memory:')": ("sqlite3.Connection", "a database connection cannot be kept"),
    "import re\nmatch = re.match('a', 'a')": ("re.Match", "a value of type Match cannot be kept"),
    "holder = [open('/dev/null')]": ("list", "it holds an open file, which cannot be kept"),
    "def make(f):\n    return lambda: f\nclosure = make(open('/dev/null'))": (
        "function",
        "it holds an open file, which cannot be kept",
    ),
    "class C:\n    f = open('/dev/null')": ("type", "it holds an open file, which cannot be kept"),
    "deep = []\nfor _ in range(100_000): deep = [deep]": ("list", "it is nested too deeply"),
    "class C:\n    def __init__(self, n): self.n = n\nchain = None\nfor _ in range(50_000): chain = C(chain)": (
        "C",
        "it is nested too deeply",
    ),
    "class C:\n    def __reduce__(self): raise ValueError('boo')\nc = C()": ("C", "saving it raised ValueError: boo"),
    "class C:\n    def __reduce__(self): raise SystemExit(3)\nc = C()": ("C", "saving it raised SystemExit: 3"),
    "class C:\n    def __reduce__(self): raise KeyboardInterrupt\nc = C()": (
        "C",
        "saving it raised KeyboardInterrupt: ",
    ),
    "class C:\n    def __getstate__(self): return self.__getstate__()\nc = C()": ("C", "it is nested too deeply"),
    "class M(type):\n    def __getattribute__(self, name): raise RuntimeError('no')\nclass C(metaclass=M): pass": (
        "M",
        "saving it raised RuntimeError: no",
    ),
}


@pytest.mark.parametrize("cell", SKIPPED)
def test_what_cannot_be_kept_costs_only_itself_and_says_why(interpreters: Interpreters, cell: str) -> None:
    taken = interpreters.save("before = [1]\n" + cell + "\nafter = before")
    assert list(taken.skipped.values()) == [SKIPPED[cell]]
    loaded = interpreters.load(taken, "before is after, before")
    assert (loaded.failed, loaded.results) == ({}, ["(True, [1])"])


def test_what_needs_a_lost_variable_names_it(interpreters: Interpreters) -> None:
    taken = interpreters.save("class C: lock = open('/dev/null')\nc = C(); d = {'x': c}; e = 1")
    assert taken.skipped["c"] == ("C", "it needs C, which is not kept")
    assert taken.skipped["d"] == ("dict", "it needs c, which is not kept")
    assert taken.names == ["e"]


def test_code_that_runs_while_saving_has_no_effect(interpreters: Interpreters) -> None:
    cell = """
import os, sys
class Prints:
    def __reduce__(self): print('hello'); sys.stderr.write('hello'); return int, ()
class Clears:
    def __reduce__(self): globals().clear(); return int, ()
class Forks:
    def __reduce__(self): os.fork(); return int, ()
a = Prints(); b = Forks(); c = Clears(); last = 5
"""
    taken = interpreters.save(cell)
    assert taken.skipped == {}
    assert interpreters.load(taken, "a, b, c, last").results == ["(0, 0, 0, 5)"]


def test_what_never_ends_is_given_up_and_the_others_are_kept(interpreters: Interpreters) -> None:
    interpreters.limits[2] = 0.8
    cell = """
import time
class Loops:
    def __reduce__(self):
        while True:
            try:
                while True: pass
            except Exception: pass
class Sleeps:
    def __reduce__(self): time.sleep(1000)
a = Loops(); b = Sleeps(); c = [1]
"""
    taken = interpreters.save(cell)
    assert taken.skipped == {
        "a": ("Loops", "saving it takes too long"),
        "b": ("Sleeps", "saving it takes too long"),
    }
    assert "c" in taken.names


def test_large_variables_are_left_out_and_small_ones_kept(interpreters: Interpreters) -> None:
    interpreters.limits[:2] = [4 << 20, 8 << 20]
    taken = interpreters.save("a = bytes(5 << 20)\nb, c, d = (bytes([i]) * (3 << 20) for i in range(3))\ne = [1]")
    assert taken.skipped == {
        "a": ("bytes", "it is larger than the 4 MiB that one variable may have"),
        "c": ("bytes", "there is no room for it: the snapshot may have 8 MiB in all"),
        "d": ("bytes", "there is no room for it: the snapshot may have 8 MiB in all"),
    }
    assert taken.names == ["b", "e"]


def test_large_buffers_stay_outside_of_the_stream(interpreters: Interpreters) -> None:
    cell = """
import pickle
class Buffer(bytearray):
    def __reduce_ex__(self, protocol): return Buffer, (pickle.PickleBuffer(self),)
large = Buffer(b'x' * (1 << 20)); small = Buffer(b'y'); holder = [large]
"""
    taken = interpreters.save(cell)
    assert [len(taken.contents(name)) for name in ("large", "small", "holder")] == [2, 1, 1]
    assert len(taken.contents("large")[0]) < 200
    assert interpreters.load(taken, "len(large), small, holder[0] is large").results == [
        "(1048576, Buffer(b'y'), True)"
    ]


def test_a_variable_that_ended_the_process_can_be_left_out(interpreters: Interpreters) -> None:
    cell = "import os\nclass C:\n    def __reduce__(self): os._exit(1)\nc = C(); d = 1"
    interpreters.refused = {"c": "saving it ended the process"}
    taken = interpreters.save(cell)
    assert taken.skipped == {"c": ("C", "saving it ended the process")}
    assert taken.begun == ["os", "C", "d"]


def test_a_variable_that_cannot_be_made_again_costs_itself_and_what_needs_it(interpreters: Interpreters) -> None:
    (interpreters.folder / "helper.py").write_text("class H: pass\n")
    cell = "import sys\nsys.path.insert(0, '.')\nimport helper\nh = helper.H()\n"
    broken = "class B:\n    def __setstate__(self, s): 1/0\nb = B(); b.x = 1; c = [b]; d = 2"
    taken = interpreters.save(cell, broken)
    (interpreters.folder / "helper.py").unlink()
    loaded = interpreters.load(taken, "d")
    assert loaded.failed == {
        "helper": "the module helper cannot be imported here",
        "h": "the module helper cannot be imported here",
        "b": "restoring it raised ZeroDivisionError: division by zero",
        "c": "it needs b, which could not be restored",
    }
    assert loaded.results == ["2"]


def test_sources_and_tracebacks_of_restored_code_are_there(interpreters: Interpreters) -> None:
    cell = "import inspect, traceback\ndef f(x):\n    # why\n    return 1 / x\nclass K:\n    'text'\n    y = 1\n"
    then = "try: f(0)\nexcept Exception as e: text = traceback.format_exc()\n"
    result = interpreters.load(
        interpreters.save(cell), then + "inspect.getsource(f), inspect.getsource(K), text"
    ).results[0]
    assert result is not None
    assert "# why" in result
    assert "'text'" in result
    assert 'File "<cell 1>", line 4, in f\\n    return 1 / x' in result


def test_the_sources_of_code_that_is_gone_are_not_kept(interpreters: Interpreters) -> None:
    taken = interpreters.save("def f(): return 'a text of f'", "def g(): return 1", "del f")
    assert not any(b"a text of f" in part for unit in taken.units for part in unit[2])


def test_settings_of_the_interpreter_come_back(interpreters: Interpreters) -> None:
    cell = """
import decimal, os, random, sys, warnings
os.mkdir('sub'); os.chdir('sub'); os.environ['MINE'] = 'x'; sys.path.append('/mine')
random.seed(5); random.random(); decimal.getcontext().prec = 5
warnings.simplefilter('ignore', UserWarning)
"""
    taken = interpreters.save("from __future__ import annotations", cell)
    numbers = random.Random(5)
    numbers.random()
    then = (
        "def f(x: no_such_name): ...\nimport decimal\nwarnings.warn('quiet')\n"
        "os.getcwd().endswith('workspace/sub'), os.environ['MINE'], sys.path[-1], decimal.Decimal(1) / 3, "
        "random.random()"
    )
    assert interpreters.load(taken, then).results == [f"(True, 'x', '/mine', Decimal('0.33333'), {numbers.random()!r})"]


def test_a_restored_session_can_be_saved_again(interpreters: Interpreters) -> None:
    cell = "class C:\n    def f(self): return [1]\nc = C(); f = c.f; d = {'c': c}\ndef g(): return c"
    again = """
box = __import__('sys').modules['_box']
units = list(box.box_variables.save(globals(), box.box_budget.SaveLimits(), {}))
for name in ('C', 'c', 'f', 'd', 'g'): del globals()[name]
for unit in units[1:]: box.box_loading.load(unit.names, unit.contents, globals(), {})
type(c) is C, f() , f.__self__ is c, d['c'] is c, g() is c
"""
    assert interpreters.load(interpreters.save(cell), again).results == ["(True, [1], True, True, True)"]


plain = st.none() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False, allow_infinity=False)


def _tree(draw: Callable[[Any], Any]) -> str:
    """Cells that build nested plain data, whose parts are used again and again, and may hold themselves."""
    lines = []
    for number in range(draw(st.integers(1, 8))):
        parts = [f"v{draw(st.integers(0, number - 1))}" if number and draw(st.booleans()) else repr(draw(plain))]
        parts += [f"[{part}]" for part in parts] + [repr(draw(plain))]
        kind = draw(st.sampled_from(["list", "dict", "tuple", "set"]))
        if kind == "set":
            lines.append(f"v{number} = {{{draw(plain)!r}, {draw(plain)!r}}}")
        elif kind == "dict":
            lines.append(f"v{number} = {{i: part for i, part in enumerate([{', '.join(parts)}])}}")
        else:
            lines.append(f"v{number} = {kind}([{', '.join(parts)}])")
        if kind == "list" and draw(st.booleans()):
            lines.append(f"v{number}.append(v{draw(st.integers(0, number))})")
    return "\n".join(lines)


SHAPE = """
def shape():
    seen = {}
    def walk(value):
        if isinstance(value, (list, dict, set)):
            if id(value) in seen:
                return '#%d' % seen[id(value)]
            seen[id(value)] = len(seen)
        if isinstance(value, dict):
            return [(key, walk(part)) for key, part in value.items()]
        if isinstance(value, (list, tuple)):
            return type(value).__name__, [walk(part) for part in value]
        return repr(sorted(value, key=repr)) if isinstance(value, set) else repr(value)
    return [(name, walk(value)) for name, value in sorted(globals().items()) if name[0] == 'v']
"""


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cells=st.composite(_tree)())
def test_nested_data_keeps_its_shape(interpreters: Interpreters, cells: str) -> None:
    taken = interpreters.save(SHAPE, cells, then=["shape()"])
    loaded = interpreters.load(taken, "shape()")
    assert (taken.skipped, loaded.failed) == ({}, {})
    assert loaded.results == taken.results
