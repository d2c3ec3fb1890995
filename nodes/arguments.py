"""Arguments of a tool call that came as text: JSON, JSON in JSON, JSON with faults, or a Python dict.

What can be read in one way only is read. A text that ends within a string is never completed: that is where the
token limit cuts, and half of a line may mean something else than the whole.
"""

import ast
import json
import re
from collections.abc import Mapping
from typing import Any

from .source import looks_like_code, parses

_SPACE = re.compile(r"[\s,;]*")
_DECODER = json.JSONDecoder(strict=False)
_FENCED = re.compile(r"\s*(?:`{3,}|~{3,})[\w-]*[ \t]*\n(?P<body>[\s\S]*?)\n[ \t]*(?:`{3,}|~{3,})\s*")
_CODE_ONLY = re.compile(r"""\s*\{\s*["']code["']\s*:\s*(?P<quote>["'`])(?P<body>[\s\S]*)(?P=quote)\s*,?\s*\}\s*""")
_TRAILING_COMMA = re.compile(r",\s*([}\]])\s*\Z")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "", '"': '"', "\\": "\\"}
_LAYERS = 3


def decode(text: str) -> object:
    """Decode arguments that came as text.

    Returns:
        The value; the text itself where it cannot be read.
    """
    value: object = text
    for _ in range(_LAYERS):
        if not isinstance(value, str):
            return value
        try:
            value = json.loads(value, strict=False)
        except (ValueError, RecursionError):
            break
    return _damaged(value) if isinstance(value, str) else value


def innermost_text(text: str) -> str:
    """Undo JSON string layers, or a fence, around a text that is no JSON itself."""
    for _ in range(_LAYERS):
        try:
            value = json.loads(text, strict=False)
        except (ValueError, RecursionError):
            break
        if not isinstance(value, str):
            break
        text = value
    return unfenced(text)


def unfenced(text: str) -> str:
    """The inside of a text that is one fenced block; any other text as it is."""
    fenced = _FENCED.fullmatch(text) if "```" in text or "~~~" in text else None
    return fenced["body"] if fenced else text


def _damaged(text: str) -> object:
    inner = unfenced(text).strip()
    if not inner.startswith(("{", "[")):
        return text
    for candidate in dict.fromkeys((inner, _TRAILING_COMMA.sub(r"\1", inner), inner + "}")):
        try:
            # A fault behind a whole object, such as a closing tag, changes nothing of what it says.
            value, end = _DECODER.raw_decode(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict | list) and not candidate[end:].lstrip().startswith(("{", "[", '"')):
            return value
    values = sequence(inner)
    if len(values) > 1:
        # Pieces of a stream that belong to several calls, put together as one.
        return values
    value = _literal(inner)
    return _code_only(inner, text) if value is None else value


def sequence(text: str) -> list[Mapping[Any, Any]]:
    """The objects of a text that holds nothing but JSON objects, one after the other; none where it holds more."""
    values: list[Mapping[Any, Any]] = []
    at = 0
    while at < len(text):
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        if not isinstance(value, Mapping):
            return []
        values.append(value)
        space = _SPACE.match(text, at)
        at = space.end() if space else at
    return values


def _literal(text: str) -> object:
    if not parses(text):
        return None
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _code_only(text: str, otherwise: str) -> object:
    """An object with nothing but code, whose quotes were not escaped; kept where the code parses."""
    match = _CODE_ONLY.fullmatch(text)
    if match is None:
        return otherwise
    body = match["body"]
    for code in (body, _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[0]), body)):
        if looks_like_code(code):
            return {"code": code}
    return otherwise


def merged(values: list[Any]) -> object:
    """Arguments that came as a list: the only object in it, the code of several, or lines of code."""
    if values and all(isinstance(item, Mapping) for item in values):
        if len(values) == 1:
            return values[0]
        codes = [item.get("code") for item in values]
        return {"code": "\n".join(codes)} if all(isinstance(code, str) for code in codes) else None
    if values and all(isinstance(item, str) for item in values):
        text = "\n".join(values)
        return {"code": text} if looks_like_code(text) else None
    return None
