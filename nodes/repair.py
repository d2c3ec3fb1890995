"""`repair`: say what went wrong and what is left, and ask the model for a corrected cell."""

from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig

from actloop.errors import SandboxError
from actloop.protocols import Execution
from actloop.state import State, Verdict

from .attempts import count_refused, tried
from .context import Context
from .diagnosis import advice
from .nearby import Here
from .rendering import Cleaner
from .run import Run, end, last_reply, note, reply_to, run_of, usable
from .turn import Next, Turn, aask_model, ask_model, prepare

MAX_DENIALS = 3
"""Cells that the safety check or a person refuses before the run ends."""
MAX_SEARCHED = 20_000
"""Characters of what was shown last in which names are looked for that may have been meant."""


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
        same = count_refused(run, usable(state).code) > 1
        text = _refusal(verdict, run, context, "policy" if refused else "syntax", same)
        update = {"messages": reply_to(last_reply(state), text, "nudge"), "run": run}
    else:
        execution = Execution.model_validate(state["execution"])
        told = advice(execution, _left(run, context), _here(state, context), tried(run))
        update = {"messages": [note(Cleaner(context.secrets).text(told), "nudge")], "run": run}
    return prepare(state, context, run, update, "repair")


def _left(run: Run, context: Context) -> str:
    repairs, cells = context.max_repairs - run["repairs"] + 1, context.max_turns - run["turns"]
    return f"Attempts left: {min(repairs, cells)}."


def _here(state: State, context: Context) -> Here:
    """What there is that a wrong name may have meant."""
    told = [message.text for message in state["messages"] if not isinstance(message, AIMessage)]
    try:
        packages = context.sessions.facts()[1]
    except SandboxError:
        packages = ""
    files = {*(state.get("workspace") or []), *(state.get("inputs") or {})}
    return Here(state.get("names") or [], files, packages, "\n".join(told)[-MAX_SEARCHED:])


def _refusal(verdict: Verdict, run: Run, context: Context, kind: str, same: bool) -> str:
    lines = "\n".join(
        f"- line {finding.line}: {finding.message}" if finding.line else f"- {finding.message}"
        for finding in verdict.findings[:8]
    )
    again = " You have sent this very code before: send other code." if same else ""
    return (
        f"The cell was not run ({kind}):\n{lines}\nNothing has changed.{again} Send a corrected cell. "
        f"{_left(run, context)}"
    )
