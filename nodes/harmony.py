"""Replies in the format of gpt-oss that a server handed on as text: channels of analysis, commentary and answer."""

import json
import re

_MESSAGE = re.compile(r"<\|channel\|>(?P<head>[^\n]{0,200}?)<\|message\|>")
_STOP = re.compile(r"<\|(?:end|call|return|start|channel)\|>")
_ROLE = re.compile(r"<\|start\|>\s*\w+[^<>\n]{0,80}")
_SIGNS = re.compile(r"<\|(?:end|call|return|channel)\|>")
_RECIPIENT = re.compile(r"\bto=([\w.-]+)")


def read_harmony(text: str) -> str:
    """Write the channels as other models would: analysis is left out, a call becomes a `<tool_call>`.

    Args:
        text: a reply; any that has no channels comes back as it is.
    """
    messages = list(_MESSAGE.finditer(text))
    if not messages or not _begins_a_message(text, messages[0].start()):
        return text
    parts = [_between(text[: messages[0].start()])]
    ends = [message.start() for message in messages[1:]] + [len(text)]
    for message, next_start in zip(messages, ends, strict=True):
        stop = _STOP.search(text, message.end())
        body = text[message.end() : stop.start() if stop else len(text)]
        # The recipient stands behind the channel, or behind the role before it.
        role = list(_ROLE.finditer(text, max(0, message.start() - 120), message.start()))
        recipient = _RECIPIENT.search(message["head"]) or (_RECIPIENT.search(role[-1][0]) if role else None)
        if recipient is not None:
            call = json.dumps({"name": recipient[1], "arguments": body.strip()})
            parts.append(f"\n<tool_call>{call}" + ("</tool_call>\n" if stop else ""))
        elif not message["head"].lstrip().startswith("analysis"):
            parts.append("\n" + body)
        elif stop is None:
            parts.append("\n<think>")
        parts.append(_between(text[stop.start() : next_start]) if stop else "")
    return "".join(parts)


def _begins_a_message(text: str, place: int) -> bool:
    """Whether a sign stands where a message begins; elsewhere it is a word, or stands in a block of code."""
    before = text[:place]
    line = before.rpartition("\n")[2].strip()
    blocks = sum(part.lstrip().startswith(("```", "~~~")) for part in before.splitlines())
    return (not line or line.startswith("<|")) and blocks % 2 == 0


def _between(text: str) -> str:
    """What stands between two messages: signs and roles, and words where the format was not kept."""
    return _SIGNS.sub("", _ROLE.sub("", text))
