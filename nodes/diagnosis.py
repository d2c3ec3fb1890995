"""What went wrong with a cell, by kind of failure, and what to do about it; short enough to be read."""

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

from actloop.protocols import ErrorInfo, Execution

from .nearby import Here, near

Kind: TypeAlias = Literal[
    "syntax",
    "name",
    "import",
    "attribute",
    "type",
    "key",
    "index",
    "value",
    "file",
    "encoding",
    "layout",
    "input",
    "network",
    "time",
    "memory",
    "crash",
    "exit",
    "lost",
    "policy",
    "other",
]
_BY_OUTCOME: dict[str, tuple[Kind, str]] = {
    "timeout": (
        "time",
        "It ran into the time limit. Work on part of the data, use a faster method, or take several cells.",
    ),
    "out_of_memory": (
        "memory",
        "It needed more memory than there is. Read or keep less: chosen columns, chunks, smaller types.",
    ),
    "crashed": (
        "crash",
        "The interpreter itself broke. Avoid the call that broke it, or do the work another way.",
    ),
    "exit": ("exit", "The cell left the interpreter. Let it run to its end instead, without exit or os._exit."),
    "lost": (
        "lost",
        "The sandbox was replaced. Make again what is told above to be missing, then send the cell again.",
    ),
}

_BY_ERROR: dict[str, tuple[Kind, str]] = {
    "ModuleNotFoundError": ("import", "That package is not installed and none can be."),
    "ImportError": ("import", "That name is not in the module; check its version and look it up with dir()."),
    "NameError": ("name", "Define or import that name first; cells that failed may not have set it."),
    "UnboundLocalError": ("name", "The function assigns that name later on; set it before, or declare it global."),
    "SyntaxError": ("syntax", "The code could not be read as Python; mend the line that is named."),
    "IndentationError": ("syntax", "The indentation is off at the line that is named."),
    "TabError": ("syntax", "Tabs and spaces are mixed; indent with spaces only."),
    "AttributeError": ("attribute", "The object has no such attribute; look at type() and dir() of it."),
    "TypeError": ("type", "A value has another type, or a function other parameters; print type() of what goes in."),
    "KeyError": ("key", "There is no such key or column; print those that there are."),
    "IndexError": ("index", "There are fewer items than that; print the length first, and think of the empty case."),
    "ValueError": ("value", "A value does not fit; print the value, or some of the column, and clean it first."),
    "ZeroDivisionError": ("value", "Something is divided by zero; find out which value it is and leave it out."),
    "OverflowError": ("value", "The number is too large; use another type or the logarithm."),
    "AssertionError": ("value", "An assertion of the code does not hold; print what it compares."),
    "FileNotFoundError": ("file", "There is no such file."),
    "IsADirectoryError": ("file", "That is a folder; name a file in it."),
    "PermissionError": ("file", "That place cannot be written or read; use the current folder."),
    "UnicodeDecodeError": (
        "encoding",
        "Another encoding: try encoding='latin-1', or look at the first bytes.",
    ),
    "ParserError": ("layout", "The file is not laid out as the reader expects; look at its first lines as text."),
    "EmptyDataError": ("layout", "The file is empty; look at its size, and at which file is meant."),
    "JSONDecodeError": ("layout", "The text is not JSON; look at its beginning."),
    "EOFError": ("input", "Nobody can type input; put the value into the code."),
    "MemoryError": (
        "memory",
        "It needed more memory than there is. Read or keep less: chosen columns, chunks, smaller types.",
    ),
    "RecursionError": ("value", "The function calls itself without an end; check where it stops, or use a loop."),
}

_NETWORK = re.compile(
    r"urlopen error|Temporary failure in name resolution|Network is unreachable|ConnectionError", re.I
)


def kind_of(execution: Execution) -> Kind:
    """The kind of failure."""
    return _rule(execution)[0]


def advice(execution: Execution, left: str, here: Here | None = None, tried: Sequence[str] = ()) -> str:
    """What to do about a failure.

    Args:
        execution: of the cell that failed.
        left: how many attempts are left, in a sentence.
        here: what there is in the sandbox.
        tried: what failed before in this run, one line each.

    Returns:
        A few lines; the observation before it holds the error itself.
    """
    kind, hint = _rule(execution)
    error = execution.error
    meant = near(error, here or Here()) if error is not None and kind != "network" else ""
    lines = [f"The cell failed ({kind}{_where(error)}). {hint}{' ' + meant if meant else ''}"]
    if tried:
        lines += ["Tried before, without success:", *(f"- {line}" for line in tried)]
    lines.append(f"Send a corrected cell{' that does something else' if tried else ''}. {left}")
    return "\n".join(lines)


def _rule(execution: Execution) -> tuple[Kind, str]:
    if execution.outcome in _BY_OUTCOME:
        return _BY_OUTCOME[execution.outcome]
    error = execution.error
    if error is not None and _NETWORK.search(f"{error.type} {error.message}"):
        return "network", "There is no network; work with the files that are here."
    name = error.type.rpartition(".")[2] if error else ""
    return _BY_ERROR.get(name, ("other", "Find out why before you change the code."))


def _where(error: ErrorInfo | None) -> str:
    return f", line {error.line}" if error is not None and error.line is not None else ""
