"""What a run has tried: the same code with the same end is noticed the second time it is sent."""

import ast
import hashlib

from actloop.protocols import Execution

from .run import Attempt, Run

MAX_SAME = 3
"""How often the same code may have the same end: then the model is told to change its plan, and the next time the
run ends."""
MAX_SEEN = 12
"""Different cells with different ends that are remembered: it is all stored with every step."""
MAX_FAILED = 5
"""Failed attempts that are remembered."""
MAX_TOLD = 3
"""Of these, those that the model is told of: the newest ones."""

_AGAIN = {
    (2, True): (
        "\nYou have sent this very code before, and it had this same result. If the output settles the task, give the "
        "FINAL ANSWER now; otherwise send other code."
    ),
    (2, False): (
        "\nYou have sent this very code before, and it failed in this same way. It will not work the next time either: "
        "change what the error names."
    ),
    (MAX_SAME, True): (
        "\nThis is the third time that the same code has had this same result. Change your plan: do something else, "
        "or give the FINAL ANSWER if the output above settles the task."
    ),
    (MAX_SAME, False): (
        "\nThis is the third time that the same code has failed in this same way. Change your plan: reach the goal by "
        "another method, without the line that fails."
    ),
}


def again(times: int, ok: bool) -> str:
    """What the model is told of code that it has sent before; empty the first time."""
    return _AGAIN.get((times, ok), "")


def fingerprint(code: str, execution: Execution) -> str:
    """The same for the same code with the same end; comments and layout make no difference."""
    error = execution.error and (execution.error.type, execution.error.message)
    return _digest(code, (execution.outcome, error, execution.result, execution.output.text))


def _digest(code: str, ending: object) -> str:
    try:
        normal = ast.dump(ast.parse(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        normal = code
    return hashlib.sha256(repr((normal, ending)).encode("utf-8", "replace")).hexdigest()[:16]


def count(run: Run, code: str, execution: Execution) -> int:
    """Note a cell and its end in the run, and say how often it has been."""
    key = fingerprint(code, execution)
    times = _times(run, key)
    if not execution.ok:
        known = [attempt for attempt in run.get("failed", []) if attempt["key"] != key]
        run["failed"] = [*known, Attempt(key=key, cell=run["turns"], error=_ending(execution))][-MAX_FAILED:]
    return times


def count_refused(run: Run, code: str) -> int:
    """Note a cell that was refused, and say how often it has been."""
    return _times(run, _digest(code, "refused"))


def _times(run: Run, key: str) -> int:
    times = run["seen"].pop(key, 0) + 1
    # The one that was seen last stands last; only a run that goes round in a few cells goes in circles.
    run["seen"] = dict([*run["seen"].items(), (key, times)][-MAX_SEEN:])
    return times


def tried(run: Run) -> list[str]:
    """A line on each of the attempts that failed before the last cell, oldest first."""
    before = [attempt for attempt in run.get("failed", []) if attempt["cell"] < run["turns"]]
    return [f"cell {attempt['cell']}: {attempt['error']}" for attempt in before[-MAX_TOLD:]]


def _ending(execution: Execution) -> str:
    error = execution.error
    if error is None:
        return execution.outcome.replace("_", " ")
    where = f" in line {error.line}" + (f", {error.source.strip()[:80]}" if error.source else "") if error.line else ""
    return f"{error.type}: {' '.join(error.message.split())[:120]}{where}"
