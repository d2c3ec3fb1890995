"""Reasoning sections that stand in the text of a reply, and the text without them.

Models that think aloud put it between tags of their own. Code in there was considered, not asked for: it must never
run. Three shapes count: a section with both tags; one that is opened and never closed (the rest of the reply is
thinking); and a closing tag without an opening one (servers that put the opening tag into the prompt: all before it
is thinking). Inside a code block a tag is text.
"""

import re

from .fences import Fence, closes, opening

_NAMES = (
    r"(?:[\w.]+[:-])?(?:(?:ant|inner|chain_of|my|deep|slow)?[_-]?(?:think|thinking|thoughts?|monologue|reasoning)"
    r"(?:_process|_content|_step)?|reflection|scratchpad|rationale|analysis|cot|思考|思考过程)"
)
_TOKENS = r"<\|(?:{0})(?:_of)?_(?:think|thinking|thought|reasoning)\|>"
_OPEN = re.compile(
    rf"<(?P<name>{_NAMES})(?:\s[^<>\n]*)?>|\[THINK\]|◁think▷|{_TOKENS.format('begin|start')}"
    r"|^Thinking\.\.\.[ \t]*$|^Here is my thought process:",
    re.IGNORECASE | re.MULTILINE,
)
_CLOSE = re.compile(
    rf"</(?:{_NAMES})\s*>|\[/THINK\]|◁/think▷|{_TOKENS.format('end')}"
    r"|^\.\.\.done thinking\.|^Here is my response:",
    re.IGNORECASE | re.MULTILINE,
)
_INLINE_CODE = re.compile(r"(?<!`)(`+)(?!`)[^`\n]+(?<!`)\1(?!`)")


def without_thinking(text: str) -> tuple[str, bool]:
    """Remove the reasoning sections.

    Args:
        text: the reply, line ends normalised.

    Returns:
        The rest, and whether the reply ends inside a reasoning section.
    """
    if not _OPEN.search(text) and not _CLOSE.search(text):
        return text, False
    kept: list[str] = []
    thinking = False
    fence: Fence | None = None
    for line in text.split("\n"):
        if fence is not None and _CLOSE.fullmatch(line.strip()):
            # A fence that the thinking itself left open: a closing tag alone on its line is no code.
            kept, fence = [], None
            continue
        if fence is not None:
            kept.append(line)
            if closes(line, fence):
                fence = None
            continue
        shown, thinking, orphan = _visible(line, thinking)
        if orphan:
            kept = []
        if shown is None:
            continue
        kept.append(shown)
        fence = opening(shown, anywhere=True)
    return "\n".join(kept), thinking


def _visible(line: str, thinking: bool) -> tuple[str | None, bool, bool]:
    """Split a line outside code at the tags.

    Returns:
        What is left of it (None where it lies wholly inside a section), whether a section is open after it, and
        whether a closing tag stood there that nothing had opened.
    """
    started_inside = thinking
    orphan = False
    parts: list[str] = []
    position = 0
    masked = _masked(line, 0)
    while True:
        if thinking:
            close = _CLOSE.search(line, position)
            if close is None:
                break
            position, thinking = close.end(), False
            masked = _masked(line, position)
            continue
        found = _OPEN.search(masked, position)
        stray = _CLOSE.search(masked, position, found.start() if found else len(line))
        if stray is not None:
            parts, orphan, position = [], True, stray.end()
            continue
        parts.append(line[position : found.start() if found else len(line)])
        if found is None:
            break
        position, thinking = found.end(), True
    shown = "".join(parts)
    hidden = (started_inside or orphan or thinking) and not shown.strip()
    return (None if hidden else shown), thinking, orphan


def _masked(line: str, start: int) -> str:
    """The line with inline code behind `start` blanked."""
    return line[:start] + _INLINE_CODE.sub(lambda match: " " * len(match[0]), line[start:])
