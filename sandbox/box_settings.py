"""Settings of the interpreter that are no variables: random numbers, folder, search path, environment and the like.

Runs inside the box, in the worker. They are taken before the fork that makes a snapshot, because `random` reseeds
itself in a fork. A library's settings wait until it is imported.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import contextlib
import importlib
import linecache
import os
import pickle
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

from .box_budget import silence
from .box_code import CELL_PREFIX, Compiler
from .box_imports import after_import
from .box_kinds import words_of
from .box_loading import PYTHON
from .box_memory import Start

_IMPORT = re.compile(r"^[ \t]*import[ \t]+([\w., \t]+)", re.MULTILINE)


class Settings:
    """The settings of a session.

    Args:
        compiler: of its cells.
        root: the workspace; a current folder elsewhere is not kept.
        start: what the interpreter began with.
    """

    def __init__(self, compiler: Compiler, root: str, start: Start) -> None:
        self._compiler = compiler
        self._root = root
        self._start = start
        self._imported: set[str] = set()
        """Submodules that cells have imported."""
        self._searched: set[str] = set()

    def take(self) -> dict[str, Any]:
        """The settings as they are now. Cheap, and free of code of the user; `pack` does the rest."""
        taken: dict[str, Any] = {"python": PYTHON, "future": self._compiler.future, "imports": self._submodules()}
        environment = dict(os.environ)
        taken["environment"] = {
            name: environment.get(name)
            for name in sorted(environment.keys() | self._start.environment.keys())
            if environment.get(name) != self._start.environment.get(name)
        }
        taken["path"] = [folder for folder in sys.path if folder not in self._start.path and isinstance(folder, str)]
        with contextlib.suppress(OSError):
            folder = os.getcwd()
            if folder == self._root or folder.startswith(self._root + "/"):
                taken["folder"] = folder
        for name, (read, _) in _LIBRARIES.items():
            library = sys.modules.get(name)
            if library is not None:
                # A library that is half imported, or patched, has none. One may warn of options that are to go.
                with contextlib.suppress(Exception), silence():
                    taken[name] = read(library)
        if list(warnings.filters) != self._start.filters:
            taken["warnings"] = list(warnings.filters)
        return taken

    def _submodules(self) -> list[str]:
        """Submodules that cells have imported by `import package.module`, which a package does not import by itself."""
        for filename, entry in list(linecache.cache.items()):
            if filename.startswith(CELL_PREFIX) and filename not in self._searched and len(entry) > 1:
                self._searched.add(filename)
                for names in _IMPORT.findall("".join(entry[2])):
                    self._imported.update(part.split(" as ")[0].strip() for part in names.split(","))
        return sorted(name for name in self._imported if "." in name and name in sys.modules)

    def begin_restore(self, settings: dict[str, Any]) -> list[str]:
        """Do what must be done before the variables are loaded: folder, search path, environment, imports.

        Returns:
            What could not be done, in words.
        """
        problems: list[str] = []
        for name, value in settings["environment"].items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        sys.path.extend(folder for folder in settings["path"] if folder not in sys.path)
        if "folder" in settings:
            try:
                os.chdir(settings["folder"])
            except OSError as error:
                problems.append("the current folder {} is not there: {}".format(settings["folder"], error.strerror))
        for name in settings["imports"]:
            try:
                with silence():
                    importlib.import_module(name)
                self._imported.add(name)
            except BaseException as error:
                problems.append(f"the module {name} cannot be imported here: {words_of(error)}")
        return problems

    def end_restore(self, settings: dict[str, Any]) -> list[str]:
        """Do what must be done after: the state of random numbers, and options of libraries.

        Returns:
            What could not be done, in words.
        """
        problems: list[str] = []
        self._compiler.future = settings["future"]
        if "warnings" in settings:
            warnings.resetwarnings()
            warnings.filters[:] = settings["warnings"]  # type: ignore[index]
        for name, (_, write) in _LIBRARIES.items():
            if name in settings:
                after_import(name, _setting(name, write, settings[name], problems))
        return problems

    def reseed(self, settings: dict[str, Any]) -> None:
        """Set the state of random numbers once more."""
        for name in ("random", "numpy.random"):
            if name in settings and name in sys.modules:
                with contextlib.suppress(Exception):
                    _LIBRARIES[name][1](sys.modules[name], settings[name])


def _setting(name: str, write: Callable[[Any, Any], None], value: Any, problems: list[str]) -> Callable[[Any], None]:
    def call(library: Any) -> None:
        try:
            write(library, value)
        except Exception as error:
            problems.append(f"the settings of {name} could not be restored: {words_of(error)}")

    return call


def pack(settings: dict[str, Any]) -> bytes:
    """Settings as bytes. A setting that cannot be pickled is left out."""
    packed = {}
    for name, value in settings.items():
        with contextlib.suppress(Exception):
            packed[name] = pickle.dumps(value, 5)
    return pickle.dumps(packed, 5)


def unpack(data: Any) -> dict[str, Any]:
    """Settings from bytes. A setting that cannot be unpickled here is left out.

    Raises:
        ValueError: the snapshot was made by another version of Python.
    """
    settings = {}
    for name, value in pickle.loads(data).items():
        with contextlib.suppress(Exception):
            settings[name] = pickle.loads(value)
    if settings.get("python") != PYTHON:
        raise ValueError("the snapshot was made by Python {}, and this is {}".format(settings.get("python"), PYTHON))
    return settings


# -- libraries ----------------------------------------------------------------------------------------------------


def _matplotlib_changes(matplotlib: Any) -> dict[str, Any]:
    default = matplotlib.rcParamsDefault
    get = dict.__getitem__  # asking the parameters themselves for the backend would choose one
    return {
        name: get(matplotlib.rcParams, name)
        for name in matplotlib.rcParams
        if "backend" not in name and name in default and get(matplotlib.rcParams, name) != get(default, name)
    }


def _pandas_changes(pandas: Any) -> dict[str, Any]:
    known = sys.modules["pandas._config.config"]._registered_options
    return {
        name: pandas.get_option(name)
        for name, option in known.items()
        if pandas.get_option(name) is not option.defval and pandas.get_option(name) != option.defval
    }


def _set_pandas(pandas: Any, options: dict[str, Any]) -> None:
    for name, value in options.items():
        pandas.set_option(name, value)


_LIBRARIES: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], None]]] = {
    "random": (lambda random: random.getstate(), lambda random, state: random.setstate(state)),
    "decimal": (lambda decimal: decimal.getcontext().copy(), lambda decimal, context: decimal.setcontext(context)),
    "numpy.random": (lambda random: random.get_state(), lambda random, state: random.set_state(state)),
    "numpy": (
        lambda numpy: numpy.get_printoptions(),
        lambda numpy, options: numpy.set_printoptions(**options),
    ),
    "matplotlib": (
        _matplotlib_changes,
        lambda matplotlib, changes: matplotlib.rcParams.update(changes),
    ),
    "pandas": (_pandas_changes, _set_pandas),
}
"""How to read and to set what a library has for settings, by module."""
