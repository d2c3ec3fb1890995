"""What to say about a failed cell: advice by the kind of failure, short enough to be read."""

import re

from actloop.protocols import Execution

_BY_OUTCOME = {
    "timeout": "It ran into the time limit. Work on part of the data, use a faster method, or take several cells.",
    "out_of_memory": "It needed more memory than there is. Read or keep less: chosen columns, chunks, smaller types.",
    "crashed": "The interpreter itself broke. Avoid the call that broke it, or do the work another way.",
    "exit": "The cell left the interpreter. Let it run to its end instead, without exit or os._exit.",
    "lost": "The sandbox was replaced. Make again what is told above to be missing, then send the cell again.",
}

_BY_ERROR: tuple[tuple[str, str], ...] = (
    ("ModuleNotFoundError", "That package is not installed and none can be; use one that is listed as installed."),
    ("ImportError", "That name is not in the module; check its version and look it up with dir()."),
    ("NameError", "Define or import that name first, or check its spelling; cells that failed may not have set it."),
    ("SyntaxError", "The code could not be read as Python; mind the line that is named."),
    ("IndentationError", "The indentation is off at the line that is named."),
    ("FileNotFoundError", "There is no such file; list what is there with os.listdir()."),
    ("KeyError", "There is no such key or column; print what there is before using it."),
    ("UnicodeDecodeError", "The file has another encoding; try encoding='latin-1' or look at its first bytes."),
    ("EOFError", "Nobody can type input; put the value into the code."),
    ("PermissionError", "That place cannot be written or read; use the current folder."),
    ("ParserError", "The file is not laid out as the reader expects; look at its first lines as text."),
)

_NETWORK = re.compile(
    r"urlopen error|Temporary failure in name resolution|Network is unreachable|ConnectionError", re.I
)


def advice(execution: Execution, left: str) -> str:
    """What to do about a failure.

    Args:
        execution: of the cell that failed.
        left: how many attempts are left, in a sentence.

    Returns:
        One or two lines; the observation before it holds the error itself.
    """
    error = execution.error
    hint = _BY_OUTCOME.get(execution.outcome, "")
    if not hint and error is not None:
        name = error.type.rpartition(".")[2]
        hint = next((text for kind, text in _BY_ERROR if kind == name), "Find out why before you change the code.")
        if _NETWORK.search(f"{error.type} {error.message}"):
            hint = "There is no network; work with the files that are here."
    return f"The cell failed. {hint or 'Find out why before you change the code.'} Send a corrected cell. {left}"
