"""`ChatOpenAI`, forgiving towards what compatible servers really send.

Imported only where such a model is built: `langchain_openai` takes a second or more to import.
"""

import json
from typing import Any

import openai
from langchain_core.messages import AIMessage, InvalidToolCall
from langchain_core.outputs import ChatResult
from langchain_openai import ChatOpenAI

from .model_failures import BadReply


class ForgivingChatOpenAI(ChatOpenAI):
    """Turns odd tool calls into `invalid_tool_calls`, and replies that are none into `BadReply`.

    The class below it raises a pydantic `ValidationError` where the arguments of a call are JSON but no
    object, such as a JSON text that holds JSON, and loses the whole reply with it.
    """

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """Name of the run in traces: that of the class people know."""
        return super().get_name(suffix, name=name or self.name or "ChatOpenAI")

    def _create_chat_result(
        self, response: dict[str, Any] | openai.BaseModel, generation_info: dict[str, Any] | None = None
    ) -> ChatResult:
        unsound: list[list[InvalidToolCall]] = []
        try:
            if isinstance(response, openai.BaseModel) and _calls_tools(response):
                response = response.model_dump(warnings=False)
            if isinstance(response, dict):
                unsound = [_take_unsound(choice["message"]) for choice in response.get("choices") or ()]
            result = super()._create_chat_result(response, generation_info)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadReply(str(error), error.args[0] if error.args else None) from error
        if not result.generations:
            raise BadReply("the list of choices is empty")
        for generation, calls in zip(result.generations, unsound, strict=False):
            if isinstance(generation.message, AIMessage):
                generation.message.invalid_tool_calls.extend(calls)
        return result


def _calls_tools(response: openai.BaseModel) -> bool:
    """Whether any choice calls a tool; others keep their typed form, with what structured output parsed."""
    choices = getattr(response, "choices", None) or ()
    return any(getattr(getattr(choice, "message", None), "tool_calls", None) for choice in choices)


def _take_unsound(message: dict[str, Any]) -> list[InvalidToolCall]:
    """Take out the calls of a raw message that LangChain cannot hold; write object arguments as JSON."""
    sound: list[Any] = []
    unsound: list[InvalidToolCall] = []
    for number, call in enumerate(message.get("tool_calls") or ()):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            unsound.append(_invalid(call, number, {}, "the call names no function"))
            continue
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            function["arguments"] = json.dumps(arguments)
        elif arguments and not _is_readable(arguments):
            unsound.append(_invalid(call, number, function, "the arguments are JSON, but not a JSON object"))
            continue
        sound.append(call)
    if unsound:
        message["tool_calls"] = sound
    return unsound


def _is_readable(arguments: object) -> bool:
    """Whether LangChain can hold these arguments: an object, or no JSON, which it reports itself."""
    if not isinstance(arguments, str):
        return False
    try:
        parsed = json.loads(arguments, strict=False)
    except ValueError:
        return True
    return isinstance(parsed, dict) or not parsed


def _invalid(call: object, number: int, function: dict[str, Any], error: str) -> InvalidToolCall:
    arguments = function.get("arguments", call)
    return InvalidToolCall(
        type="invalid_tool_call",
        id=(call.get("id") if isinstance(call, dict) else None) or f"call_{number}",
        name=function.get("name") or "",
        args=arguments if isinstance(arguments, str) else json.dumps(arguments, default=str),
        error=error,
    )
