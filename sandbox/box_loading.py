"""From bytes back to the variables of the interpreter. Runs inside the box, in the worker.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import contextlib
import gc
import pickle
import sys
from collections.abc import Sequence
from typing import Any

from . import box_makers
from .box_budget import silence
from .box_kinds import words_of

PYTHON = "{}.{}".format(*sys.version_info)
"""Version of Python that must be the same when variables are loaded: code is kept as byte code."""


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, name: str) -> Any:
        """The namespaces that `ThoroughPickler` names."""
        return {"globals": box_makers.the_namespace(), "builtins": vars(sys.modules["builtins"])}[name]


def load(
    names: Sequence[str], contents: Sequence[Any], namespace: dict[str, Any], class_cells: dict[str, str]
) -> dict[str, str]:
    """Make the variables of one unit again. The units that it needs must have been loaded before.

    Args:
        names: of the variables, as saved.
        contents: as saved. Arrays that can be written to need buffers that can be: others are copied.
        namespace: the dict of `__main__`, where the variables go.
        class_cells: see `Compiler.class_cells`; classes of the unit are entered.

    Returns:
        Why a variable could not be made, by name.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        with silence(), box_makers.making_in(box_makers.Place(namespace, class_cells)):
            buffers = [_writable(content) for content in contents[1:]]
            values = _Unpickler(_Stream(contents[0]), buffers=buffers).load()
    except BaseException as error:
        why = _why_not(error)
        return dict.fromkeys(names, why)
    finally:
        if collecting:
            gc.enable()
    for at, name in enumerate(names):
        namespace[name] = values[at]
    return {}


class _Stream:
    """Reads from memory without a copy of the whole."""

    def __init__(self, content: Any) -> None:
        self._content = memoryview(content)
        self._at = 0

    def read(self, size: int) -> bytes:
        start, self._at = self._at, min(self._at + size, len(self._content))
        return bytes(self._content[start : self._at])

    def readinto(self, target: Any) -> int:
        start, self._at = self._at, min(self._at + len(target), len(self._content))
        target[: self._at - start] = self._content[start : self._at]
        return self._at - start

    def readline(self) -> bytes:
        rest = bytes(self._content[self._at :])
        return self.read(rest.find(b"\n") + 1 or len(rest))


def _writable(content: Any) -> Any:
    view = memoryview(content)
    return bytearray(view) if view.readonly else view


def _why_not(error: BaseException) -> str:
    """The reason why a variable could not be made."""
    if isinstance(error, box_makers.NotRestored):
        return f"it needs {error}, which could not be restored"
    if isinstance(error, ModuleNotFoundError):
        return f"the module {error.name} cannot be imported here"
    if isinstance(error, MemoryError):
        return "there is not enough memory to restore it"
    with contextlib.suppress(Exception):
        return f"restoring it raised {words_of(error)}"
    return f"restoring it raised {type(error).__name__}"
