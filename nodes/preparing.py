"""Repair of code that was damaged on its way: by a serializer, a web page, a word processor, a transcript.

Nothing is changed in code that parses. Each repair is kept only for a damage that the parser confirms.
"""

import html
import re
from collections.abc import Callable, Iterator

from .source import parses

_MAX_REPAIR = 300_000
"""Characters beyond which code is only dedented: repairs parse the text several times."""

_LITERAL = re.compile(
    r'"""(?:\\.|[^\\])*?"""'
    r"|'''(?:\\.|[^\\])*?'''"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])*'"
    r"|\#[^\n]*",
    re.DOTALL | re.VERBOSE,
)
_SPACES = dict.fromkeys(
    map(
        ord,
        "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000",
    ),
    " ",
)
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"), "")
_DOUBLE = dict.fromkeys(map(ord, "\u201c\u201d\u201e\u201f\u2033\uff02\u00ab\u00bb"), '"')
_SINGLE = dict.fromkeys(map(ord, "\u2018\u2019\u201a\u201b\u2032\uff07\u00b4"), "'")
_SIGNS: dict[int, str] = {
    **{0xFF01 + offset: chr(0x21 + offset) for offset in range(94)},
    **dict(zip(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2212\u00d7\u00f7"), "------*/", strict=True)),
    **str.maketrans({"\u2264": "<=", "\u2265": ">=", "\u2260": "!=", "\u3001": ",", "\u3010": "[", "\u3011": "]"}),
}
"""Full-width and typographic forms of the signs that Python has."""
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#\d{1,7}|#[xX][0-9a-fA-F]{1,6});")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "", '"': '"', "'": "'", "\\": "\\"}
_DISPLAY_MAGIC = re.compile(r"^[ \t]*%matplotlib\b[^\n]*(?:\n|\Z)", re.MULTILINE)
_PROMPT = re.compile(r"(?:>>>|\.\.\.)(?: |$)")
_NUMBERED = re.compile(r"(?:In ?\[\d*\]:|[ \t]+\.{3,}:) ?")
_MARKED = re.compile(r"(?:In ?\[\d*\]|Out ?\[\d*\]):")


def prepare_code(text: str) -> str:
    """Make a code body that a reply carried into source that can run.

    In this order: line ends are normalised; the common indent goes; then, for text that still does not parse, a
    transcript loses its prompts and output, `%matplotlib` lines are dropped, odd spaces, invisible characters,
    typographic quotes and full-width signs outside strings become plain ones, HTML entities and a body with literal
    backslash-n are unescaped.

    Returns:
        Source without blank lines around it. Where no repair makes it parse, the dedented text, so that the
        SyntaxError is about what the model wrote.
    """
    code = dedent(text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff"))
    if len(code) > _MAX_REPAIR:
        return code
    if _MARKED.match(code):
        # `In [1]: x = 1` is an annotated assignment to the parser.
        code = _without_prompts(code)
    if parses(code):
        return code
    code = _DISPLAY_MAGIC.sub("", _without_prompts(code)).strip("\n")
    for candidate in _candidates(code):
        if parses(candidate):
            return candidate
    return code


def dedent(code: str) -> str:
    """Remove the blank lines around the code and the indent that its lines share.

    Lines inside a triple-quoted string often stand at the margin: where the code then still begins with an indent,
    that indent goes from each line that has it.
    """
    lines = code.rstrip().split("\n")
    while lines and not lines[0].strip():
        del lines[0]
    if not lines or not lines[0][:1].isspace():
        return "\n".join(lines)
    first = _indent(lines[0])
    shared = first
    for line in lines:
        if line.strip():
            shared = _shared(shared, _indent(line))
    if shared:
        return "\n".join(line.removeprefix(shared) for line in lines)
    moved = "\n".join(line.removeprefix(first) for line in lines)
    return moved if parses(moved) else "\n".join(lines)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _shared(left: str, right: str) -> str:
    size = 0
    while size < min(len(left), len(right)) and left[size] == right[size]:
        size += 1
    return left[:size]


def _candidates(code: str) -> Iterator[str]:
    once = _unescape_entities(code)
    for text in dict.fromkeys((code, once, _unescape_entities(once))):
        yield text
        plain = _outside_literals(text, _plain_characters)
        if plain != text:
            yield plain
        straight = plain
        # One kind of quote after the other: an apostrophe within “…” is part of the string.
        for quotes in (_DOUBLE, _SINGLE):
            if straight.translate(quotes) != straight:
                straight = _outside_literals(straight, lambda part, table=quotes: part.translate(table))  # type: ignore[misc]
                yield straight
        signs = _outside_literals(straight, lambda part: part.translate(_SIGNS))
        if signs != straight:
            yield signs
        everywhere = plain.translate(_DOUBLE | _SINGLE)
        if everywhere != straight:
            yield everywhere
            yield _outside_literals(everywhere, lambda part: part.translate(_SIGNS))
        if "\\n" in text:
            yield _outside_literals(text, _newlines)
            yield _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[0]), text)
        elif '\\"' in text:
            yield text.replace('\\"', '"')


def _unescape_entities(code: str) -> str:
    return _ENTITY.sub(lambda match: html.unescape(match[0]), code)


def _plain_characters(code: str) -> str:
    return code.translate(_SPACES).translate(_INVISIBLE)


def _newlines(code: str) -> str:
    return code.replace("\\r\\n", "\n").replace("\\n", "\n").replace("\\t", "\t")


def _outside_literals(code: str, change: Callable[[str], str]) -> str:
    """Apply `change` to everything but string literals; comments count as code."""
    parts: list[str] = []
    position = 0
    for match in _LITERAL.finditer(code):
        if match[0].startswith("#"):
            continue
        parts += [change(code[position : match.start()]), match[0]]
        position = match.end()
    parts.append(change(code[position:]))
    return "".join(parts)


def _without_prompts(code: str) -> str:
    """Turn an interactive transcript into its input lines; any other text stays as it is."""
    lines = code.split("\n")
    if _MARKED.match(lines[0]):
        return "\n".join(_NUMBERED.sub("", line, count=1) for line in lines if _NUMBERED.match(line))
    if not lines[0].startswith(">>>"):
        return code
    return "\n".join(line[4:] for line in lines if _PROMPT.match(line))
