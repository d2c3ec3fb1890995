"""Tool calls written as text, in the formats that models were trained on.

A server that does not know a model's format hands the call on as it was written: JSON or XML between tags (Hermes,
Qwen, GLM, Llama, Claude), behind a marker (Mistral, Llama's python tag), or between special tokens (DeepSeek, Kimi).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .arguments import decode, sequence
from .calls import Call, call_of_object, calls_of_expression, is_tool, read_call
from .source import looks_like_code

_NAME = r"""["']?(?P<{0}>[\w.:-]+)["']?"""
_MARK = re.compile(
    r"<(?P<tag>tool_calls?|function_?calls?)>"
    r"|<(?P<ns>antml:)?(?:function_calls|invoke\s+name=" + _NAME.format("invoke") + r")\s*>"
    r"|<function(?:=|\s+name=)" + _NAME.format("function") + r"\s*>"
    r"|(?P<mistral>\[TOOL_CALLS\])"
    r"|(?P<python><\|python_tag\|>)"
    r"|(?P<token><[|｜]tool[▁_]call[▁_]begin[|｜]>)",
    re.IGNORECASE,
)
_INNER = re.compile(
    r"<(?:antml:)?(?:function=|function\s+name=|invoke\s+name=)" + _NAME.format("name") + r"\s*>"
    r"(?P<body>[\s\S]*?)(?:</(?:antml:)?(?:function|invoke)>|\Z)",
    re.IGNORECASE,
)
_PARAMETER = re.compile(
    r"<(?:antml:)?parameter(?:=|\s+name=)" + _NAME.format("key") + r"[^<>\n]*>\n?"
    r"(?P<value>[\s\S]*?)"
    r"(?:\n?</(?:antml:)?parameter>(?=\s*(?:<(?:antml:)?parameter|</(?:antml:)?(?:function|invoke)|\Z))|\Z)",
    re.IGNORECASE,
)
_GLM = re.compile(r"\s*(?P<name>[\w.-]+)\s*(?=<arg_key>)")
_GLM_PAIR = re.compile(r"<arg_key>\s*(?P<key>[\w-]+)\s*</arg_key>\s*<arg_value>\n?(?P<value>[\s\S]*?)\n?</arg_value>")
_NAMED = re.compile(r"\s*(?P<name>[\w.-]+)\s*(?:\[CALL_ID\][\w-]*)?(?:\[ARGS\])?\s*(?=\{)")
_TOKEN_END = re.compile(r"<[|｜]tool[▁_]call[▁_]end[|｜]>(?:\s*<[|｜]tool[▁_]calls[▁_](?:section[▁_])?end[|｜]>)?")
_TOKEN_SEPARATOR = re.compile(r"<[|｜]tool[▁_](?:sep|call[▁_]argument[▁_]begin)[|｜]>")
_PYTHON_END = re.compile(r"<\|(?:eom_id|eot_id|end_of_text)\|>")
_FENCED = re.compile(r"\s*(?:`{3,}|~{3,})[\w-]*[ \t]*\n(?P<body>[\s\S]*?)\n[ \t]*(?:`{3,}|~{3,})\s*")
_SPACE = re.compile(r"\s*")
_DECODER = json.JSONDecoder(strict=False)
_NOT_READ = "the call between the tags is neither JSON nor in a form that is known"


@dataclass(frozen=True)
class Found:
    """Calls in a text, and where they stand."""

    calls: tuple[Call, ...]
    start: int
    end: int
    closed: bool


def find_call(text: str, line: str, start: int) -> Found | None:
    """The first marked call in a line.

    Args:
        text: the reply.
        line: the line, as long as in the text; inline code in it may be blanked.
        start: offset of the line in the text.
    """
    mark = _MARK.search(line)
    if mark is None:
        return None
    begin, inside = start + mark.start(), start + mark.end()
    if mark["mistral"]:
        return _mistral(text, begin, inside)
    if mark["python"]:
        stop = _PYTHON_END.search(text, inside)
        body = text[inside : stop.start() if stop else len(text)]
        return Found(_in_body(body, raw_code=True), begin, stop.end() if stop else len(text), stop is not None)
    if mark["token"]:
        return _between_tokens(text, begin, inside)
    if mark["invoke"] or mark["function"]:
        inner = _INNER.match(text, begin)
        if inner is None:
            return None
        closed = not inner["body"] or inner.end() > inner.end("body")
        return Found((_xml(inner),), begin, inner.end(), closed)
    return _between_tags(text, begin, inside, mark["tag"] or f"{mark['ns']}function_calls")


def _between_tags(text: str, begin: int, inside: int, name: str) -> Found:
    """Read the JSON first: the closing tag may stand in one of its strings."""
    space = _SPACE.match(text, inside)
    at = space.end() if space else inside
    try:
        _, decoded = _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        decoded = inside
    close = re.compile(rf"</{name}\s*>", re.IGNORECASE).search(text, decoded)
    end = close.start() if close else len(text)
    return Found(_in_body(text[inside:end]), begin, close.end() if close else end, close is not None)


def _in_body(body: str, *, raw_code: bool = False) -> tuple[Call, ...]:
    fenced = _FENCED.fullmatch(body)
    body = fenced["body"] if fenced else body
    calls = [call_of_object(value) for value in objects_in(body)]
    if calls:
        return tuple(calls)
    calls = [_xml(inner) for inner in _INNER.finditer(body)]
    if calls:
        return tuple(calls)
    named = _GLM.match(body)
    if named is not None:
        values = {pair["key"]: pair["value"] for pair in _GLM_PAIR.finditer(body, named.end())}
        return (read_call(named["name"], values),)
    expression = calls_of_expression(body)
    if expression:
        return tuple(expression)
    if raw_code or looks_like_code(body.strip()):
        return (Call("cell", body.strip("\n")) if body.strip() else Call("cell", problem="code is missing"),)
    return (Call("cell", problem=_NOT_READ),)


def objects_in(text: str) -> list[Mapping[Any, Any]]:
    """The objects of a text that is nothing but JSON: one, a list, or several one after the other."""
    value = decode(text.strip())
    if isinstance(value, Mapping):
        return [value]
    if isinstance(value, list):
        return list(value) if value and all(isinstance(item, Mapping) for item in value) else []
    return sequence(text.strip())


def _xml(inner: re.Match[str]) -> Call:
    values = {pair["key"]: pair["value"] for pair in _PARAMETER.finditer(inner["body"])}
    return read_call(inner["name"], values or inner["body"].strip())


def _mistral(text: str, begin: int, inside: int) -> Found:
    named = _NAMED.match(text, inside)
    space = _SPACE.match(text, inside)
    at = named.end() if named else space.end() if space else inside
    try:
        value, end = _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        rest = text[at:]
        call = read_call(named["name"], rest) if named else Call("cell", problem=_NOT_READ)
        return Found((call,), begin, len(text), closed=False)
    if named:
        return Found((read_call(named["name"], value),), begin, end, closed=True)
    values = value if isinstance(value, list) else [value]
    calls = tuple(
        call_of_object(item) if isinstance(item, Mapping) else Call("cell", problem=_NOT_READ) for item in values
    )
    return Found(calls or (Call("cell", problem=_NOT_READ),), begin, end, closed=True)


def _between_tokens(text: str, begin: int, inside: int) -> Found:
    close = _TOKEN_END.search(text, inside)
    end = close.start() if close else len(text)
    parts = _TOKEN_SEPARATOR.split(text[inside:end], maxsplit=1)
    head, body = parts if len(parts) == 2 else ("", parts[0])
    if not is_tool(head):
        # DeepSeek puts a type before the separator, and the name on the line behind it.
        line, _, rest = body.lstrip().partition("\n")
        head, body = (line.strip(), rest) if rest else (head.strip(), body)
    fenced = _FENCED.fullmatch(body)
    call = read_call(head.strip(), (fenced["body"] if fenced else body).strip())
    return Found((call,), begin, close.end() if close else end, close is not None)
