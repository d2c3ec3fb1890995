"""Values that cross between a cell and the host: JSON, with bytes and tables tagged in it; never a pickle.

Both sides use it. In the box: standard library only, Python 3.9 and later; pandas, numpy and pyarrow are used where
they are loaded, or where a table comes that needs them.
"""

from __future__ import annotations

import base64
import datetime
import importlib.util
import json
import pathlib
import sys
from collections.abc import Callable
from typing import Any

TAG = "$actloop"
"""Key of an object that stands for something which JSON does not know."""
MAX_TEXT = 20 << 20
"""Bytes of a value on its way: quotes count twice, since it is a text within a text. A message must fit in a line."""

_b64encode, _b64decode = base64.b64encode, base64.b64decode
_loads = json.JSONDecoder().decode
_find_spec = importlib.util.find_spec


def has_arrow() -> bool:
    """Whether tables can be read and written here as Arrow."""
    if "pyarrow" in sys.modules:
        return True
    try:
        return _find_spec("pyarrow") is not None
    except (ImportError, ValueError):
        return False


def encode(value: Any, arrow: bool) -> str:
    """Write a value as text.

    Args:
        value: plain data, bytes, a table of pandas or pyarrow, or a list or dict of such; dates become text, sets and
            arrays become lists.
        arrow: the other side reads Arrow; else a table crosses as its rows.

    Raises:
        TypeError, ValueError, RecursionError: it is something else, goes in circles, or is too large.
    """
    text = json.JSONEncoder(default=_default(arrow and has_arrow())).encode(value)
    size = len(text) + text.count('"') + text.count("\\")
    if size > MAX_TEXT:
        raise ValueError(f"it has {size} bytes, and {MAX_TEXT} may cross: pass less, or a part at a time")
    return text


def decode(text: str) -> Any:
    """Read what `encode` wrote.

    Raises:
        ValueError: it is no such text.
    """
    if TAG not in text:
        return _loads(text)
    return json.JSONDecoder(object_hook=_tagged).decode(text)


def _default(arrow: bool) -> Callable[[Any], Any]:
    def default(value: Any) -> Any:
        if isinstance(value, (bytes, bytearray, memoryview)):
            return {TAG: "bytes", "data": _b64encode(value).decode("ascii")}
        if isinstance(value, (set, frozenset)):
            return list(value)
        if isinstance(value, (datetime.date, datetime.time)):
            return value.isoformat()
        if isinstance(value, pathlib.PurePath):
            return str(value)
        found = _of_library(value, arrow)
        if found is None:
            raise TypeError(f"a {type(value).__name__} cannot cross")
        return found[0]

    return default


def _of_library(value: Any, arrow: bool) -> tuple[Any] | None:
    pandas, numpy, pyarrow = (sys.modules.get(name) for name in ("pandas", "numpy", "pyarrow"))
    if pandas is not None and isinstance(value, pandas.DataFrame):
        return (_table(value, "pandas", arrow),)
    if pyarrow is not None and isinstance(value, pyarrow.Table):
        return (_table(value, "arrow", arrow),)
    if pandas is not None and isinstance(value, (pandas.Series, pandas.Index)):
        return (value.tolist(),)
    if numpy is not None and isinstance(value, (numpy.generic, numpy.ndarray)):
        return (value.tolist(),)
    return None


def _table(value: Any, kind: str, arrow: bool) -> dict[str, Any]:
    """A table as Arrow, where it can be, else as rows."""
    if arrow:
        import pyarrow  # 0.2 s that only a table should cost

        try:
            table = pyarrow.Table.from_pandas(value) if kind == "pandas" else value
            sink = pyarrow.BufferOutputStream()
            with pyarrow.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            return {TAG: kind, "data": _b64encode(sink.getvalue()).decode("ascii")}
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError):
            # A column of mixed objects, for example.
            pass
    if kind == "pandas":
        return {TAG: "rows", "columns": [str(name) for name in value.columns], "rows": value.values.tolist()}
    return {TAG: "rows", "columns": value.column_names, "rows": [list(row.values()) for row in value.to_pylist()]}


def _tagged(found: dict[str, Any]) -> Any:
    kind = found.get(TAG)
    if kind == "bytes":
        return _b64decode(found["data"], validate=True)
    if kind in ("pandas", "arrow"):
        import pyarrow

        table = pyarrow.ipc.open_stream(_b64decode(found["data"], validate=True)).read_all()
        # What a box sends may be forged: offsets that point elsewhere are found before anything follows them.
        table.validate(full=True)
        return table.to_pandas() if kind == "pandas" else table
    if kind == "rows":
        columns, rows = found["columns"], found["rows"]
        try:
            import pandas
        except ImportError:
            return [dict(zip(columns, row)) for row in rows]  # noqa: B905 - Python 3.9 has no `strict`
        return pandas.DataFrame(rows, columns=columns)
    return found
