"""Fenced code blocks of Markdown, found by the rules of CommonMark.

A fence opens with three or more backticks or tildes and closes on a line of its own with at least as many of the
same character. Containers are followed as far as replies use them: a block may stand in a list item or a quotation.
One rule is looser than the standard: where a Python block closed at the first possible line would end inside a
triple-quoted string, and a later closing line gives code that parses, the later one counts; models write Markdown
files from Python without a longer outer fence.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .preparing import dedent
from .source import Fault, parse, parses

PYTHON = frozenset(
    {
        *("python", "py", "python2", "python3", "py3", "ipython", "ipython3", "pycon", "tool_code", "cpython"),
        *(
            "jupyter",
            "jupyter-python",
            "ipynb",
            "pyodide",
            "run_python",
            "execute_python",
            "exec_python",
            "python-repl",
        ),
        *("python_repl", "python_code", "python_exec", "python_interpreter", "code-python", "py-exec"),
    }
)
"""Labels of Python, in lower case."""

_UNLABELLED = frozenset({"code", "exec", "execute", "run", "cell", "script", "code_block", "codeblock"})
"""Labels that name no language."""

_SUFFIXED = re.compile(r"i?py(?:thon)?[23]?[-_](?:repl|console|interactive|session|interpreter|exec|code|run|cell)")
_VERSIONED = re.compile(r"python[23](\.\d+)*")
_FENCE = re.compile(r"(?P<indent>[ \t]*)(?P<marks>`{3,}|~{3,})(?P<info>.*)")
_ITEM = re.compile(r"([ \t]*)([-*+]|\d{1,9}[.)])([ \t]+)(?=\S)")
_QUOTE = re.compile(r" {0,3}>(?: ?>)* ?")
_LABEL = re.compile(r"[^\s,:;=\[({]+")
_MAX_EXTENSIONS = 12
_MAX_EXTENDED = 100_000
_MAX_NESTED = 8


@dataclass(frozen=True)
class Fence:
    """An opening fence."""

    character: str
    length: int
    indent: int
    """Columns before the fence."""
    label: str
    """Language in lower case, empty where there is none."""
    base: int = 0
    """Columns that belong to the list item around it."""


@dataclass(frozen=True)
class Block:
    """A piece of a reply that is set off as code."""

    label: str
    body: str
    closed: bool = True
    quoted: bool = False
    """Whether it stands in a quotation."""

    @property
    def python(self) -> bool:
        """Whether the reply itself calls it Python."""
        return is_python(self.label)


def is_python(label: str) -> bool:
    """Whether a language label means Python: `py`, `Python3`, `python3.12`, `ipython`."""
    if label in PYTHON or _VERSIONED.fullmatch(label) or _SUFFIXED.fullmatch(label):
        return True
    return re.fullmatch(r"[\w./-]+\.py", label) is not None


def label_of(info: str) -> str:
    """Language of an info string: `python title="x"`, `{python}`, `{.python .numberLines}`, `py:main.py`."""
    words = info.strip().lstrip("{").lstrip().lstrip(".").rstrip("}").split()
    if words and words[0].rstrip("}") == "code-cell" and len(words) > 1:
        del words[0]
    match = _LABEL.match(words[0].rstrip("}").lstrip("'\"*_!")) if words else None
    label = match[0].lower().rstrip("'\"*_!.\\") if match else ""
    label = re.sub(r"^(?:language|lang)-", "", label)
    return "" if label in _UNLABELLED else label


def opening(line: str, base: int = 0, *, anywhere: bool = False) -> Fence | None:
    """Read a line as an opening fence.

    Args:
        line: one line without its end.
        base: columns that belong to the list item around it.
        anywhere: take a fence at any indent.
    """
    match = _FENCE.match(line)
    if match is None or (match["marks"][0] == "`" and "`" in match["info"]):
        return None
    indent = _columns(match["indent"])
    if not anywhere and not 0 <= indent - base <= 3 and indent > 3:
        return None
    return Fence(match["marks"][0], len(match["marks"]), indent, label_of(match["info"]), base if indent >= base else 0)


def closes(line: str, fence: Fence) -> bool:
    """Whether the line ends the block that `fence` began."""
    text = line.strip(" \t")
    if len(text) < fence.length or text.strip(fence.character):
        return False
    limit = max(fence.base, fence.indent if fence.indent > fence.base + 3 else 0) + 3
    return _columns(line[: len(line) - len(line.lstrip(" \t"))]) <= limit


def _columns(space: str) -> int:
    return len(space.expandtabs(4))


class Lines:
    """Lines of a reply and a position in them; knows the list item that the position is in."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.at = 0
        self.odd_tries = 4
        """How many blocks in odd places may still be tried: each try parses."""
        self._items: list[int] = []
        self._extensions = _MAX_EXTENSIONS
        self._quotation: tuple[int, list[str]] = (0, [])

    def take_block(self, *, anywhere: bool = False) -> Block | None:
        """Read the fenced block that begins at the position and step behind it; None where none begins."""
        line = self.lines[self.at]
        mark = _QUOTE.match(line)
        quoted = mark is not None and opening(line[mark.end() :]) is not None
        lines, start = self._quoted_lines() if quoted else (self.lines, self.at)
        base, content = (0, lines[start]) if quoted else self._enter(lines[start])
        fence = opening(content, base, anywhere=anywhere)
        if fence is None:
            return None
        end, closed = self._end(lines, start + 1, fence)
        early = self._early_end(lines, start + 1, end, fence) if is_python(fence.label) else None
        if early is not None:
            return self._cut_short(lines, start, early, fence, quoted=quoted)
        body = _body(lines, start + 1, end, fence)
        if not closed:
            body, closed = _close_in_line(body, fence)
        self.at += end - start + (1 if end < len(lines) else 0)
        # The end of a quotation ends a block in it; the end of the reply may be a cut.
        return _labelled(fence.label, body, closed or (quoted and self.at < len(self.lines)), quoted)

    def skip(self) -> str:
        """Step over the line at the position."""
        self.at += 1
        return self.lines[self.at - 1]

    def _early_end(self, lines: Sequence[str], start: int, end: int, fence: Fence) -> int | None:
        """Line before `end` with marks beside other text that ends the block: only where that makes the code parse."""
        marks = fence.character * fence.length
        places = [index for index in range(start, end) if marks in lines[index]]
        if not places or self._extensions <= 0 or self._parses(lines, start, end, fence):
            return None
        for index in places:
            if self._extensions <= 0:
                break
            head, _, tail = lines[index].partition(marks)
            if head.strip() and tail.strip():
                continue
            self._extensions -= 1
            if self._parses([*lines[:index], head], start, index + 1, fence):
                return index
        return None

    def _cut_short(self, lines: Sequence[str], start: int, at: int, fence: Fence, *, quoted: bool) -> Block:
        """End a block at a line with marks and text; what follows the marks is read on."""
        head, _, tail = lines[at].partition(fence.character * fence.length)
        body = _body([*lines[:at], head], start + 1, at + 1, fence)
        self.at += at - start + 1
        if is_python(label_of(tail)) and not head.strip():
            # The next block begins where the end of this one was forgotten.
            self.at -= 1
        return _labelled(fence.label, body.rstrip("\n"), True, quoted)

    def _parses(self, lines: Sequence[str], start: int, end: int, fence: Fence) -> bool:
        code = _body(lines, start, end, fence)
        return len(code) <= _MAX_EXTENDED and parses(dedent(code))

    def _quoted_lines(self) -> tuple[list[str], int]:
        """Lines of the quotation around the position, without their marks, and the position among them."""
        first, lines = self._quotation
        if not first <= self.at < first + len(lines):
            first, lines = self.at, []
            for line in self.lines[self.at :]:
                match = _QUOTE.match(line)
                if match is None:
                    break
                lines.append(line[match.end() :])
            self._quotation = (first, lines)
        return lines, self.at - first

    def _enter(self, line: str) -> tuple[int, str]:
        """Follow list items: columns of the innermost one, and the line with the item's own mark blanked."""
        if not line.strip():
            return (self._items[-1] if self._items else 0), line
        columns = _columns(line[: len(line) - len(line.lstrip(" \t"))])
        while self._items and columns < self._items[-1]:
            self._items.pop()
        for _ in range(_MAX_NESTED):
            match = _ITEM.match(line)
            if match is None:
                break
            line = " " * _columns(match[0]) + line[match.end() :]
            self._items.append(_columns(match[0]))
        return (self._items[-1] if self._items else 0), line

    def _end(self, lines: Sequence[str], start: int, fence: Fence) -> tuple[int, bool]:
        """Index of the line that closes the block, or of the end of the text."""
        first = _next_close(lines, start, fence)
        if first is None:
            return len(lines), False
        end: int | None = first
        while is_python(fence.label) and end is not None and self._extensions > 0:
            code = "\n".join(_without_indent(text, fence.indent) for text in lines[start:end])
            if len(code) > _MAX_EXTENDED:
                break
            fault = parse(dedent(code))
            if not isinstance(fault, Fault):
                return end, True
            if "triple-quoted" not in fault.message:
                break
            self._extensions -= 1
            end = _next_close(lines, end + 1, fence)
        return first, True


def _body(lines: Sequence[str], start: int, end: int, fence: Fence) -> str:
    return "\n".join(_without_indent(text, fence.indent) for text in lines[start:end])


def _labelled(label: str, body: str, closed: bool, quoted: bool) -> Block:
    """A block; one without a label may have it on its first line."""
    first, _, rest = body.lstrip("\n").partition("\n")
    if not label and rest.strip() and is_python(first.strip().lower()) and parses(dedent(rest)):
        label, body = "python", rest
    return Block(label, body, closed, quoted)


def _next_close(lines: Sequence[str], start: int, fence: Fence) -> int | None:
    return next((index for index in range(start, len(lines)) if closes(lines[index], fence)), None)


def _without_indent(line: str, columns: int) -> str:
    """Take away up to `columns` columns of space: the body moves as far as its fence is indented."""
    index = 0
    while index < len(line) and columns > 0 and line[index] in " \t":
        columns -= 4 if line[index] == "\t" else 1
        index += 1
    return line[index:]


def _close_in_line(body: str, fence: Fence) -> tuple[str, bool]:
    """See whether an open block really ends with marks at the end of its last line: `print(1)```."""
    text = body.rstrip()
    if not is_python(fence.label) or not text.endswith(fence.character * fence.length):
        return body, False
    inner = text[: -fence.length]
    return (inner, True) if not parses(body) and parses(inner) else (body, False)
