"""Tool calls of a reply: which of the three built-in tools is meant, and the code in the arguments.

Arguments arrive in many states: an object, JSON in a JSON string, JSON with raw line ends in its strings, a Python
dict, or the bare code. What can be read without guessing is read; the rest is named so that the model can correct it.
"""

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from .arguments import decode, innermost_text, merged
from .source import looks_like_code, parse

Tool: TypeAlias = Literal["cell", "answer", "question"]

_CELL_NAMES = frozenset(
    {
        "python",
        "run_python",
        "execute_python",
        "python_exec",
        "python_interpreter",
        "python_repl",
        "python_repl_ast",
        "code_interpreter",
        "run_code",
        "execute_code",
        "execute",
        "exec",
        "ipython",
        "jupyter",
        "run_cell",
        "execute_cell",
        "execute_ipython_cell",
        "run_ipython",
        "interpreter",
        "repl",
        "tool_code",
        "py",
        "python3",
    }
)
_TOOLS: Mapping[str, Tool] = {
    **dict.fromkeys(_CELL_NAMES, "cell"),
    "final_answer": "answer",
    "submit_answer": "answer",
    "ask_user": "question",
}
_KEYS: Mapping[Tool, tuple[str, ...]] = {
    "cell": (
        *("code", "python_code", "source", "source_code", "script", "cell", "python", "command", "cmd", "content"),
        *("snippet", "program", "input", "query", "__arg1"),
    ),
    "answer": ("answer", "result", "value", "text", "output", "__arg1"),
    "question": ("question", "text", "message", "query", "__arg1"),
}
_NESTED = ("arguments", "args", "kwargs", "parameters", "params", "input", "action_input", "tool_input")
_NAMES = ("name", "tool", "tool_name", "function", "function_name", "action", "recipient_name")
_BESIDE_CODE = frozenset({"code", "thought", "thoughts", "reasoning", "explanation", "plan", "language", "comment"})
_MISSING = {"cell": "code is missing", "answer": "answer is missing", "question": "question is missing"}


@dataclass(frozen=True)
class Call:
    """A tool call that was understood, or what is wrong with it."""

    tool: Tool | None
    text: str = ""
    """The code, the answer or the question."""
    problem: str = ""
    """What is wrong, in words for the model."""


def read_call(name: str | None, arguments: object, error: str | None = None) -> Call:
    """Understand one tool call.

    Args:
        name: the tool's name as the model wrote it; None or empty counts as the Python tool.
        arguments: a decoded object, or the text that the model sent for it.
        error: what the client library said of the arguments.
    """
    tool = _tool(name)
    if tool is None:
        return Call(
            None,
            problem=f"there is no tool {name!r}; the tools are python, final_answer and ask_user,"
            " and everything else is called from Python code",
        )
    values = decode(arguments) if isinstance(arguments, str) else arguments
    if isinstance(values, list) and tool == "cell":
        values = merged(values)
    if isinstance(values, Mapping):
        language = _language(values)
        if tool == "cell" and language and not _PYTHON.fullmatch(language):
            return Call(tool, problem=f"only Python runs here, and the language of the call is {language!r}")
        text = _text(tool, values)
        return Call(tool, text) if text is not None else Call(tool, problem=_MISSING[tool])
    raw = innermost_text(arguments) if isinstance(arguments, str) else ""
    if tool == "cell" and isinstance(values, str) and looks_like_code(raw):
        return Call(tool, raw)
    if not raw.strip() or not isinstance(values, str):
        return Call(tool, problem=_MISSING[tool])
    return Call(
        tool, problem=f"the arguments are not JSON ({_short(error or raw)}); send an object such as " + _EXAMPLE[tool]
    )


_EXAMPLE = {"cell": '{"code": "print(1)"}', "answer": '{"answer": "42"}', "question": '{"question": "Which file?"}'}


_PYTHON = re.compile(r"(?:i?python|py)[\d.]*", re.IGNORECASE)


def _language(values: Mapping[Any, Any]) -> str:
    value = values.get("language", values.get("lang"))
    return value.strip() if isinstance(value, str) else ""


def _tool(name: str | None) -> Tool | None:
    if not name:
        return "cell"
    # Servers leave parts of a model's own format in the name: `functions.python:0`, `python<|channel|>commentary`.
    plain = re.split(r"<\||:\d+$|\(", name.strip())[0].strip().strip("\"'`")
    plain = re.split(r"[.:/]", plain)[-1].replace("-", "_")
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain).lower()
    known = _TOOLS.get(snake) or _TOOLS.get(plain.lower())
    if known is None and {"python", "ipython", "jupyter"} & set(snake.split("_")):
        return "cell"
    return known


def is_tool(name: object) -> bool:
    """Whether the name is that of one of the tools."""
    return isinstance(name, str) and bool(name.strip()) and _tool(name) is not None


def call_of_object(value: Mapping[Any, Any]) -> Call:
    """Read an object that stands for a call: a name and arguments, or the arguments of the Python tool alone."""
    nested = value.get("function")
    body = nested if isinstance(nested, Mapping) else value
    name = next((body[key] for key in _NAMES if isinstance(body.get(key), str)), None)
    if name is None and "code" in body:
        return read_call(None, body)
    arguments = next((body[key] for key in _NESTED if key in body), None)
    if arguments is None and name is not None:
        arguments = {key: item for key, item in body.items() if key not in (*_NAMES, "type", "id")}
    return read_call(name, arguments)


def is_call_object(value: Mapping[Any, Any]) -> bool:
    """Whether an object that is a whole reply is a call, not just data: a known tool, or code that acts."""
    nested = value.get("function")
    body = nested if isinstance(nested, Mapping) else value
    if any(is_tool(body.get(key)) for key in _NAMES):
        return any(key in body for key in (*_NESTED, "code"))
    code = body.get("code")
    return isinstance(code, str) and body.keys() <= _BESIDE_CODE and looks_like_code(code)


def calls_of_expression(text: str) -> list[Call]:
    """Calls of the Python tool that were written as Python: `python(code="…")`, `[run_python("…")]`.

    Returns:
        The calls in order; none where the text holds anything else.
    """
    tree = parse(text.strip()) if "(" in text and len(text) < 1_000_000 else None
    if not isinstance(tree, ast.Module) or not tree.body:
        return []
    calls: list[Call] = []
    for statement in tree.body:
        found = _in_expression(statement.value) if isinstance(statement, ast.Expr) else []
        if not found:
            return []
        calls += found
    return calls


def _in_expression(node: ast.expr) -> list[Call]:
    if isinstance(node, ast.List | ast.Tuple):
        parts = [_in_expression(item) for item in node.elts]
        return [call for part in parts for call in part] if all(parts) else []
    if not isinstance(node, ast.Call):
        return []
    name = _called(node)
    if name == "print" and len(node.args) == 1 and not node.keywords:
        return _in_expression(node.args[0])
    values = [*node.args, *(item.value for item in node.keywords if item.arg in _KEYS["cell"])]
    # `exec` and `execute` may well be what the code means.
    if name in {"exec", "execute", "repl", "py"} or _tool(name or "?") != "cell" or len(values) != 1:
        return []
    value = values[0]
    if not isinstance(value, ast.Constant) or not isinstance(value.value, str) or not looks_like_code(value.value):
        return []
    return [Call("cell", value.value)]


def _called(node: ast.Call) -> str | None:
    function = node.func
    if isinstance(function, ast.Attribute):
        owner = function.value.id if isinstance(function.value, ast.Name) else ""
        return owner if function.attr in {"call", "run"} else function.attr if owner in _OWNERS else None
    return function.id if isinstance(function, ast.Name) else None


_OWNERS = frozenset({"default_api", "functions", "tools", "tool"})


def _text(tool: Tool, values: Mapping[Any, Any], depth: int = 0) -> str | None:
    plain = {str(key).lower(): value for key, value in values.items()}
    for key in _KEYS[tool]:
        if key not in plain:
            continue
        value = plain[key]
        if tool == "answer" and value is not None and not isinstance(value, str):
            return json.dumps(value, ensure_ascii=False, default=str)
        if tool == "cell" and isinstance(value, list) and value and all(isinstance(line, str) for line in value):
            value = "\n".join(line.rstrip("\n") for line in value)
        if isinstance(value, Mapping):
            return _text(tool, value, depth + 1) if depth < _DEEPEST else None
        if not isinstance(value, str) or not value.strip():
            return None
        return _unwrapped(value, tool)
    for key in _NESTED:
        inner = decode(plain[key]) if isinstance(plain.get(key), str) else plain.get(key)
        if isinstance(inner, Mapping) and depth < _DEEPEST:
            return _text(tool, inner, depth + 1)
    return None


_DEEPEST = 3


def _unwrapped(text: str, tool: Tool) -> str:
    """Take the code out of a second layer of JSON, an object in the text of `code`."""
    if tool == "cell" and text.lstrip().startswith("{"):
        inner = decode(text)
        if isinstance(inner, Mapping) and isinstance(inner.get("code"), str):
            return str(inner["code"])
    if tool == "cell" and text.lstrip().startswith('"'):
        inner = decode(text)
        if isinstance(inner, str) and looks_like_code(inner):
            return inner
    return text


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:197] + "..."
