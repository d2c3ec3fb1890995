"""One call of the model by a node: the prompt before, the state after. Shared by `reason` and `repair`."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import takewhile
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from actloop.errors import ModelError, ModelRequestRefused, SandboxError
from actloop.state import State, Status

from .asking import aask, add_usage, ask
from .context import Context
from .images import with_images
from .model_errors import code_of
from .plain import plain_reply
from .run import Run, end
from .spending import SPENT, name_of, over_budget, spent_on

STOP = ("<observation>",)
"""Where a reply ends at the latest: a model that writes an observation itself is making it up."""

PYTHON_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "python",
        "description": "Run a cell in the living interpreter; the result is what it printed and its last line's value.",
        "parameters": {
            "type": "object",
            "properties": {"code": {"type": "string", "description": "Python source of the cell."}},
            "required": ["code"],
            "additionalProperties": False,
        },
    },
}

Next = Command[Literal["codegen", "__end__"]]


@dataclass
class Turn:
    """A call that is to be made."""

    prompt: list[AnyMessage]
    update: dict[str, Any]
    """What the node adds to the state besides the reply."""
    run: Run


def prepare(state: State, context: Context, run: Run, update: dict[str, Any]) -> Turn | Next:
    """Build the prompt, unless the budget is spent.

    Args:
        state: as it will be with `update`.
        context: of the agent.
        run: counters.
        update: what the node adds.
    """
    spent = over_budget(context, run)
    if spent:
        return end("budget_exceeded", f"The run stopped before its next request: {spent}.", run, **_without_run(update))
    try:
        system = SystemMessage(system_prompt(context))
    except SandboxError as error:
        return end("sandbox_error", str(error), run, **_without_run(update))
    history = [*(state.get("messages") or []), *(update.get("messages") or [])]
    shown = with_images(history) if context.images else history
    return Turn([system, *answered(shown)], update, run)


def ask_model(turn: Turn | Next, context: Context, config: RunnableConfig) -> Next:
    """Make the call, where there is one to make, and go on with its reply."""
    if not isinstance(turn, Turn):
        return turn
    try:
        return accept(turn, ask(context.model, turn.prompt, stop=STOP, tools=_tools(context), config=config), context)
    except ModelError as error:
        return failed(turn, error)


async def aask_model(turn: Turn | Next, context: Context, config: RunnableConfig) -> Next:
    """`ask_model` for async callers."""
    if not isinstance(turn, Turn):
        return turn
    try:
        reply = await aask(context.model, turn.prompt, stop=STOP, tools=_tools(context), config=config)
        return accept(turn, reply, context)
    except ModelError as error:
        return failed(turn, error)


def _tools(context: Context) -> list[dict[str, Any]]:
    return [PYTHON_TOOL] if context.action_format == "tool" else []


def accept(turn: Turn, reply: AIMessage, context: Context) -> Next:
    """Put the reply into the state and hand it to `codegen`."""
    used = spent_on(reply, turn.prompt, context.prices, name_of(context.model))
    run: Run = {**turn.run, "usage": add_usage(turn.run["usage"], used)}
    messages = [*(turn.update.get("messages") or []), plain_reply(reply)]
    return Command(goto="codegen", update={**turn.update, "messages": messages, "run": run})


def failed(turn: Turn, error: ModelError) -> Next:
    """End the run: a provider's failure is a status, never something that the model is asked to repair."""
    statuses: dict[str, Status] = {"content_filter": "refused", SPENT: "budget_exceeded"}
    status = statuses.get(code_of(error), "model_unavailable") if isinstance(error, ModelRequestRefused) else None
    return end(status or "model_unavailable", str(error), turn.run, **_without_run(turn.update))


def _without_run(update: dict[str, Any]) -> dict[str, Any]:
    owned = ("run", "status", "answer", "answer_type", "answer_data", "summary", "turns", "usage")
    return {name: value for name, value in update.items() if name not in owned}


def system_prompt(context: Context) -> str:
    """The one system message, made anew for each call and never stored."""
    python, packages = context.sessions.facts()
    prompts = files("actloop.nodes").joinpath("prompts")
    reply = prompts.joinpath(f"reply_{context.action_format}.md").read_text("utf-8")
    return (
        prompts.joinpath("system.md")
        .read_text("utf-8")
        .format(
            reply=reply.strip(),
            python=python,
            packages=packages,
            wall_s=f"{context.limits.wall_s:g}",
            memory=f"{context.limits.memory >> 20} MiB",
            turns=context.max_turns,
        )
    ) + _functions(context)


def _functions(context: Context) -> str:
    """What the model is told of the functions of the host."""
    if not context.functions:
        return ""
    lines = [f"- {f.name}{f.signature}: {(f.doc.splitlines() or [''])[0]}" for f in context.functions]
    return (
        "\nThese functions can be called in a cell like any other, without an import; they run outside the sandbox. "
        "help(name) shows more.\n" + "\n".join(lines) + "\n"
    )


def answered(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The history with an answer for every tool call; one that a cancelled run left open is answered as cancelled.

    Providers refuse a history with an open call, for ever.
    """
    result: list[AnyMessage] = []
    for place, message in enumerate(messages):
        result.append(message)
        if isinstance(message, AIMessage):
            # Some models count their ids anew in each reply: an answer belongs to the reply before it.
            after = takewhile(lambda later: not isinstance(later, AIMessage), messages[place + 1 :])
            done = {later.tool_call_id for later in after if isinstance(later, ToolMessage)}
            for call in [*message.tool_calls, *message.invalid_tool_calls]:
                if call.get("id") and call["id"] not in done:
                    result.append(ToolMessage("This call was cancelled and did not run.", tool_call_id=str(call["id"])))
    return result
