"""`approve`: have a person decide on a cell before it runs, in a node of its own so that nothing runs twice."""

from typing import Any, Literal

from langgraph.types import Command, interrupt

from actloop.state import State

from .context import Context
from .run import run_of, usable

Next = Command[Literal["execute", "safety_check", "repair"]]


def approve(state: State, *, context: Context) -> Next:
    """Pause the graph and go on with the answer.

    Resume with `True`, `False`, or `{"decision": "approve" | "edit" | "reject", "code": …, "reason": …}`; edited code
    is checked again.

    Returns:
        To `execute`, back to `safety_check` with edited code, or to `repair` with the refusal.
    """
    action = usable(state)
    answer: Any = interrupt({"kind": "cell", "code": action.code, "findings": state["verdict"].get("findings", [])})
    decision = answer if isinstance(answer, dict) else {"decision": "approve" if answer is True else "reject"}
    if decision.get("decision") == "approve":
        return Command(goto="execute")
    code = decision.get("code")
    if decision.get("decision") == "edit" and isinstance(code, str):
        return Command(goto="safety_check", update={"action": {**state["action"], "code": code}})
    run = run_of(state)
    run["denials"] += 1
    reason = str(decision.get("reason") or "no reason given")
    finding = {"rule": "person", "line": 0, "message": f"a person refused to let it run: {reason}"}
    return Command(goto="repair", update={"verdict": {"decision": "deny", "findings": [finding]}, "run": run})
