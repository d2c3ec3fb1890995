"""One call of the model by a node: the prompt before, the state after. Shared by `reason` and `repair`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Literal, TypeAlias, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langgraph.types import Command

from actloop.errors import ModelError, ModelRequestRefused, SandboxError
from actloop.state import State, Status

from .action_format import format_now, gave_up_calls, with_ids, without_calls
from .asking import aask, add_usage, ask
from .context import Context
from .fitting import IMAGE_TOKENS, ceiling_of, count_tokens, fit
from .images import figures_in, takes_images, with_images
from .model_errors import code_of
from .plain import plain_reply
from .prompting import Form, Language, Part, form_of, language_of, prompt_name, prompt_text
from .run import Run, end
from .situation import situation, with_situation
from .spending import SPENT, name_of, over_budget, spent_on
from .stubs import stubs

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
Role: TypeAlias = Literal["reason", "repair", "coder"]


@dataclass
class Turn:
    """A call that is to be made."""

    prompt: list[AnyMessage]
    update: dict[str, Any]
    """What the node adds to the state besides the reply."""
    run: Run
    model: BaseChatModel
    part: Part
    build: Callable[[int], list[AnyMessage]]
    """The prompt within another ceiling of tokens."""


def prepare(
    state: State,
    context: Context,
    run: Run,
    update: dict[str, Any],
    role: Role = "reason",
) -> Turn | Next:
    """Build the prompt, unless the budget is spent.

    Args:
        state: as it will be with `update`.
        context: of the agent.
        run: counters.
        update: what the node adds.
        role: who is asked.
    """
    spent = over_budget(context, run)
    if spent:
        return end("budget_exceeded", f"The run stopped before its next request: {spent}.", run, **_without_run(update))
    model, part = _asked(context, role, run)
    which = (language_of(state.get("goal") or "", context.language), form_of(model, context.prompt), part)
    try:
        system = SystemMessage(system_prompt(context, *which))
    except SandboxError as error:
        return end("sandbox_error", str(error), run, **_without_run(update))
    history = answered([*(state.get("messages") or []), *(update.get("messages") or [])])
    history = without_calls(history) if gave_up_calls(context, run, model) else history
    held = _situation(state, update, context)
    live = list(update.get("names", state.get("names")) or [])
    run["prompt"] = prompt_name(*which)
    images = context.images if model is context.model else takes_images(model)

    def build(ceiling: int) -> list[AnyMessage]:
        figures = figures_in(history) * IMAGE_TOKENS if images else 0
        shown = fit(history, ceiling - count_tokens([system, HumanMessage(held)]) - figures, live)
        return with_situation([system, *(with_images(shown) if images else shown)], held)

    return Turn(build(ceiling_of(model, context.context_tokens)), update, run, model, part, build)


def _situation(state: State, update: dict[str, Any], context: Context) -> str:
    """What the sandbox holds; nothing before the thread's first cell."""
    names, files = (list(update.get(part, state.get(part)) or []) for part in ("names", "workspace"))
    if not names and not files:
        return ""
    files += state.get("inputs") or {}
    return situation(state.get("messages") or [], names, files, context.secrets)


def _asked(context: Context, role: Role, run: Run) -> tuple[BaseChatModel, Part]:
    """The model of a role, and what it is asked for."""
    if role == "coder" and context.coder is not None:
        return context.coder, "coder"
    model = (context.repairer or context.coder or context.model) if role == "repair" else context.model
    if role != "repair" and context.coder is not None:
        return model, "plan"
    return model, format_now(context, run, model)


def ask_model(turn: Turn | Next, context: Context, config: RunnableConfig) -> Next:
    """Make the call, where there is one to make, and go on with its reply."""
    reply = request(turn, config)
    both = isinstance(turn, Turn) and isinstance(reply, AIMessage)
    return accept(cast(Turn, turn), cast(AIMessage, reply), context) if both else cast(Next, reply)


async def aask_model(turn: Turn | Next, context: Context, config: RunnableConfig) -> Next:
    """`ask_model` for async callers."""
    reply = await arequest(turn, config)
    both = isinstance(turn, Turn) and isinstance(reply, AIMessage)
    return accept(cast(Turn, turn), cast(AIMessage, reply), context) if both else cast(Next, reply)


def request(turn: Turn | Next, config: RunnableConfig) -> AIMessage | Next:
    """The reply, where there is a call to make and it succeeds; otherwise how the run ends."""
    while isinstance(turn, Turn):
        try:
            return ask(turn.model, turn.prompt, **_options(turn, config))
        except ModelError as error:
            turn = shorter(turn, error) or failed(turn, error)
    return turn


async def arequest(turn: Turn | Next, config: RunnableConfig) -> AIMessage | Next:
    """`request` for async callers."""
    while isinstance(turn, Turn):
        try:
            return await aask(turn.model, turn.prompt, **_options(turn, config))
        except ModelError as error:
            turn = shorter(turn, error) or failed(turn, error)
    return turn


def shorter(turn: Turn, error: ModelError) -> Turn | None:
    """The call with half the prompt, where it was too long for the model and can be shortened further."""
    if not isinstance(error, ModelRequestRefused) or code_of(error) != "context_length_exceeded":
        return None
    tokens = count_tokens(turn.prompt)
    prompt = turn.build(tokens // 2)
    return replace(turn, prompt=prompt) if count_tokens(prompt) < tokens else None


def _options(turn: Turn, config: RunnableConfig) -> dict[str, Any]:
    """What the call has besides its prompt; its trace says which prompt that is."""
    traced = merge_configs(config, {"metadata": {"actloop_prompt": turn.run.get("prompt", "")}})
    return {"stop": STOP, "tools": [PYTHON_TOOL] if turn.part == "tool" else [], "config": traced}


def accept(turn: Turn, reply: AIMessage, context: Context) -> Next:
    """Put the reply into the state and hand it to `codegen`."""
    used = spent_on(reply, turn.prompt, context.prices, name_of(turn.model))
    run: Run = {**turn.run, "planned": turn.part == "plan", "usage": add_usage(turn.run["usage"], used)}
    messages = [*(turn.update.get("messages") or []), plain_reply(with_ids(reply))]
    return Command(goto="codegen", update={**turn.update, "messages": messages, "run": run})


def failed(turn: Turn, error: ModelError) -> Next:
    """End the run: a provider's failure is a status, never something that the model is asked to repair."""
    statuses: dict[str, Status] = {"content_filter": "refused", SPENT: "budget_exceeded"}
    status = statuses.get(code_of(error), "model_unavailable") if isinstance(error, ModelRequestRefused) else None
    return end(status or "model_unavailable", str(error), turn.run, **_without_run(turn.update))


def _without_run(update: dict[str, Any]) -> dict[str, Any]:
    owned = ("run", "status", "answer", "answer_type", "answer_data", "summary", "turns", "usage")
    return {name: value for name, value in update.items() if name not in owned}


def system_prompt(context: Context, language: Language, form: Form, part: Part) -> str:
    """The one system message, made anew for each call and never stored."""
    python, packages = context.sessions.facts()
    facts = {
        "python": python,
        "packages": packages,
        "wall_s": f"{context.limits.wall_s:g}",
        "memory": f"{context.limits.memory >> 20} MiB",
        "turns": context.max_turns,
    }
    schema = context.schema.told() if context.schema else ""
    return prompt_text(language, form, part).format(**facts) + stubs(context.functions) + schema


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
