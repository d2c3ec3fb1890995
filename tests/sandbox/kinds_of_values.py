"""Kinds of values that a snapshot keeps: the cells that make some, and an expression that tells whether they are right.

The expression must say the same in the interpreter that was saved as in one that has loaded them.
"""

KINDS: dict[str, tuple[str | list[str], str]] = {
    "plain": ("a = 1; b = 2.5; c = 1j; d = 'x'; e = b'y'; f = None; g = 10**1000", "a, b, c, d, e, f, g == 10**1000"),
    "containers": (
        "import collections as co\nl = [1]; t = (l,); s = {1, 2}; f = frozenset('a'); d = co.defaultdict(list, a=l)\n"
        "o = co.OrderedDict(a=1); q = co.deque([1], maxlen=3); c = co.Counter('aab'); m = co.ChainMap({}, d)",
        "t[0] is l, d['a'] is l, m.maps[1] is d, d['b'], o, q.maxlen, c['a'], s, f",
    ),
    "bytes that change": ("b = bytearray(b'x'); v = memoryview(b)", "v.__setitem__(0, 121), b, v.obj is b"),
    "a view of numbers": (
        "import array\na = array.array('d', [1, 2]); v = memoryview(a); w = v[1:]",
        "v.tolist(), w.tolist(), v.obj is a, v.format",
    ),
    "iterators": ("i = iter([1, 2, 3]); next(i); e = enumerate('ab')", "next(i), list(e)"),
    "streams in memory": ("import io\nb = io.BytesIO(b'abc'); b.read(1); s = io.StringIO('q')", "b.read(), s.read()"),
    "dates and numbers": (
        "import datetime as dt, decimal, fractions, uuid, pathlib, re, zoneinfo\n"
        "a = dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc); b = decimal.Decimal('1.1')\n"
        "c = fractions.Fraction(1, 3); d = uuid.UUID(int=1); e = pathlib.PurePosixPath('a/b')\n"
        "f = re.compile('a+'); g = dt.timedelta(1)",
        "a, b, c, d, e, f.match('aa')[0], g",
    ),
    "constants of the language": ("a = ...; b = NotImplemented; c = range(3); d = slice(1)", "a, b, c, d"),
    "builtins and types": (
        "a = len; b = int; c = type(None); d = str.upper; e = [].append; e(1); f = e.__self__; import types\n"
        "g = types.FunctionType",
        "a is len, b is int, c is type(None), d('x'), e(2), f, g is type(lambda: 0)",
    ),
    "modules": ("import os, json as j, os.path as p", "os.path is p, j.dumps([1]), __import__('os') is os"),
    "submodules": (
        "import concurrent.futures, xml.etree.ElementTree\n"
        "def f(): return concurrent.futures.Future.__name__, xml.etree.ElementTree.Element.__name__",
        "f()",
    ),
    "what a module holds": (
        "import os, sys, random\ne = os.environ; o = sys.stdout; r = random._inst",
        "e is os.environ",
    ),
    "a function": ("def f(x, *, y=[1]) -> int:\n    'text'\n    return x, y\nf.mark = 3", "f(1), f.mark, f.__doc__"),
    "a function and its globals": ("x = 1\ndef f(): return x", "f(), f.__globals__ is globals()"),
    "recursion": ("def f(n): return 1 if n < 2 else n * f(n - 1)", "f(5)"),
    "mutual recursion": ("def a(n): return n and b(n - 1)\ndef b(n): return n and a(n - 1)", "a(9)"),
    "lambdas": ("f = [lambda x, k=k: x + k for k in range(3)]", "[g(1) for g in f]"),
    "closures that share a cell": (
        "def make():\n    n = 0\n    def up():\n        nonlocal n\n        n += 1\n    def get(): return n\n"
        "    return up, get\nup, get = make(); up()",
        "up(), get()",
    ),
    "a closure over itself": (
        "def make():\n    def f(n): return n and f(n - 1)\n    return f\nf = make()",
        "f(5), f.__closure__[0].cell_contents is f",
    ),
    "decorators": (
        "import functools\ndef plus(f):\n    @functools.wraps(f)\n    def w(*a): return f(*a) + 1\n    return w\n"
        "@plus\ndef f(x): return x * k\nk = 2",
        "f(3), f.__wrapped__(3), f.__name__",
    ),
    "partial": ("import functools\ndef f(a, b): return a, b\np = functools.partial(f, 1)", "p(2), p.func is f"),
    "lru_cache": (
        "import functools\n@functools.lru_cache(maxsize=None)\ndef fib(n): return n if n < 2 else fib(n-1) + fib(n-2)",
        "fib(50), fib.cache_info().maxsize, fib.__name__",
    ),
    "singledispatch": (
        "import functools\n@functools.singledispatch\ndef f(x): return 'any'\n"
        "@f.register(int)\ndef _g(x): return 'int'",
        "f(1), f('x')",
    ),
    "async functions": ("import asyncio\nasync def f(x): return x + 1", "asyncio.run(f(1))"),
    "a generator function": ("def f(n):\n    yield from range(n)", "list(f(3))"),
    "a function with globals of its own": (
        "space = {}\nexec('x = 1\\ndef f(): return x', space)\nf = space['f']",
        "space.update(x=5), f(), f.__globals__ is space",
    ),
    "the namespace": ("a = globals(); b = [a]", "a is globals(), b[0] is a"),
    "a class": (
        "class C:\n    k = [1]\n    def m(self): return self.v\nc = C(); c.v = 3; d = [C()]",
        "type(c) is C, type(d[0]) is C, c.m(), C.k, C.__module__",
    ),
    "an older class of the same name": (
        ["class C: pass\nc = C(); d = C()", "class C: pass\ne = C()"],
        "type(c) is type(d), type(c) is C, type(e) is C",
    ),
    "a class hierarchy": (
        "class A:\n    def f(self): return 'A'\nclass B(A):\n    def f(self): return super().f() + 'B'\nb = B()",
        "b.f(), B.__mro__[1] is A",
    ),
    "bound methods": (
        "class C:\n    def m(self): return self\n    @classmethod\n    def n(cls): return cls\n"
        "c = C(); m = c.m; n = C.n; u = C.m",
        "m() is c, n() is C, u is C.m",
    ),
    "properties and static methods": (
        "class C:\n    @property\n    def p(self): return self._p\n    @p.setter\n    def p(self, v): self._p = v\n"
        "    @staticmethod\n    def s(): return 7\nc = C(); c.p = 1; s = C.s",
        "c.p, s(), s is C.s",
    ),
    "slots": (
        "class A:\n    __slots__ = ('a', 'b')\nclass B(A):\n    __slots__ = ('__c',)\n"
        "    def __init__(self): self.a = 1; self.__c = 2\n    def c(self): return self.__c\nx = B()",
        "x.a, x.c(), hasattr(x, '__dict__'), hasattr(x, 'b')",
    ),
    "nested classes": (
        "class A:\n    class B:\n        def f(self): return 1\nx = A.B(); f = A.B.f",
        "type(x) is A.B, x.f(), A.B.__qualname__, f is A.B.f",
    ),
    "dataclasses": (
        "from dataclasses import MISSING, dataclass, field, fields\n@dataclass(order=True)\nclass P:\n    x: int\n"
        "    y: list = field(default_factory=list)\n@dataclass(frozen=True)\nclass Q:\n    z: int = 1\n"
        "p = P(1); q = Q()",
        "p == P(1), p < P(2), fields(P)[0].default is MISSING, hash(q) == hash(Q()), p, q",
    ),
    "enumerations": (
        "import enum\nclass C(enum.Enum):\n    RED = 1\n    CRIMSON = 1\n    BLUE = 2\n"
        "    def hi(self): return self.name\nr = C.RED",
        "r is C.RED, C.CRIMSON is r, r.hi(), list(C), C(2) is C.BLUE",
    ),
    "enumerations with attributes": (
        "import enum\nclass P(enum.Enum):\n    E = (1, 2)\n    M = (3, 4)\n"
        "    def __init__(self, a, b): self.a = a; self.b = b\n    @property\n    def s(self): return self.a + self.b",
        "P.M.s, P((1, 2)) is P.E",
    ),
    "enumerations of other types": (
        "import enum\nclass S(str, enum.Enum):\n    A = 'a'\nclass N(enum.IntEnum):\n    ONE = 1\n"
        "class F(enum.Flag):\n    R = enum.auto(); W = enum.auto(); RW = R | W\nf = F.R | F.W",
        "S.A == 'a', N.ONE + 1, f is F.RW, F.R in f",
    ),
    "named tuples": (
        "import typing, collections\nclass T(typing.NamedTuple):\n    x: int\n    y: str = 'q'\n"
        "U = collections.namedtuple('U', 'a b')\nt = T(1); u = U(1, 2)",
        "t, type(t) is T, type(u) is U, U._make([3, 4]), u._replace(a=9), T(5).y",
    ),
    "abstract classes": (
        "import abc\nclass B(abc.ABC):\n    @abc.abstractmethod\n    def f(self): ...\nclass D(B):\n"
        "    def f(self): return 1\nclass E: pass\nB.register(E)\nd = D()",
        "isinstance(d, B), d.f(), issubclass(E, B), B.__abstractmethods__",
    ),
    "generics": (
        "from typing import Generic, TypeVar\nT = TypeVar('T')\nclass B(Generic[T]):\n"
        "    def __init__(self, v: T): self.v = v\nb = B[int](3); I = B[int]",
        "type(b) is B, I(2).v, B.__parameters__[0] is T, I.__origin__ is B",
    ),
    "protocols and typed dicts": (
        "from typing import Protocol, TypedDict, runtime_checkable\nclass D(TypedDict):\n    a: int\n"
        "@runtime_checkable\nclass P(Protocol):\n    def f(self): ...\nclass I:\n    def f(self): ...",
        "D(a=1), D.__annotations__, isinstance(I(), P), isinstance(1, P)",
    ),
    "metaclasses, whose work is not repeated": (
        "log = []\nclass M(type):\n    def __new__(m, n, b, s, **k):\n        log.append(n)\n"
        "        return super().__new__(m, n, b, s)\n    def hi(cls): return cls.__name__\n"
        "class X(metaclass=M, option=1): pass\nx = X()",
        "log, X.hi(), type(x) is X, type(X) is M",
    ),
    "classes that count their subclasses": (
        "class P:\n    n = 0\n    def __init_subclass__(cls): P.n += 1\nclass A(P): pass\nclass B(P): pass",
        "P.n, type('C', (P,), {}).n",
    ),
    "descriptors that know their name": (
        "class D:\n    def __set_name__(self, owner, name): self.name = name\n"
        "    def __get__(self, o, k): return self.name\nclass C:\n    field = D()\nc = C()",
        "c.field",
    ),
    "exceptions": (
        "class E(Exception):\n    def __init__(self, code, text): super().__init__(text); self.code = code\n"
        "try:\n    raise E(3, 'no') from ValueError('v')\nexcept E as x: e = x\n"
        "try: open('/nope')\nexcept OSError as x: o = x",
        "e, e.code, e.__cause__, type(e) is E, o, o.errno, o.filename",
    ),
    "objects that go in circles": (
        "class N: pass\na = N(); b = N(); a.below = [b]; b.above = a; x = [a]; b.me = b",
        "a.below[0] is b, b.above is a, x[0] is a, b.me is b",
    ),
    "free locks and queues": (
        "import threading, queue\nl = threading.Lock(); r = threading.RLock(); q = queue.Queue(); q.put(1)\n"
        "e = threading.Event(); e.set()",
        "l.acquire(), r.acquire(), q.get(), e.is_set()",
    ),
    "weak references": (
        "import weakref\nclass H: pass\nh = H(); r = weakref.ref(h); d = weakref.WeakValueDictionary({1: h})\n"
        "gone = weakref.ref(H())",
        "r() is h, d[1] is h, gone()",
    ),
    "loggers": ("import logging\nl = logging.getLogger('x')", "l is logging.getLogger('x')"),
    "random generators": ("import random\nr = random.Random(3); r.random()", "r.random()"),
    "an own way to pickle": (
        "class C:\n    def __init__(self, v): self.v = v\n    def __reduce__(self): return C, (self.v,)\nc = C(4)",
        "c.v, type(c) is C",
    ),
    "an own state": (
        "class C:\n    def __getstate__(self): return {'a': 1}\n    def __setstate__(self, s): self.s = s\nc = C()",
        "getattr(c, 's', {'a': 1})",
    ),
    "a type made by a call": ("C = type('C', (list,), {'k': 1})\nc = C([1])", "c, c.k, type(c) is C"),
    "a user's own cloudpickle": (
        "import sys, types\nsys.modules['cloudpickle'] = types.ModuleType('cloudpickle')\nf = lambda: 3",
        "f()",
    ),
}
