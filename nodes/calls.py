"""Tool calls of a reply: which of the three built-in tools is meant, and the code in the arguments.

Arguments arrive in many states: an object, JSON in a JSON string, JSON with raw line ends in its strings, a Python
dict, or the bare code. What can be read without guessing is read; the rest is named so that the model can correct it.
"""

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from .source import looks_like_code, parses

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
    }
)
_TOOLS: Mapping[str, Tool] = {
    **dict.fromkeys(_CELL_NAMES, "cell"),
    "final_answer": "answer",
    "submit_answer": "answer",
    "ask_user": "question",
}
_KEYS: Mapping[Tool, tuple[str, ...]] = {
    "cell": ("code", "python_code", "source", "script", "cell", "input", "query", "__arg1"),
    "answer": ("answer", "result", "value", "text", "output", "__arg1"),
    "question": ("question", "text", "message", "query", "__arg1"),
}
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
    if isinstance(values, Mapping):
        text = _text(tool, values)
        return Call(tool, text) if text is not None else Call(tool, problem=_MISSING[tool])
    raw = _innermost_text(arguments) if isinstance(arguments, str) else ""
    if tool == "cell" and isinstance(values, str) and looks_like_code(raw):
        return Call(tool, raw)
    if not raw.strip() or not isinstance(values, str):
        return Call(tool, problem=_MISSING[tool])
    return Call(
        tool, problem=f"the arguments are not JSON ({_short(error or raw)}); send an object such as " + _EXAMPLE[tool]
    )


_EXAMPLE = {"cell": '{"code": "print(1)"}', "answer": '{"answer": "42"}', "question": '{"question": "Which file?"}'}


def _tool(name: str | None) -> Tool | None:
    if not name:
        return "cell"
    return _TOOLS.get(name.strip().lower().rsplit(".", 1)[-1].replace("-", "_"))


def decode(text: str) -> object:
    """Decode arguments that came as text: JSON, JSON in JSON, or a Python dict.

    Returns:
        The value; the text itself where it is none of these.
    """
    value: object = text
    for _ in range(3):
        if not isinstance(value, str):
            return value
        try:
            value = json.loads(value, strict=False)
        except (ValueError, RecursionError):
            break
    return _python_dict(value) if isinstance(value, str) else value


def _innermost_text(text: str) -> str:
    """Undo JSON string layers around a text that is no JSON itself."""
    for _ in range(3):
        try:
            value = json.loads(text, strict=False)
        except (ValueError, RecursionError):
            return text
        if not isinstance(value, str):
            return text
        text = value
    return text


def _python_dict(text: str) -> object:
    if not text.lstrip().startswith("{") or not parses(text.strip()):
        return text
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def _text(tool: Tool, values: Mapping[Any, Any]) -> str | None:
    for key in _KEYS[tool]:
        if key not in values:
            continue
        value = values[key]
        if tool == "answer" and value is not None and not isinstance(value, str):
            return json.dumps(value, ensure_ascii=False, default=str)
        if not isinstance(value, str) or not value.strip():
            return None
        return _unwrapped(value, tool)
    return None


def _unwrapped(text: str, tool: Tool) -> str:
    """Take the code out of a second layer of JSON, an object in the text of `code`."""
    if tool == "cell" and text.lstrip().startswith("{"):
        inner = decode(text)
        if isinstance(inner, Mapping) and isinstance(inner.get("code"), str):
            return str(inner["code"])
    return text


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:197] + "..."
