"""Code between tags, as models write it that were trained on another agent's format.

`<execute>…</execute>` and its relatives hold code; how calls are written is in `native`. A closing tag inside a string
of the code does not close it, and a tag that names another language holds no code.
"""

import re
from dataclasses import dataclass

from .calls import Call
from .fences import is_python
from .native import find_call
from .preparing import prepare_code
from .source import looks_like_code, parses

_CODE_TAG = re.compile(
    r"<(?P<name>execute|execute_python|execute_ipython|execute_code|run_python|run_code|python_code|python_exec|python"
    r"|python3|ipython|jupyter|interpreter|code_interpreter|code_cell|code_block|tool_code|py|code)"
    r"(?P<attributes>\s[^<>\n]*)?>",
    re.IGNORECASE,
)
_LANGUAGE = re.compile(r"""(?:lang|language|class|type)\s*=\s*["']?\s*(?:language-|lang-)?(?P<label>[\w.+#-]+)""")
_CDATA = re.compile(r"\s*<!\[CDATA\[([\s\S]*?)\]\]>\s*")
_INLINE_CODE = re.compile(r"(?<!`)(`+)(?!`)[^`\n]+(?<!`)\1(?!`)")
_MAX_TRIES = 4
_MAX_TRIED = 50_000


@dataclass(frozen=True)
class Tagged:
    """What stands between a pair of tags."""

    body: str
    start: int
    """Offset of the opening tag."""
    end: int
    """Offset behind the closing tag, or the end of the text."""
    closed: bool
    calls: tuple[Call, ...] = ()
    """The tool calls, where it holds such."""
    label: str = "python"
    """Language of the code."""


class TagReader:
    """Finds tagged parts of one reply; bounds the work that an odd reply can cause."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tries = 64
        self._never_closed: set[str] = set()

    def find(self, start: int, end: int) -> Tagged | None:
        """The first tagged part whose opening tag lies in the line from `start` to `end`."""
        if "<" not in self._text[start:end] and "[T" not in self._text[start:end]:
            return None
        line = _INLINE_CODE.sub(lambda match: " " * len(match[0]), self._text[start:end])
        found = find_call(self._text, line, start)
        if found is not None:
            return Tagged(self._text[found.start : found.end], found.start, found.end, found.closed, found.calls)
        for opened in _CODE_TAG.finditer(line):
            label = _LANGUAGE.search(opened["attributes"] or "")
            tagged = self._code(
                start + opened.start(), start + opened.end(), opened["name"].lower(), label["label"] if label else ""
            )
            if tagged is not None:
                return tagged
        return None

    def _code(self, start: int, inside: int, name: str, label: str) -> Tagged | None:
        label = label.lower() if label and not is_python(label.lower()) else "python"
        close = re.compile(rf"</{name}\s*>", re.IGNORECASE)
        first = None if name in self._never_closed else close.search(self._text, inside)
        if first is None:
            again = name in self._never_closed
            self._never_closed.add(name)
            if not name.startswith(("execute", "run")) and (again or not self._opens(start, inside)):
                return None
            return Tagged(self._text[inside:], start, len(self._text), closed=False, label=label)
        chosen = self._right_close(close, first, inside)
        body = self._text[inside : chosen.start()]
        if name in {"code", "py"} and "\n" not in body and not looks_like_code(body):
            return None
        data = _CDATA.fullmatch(body)
        return Tagged(data[1] if data else body, start, chosen.end(), closed=True, label=label)

    def _opens(self, start: int, inside: int) -> bool:
        """Whether a tag that is never closed opens code: `<code>` and the short names are HTML or words as well.

        Providers leave out the closing tag where it is a stop text; so it counts where it stands alone on its line
        and nothing but code follows.
        """
        line = self._text[self._text.rfind("\n", 0, start) + 1 : start]
        if line.strip() or not re.match(r"[ \t]*\n", self._text[inside : inside + 200]):
            return False
        return len(self._text) - inside <= _MAX_TRIED and looks_like_code(prepare_code(self._text[inside:]))

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
