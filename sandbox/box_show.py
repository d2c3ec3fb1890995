"""Figures, tables and other things a cell shows, and its value and answer as text.

Runs inside the box, in the worker. Standard library only, Python 3.9 and later; matplotlib and pandas are used where
the cell has imported them.
"""

from __future__ import annotations

import base64
import io
import json
import sys
from collections.abc import Callable
from typing import Any

MAX_VALUE = 16 << 10
"""Characters kept of a value's `repr`."""
MAX_DISPLAYS = 32
MAX_DISPLAY_BYTES = 8 << 20
"""Size of all displays of one cell."""

_ENDINGS = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/svg+xml": "svg",
    "text/html": "html",
    "application/json": "json",
}
_KINDS = {"image/png": "figure", "image/jpeg": "figure", "image/svg+xml": "figure", "text/html": "table"}


def text_of(value: object) -> str:
    """`repr` of a value, bounded; a value whose `repr` fails is named by its type."""
    try:
        text = repr(value)
    except Exception as error:
        if type(value) is int:
            return f"<an integer of {value.bit_length()} bits; too many digits to write out>"
        return f"<{type(value).__qualname__} whose repr fails: {type(error).__name__}>"
    if len(text) > MAX_VALUE:
        half = MAX_VALUE // 2
        text = f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
    return text


def answer_of(value: object) -> tuple[str, str]:
    """A final answer as text and type name: a text as it is, plain data and records as JSON, all else by its `repr`."""
    name = type(value).__qualname__
    if isinstance(value, str):
        return value[: 4 * MAX_VALUE], name
    try:
        if getattr(value, "ndim", 0):
            raise TypeError("a table or an array reads better as it prints itself")
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_record_of)
    except Exception:
        # Whatever the value's own methods raise.
        text = text_of(value)
    return text[: 4 * MAX_VALUE], name


def _record_of(value: object) -> object:
    """What stands inside an answer, as plain data: a record, a number, a table or a date of any library."""
    kind = type(value)
    if hasattr(kind, "__dataclass_fields__"):
        # Whoever has a dataclass has imported this.
        names = [field.name for field in sys.modules["dataclasses"].fields(value)]
        return {name: getattr(value, name) for name in names}
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    options = {"model_dump": {"mode": "json"}, "to_dict": {"orient": "records"} if hasattr(kind, "columns") else {}}
    for method in ("model_dump", "to_dict", "tolist", "isoformat"):
        if callable(getattr(kind, method, None)):
            return getattr(value, method)(**options.get(method, {}))
    raise TypeError(f"a {kind.__name__} is no plain data")


class Shows:
    """Displays of the running cell.

    Args:
        send: takes each `Display` record (data in base64) as it is made.
    """

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        self._send = send
        self.begin()

    def begin(self) -> None:
        """Forget the displays of the cell before."""
        self._count = 0
        self._size = 0
        self._numbers: dict[str, int] = {}
        self._shown: set[int] = set()
        self.notes: list[str] = []

    def display(self, *values: object, **_ignored: object) -> None:
        """Show values: figures and images as pictures, tables as HTML, everything as text too."""
        for value in values:
            if not self.rich(value):
                print(value if isinstance(value, str) else text_of(value))

    def rich(self, value: object) -> bool:
        """Show what a value has besides its text.

        Returns:
            Whether that says it all, so that its text need not be printed: true for pictures.
        """
        made = _png(value)
        if made is not None:
            self._shown.add(id(value))
            self.add("image/png", made)
            return True
        markup = _call(value, "_repr_html_")
        if isinstance(markup, str):
            self.add("text/html", markup.encode("utf-8", "replace"))
        return False

    def figures(self) -> None:
        """Show the figures that pyplot has open, and close them, as a notebook does."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None:
            return
        for number in pyplot.get_fignums():
            figure = pyplot.figure(number)
            if id(figure) not in self._shown:
                self.rich(figure)
        pyplot.close("all")

    def add(self, media_type: str, data: bytes) -> None:
        """Hand a display on, unless the cell has shown too much already."""
        if self._count >= MAX_DISPLAYS or self._size + len(data) > MAX_DISPLAY_BYTES:
            self.notes = [f"displays were left out: over {MAX_DISPLAYS}, or over {MAX_DISPLAY_BYTES >> 20} MiB in all"]
            return
        self._count += 1
        self._size += len(data)
        kind = _KINDS.get(media_type, "display")
        self._numbers[kind] = self._numbers.get(kind, 0) + 1
        name = "{}-{}.{}".format(kind, self._numbers[kind], _ENDINGS.get(media_type, "bin"))
        self._send({"media_type": media_type, "data": base64.b64encode(data).decode("ascii"), "name": name})


def _call(value: object, method: str) -> Any:
    """Result of a notebook's display method; None where there is none or it fails."""
    if isinstance(value, type):
        return None
    try:
        function = getattr(type(value), method, None)
        return function(value) if callable(function) else None
    except Exception:
        return None


def _png(value: object) -> bytes | None:
    """A picture of a matplotlib figure, an image, or anything with `_repr_png_`."""
    kind = type(value)
    module = getattr(kind, "__module__", "")
    if module.startswith("matplotlib.") and hasattr(value, "savefig"):
        buffer = io.BytesIO()
        try:
            value.savefig(buffer, format="png")
        except Exception as error:
            print(f"the figure cannot be drawn: {type(error).__name__}: {error}", file=sys.stderr)
            return None
        return buffer.getvalue()
    if module.startswith("plotly.") and hasattr(value, "to_image"):
        try:
            picture = value.to_image(format="png")
        except Exception:
            return None
        return picture if isinstance(picture, bytes) else None
    made = _call(value, "_repr_png_")
    return made if isinstance(made, bytes) else None
