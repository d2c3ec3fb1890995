"""`codegen` where a model of its own writes the code: the plan that `reason` got becomes a cell here.

Plan and cell are stored as one reply, so that the history reads like that of an agent with a single model. The cell is
always the coder's: code in the plan itself is a sketch for it. A reply of `repair` is a cell already.
"""

import re
from typing import Any, Literal, cast

from langchain_core.messages import AIMessage
from langchain_core.messages.ai import add_usage as add_metadata
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from actloop.state import Action, State

from .asking import add_usage
from .codegen import MAX_NUDGES, codegen
from .context import Context
from .plain import plain_reply
from .reading import parse_reply
from .run import Run, end, last_reply, note, nudge, run_of
from .spending import name_of, spent_on
from .turn import Turn, arequest, prepare, request

Next = Command[Literal["safety_check", "reason", "__end__"]]

_PLAN = re.compile(r"^\W*(?:PLAN|计划)\W*[:：]", re.IGNORECASE)
_ORDER = "Write the cell for this plan: one Python block, nothing else."


def code(state: State, config: RunnableConfig, *, context: Context) -> Next:
    """Read the last reply; where it is a plan, have the coder write its cell first.

    Returns:
        As `codegen`; or to the end where the coder's provider failed or the budget is spent.
    """
    plan = _plan(state, context)
    if plan is None:
        return codegen(state, context=context)
    turn = _prepare(state, context)
    reply = request(turn, config)
    return _go_on(state, context, turn, plan, reply)


async def acode(state: State, config: RunnableConfig, *, context: Context) -> Next:
    """`code` for async callers."""
    plan = _plan(state, context)
    if plan is None:
        return codegen(state, context=context)
    turn = _prepare(state, context)
    reply = await arequest(turn, config)
    return _go_on(state, context, turn, plan, reply)


def _plan(state: State, context: Context) -> Action | None:
    """The plan that the last reply makes, where a coder is there for it."""
    reply = last_reply(state)
    if context.coder is None or reply is None or not state["run"].get("planned"):
        return None
    action = parse_reply(reply)
    planned = action.kind == "cell" or (action.kind == "answer" and _PLAN.match(action.text))
    return action if planned else None


def _prepare(state: State, context: Context) -> Any:
    asked = {**state, "messages": [*state["messages"], note(_ORDER, "nudge")]}
    return prepare(cast(State, asked), context, run_of(state), {}, "coder")


def _go_on(state: State, context: Context, turn: Any, plan: Action, reply: Any) -> Next:
    if not isinstance(turn, Turn) or not isinstance(reply, AIMessage):
        return cast(Next, reply)
    used = spent_on(reply, turn.prompt, context.prices, name_of(turn.model))
    run: Run = {**turn.run, "planned": False, "usage": add_usage(turn.run["usage"], used)}
    cell = parse_reply(reply)
    if cell.kind != "cell":
        return _no_cell(state, run, cell)
    joined = _joined(cast(AIMessage, last_reply(state)), plan, plain_reply(reply), cell)
    messages = [joined if message.id == joined.id else message for message in state["messages"]]
    step = codegen(cast(State, {**state, "messages": messages, "run": run}), context=context)
    update = cast(dict[str, Any], step.update)
    return Command(goto=step.goto, update={**update, "messages": [joined, *update.get("messages", [])]})


def _no_cell(state: State, run: Run, cell: Action) -> Next:
    run["nudges"] += 1
    why = (cell.reason or "it answered in words").rstrip(".")
    if run["nudges"] >= MAX_NUDGES:
        return end("stuck", f"The coder wrote no cell, {run['nudges']} times in a row ({why}); try another coder.", run)
    text = f"The coder wrote no cell for this plan ({why}). Plan one step, with names and columns, or finish."
    return Command(goto="reason", update=nudge(state, run, text))


def _joined(planned: AIMessage, plan: Action, reply: AIMessage, cell: Action) -> AIMessage:
    """One reply of the two: the plan's words, and the coder's cell."""
    longest = max((len(run) for run in re.findall(r"`+", cell.code)), default=0)
    fence = "`" * max(3, longest + 1)
    block = f"{fence}python\n{cell.code}\n{fence}"
    both = f"{plan.text.strip()}\n\n{block}"
    usage = add_metadata(planned.usage_metadata, reply.usage_metadata)
    # Words that would be read as part of the cell, such as a call between tags, are left out.
    content = both if parse_reply(both).code == cell.code else block
    none: dict[str, Any] = {"tool_calls": [], "invalid_tool_calls": [], "usage_metadata": usage}
    return planned.model_copy(update={"content": content, "response_metadata": reply.response_metadata, **none})
