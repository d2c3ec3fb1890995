"""`repair`: say what went wrong and what is left, and ask the model for a corrected cell."""

from typing import Any

from langchain_core.runnables import RunnableConfig

from actloop.protocols import Execution
from actloop.state import State, Verdict

from .context import Context
from .diagnosis import advice
from .run import Run, end, last_reply, note, reply_to, run_of
from .turn import Next, Turn, aask_model, ask_model, prepare

MAX_DENIALS = 3
"""Cells that the safety check or a person refuses before the run ends."""


def repair(state: State, config: RunnableConfig, *, context: Context) -> Next:
    """Diagnose the failure and ask for another cell.

    Returns:
        To `codegen` with the reply, or to the end after repeated refusals, where repairs are used up, or where the
        provider failed.
    """
    return ask_model(_prepare(state, context), context, config)


async def arepair(state: State, config: RunnableConfig, *, context: Context) -> Next:
    """`repair` for async callers."""
    return await aask_model(_prepare(state, context), context, config)


def _prepare(state: State, context: Context) -> Turn | Next:
    run = run_of(state)
    verdict = Verdict.model_validate(state["verdict"])
    update: dict[str, Any]
    if verdict.decision == "deny":
        # The cell did not run: nothing of its own stands in the history yet.
        run["repairs"] += 1
        spent = run["repairs"] > context.max_repairs
        reasons = "; ".join(finding.message.rstrip(".") for finding in verdict.findings[:3])
        refused = any(finding.rule != "syntax" for finding in verdict.findings)
        if refused and (spent or run["denials"] >= MAX_DENIALS):
            return end("denied", f"Cells refused: {run['denials']}; the last one because: {reasons}.", run)
        if spent:
            return end("stuck", f"{run['repairs']} cells in a row could not be run; the last: {reasons}.", run)
        update = {"messages": reply_to(last_reply(state), _refusal(verdict, run, context), "nudge"), "run": run}
    else:
        execution = Execution.model_validate(state["execution"])
        update = {"messages": [note(advice(execution, _left(run, context)), "nudge")], "run": run}
    return prepare(state, context, run, update)


def _left(run: Run, context: Context) -> str:
    repairs, cells = context.max_repairs - run["repairs"] + 1, context.max_turns - run["turns"]
    return f"Attempts left: {min(repairs, cells)}."


def _refusal(verdict: Verdict, run: Run, context: Context) -> str:
    lines = "\n".join(
        f"- line {finding.line}: {finding.message}" if finding.line else f"- {finding.message}"
        for finding in verdict.findings[:8]
    )
    return f"The cell was not run:\n{lines}\nNothing has changed. Send a corrected cell. {_left(run, context)}"
