"""Which kinds of values a snapshot cannot keep, need not look at, or has to name. Runs inside the box.

Types of libraries are known by name, so that none has to be imported.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import enum
import re
import sys
import types
from collections.abc import Callable
from typing import Any

_REFUSED = {
    "_io.FileIO": "an open file",
    "_io.TextIOWrapper": "an open file",
    "_io.BufferedReader": "an open file",
    "_io.BufferedWriter": "an open file",
    "_io.BufferedRandom": "an open file",
    "_io.BufferedRWPair": "an open file",
    "builtins.generator": "a generator",
    "builtins.coroutine": "a coroutine",
    "builtins.async_generator": "an asynchronous generator",
    "builtins.frame": "a frame",
    "builtins.traceback": "a traceback",
    "threading.Thread": "a thread",
    "_socket.socket": "a socket",
    "sqlite3.Connection": "a database connection",
    "sqlite3.Cursor": "a database cursor",
    "subprocess.Popen": "a process",
    "multiprocessing.process.BaseProcess": "a process",
    "multiprocessing.pool.Pool": "a pool of processes",
    "concurrent.futures._base.Executor": "a pool of workers",
    "concurrent.futures._base.Future": "a future",
    "_asyncio.Future": "a future",
    "_asyncio.Task": "a task",
    "asyncio.events.AbstractEventLoop": "an event loop",
    "mmap.mmap": "mapped memory",
    "_ssl._SSLContext": "an SSL context",
    "tempfile.TemporaryDirectory": "a temporary folder",
    "tempfile._TemporaryFileWrapper": "an open file",
}
_FIXED = {
    "builtins.builtin_function_or_method",
    "builtins.method_descriptor",
    "builtins.wrapper_descriptor",
    "builtins.getset_descriptor",
    "builtins.member_descriptor",
    "builtins.code",
    "datetime.date",
    "datetime.time",
    "datetime.timedelta",
    "datetime.tzinfo",
    "decimal.Decimal",
    "fractions.Fraction",
    "uuid.UUID",
    "pathlib.PurePath",
    "pathlib._local.PurePath",
    "re.Pattern",
    "types.GenericAlias",
    "types.UnionType",
    "typing._Final",
    "numpy.dtype",
    "numpy.generic",
    "numpy.ufunc",
    "pandas.core.dtypes.base.ExtensionDtype",
    "pandas._libs.tslibs.offsets.BaseOffset",
}
_PLAIN = (
    *(
        type(None),
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        tuple,
        frozenset,
        range,
        slice,
        type(...),
        type(NotImplemented),
    ),
    *(types.ModuleType, enum.Enum),
)
ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})
"""Types whose values hold no others."""

_TYPE_OF_ERROR = re.compile(r"cannot pickle '(?:[\w.]*\.)?([\w]+)' object")


class Refused(Exception):
    """A value cannot be kept.

    Args:
        words: what it is.
        value: the value.
    """

    def __init__(self, words: str, value: Any) -> None:
        super().__init__(words)
        self.words = words
        self.value = value


class NeedsThorough(Exception):
    """The pickler must look at every object."""


# A metaclass may answer for its classes whatever it likes; these ask the classes themselves.
mro_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
vars_of: Callable[[type], Any] = type.__dict__["__dict__"].__get__
_module_of = type.__dict__["__module__"].__get__
_qualname_of = type.__dict__["__qualname__"].__get__


def is_class(value: object) -> bool:
    """Whether a value is a class."""
    return type in mro_of(type(value))


def full_name(kind: type) -> str:
    """Module and name of a type."""
    return f"{_module_of(kind)}.{_qualname_of(kind)}"


def shown_name(kind: type) -> str:
    """Name of a type as a reader wants it."""
    return full_name(kind).replace("builtins.", "", 1).replace("__main__.", "", 1)[:200]


def _names(mro: tuple[type, ...]) -> list[str]:
    return [full_name(kind) for kind in mro]


def refusal(mro: tuple[type, ...]) -> str | None:
    """What values of a type are, where they cannot be kept.

    Args:
        mro: the type and its bases.
    """
    for name in _names(mro):
        if name in _REFUSED:
            return _REFUSED[name]
        if name.startswith(_OURS):
            return "a part of the sandbox"
    return None


_OURS = __name__.rpartition(".")[0] + "."


def immutable(kind: type) -> bool:
    """Whether it makes no difference if two variables share a value of this type or have one each."""
    mro = mro_of(kind)
    # A subclass of a plain type has attributes that can be set.
    return kind in _PLAIN or enum.Enum in mro or types.ModuleType in mro or any(name in _FIXED for name in _names(mro))


def singletons(kind: type) -> dict[int, str]:
    """Names of the values of a type that its own module holds, by identity: they are compared with `is`."""
    home = _module_of(kind)
    module = sys.modules.get(home)
    if home in ("builtins", "__main__") or not isinstance(module, types.ModuleType):
        return {}
    return {id(value): name for name, value in list(vars(module).items()) if type(value) is kind}


def words_of(error: BaseException) -> str:
    """What is the matter, from an exception that pickling or unpickling raised.

    Args:
        error: raised by code of the user or of a library; its text may be hostile.
    """
    try:
        text = str(error)
    except BaseException as failure:
        text = f"<no text: {type(failure).__name__}>"
    found = _TYPE_OF_ERROR.search(text) if isinstance(error, TypeError) else None
    if found:
        return f"a value of type {found.group(1)} cannot be kept"
    return f"{type(error).__name__}: {text[:200]}"
