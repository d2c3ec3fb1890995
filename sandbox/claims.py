"""The form of a claim of the conformance suite, and small helpers to state one."""

from collections.abc import Callable
from dataclasses import dataclass

from actloop.config import Limits
from actloop.protocols import Execution, Session

Check = Callable[[Session], None]


@dataclass(frozen=True)
class Claim:
    """One thing that a sandbox must do."""

    name: str
    check: Check
    limits: Limits | None
    """Limits of a box of its own; None for one that others use as well."""


CLAIMS: list[Claim] = []
"""All claims, in the order in which they are defined."""


class NotHeld(Exception):
    """A claim does not hold; the text says what was seen."""


def claim(limits: Limits | None = None) -> Callable[[Check], Check]:
    """Add a function to the claims; its name says what holds."""

    def add(check: Check) -> Check:
        CLAIMS.append(Claim(check.__name__.replace("_", " "), check, limits))
        return check

    return add


def same(seen: object, wanted: object) -> None:
    """Hold if both are equal.

    Raises:
        NotHeld: they are not.
    """
    if seen != wanted:
        raise NotHeld(f"{seen!r} instead of {wanted!r}")


def holds(condition: object, seen: object) -> None:
    """Hold if a condition does; `seen` is what a failure shows.

    Raises:
        NotHeld: it does not.
    """
    if not condition:
        raise NotHeld(f"seen: {seen!r}")


def ended(execution: Execution, outcome: str, state: str = "kept", exit_code: int | None = None) -> None:
    """Hold if a cell ended in this way.

    Raises:
        NotHeld: it ended in another.
    """
    seen = (execution.outcome, execution.state)
    if seen != (outcome, state) or (exit_code is not None and execution.exit_code != exit_code):
        raise NotHeld(f"{seen}, exit code {execution.exit_code}, instead of {(outcome, state, exit_code)}: {execution}")
