"""`codegen`: turn the model's reply into one cell, an answer or a question; what is none of these goes back."""

from typing import Any, Literal

from langgraph.types import Command

from actloop.state import Action, State

from .action_format import count_bad_call
from .answering import conclude
from .context import Context
from .grounding import backed, evidence_of
from .reading import parse_reply as parse_reply
from .run import Run, end, last_reply, nudge, run_of

__all__ = ["codegen", "parse_reply"]

MAX_NUDGES = 3
"""Replies in a row that cannot be used before the run ends."""
MAX_TRUNCATED = 2
"""Replies that the token limit cut off before the run ends."""

Next = Command[Literal["safety_check", "reason", "__end__"]]

_DOUBT = (
    "Nothing that a cell printed backs this answer. If the task needs anything computed, read or made, send code that "
    "prints it. If it does not, repeat the answer."
)


def codegen(state: State, *, context: Context) -> Next:
    """Read the last reply.

    Returns:
        To `safety_check` with a cell; back to `reason` with a nudge, which costs no turn; or to the end with an answer,
        a question, or the reason why the model's replies lead nowhere.
    """
    reply = last_reply(state)
    run = run_of(state)
    action = parse_reply(reply if reply is not None else "")
    if action.kind == "cell" and context.schema is not None and context.schema.is_answer(action.code):
        action = Action(kind="answer", text=action.code)
    if action.kind == "cell":
        return _cell(action, run, context)
    if action.kind == "answer":
        return _answer(state, action, run, context)
    if action.kind == "question":
        return end("needs_input", f"The model asks: {action.text}", run, answer=action.text, action=action.model_dump())
    return _unusable(state, action, run, context)


def _cell(action: Action, run: Run, context: Context) -> Next:
    if run["turns"] >= context.max_turns:
        return end(
            "turn_limit",
            f"The run stopped at its limit of {context.max_turns} cells before it had an answer.",
            run,
            action=action.model_dump(),
        )
    cells = context.budget.cells
    if cells is not None and run["turns"] >= cells:
        reached = f"The run stopped before its next cell: {run['turns']} of {cells} cells are used."
        return end("budget_exceeded", reached, run, action=action.model_dump())
    run["nudges"] = 0
    return Command(goto="safety_check", update={"action": action.model_dump(), "run": run})


def _answer(state: State, action: Action, run: Run, context: Context) -> Next:
    """Take an answer that a cell backs; doubt one that none backs once, where the task needed one."""
    needed = run["turns"] > 0 or run["needs_code"]
    seen = backed(action.text, evidence_of(state["messages"], state["goal"]))
    doubt = ""
    if needed and not (run["last_ok"] and seen):
        if not run["doubted"]:
            run["doubted"] = True
            return Command(goto="reason", update=nudge(state, run, _DOUBT))
        what = "no code was run"
        if run["turns"]:
            what = "no cell printed its numbers" if run["last_ok"] else "the last cell failed"
        doubt = f"The model gave an answer that no cell backs: {what}."

    def back(problem: str) -> Command[Any]:
        return Command(goto="reason", update=nudge(state, run, problem))

    return conclude(state, run, context, action.text, None, back, doubt, action=action.model_dump())


def _unusable(state: State, action: Action, run: Run, context: Context) -> Next:
    if action.problem == "refused":
        return end("refused", f"The model declined the task: {action.text or action.reason}", run)
    run["nudges"] += 1
    reason = count_bad_call(context, run, action.reason) if action.problem == "bad_call" else action.reason
    if action.problem == "truncated":
        run["truncated"] += 1
        if run["truncated"] > MAX_TRUNCATED:
            return end("truncated", f"The model's reply was cut off by its token limit {run['truncated']} times.", run)
    if run["nudges"] >= MAX_NUDGES:
        empty = action.problem == "empty"
        what = "answered nothing" if empty else f"gave no usable reply ({action.reason.rstrip('.')})"
        return end("stuck", f"The model {what}, {run['nudges']} times in a row; try another model.", run)
    return Command(goto="reason", update=nudge(state, run, reason))
