"""Signatures of tools in the form that the model reads and the box checks arguments by: short, and plain Python."""

import ast
import inspect
import keyword
from collections.abc import Mapping
from typing import Any

UNKNOWN = "(...)"
"""Where arguments are checked by the tool alone."""
MAX_SIGNATURE = 300
"""Characters; a longer one goes without its types."""
_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
    "null": "None",
}


def of_function(function: object) -> str:
    """The signature of a Python function."""
    try:
        found = inspect.signature(function)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return UNKNOWN
    for typed in (True, False):
        parameters = [_plain(parameter, typed) for parameter in found.parameters.values()]
        returns = _annotation(found.return_annotation) if typed else inspect.Signature.empty
        text = str(found.replace(parameters=parameters, return_annotation=returns))
        if len(text) <= MAX_SIGNATURE and _is_python(text):
            return text
    return UNKNOWN


def of_schema(schema: Mapping[str, Any]) -> str:
    """The signature of a tool whose arguments have a JSON schema: those that are required first, in their order."""
    properties: Mapping[str, Any] = schema.get("properties") or {}
    required = [name for name in properties if name in (schema.get("required") or ())]
    rest = [name for name in properties if name not in required]
    for typed in (True, False):
        parts = [name + (f": {_type(properties[name])}" if typed else "") for name in required]
        for name in rest:
            default = _literal(properties[name].get("default", ...)) if isinstance(properties[name], dict) else "..."
            parts.append(f"{name}: {_type(properties[name])} = {default}" if typed else f"{name}={default}")
        text = f"({', '.join(parts)})"
        if len(text) <= MAX_SIGNATURE and _is_python(text):
            return text
    return UNKNOWN


def order_of(schema: Mapping[str, Any]) -> list[str]:
    """Names of the arguments, in the order of `of_schema`."""
    properties: Mapping[str, Any] = schema.get("properties") or {}
    required = [name for name in properties if name in (schema.get("required") or ())]
    return required + [name for name in properties if name not in required]


def _is_python(text: str) -> bool:
    try:
        ast.parse(f"def f{text}: pass")
    except (SyntaxError, ValueError):
        return False
    return True


class _Written:
    """A default, or an annotation, that is written as it is."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _plain(parameter: inspect.Parameter, typed: bool) -> inspect.Parameter:
    default = parameter.default
    return parameter.replace(
        default=default if default is inspect.Parameter.empty else _Written(_literal(default)),
        annotation=_annotation(parameter.annotation) if typed else inspect.Parameter.empty,
    )


def _annotation(annotation: Any) -> Any:
    if annotation is inspect.Parameter.empty:
        return annotation
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = text.replace("typing.", "").replace("collections.abc.", "")
    try:
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return inspect.Parameter.empty
    return _Written(text)


def _literal(value: Any) -> str:
    """A default as Python; `...` for one that is no plain value."""
    text = repr(value)
    try:
        if len(text) <= 40 and ast.literal_eval(text) == value:
            return text
    except (SyntaxError, ValueError):
        pass
    return "..."


def _type(facts: Any) -> str:
    if not isinstance(facts, dict):
        return "Any"
    if isinstance(facts.get("enum"), list) and 0 < len(facts["enum"]) <= 6:
        return f"Literal[{', '.join(repr(value) for value in facts['enum'])}]"
    given = facts.get("anyOf") or facts.get("oneOf")
    if isinstance(given, list):
        return " | ".join(dict.fromkeys(_type(one) for one in given)) or "Any"
    kind = facts.get("type")
    if isinstance(kind, list):
        return " | ".join(_TYPES.get(str(one), "Any") for one in kind)
    if kind == "array" and isinstance(facts.get("items"), dict) and facts["items"].get("type") in _TYPES:
        return f"list[{_TYPES[facts['items']['type']]}]"
    return _TYPES.get(str(kind), "Any")


def is_name(name: str) -> bool:
    """Whether Python can call something by this name."""
    return name.isidentifier() and not keyword.iskeyword(name)
