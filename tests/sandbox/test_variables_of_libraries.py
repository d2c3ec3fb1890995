"""Variables of numpy and pandas survive in a real box: values, shared memory, and buffers that are not copied."""

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from actloop.protocols import Execution
from actloop.sandbox import open_session
from actloop.sandbox.session import BoxSession

pytestmark = pytest.mark.docker

# The worker does this itself; here a cell asks the same code for it.
SAVE = """
def empty():
    import sys
    space = sys.modules["__main__"].__dict__
    for name in [name for name in space if not name.startswith("__") and name not in ("empty", "save", "load")]:
        del space[name]
    return space

def save(cells):
    import pickle, sys, tracemalloc
    box = sys.modules["_box"]
    box.box_carried.carried("box_variables")
    space = empty()
    exec(cells, space)
    tracemalloc.start()
    found = list(box.box_variables.save(space, box.box_budget.SaveLimits(512 << 20, 512 << 20, 60.0), {}, refused={
        "empty": "", "save": "", "load": ""}))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    units = [(unit.names, [bytes(part) for part in unit.contents], unit.notes) for unit in found if len(unit) == 4]
    with open("units", "wb") as file:
        pickle.dump((units, {unit.name: unit.why for unit in found if len(unit) == 3 and unit.why}, peak), file)

def load(then):
    import pickle, sys
    box = sys.modules["_box"]
    box.box_carried.carried("box_variables")
    space = empty()
    with open("units", "rb") as file:
        units = pickle.load(file)[0]
    for names, contents, notes in units:
        failed = box.box_loading.load(names, [contents[0], *map(bytearray, contents[1:])], space, {})
        assert not failed, failed
    return eval(then, space)
"""


@pytest.fixture(scope="module")
def boxes(image: str) -> Iterator[tuple[BoxSession, BoxSession]]:
    """Two boxes that the tests share: each test begins by emptying the namespaces."""
    with open_session("docker") as first, open_session("docker") as second:
        for session in (first, second):
            assert session.run(SAVE).outcome == "ok"
        yield first, second


def _ok(execution: Execution) -> str | None:
    assert execution.outcome == "ok", execution.error
    return execution.result


def _over(boxes: tuple[BoxSession, BoxSession], cells: str, then: str) -> tuple[Any, str | None, str | None]:
    """What was saved after these cells, and an expression as it is where they ran and where they were loaded."""
    first, second = boxes
    _ok(first.run(f"save({cells!r})"))
    data = first.get("units")
    second.put("units", data)
    return pickle.loads(data), _ok(second.run(f"load({then!r})")), _ok(first.run(then))


KINDS = {
    "arrays that share memory": (
        "import numpy as np\na = np.arange(1e5); b = a[2:]; c = a[::-1]; d = a[:10]; e = a.reshape(100, 1000)",
        "b.__setitem__(0, 7.), a[2], c[-3], d[2], e[0, 2], a.flags.writeable",
    ),
    "arrays of all forms": (
        "import numpy as np\nf = np.asfortranarray(np.ones((3, 4))); g = f[1:]; s = np.arange(1e5)[::7]\n"
        "b = np.broadcast_to(np.arange(3), (1000, 3)); r = np.zeros(3, dtype=[('x', 'f8')]); x = r['x']\n"
        "o = np.array([1, 'a', None], dtype=object); m = np.ma.array([1, 2], mask=[0, 1]); n = np.float64(3)\n"
        "w = np.arange(3); w.flags.writeable = False; z = np.zeros((0, 3)); q = np.array(5)",
        "f.flags.f_contiguous, g.__setitem__((0, 0), 5), f[1, 0], s[:2], s.flags.writeable, b.shape,"
        "x.__setitem__(0, 2.), r[0], o, m, n, w.flags.writeable, z.shape, q",
    ),
    "frames that share memory": (
        "import pandas as pd, numpy as np\nf = pd.DataFrame({'a': range(20000), 'b': np.arange(20000.), 'c': 'x'})\n"
        "s = f['a']; r = f.rename(columns={'a': 'z'}); i = f.set_index('b'); v = s.values; d = {'f': f}",
        "d['f'] is f, f.loc.__setitem__((0, 'a'), 99), s.iloc[0], r.z[0], v[0], s.__setitem__(1, 55), f.a[1], v[1],"
        "i.a.sum(), i.index[3], f.c[5]",
    ),
    "frames of all types": (
        "import pandas as pd\nk = pd.Categorical(list('abcabcabc')); n = pd.array([1, None] * 4 + [2], dtype='Int64')\n"
        "a = pd.array(range(9), dtype='int64[pyarrow]'); d = pd.date_range('2020', periods=9)\n"
        "f = pd.DataFrame({'d': d, 'k': k, 'n': n, 't': ['x'] * 9, 'a': a}); g = f.groupby('k', observed=True)\n"
        "m = f.set_index(['k', 'd']); t = pd.Timestamp('2020'); p = pd.Period('2020')",
        "f.dtypes.astype(str).tolist(), g.n.sum().tolist(), m.index.nlevels, t, p, f.d[1], f.equals(f.copy())",
    ),
    "generators of random numbers": (
        "import numpy as np\nr = np.random.default_rng(1); r.random(); o = np.random.RandomState(2)",
        "r.random(), o.rand()",
    ),
    "other libraries": (
        "import sympy, scipy.sparse, pyarrow as pa\nfrom sklearn.linear_model import LinearRegression\n"
        "m = LinearRegression().fit([[1], [2]], [2, 4]); x = sympy.Symbol('x'); e = (x + 1) ** 2\n"
        "s = scipy.sparse.eye(100, format='csr'); t = pa.table({'a': list(range(9000))})",
        "m.predict([[3]]).round(3), e.expand(), s.sum(), t.num_rows, t['a'][8999]",
    ),
    "a figure": (
        "import matplotlib.pyplot as plt\nfig, ax = plt.subplots(); line, = ax.plot([1, 2]); ax.set_title('T')",
        "fig.axes[0] is ax, ax.get_title(), ax.lines[0] is line",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_values_of_a_library_are_as_good_as_before(boxes: tuple[BoxSession, BoxSession], kind: str) -> None:
    (_, skipped, _), there, here = _over(boxes, *KINDS[kind])
    assert skipped == {}
    assert there == here


def test_a_large_array_is_not_copied(boxes: tuple[BoxSession, BoxSession]) -> None:
    first, _ = boxes
    _ok(first.run("save('import numpy as np; a = np.ones(4 << 20); h = [a]; f = lambda: a')"))
    units, skipped, peak = pickle.loads(first.get("units"))
    assert skipped == {}
    assert sum(len(part) for unit in units for part in unit[1][1:]) == 32 << 20
    assert peak < 4 << 20


def test_views_that_no_longer_share_memory_are_named(boxes: tuple[BoxSession, BoxSession]) -> None:
    cells = "import numpy as np\nbase = np.arange(1e5); x = base[:10]; y = base[5:15]; del base"
    (units, _, _), there, _ = _over(boxes, cells, "x[9], y[0]")
    assert [note for unit in units for note in unit[2]] == ["x and y no longer share memory"]
    assert there == "(np.float64(9.0), np.float64(5.0))"
