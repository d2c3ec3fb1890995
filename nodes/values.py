"""What the safety check knows of a value without running the code.

A value is a known text, a known place in the world of modules (`os.system`, `requests.Session().get`), a sequence of
such values, or a function of the cell itself. What is unknown has no value.
"""

import ast
from dataclasses import dataclass
from typing import TypeAlias

HOLE = "\x00"
"""Stands in a text for a part that is not known."""

MAX_TEXT = 100_000
"""Characters of a text that is followed."""

MAX_ITEMS = 1024
"""Elements of a sequence that are followed."""


@dataclass(frozen=True)
class Text:
    """A string, bytes (as latin-1) or path that is known, up to its holes."""

    value: str
    kind: str = "str"
    """`str`, `bytes` or `path`."""
    decoded: bool = False
    """Whether it came out of an encoding such as base64."""

    @property
    def whole(self) -> bool:
        """Whether every part is known."""
        return HOLE not in self.value


@dataclass(frozen=True)
class Number:
    """An integer that is known."""

    value: int


@dataclass(frozen=True)
class Ref:
    """A module, or something reached from one: `os.system`, `socket.socket()` for its result."""

    path: str

    def attribute(self, name: str) -> "Ref":
        """What `.name` of it is."""
        return Ref(f"{self.path}.{name}" if len(self.path) < 200 else self.path)

    @property
    def result(self) -> "Ref":
        """What calling it gives."""
        return self if self.path.endswith("()") and len(self.path) > 150 else Ref(self.path + "()")


@dataclass(frozen=True)
class Items:
    """A list, tuple or set of expressions, or the values of a dictionary."""

    nodes: tuple[ast.expr, ...]


@dataclass(frozen=True)
class Getter:
    """`operator.attrgetter` with a known name."""

    name: str


@dataclass(frozen=True)
class Local:
    """A function or class of the cell."""

    name: str


Value: TypeAlias = Text | Number | Ref | Items | Getter | Local

SHADOWS = frozenset(
    {
        "os",
        "sys",
        "subprocess",
        "socket",
        "builtins",
        "shutil",
        "ctypes",
        "importlib",
        "posix",
        "pty",
        "pickle",
        "marshal",
    }
)
"""Modules that hang on other modules as attributes."""

_SAME = {
    "posix": "os",
    "nt": "os",
    "_io": "io",
    "_socket": "socket",
    "_ctypes": "ctypes",
    "_pickle": "pickle",
    "cPickle": "pickle",
}
_SUBMODULES = ("asyncio.subprocess",)


def canonical(path: str) -> str:
    """One name for one thing, by whichever way it was reached.

    Standard modules hang on other modules as attributes: `logging.os`, `random._os`, `pandas.io.common.os`.
    """
    parts = path.split(".")
    if not path.startswith(_SUBMODULES):
        for index in range(len(parts) - 1, 0, -1):
            # `socket.socket` is a class; `random._os` is a module.
            if parts[index].lstrip("_") in SHADOWS and parts[index] != parts[index - 1]:
                parts = [parts[index].lstrip("_"), *parts[index + 1 :]]
                break
    parts[0] = _SAME.get(parts[0], parts[0])
    if parts[0] == "__builtins__":
        parts[0] = "builtins"
    return ".".join(parts)


def as_text(value: Value | None) -> Text | None:
    """A value as `str()` would show it in a text, where that is known."""
    match value:
        case Text():
            return value
        case Number():
            return Text(str(value.value)) if abs(value.value) < 10**30 else None
        case _:
            return None
