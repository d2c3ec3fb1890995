"""Code between tags, as models write it that were trained on another agent's format.

`<execute>…</execute>` and its relatives hold code; `<tool_call>{…}</tool_call>` holds a call as JSON. A closing tag
inside a string of the code does not close it.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from .source import looks_like_code, parses

_CODE_TAG = re.compile(
    r"<(?P<name>execute|execute_python|execute_ipython|run_python|python|ipython|py|code)(?:\s[^<>\n]*)?>",
    re.IGNORECASE,
)
_CALL_TAG = re.compile(r"<(?P<name>tool_call|function_call)>", re.IGNORECASE)
_INLINE_CODE = re.compile(r"(?<!`)(`+)(?!`)[^`\n]+(?<!`)\1(?!`)")
_MAX_TRIES = 4
_MAX_TRIED = 50_000
_SPACE = re.compile(r"\s*")
_DECODER = json.JSONDecoder(strict=False)


@dataclass(frozen=True)
class Tagged:
    """What stands between a pair of tags."""

    body: str
    start: int
    """Offset of the opening tag."""
    end: int
    """Offset behind the closing tag, or the end of the text."""
    closed: bool
    call: dict[str, Any] | str | None = None
    """For a tool call: the decoded object, or the text where it is no JSON object."""


class TagReader:
    """Finds tagged parts of one reply; bounds the work that an odd reply can cause."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tries = 64
        self._never_closed: set[str] = set()

    def find(self, start: int, end: int) -> Tagged | None:
        """The first tagged part whose opening tag lies in the line from `start` to `end`."""
        if "<" not in self._text[start:end]:
            return None
        line = _INLINE_CODE.sub(lambda match: " " * len(match[0]), self._text[start:end])
        call = _CALL_TAG.search(line)
        if call is not None:
            return self._call(start + call.start(), start + call.end(), call["name"])
        for opened in _CODE_TAG.finditer(line):
            tagged = self._code(start + opened.start(), start + opened.end(), opened["name"].lower())
            if tagged is not None:
                return tagged
        return None

    def _code(self, start: int, inside: int, name: str) -> Tagged | None:
        close = re.compile(rf"</{name}\s*>", re.IGNORECASE)
        first = None if name in self._never_closed else close.search(self._text, inside)
        if first is None:
            self._never_closed.add(name)
            # `<code>` and the short names are HTML or plain words as well: alone they open nothing.
            if not name.startswith(("execute", "run")):
                return None
            return Tagged(self._text[inside:], start, len(self._text), closed=False)
        chosen = self._right_close(close, first, inside)
        body = self._text[inside : chosen.start()]
        if name in {"code", "py"} and "\n" not in body and not looks_like_code(body):
            return None
        return Tagged(body, start, chosen.end(), closed=True)

    def _right_close(self, close: re.Pattern[str], first: re.Match[str], inside: int) -> re.Match[str]:
        """The closing tag that leaves code which parses; else the first one alone on its line; else the first."""
        alone: re.Match[str] | None = None
        match: re.Match[str] | None = first
        for _ in range(_MAX_TRIES):
            if match is None or self._tries <= 0 or match.start() - inside > _MAX_TRIED:
                break
            self._tries -= 1
            if parses(self._text[inside : match.start()].strip()):
                return match
            line_start = self._text.rfind("\n", 0, match.start()) + 1
            if alone is None and not self._text[line_start : match.start()].strip():
                alone = match
            match = close.search(self._text, match.end())
        return alone or first

    def _call(self, start: int, inside: int, name: str) -> Tagged:
        """Read the JSON object first: the closing tag may stand in one of its strings."""
        try:
            value, decoded_end = _DECODER.raw_decode(self._text, _after_space(self._text, inside))
        except (ValueError, RecursionError):
            value, decoded_end = None, inside
        close = re.compile(rf"</{name}\s*>", re.IGNORECASE).search(self._text, decoded_end)
        end = close.start() if close else len(self._text)
        body = self._text[inside:end]
        call = value if isinstance(value, dict) else body.strip()
        return Tagged(body, start, close.end() if close else end, close is not None, call)


def _after_space(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    return match.end() if match else start
