"""Text cut to a length, with its head, its tail and a true count of what is missing between them."""

import unicodedata

_JOINER = "\u200d"


def shorten(text: str, limit: int) -> str:
    """Cut a text in its middle.

    Args:
        text: any text.
        limit: greatest length of the result in characters, the notice included; 0 or more.

    Returns:
        The text itself where it fits; else head, a line such as `[... 1200 characters left out ...]`, and tail.
        Where the limit leaves no room for a notice, as much of the head as fits. The cut falls between whole lines
        where that costs little, and never inside a character made of several code points.
    """
    if limit < 0:
        raise ValueError(f"The limit is {limit}, a length cannot be below 0; give 0 or more.")
    if len(text) <= limit:
        return text
    room = limit - len(_notice(len(text)))
    if room < 2:
        short = _short_notice(len(text))
        return short if len(short) <= limit else text[: _whole_before(text, limit)]
    head = _line_before(text, _whole_before(text, room // 2))
    tail = _line_after(text, _whole_after(text, len(text) - (room - room // 2)))
    return text[:head] + _notice(tail - head) + text[tail:]


def _notice(count: int) -> str:
    return f"\n[... {count} characters left out ...]\n"


def _short_notice(count: int) -> str:
    return f"[... {count} characters left out ...]"


def _continues(text: str, position: int) -> bool:
    """Whether the code point at the position belongs to the character before it."""
    if not 0 < position < len(text):
        return False
    point, before = text[position], text[position - 1]
    return (
        bool(unicodedata.combining(point))
        or unicodedata.category(point) in {"Mn", "Me", "Mc"}
        or point == _JOINER
        or before == _JOINER
        or "\U0001f3fb" <= point <= "\U0001f3ff"
        or ("\udc00" <= point <= "\udfff" and "\ud800" <= before <= "\udbff")
        or (before == "\r" and point == "\n")
    )


def _whole_before(text: str, position: int) -> int:
    lowest = max(position - 64, 0)
    while position > lowest and _continues(text, position):
        position -= 1
    return position


def _whole_after(text: str, position: int) -> int:
    highest = min(position + 64, len(text))
    while position < highest and _continues(text, position):
        position += 1
    return position


def _line_before(text: str, position: int) -> int:
    """The end of the last whole line, where that gives up at most a quarter of the head."""
    line_end = text.rfind("\n", 0, position + 1)
    return line_end if line_end >= position * 3 // 4 and line_end > 0 else position


def _line_after(text: str, position: int) -> int:
    line_start = text.find("\n", position - 1) + 1
    return (
        line_start if 0 < line_start <= position + (len(text) - position) // 4 and line_start < len(text) else position
    )
