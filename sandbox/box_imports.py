"""Do something to a module once user code imports it. Runs inside the box, in the worker.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
import types
from collections.abc import Callable
from typing import Any


class _AfterImport(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Call a function once a module has been imported."""

    def __init__(self, name: str, call: Callable[[Any], None]) -> None:
        self._name = name
        self._call = call
        self._real: Any = None

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != self._name or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        self._real, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: Any) -> Any:
        return self._real.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._real
        self._real.exec_module(module)
        self._call(module)


def after_import(name: str, call: Callable[[Any], None]) -> None:
    """Call a function with a module: now if it is there, else when it has been imported."""
    if name in sys.modules:
        call(sys.modules[name])
    else:
        sys.meta_path.insert(0, _AfterImport(name, call))
