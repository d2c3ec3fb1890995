"""How the model sends code: in a fenced block, or by a tool call; and which of the two `auto` means just now.

`auto` follows the model's profile: a tool call where it says that the model calls tools, a fenced block otherwise,
which every model can do. Where calls come back that cannot be used, the rest of the run goes on in fenced blocks.
"""

from collections.abc import Sequence
from typing import Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from .context import Context
from .reading import parse_reply
from .run import Run

MAX_BAD_CALLS = 2
"""Calls of one run that cannot be used before `auto` goes over to fenced blocks."""


def calls_tools(model: BaseChatModel) -> bool:
    """Whether the model's profile says that it calls tools, and its class can; without a profile it is taken not to."""
    profile = getattr(model, "profile", None)
    return bool(profile and profile.get("tool_calling")) and type(model).bind_tools is not BaseChatModel.bind_tools


def format_now(context: Context, run: Run, model: BaseChatModel) -> Literal["fenced", "tool"]:
    """The format of the next request to a model."""
    if context.action_format != "auto":
        return context.action_format
    return "tool" if calls_tools(model) and not gave_up_calls(context, run, model) else "fenced"


def gave_up_calls(context: Context, run: Run, model: BaseChatModel) -> bool:
    """Whether `auto` went over from calls to fenced blocks in this run."""
    return context.action_format == "auto" and run.get("bad_calls", 0) >= MAX_BAD_CALLS and calls_tools(model)


def count_bad_call(context: Context, run: Run, reason: str) -> str:
    """Count a call that could not be used; the reason, with how code is to be sent from now on."""
    run["bad_calls"] = run.get("bad_calls", 0) + 1
    if not gave_up_calls(context, run, context.model):
        return reason
    return f"{reason} From now on call no tool: send the code in a block that begins with ```python."


def without_calls(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The history as if all code had come in fenced blocks: some providers refuse calls where no tool is bound."""
    result: list[AnyMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            result.append(HumanMessage(message.content, additional_kwargs=message.additional_kwargs, id=message.id))
        elif isinstance(message, AIMessage) and (message.tool_calls or message.invalid_tool_calls):
            action = parse_reply(message)
            code = f"```python\n{action.code}\n```" if action.code else ""
            text = "\n".join(part for part in (str(message.text).strip(), code) if part)
            result.append(AIMessage(text or "(a call that could not be read)", id=message.id))
        else:
            result.append(message)
    return result


def with_ids(reply: AIMessage) -> AIMessage:
    """The reply with an id for each of its calls, so that each can be answered; some servers send none."""
    calls = [*reply.tool_calls, *reply.invalid_tool_calls]
    if all(call.get("id") for call in calls):
        return reply
    taken = {call.get("id") for call in calls}
    free = (name for number in range(2 * len(calls)) if (name := f"call_{number}") not in taken)
    return reply.model_copy(
        update={
            "tool_calls": [{**call, "id": call.get("id") or next(free)} for call in reply.tool_calls],
            "invalid_tool_calls": [{**call, "id": call.get("id") or next(free)} for call in reply.invalid_tool_calls],
        }
    )
