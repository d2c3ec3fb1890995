"""Variables of numpy, pandas and other libraries survive in real boxes: their values, and what they share."""

from collections.abc import Iterator

import pytest

from actloop.config import Limits
from actloop.protocols import Execution, Restored
from actloop.sandbox import open_session
from actloop.sandbox.session import BoxSession

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def boxes(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BoxSession, BoxSession]]:
    """Two boxes on one store that the tests share: each test begins by emptying the first one."""
    store = tmp_path_factory.mktemp("store")
    limits = Limits(memory="1g", transfer="128m", snapshot="256m")
    with (
        open_session("docker", limits=limits, snapshots=store) as first,
        open_session("docker", limits=limits, snapshots=store) as second,
    ):
        yield first, second


def _ok(execution: Execution) -> str | None:
    assert execution.outcome == "ok", execution.error
    return execution.result


def _over(boxes: tuple[BoxSession, BoxSession], cells: str, then: str) -> tuple[Restored, str | None, str | None]:
    """What came back after these cells, and an expression as it is where it was restored and where the cells ran."""
    first, second = boxes
    first.restore(None)
    _ok(first.run(cells))
    back = second.restore(first.snapshot())
    return back, _ok(second.run(then)), _ok(first.run(then))


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
    back, there, here = _over(boxes, *KINDS[kind])
    assert back.missing == {}
    assert there == here


def test_a_large_array_that_several_variables_hold_is_kept_once(boxes: tuple[BoxSession, BoxSession]) -> None:
    cells = "import numpy as np; a = np.ones(12 << 20); h = [a]; v = a[1:]; f = lambda: a"
    back, there, _ = _over(boxes, cells, "v.__setitem__(0, 5), a[1], h[0] is a, f() is a, a.nbytes >> 20")
    assert back.missing == {}
    assert there == "(None, np.float64(5.0), True, True, 96)"


def test_settings_of_libraries_come_back(boxes: tuple[BoxSession, BoxSession]) -> None:
    cells = """
import random, numpy as np, pandas as pd, matplotlib.pyplot as plt
random.seed(3); np.random.seed(4); random.random(); np.random.random()
np.set_printoptions(precision=2); pd.set_option("display.max_rows", 7); plt.rcParams["lines.linewidth"] = 5
"""
    then = (
        "random.random(), np.random.random(), np.array([1 / 3]), pd.get_option('display.max_rows'), "
        "plt.rcParams['lines.linewidth']"
    )
    back, there, here = _over(boxes, cells, then)
    assert back.missing == {}
    assert there == here
