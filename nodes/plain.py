"""Values that a model or its code made, as data that any checkpoint and any provider takes."""

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage

_INTEGERS = range(-(1 << 63), 1 << 64)


def plain(value: Any) -> Any:
    """The value with what cannot be stored or sent replaced.

    Lone surrogates, which no encoding takes, become U+FFFD; integers beyond 64 bits become their text; anything that
    is not plain data becomes its `repr`.
    """
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, int):
        return value if value in _INTEGERS else _digits(value)
    if isinstance(value, Mapping):
        return {plain(str(name)): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return plain(repr(value))


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError:
        # Longer than what Python converts to decimal.
        return hex(value)


def plain_reply(reply: AIMessage) -> AIMessage:
    """The reply with each of its parts made plain."""
    parts = ("content", "tool_calls", "invalid_tool_calls", "additional_kwargs", "response_metadata")
    return reply.model_copy(update={part: plain(getattr(reply, part)) for part in parts})
