"""Variables of the session: what a cell did to them, and how the model reads them.

Runs inside the box, in the worker. Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

MAX_NAMES = 200
"""Names described at most."""

_SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset)
_SHAPED = ("numpy", "pandas", "polars", "torch", "scipy", "pyarrow", "geopandas", "xarray")


def user_names(namespace: dict[str, Any]) -> dict[str, int]:
    """Names that user code made, and the identity of each value."""
    return {name: id(value) for name, value in list(namespace.items()) if isinstance(name, str) and not _hidden(name)}


def _hidden(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def describe(name: str, value: object) -> dict[str, str]:
    """A variable as a `NameInfo` record. Only looks at types that are known to answer without side effects."""
    kind = type(value)
    module = getattr(kind, "__module__", "")
    detail = ""
    if module.split(".")[0] in _SHAPED:
        shape = getattr(value, "shape", None)
        if isinstance(shape, tuple) and all(isinstance(size, int) for size in shape):
            detail = " x ".join(str(size) for size in shape) if shape else "scalar"
    elif kind in _SIZED:
        detail = f"len {len(value)}"  # type: ignore[arg-type]
    elif isinstance(value, (bool, float, complex)) and kind in (bool, float, complex):
        detail = repr(value)
    elif isinstance(value, int) and kind is int:
        # Python refuses to write out integers of thousands of digits.
        detail = repr(value) if abs(value) < 10**30 else "a large number"
    text = (
        kind.__qualname__
        if module in ("builtins", "__main__")
        else "{}.{}".format(module.split(".")[0], kind.__qualname__)
    )
    return {"name": name[:200], "type": text[:200], "detail": detail[:200]}


def _described(name: str, value: object) -> dict[str, str]:
    try:
        return describe(name, value)
    except Exception:
        # A class may refuse even to tell its name.
        return {"name": name[:200], "type": "object", "detail": ""}


def changes(
    before: dict[str, int], after: dict[str, int], namespace: dict[str, Any], stored: set[str]
) -> dict[str, list[Any]] | None:
    """What a cell did to the names, as a `Names` record; None if nothing.

    Args:
        before: `user_names` before the cell.
        after: `user_names` now.
        namespace: as it is now.
        stored: names that the cell's text stores to: an equal identity proves nothing there, since a freed value's
            place may have been taken by the new one.
    """
    if before == after and stored.isdisjoint(after):
        return None

    def described(names: Iterable[str]) -> list[dict[str, str]]:
        chosen = [name for name in names if not issubclass(type(namespace.get(name)), ModuleType)]
        return [_described(name, namespace.get(name)) for name in sorted(chosen)[:MAX_NAMES]]

    return {
        "created": described(name for name in after if name not in before),
        "changed": described(
            name for name, place in after.items() if name in before and (place != before[name] or name in stored)
        ),
        "deleted": sorted(name for name in before if name not in after)[:MAX_NAMES],
    }
