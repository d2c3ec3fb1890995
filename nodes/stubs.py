"""What the model is told of the functions that cells may call: few, and a line each."""

from collections.abc import Sequence

from actloop.sandbox.host_functions import HostFunction

MAX_SHOWN = 20
"""Functions of which the signature is shown; of those beyond it only the name."""
MAX_LINE = 400
_ASK = "- ask_user(question: str): End the cell and the run with a question that only the user can answer."


def stubs(functions: Sequence[HostFunction]) -> str:
    """The functions with their signatures and the first line of what they do; nothing where there are none."""
    if not functions:
        return ""
    # What the caller gave comes before what every agent has: it stands first in the sequence.
    lines = [_line(function) for function in functions[:MAX_SHOWN]]
    rest = [function.name for function in functions[MAX_SHOWN:]]
    if rest:
        lines.append(f"- and {', '.join(rest)}")
    return (
        "\nThese functions can be called in a cell like any other, without an import; they run outside the sandbox. In "
        "a coroutine each call is awaited. help(name) shows more.\n" + "\n".join([*lines, _ASK]) + "\n"
    )


def _line(function: HostFunction) -> str:
    doc = (function.doc.strip().splitlines() or [""])[0].strip()
    line = f"- {function.name}{function.signature}" + (f": {doc}" if doc else "")
    return line if len(line) <= MAX_LINE else line[: MAX_LINE - 4] + " ..."
