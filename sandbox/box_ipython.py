"""`IPython.display` for code written with a notebook in mind, where the image has no IPython. Runs inside the box.

Models write `from IPython.display import display` by habit; that should show a table and not end a cell.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import html
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable
from typing import Any


class Shown:
    """Something with a text, and with HTML or a picture besides."""

    def __init__(self, data: Any = None, filename: Any = None, **_ignored: Any) -> None:
        if filename is not None:
            with open(filename, "rb") as file:
                data = file.read()
        self.data = data

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>" if isinstance(self.data, bytes) else str(self.data)


class HTML(Shown):
    """HTML as it is."""

    def _repr_html_(self) -> str:
        return str(self.data)


class Markdown(Shown):
    """Markdown, which is shown as text."""

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self.data))}</pre>"


class Image(Shown):
    """A PNG from bytes or a file."""

    def _repr_png_(self) -> bytes | None:
        return self.data if isinstance(self.data, bytes) and self.data.startswith(b"\x89PNG") else None


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, display: Callable[..., None]) -> None:
        self._names: dict[str, Any] = {
            "display": display,
            "HTML": HTML,
            "Markdown": Markdown,
            "Image": Image,
            "clear_output": lambda *_args, **_kwargs: None,
        }

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname not in ("IPython", "IPython.display"):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=fullname == "IPython")

    def create_module(self, spec: Any) -> Any:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        if module.__name__ == "IPython.display":
            module.__dict__.update(self._names)
        else:
            module.__dict__["get_ipython"] = lambda: None


def offer_ipython(display: Callable[..., None]) -> None:
    """Offer `IPython.display` after every other way to import it has failed.

    Args:
        display: shows values.
    """
    sys.meta_path.append(_Finder(display))
