"""What a message of a model holds, whatever the provider's shape: text, calls, end, refusal.

Content is text or a list of blocks; the reason why a reply ended has as many names as there are providers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from langchain_core.messages import BaseMessage

from .calls import Call, call_of_object, read_call

End: TypeAlias = Literal["stop", "length", "refused"]

_LENGTH = (
    *("length", "max_tokens", "max_output_tokens", "max_length", "model_length", "token_limit", "incomplete"),
    "model_context_window_exceeded",
)
_REFUSED = (
    "content_filter",
    "refusal",
    "safety",
    "recitation",
    "blocklist",
    "prohibited_content",
    "guardrail_intervened",
    "spii",
    "image_safety",
    "sensitive",
)
_TEXT_TYPES = frozenset({"text", "output_text", "text_delta"})


@dataclass(frozen=True)
class Reply:
    """One reply of a model in plain terms."""

    text: str
    """Text blocks joined, line ends normalised; reasoning blocks are left out."""
    calls: tuple[Call, ...] = ()
    end: End = "stop"
    refusal: str | None = None


def read_message(message: object, finish_reason: str | None = None) -> Reply:
    """Take a message apart.

    Args:
        message: a LangChain message, or text.
        finish_reason: why the reply ended, where the caller knows it better than the message's metadata.
    """
    if not isinstance(message, BaseMessage):
        return Reply(_lines(message if isinstance(message, str) else ""), end=_end(finish_reason))
    content: Any = message.content
    kwargs = message.additional_kwargs or {}
    metadata = message.response_metadata or {}
    refused = kwargs.get("refusal") or _refusal_block(content)
    return Reply(
        text=_lines(_joined(content)),
        calls=tuple(_calls(message, content)),
        end=_end(finish_reason or _finish_reason(metadata)),
        refusal=str(refused) if refused else None,
    )


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _joined(content: Any) -> str:
    """Join text blocks as the model wrote them; a fence or a tag begins on a line of its own."""
    if isinstance(content, str):
        return content
    parts: list[str] = []
    for text in _texts(content):
        last = parts[-1].rpartition("\n")[2].lstrip() if parts else ""
        if last and (text.lstrip(" ").startswith(("```", "~~~", "<")) or last.startswith(("```", "~~~"))):
            parts.append("\n")
        parts.append(text)
    return "".join(parts)


def _texts(content: Any) -> Iterator[str]:
    for block in content if isinstance(content, list) else ():
        if isinstance(block, str):
            yield block
        elif isinstance(block, Mapping) and block.get("type", "text") in _TEXT_TYPES and not block.get("thought"):
            yield block["text"] if isinstance(block.get("text"), str) else ""


def _refusal_block(content: Any) -> object:
    for block in content if isinstance(content, list) else ():
        if isinstance(block, Mapping) and block.get("type") == "refusal":
            return block.get("refusal") or "The model refused."
    return None


def _calls(message: BaseMessage, content: Any) -> Iterator[Call]:
    valid = getattr(message, "tool_calls", None) or []
    invalid = getattr(message, "invalid_tool_calls", None) or []
    for call in valid:
        if str(call.get("name")).endswith("multi_tool_use.parallel"):
            yield from _parallel(call.get("args"))
        else:
            yield read_call(call.get("name"), call.get("args"))
    for call in invalid:
        yield read_call(call.get("name"), call.get("args"), call.get("error"))
    if valid or invalid:
        return
    for block in content if isinstance(content, list) else ():
        if isinstance(block, Mapping) and block.get("type") in {"tool_use", "tool_call", "function_call"}:
            arguments = next((block[key] for key in ("input", "args", "arguments") if key in block), None)
            yield read_call(_name(block.get("name")), arguments)
    older = (message.additional_kwargs or {}).get("function_call")
    if isinstance(older, Mapping):
        yield read_call(_name(older.get("name")), older.get("arguments"))


def _parallel(arguments: object) -> Iterator[Call]:
    """Calls in a call: OpenAI's models write their internal form of several calls at once."""
    uses = arguments.get("tool_uses") if isinstance(arguments, Mapping) else None
    calls = [use for use in uses if isinstance(use, Mapping)] if isinstance(uses, list) else []
    yield from (call_of_object(use) for use in calls)
    if not calls:
        yield Call("cell", problem="code is missing")


def _name(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _finish_reason(metadata: Mapping[str, Any]) -> str | None:
    details = metadata.get("incomplete_details")
    if isinstance(details, Mapping) and details.get("reason"):
        return str(details["reason"])
    for key in ("finish_reason", "stop_reason", "done_reason", "finishReason", "stopReason", "status"):
        if metadata.get(key):
            return str(metadata[key])
    return None


def _end(reason: str | None) -> End:
    """Sort a provider's word; streamed pieces may have been merged into `lengthlength`."""
    word = (reason or "").strip().lower().rpartition(".")[2]
    if any(word.startswith(known) for known in _LENGTH):
        return "length"
    if any(word.startswith(known) for known in _REFUSED):
        return "refused"
    return "stop"
