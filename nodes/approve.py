"""`approve`: have a person decide on a cell before it runs, or on a call of a cell that waits for the decision.

It is a node of its own, so that nothing runs twice: what comes before an interrupt is run again after it.
"""

from typing import Any, Literal

from langgraph.types import Command, interrupt

from actloop.state import State

from .call_arguments import edited
from .context import Context
from .run import run_of, usable

Next = Command[Literal["execute", "safety_check", "repair"]]


def approve(state: State, *, context: Context) -> Next:
    """Pause the graph and go on with the answer.

    Resume with `True`, `False`, or `{"decision": "approve" | "edit" | "reject", "reason": …}` with `code` for an edited
    cell, which is checked again, or `arguments` for an edited call.

    Returns:
        To `execute`, back to `safety_check` with edited code, or to `repair` with the refusal.
    """
    if state.get("call"):
        return _of_call(state)
    action = usable(state)
    decision = _decision(interrupt({"kind": "cell", "code": action.code, "findings": _findings(state)}))
    if decision.get("decision") == "approve":
        return Command(goto="execute")
    code = decision.get("code")
    if decision.get("decision") == "edit" and isinstance(code, str):
        return Command(goto="safety_check", update={"action": {**state["action"], "code": code}})
    run = run_of(state)
    run["denials"] += 1
    finding = {"rule": "person", "line": 0, "message": f"a person refused to let it run: {_reason(decision)}"}
    return Command(goto="repair", update={"verdict": {"decision": "deny", "findings": [finding]}, "run": run})


def _of_call(state: State) -> Next:
    """The cell waits in its box, and goes on with whatever is decided: a refusal is an error that it may handle."""
    call = state["call"]
    asked = {"kind": "call", "tool": call["tool"], "arguments": call["arguments"], "code": usable(state).code}
    decision = _decision(interrupt(asked))
    arguments = edited(decision.get("arguments")) if decision.get("decision") == "edit" else None
    approved = decision.get("decision") == "approve" or arguments is not None
    answer = {
        "approved": approved,
        "arguments": arguments,
        "reason": "" if approved else f"a person refused the call: {_reason(decision)}",
    }
    return Command(goto="execute", update={"call": {**call, "answer": answer}})


def _findings(state: State) -> list[Any]:
    return list(state["verdict"].get("findings", []))


def _decision(answer: Any) -> dict[str, Any]:
    return answer if isinstance(answer, dict) else {"decision": "approve" if answer is True else "reject"}


def _reason(decision: dict[str, Any]) -> str:
    return str(decision.get("reason") or "no reason given")
