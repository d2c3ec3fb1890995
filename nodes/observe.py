"""`observe`: tell the model what the cell did, and go on by its exit code and the limits."""

from typing import Any, Literal, cast

from langchain_core.messages import AnyMessage
from langgraph.types import Command

from actloop.protocols import Execution
from actloop.state import State

from .answering import conclude
from .attempts import MAX_SAME, again, count
from .context import Context
from .images import KEY, figures_of
from .reading import parse_reply
from .rendering import render as render
from .run import Run, end, last_reply, note, reply_to, run_of, usable
from .situation import KEY as CELL
from .situation import record_of

__all__ = ["observe", "render"]

Next = Command[Literal["reason", "repair", "__end__"]]


def observe(state: State, *, context: Context) -> Next:
    """Make the observation.

    Returns:
        To `reason` after exit code 0, else to `repair`; or to the end with the cell's own answer or question, after a
        cancellation, or where the run goes in circles.
    """
    execution = Execution.model_validate(state["execution"])
    run = run_of(state)
    run["turns"] += 1
    run["last_ok"] = execution.ok
    run["repairs"] = 0 if execution.ok else run["repairs"] + 1
    times = count(run, usable(state).code, execution)
    text = _edited(state) + render(execution, secrets=context.secrets) + again(times, execution.ok)
    messages = reply_to(last_reply(state), text, "observation")
    messages[0].additional_kwargs[CELL] = record_of(execution, run["turns"])
    if context.images:
        messages[0].additional_kwargs[KEY] = figures_of(state.get("artifacts") or [], run["turns"])
    update: dict[str, Any] = {"messages": messages}
    if execution.outcome == "cancelled":
        return end("cancelled", f"The run was stopped in its cell {run['turns']}.", run, **update)
    if execution.question is not None:
        asked = execution.question
        return end("needs_input", f"The model asks: {asked}", run, answer=asked, **update)
    if execution.ok and execution.answer is not None:
        return _answered(state, run, context, execution, messages)
    if times > MAX_SAME:
        last = execution.error.type if execution.error else "the same output"
        return end("stuck", f"The same code was sent {times} times with the same end: {last}.", run, **update)
    if execution.ok:
        return Command(goto="reason", update={**update, "run": run, "turns": run["turns"]})
    if run["repairs"] > context.max_repairs:
        return end("stuck", _gave_up(execution, run), run, **update)
    return Command(goto="repair", update={**update, "run": run, "turns": run["turns"]})


def _answered(state: State, run: Run, context: Context, execution: Execution, told: list[AnyMessage]) -> Next:
    """End with the answer that the cell gave, or say what is wrong with it."""

    def back(problem: str) -> Command[Any]:
        update = {"messages": [*told, note(problem, "nudge")], "run": run, "turns": run["turns"]}
        return Command(goto="reason", update=update)

    now = cast(State, {**state, "messages": [*state["messages"], *told]})
    return conclude(now, run, context, execution.answer or "", execution.answer_type, back, messages=told)


def _edited(state: State) -> str:
    """What the model must know where the cell that ran is not the one that it sent."""
    code, reply = usable(state).code, last_reply(state)
    if reply is None or parse_reply(reply).code == code:
        return ""
    return f"A person changed the cell before it ran. This is what ran:\n```python\n{code}\n```\n"


def _gave_up(execution: Execution, run: Run) -> str:
    what = f"{execution.error.type}: {execution.error.message}"[:200] if execution.error else execution.outcome
    return f"{run['repairs']} cells in a row failed; the last one with {what}."
