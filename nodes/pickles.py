"""Pickled data looked at without loading it."""

import pickletools
from collections.abc import Iterator

_SAFE_MODULES = (
    "builtins",
    "collections",
    "copyreg",
    "datetime",
    "decimal",
    "fractions",
    "numpy",
    "pandas",
    "pathlib",
    "uuid",
    "_codecs",
    "__main__",
)
_UNSAFE_BUILTINS = frozenset({"eval", "exec", "compile", "open", "getattr", "__import__", "breakpoint", "input"})


def unsafe_globals(data: bytes) -> list[str]:
    """Functions that loading this pickle would call and that no plain data needs; `os.system` for example."""
    found = []
    for module, name in _globals(data):
        root = module.partition(".")[0]
        unsafe = name in _UNSAFE_BUILTINS if root in {"builtins", "__builtin__"} else root not in _SAFE_MODULES
        if unsafe:
            found.append(f"{module}.{name}")
    return found


def _globals(data: bytes) -> Iterator[tuple[str, str]]:
    texts: list[str] = []
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if isinstance(argument, str):
                texts.append(argument)
            if opcode.name in {"GLOBAL", "INST"} and isinstance(argument, str):
                module, _, name = argument.partition(" ")
                yield module, name
            elif opcode.name == "STACK_GLOBAL" and len(texts) > 1:
                yield texts[-2], texts[-1]
    except Exception:  # the data may be anything; what was read until here counts
        return
