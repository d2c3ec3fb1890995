"""`safety_check`: the static policy on a cell, before it runs. Advice and a reason to ask, never the boundary."""

from typing import Literal

from langgraph.types import Command

from actloop.state import State

from .context import Context
from .policy import check as check
from .run import end, run_of, usable

__all__ = ["check", "safety_check"]

MAX_DENIALS = 3
"""Cells that the policy refuses before the run ends."""

Next = Command[Literal["execute", "approve", "repair", "__end__"]]


def safety_check(state: State, *, context: Context) -> Next:
    """Check the cell.

    Returns:
        To `execute`; to `approve` where a person is to decide; to `repair` with the reason; or to the end after
        repeated denials.
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
    if run["denials"] >= MAX_DENIALS:
        reasons = "; ".join(finding.message for finding in verdict.findings[:3])
        return end(
            "denied", f"The safety check refused {run['denials']} cells; the last one: {reasons}.", run, **update
        )
    return Command(goto="repair", update={**update, "run": run})
