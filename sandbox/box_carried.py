"""Parts that travel with the program and are loaded when they are first needed. Runs inside the box, in the worker.

They are what snapshots need, cloudpickle among it, which so need not be in the image. Compiling them takes longer than
the rest of the worker, and the first cell need not wait for it. cloudpickle is loaded under a name of our own, which
leaves alone the one that the image may have in another version.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import base64
import json
import sys
import types
import zlib
from typing import Any

TEXTS: list[str] = []
"""What `pack` made; filled by the program that starts the worker."""

_loaded: dict[str, Any] = {}
_modules = sys.modules


def pack(parts: list[tuple[str, str]]) -> str:
    """Make parts short enough to be sent to every box.

    Args:
        parts: name and source text of each, those first that others import.
    """
    return base64.b85encode(zlib.compress(json.dumps(parts).encode(), 9)).decode("ascii")


def carried(name: str) -> Any:
    """A part that was sent along, by its name.

    Raises:
        KeyError: it was not.
    """
    while TEXTS:
        for part, text in json.loads(zlib.decompress(base64.b85decode(TEXTS.pop()))):
            _loaded[part] = _load(part, text)
    return _loaded[name]


def _load(name: str, text: str) -> types.ModuleType:
    module = types.ModuleType(f"{__package__}.{name}")
    module.__package__ = __package__
    # As in the program itself: user code may have replaced builtins, and functions of modules, or may yet.
    module.__dict__["__builtins__"] = globals()["__builtins__"]
    _modules[module.__name__] = module
    setattr(_modules[__package__], name, module)
    exec(compile(text, f"<actloop {name}>", "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - our own text
    for key, value in list(vars(module).items()):
        if isinstance(value, types.ModuleType) and key not in ("sys", "builtins"):
            own = types.ModuleType(value.__name__)
            own.__dict__.update(vars(value))
            setattr(module, key, own)
    return module
