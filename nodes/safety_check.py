"""`safety_check`: the static policy on a cell, before it runs. Advice and a reason to ask, never the boundary."""

from typing import Literal

from langgraph.types import Command

from actloop.state import State

from .checking import check as check
from .context import Context
from .policy import Policy as Policy
from .run import run_of, usable

__all__ = ["Policy", "check", "safety_check"]

Next = Command[Literal["execute", "approve", "repair"]]


def safety_check(state: State, *, context: Context) -> Next:
    """Check the cell.

    Returns:
        To `execute`; to `approve` where a person is to decide; or to `repair` with the reason.
    """
    verdict = check(usable(state).code, context.policy)
    update = {"verdict": verdict.model_dump(mode="json")}
    if verdict.decision == "allow":
        return Command(goto="execute", update=update)
    if verdict.decision == "ask":
        return Command(goto="approve", update=update)
    run = run_of(state)
    if all(finding.rule == "syntax" for finding in verdict.findings):
        # Code that cannot run is a failure to mend, not a deed to refuse.
        return Command(goto="repair", update=update)
    run["denials"] += 1
    return Command(goto="repair", update={**update, "run": run})
