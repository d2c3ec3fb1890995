"""Replies without a block or a tag that ask for a cell all the same: the reply as a whole is the call, or the code.

Small models, and models asked for structured output, answer with a JSON object, a call written as Python, the lines
`Action:` and `Action Input:`, or bare code. Each counts only where it is the whole reply, so that data in an answer
stays an answer.
"""

import ast
import re
from collections.abc import Sequence

from .arguments import unfenced
from .calls import Call, call_of_object, calls_of_expression, is_call_object, is_tool, read_call
from .fences import Block, is_python
from .native import objects_in
from .source import parse

_CALL_LABELS = frozenset({"tool_call", "tool_calls", "function_call", "function_calls", "tool", "action"})
_DATA_LABELS = frozenset({"", "json", "json5", "jsonc"})
_REACT = re.compile(
    r"^[ \t]*\**Action\**[ \t]*:\**[ \t]*(?P<name>[^\n]{1,60})\n\s*\**Action[ _]Input\**[ \t]*:\**[ \t]*"
    r"(?P<input>[\s\S]+?)(?=\n[ \t]*\**(?:Observation|Thought|Action)\**[ \t]*:|\Z)",
    re.MULTILINE,
)


def read_whole(text: str, blocks: Sequence[Block], words: str) -> list[Call]:
    """The calls that a reply consists of.

    Args:
        text: the reply, without its reasoning.
        blocks: its fenced blocks, none of which is Python.
        words: the reply around its blocks.

    Returns:
        The calls; none where the reply is text.
    """
    if len(blocks) == 1 and blocks[0].closed:
        label, body = blocks[0].label, blocks[0].body
        objects = objects_in(body) if label in _CALL_LABELS | _DATA_LABELS else []
        named = all("code" not in value for value in objects)
        around = text.replace(body, "").strip("`~ \t\n" + label)
        if objects and (label in _CALL_LABELS or (all(map(is_call_object, objects)) and (named or not around))):
            return [call_of_object(value) for value in objects]
    if blocks:
        return []
    stripped = text.strip()
    objects = objects_in(stripped) if stripped.startswith(("{", "[")) else []
    if objects and all(map(is_call_object, objects)):
        return [call_of_object(value) for value in objects]
    react = _REACT.search(text)
    if react is not None and is_tool(react["name"]):
        return [read_call(react["name"], unfenced(react["input"].strip()))]
    code = _bare_code(stripped)
    return calls_of_expression(stripped) or ([Call("cell", code)] if code else [])


def _bare_code(text: str) -> str:
    """The code of a reply that is nothing but code: it must import something or print, or it could be an answer."""
    first, _, rest = text.partition("\n")
    if rest and is_python(first.strip().lower()):
        text = rest
    tree = parse(text) if re.search(r"^(?:import|from)\b|^print\(", text, re.MULTILINE) else None
    if not isinstance(tree, ast.Module):
        return ""
    return text if any(_runs(statement) for statement in tree.body) else ""


def _runs(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return isinstance(statement.value.func, ast.Name) and statement.value.func.id == "print"
    return isinstance(statement, ast.Import | ast.ImportFrom)
