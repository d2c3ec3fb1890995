"""Arguments of a call to the host as a person sees and edits them: by name, where the signature tells the names."""

import ast
import json
from typing import Any

MAX_SHOWN = 8000
"""Characters of the arguments that a person is shown, and that enter the state; in the box the call stays whole."""


def shown(signature: str, arguments: str) -> Any:
    """What a person is shown.

    Args:
        signature: of the function.
        arguments: JSON with `args` and `kwargs`.

    Returns:
        A dict by name; where names are not known, one with `args` and `kwargs`; where it is too long, one with the
        beginning of the text as `shortened`.
    """
    if len(arguments) > MAX_SHOWN:
        return {"shortened": f"{arguments[:MAX_SHOWN]} ... ({len(arguments)} characters)"}
    try:
        given = json.loads(arguments)
        args, kwargs = list(given["args"]), dict(given["kwargs"])
    except (ValueError, KeyError, TypeError):
        return {"shortened": arguments}
    names = _names(signature)
    if names is None or len(args) > len(names):
        return {"args": args, "kwargs": kwargs}
    return {**dict(zip(names, args, strict=False)), **kwargs}


def edited(arguments: object) -> str | None:
    """What a person gave instead, as JSON with `args` and `kwargs`; None where it cannot be taken.

    Args:
        arguments: in the form of `shown`, or a list.
    """
    if isinstance(arguments, list):
        made: dict[str, Any] = {"args": arguments, "kwargs": {}}
    elif isinstance(arguments, dict) and arguments.keys() == {"args", "kwargs"}:
        made = arguments
        if not isinstance(made["args"], list) or not isinstance(made["kwargs"], dict):
            return None
    elif isinstance(arguments, dict) and "shortened" not in arguments:
        made = {"args": [], "kwargs": arguments}
    else:
        return None
    try:
        return json.dumps(made)
    except (TypeError, ValueError):
        return None


def _names(signature: str) -> list[str] | None:
    """Names by which the positional arguments may be given as well."""
    try:
        (function,) = ast.parse(f"def f{signature}: pass").body
    except (SyntaxError, ValueError):
        return None
    assert isinstance(function, ast.FunctionDef)
    found = function.args
    return None if found.posonlyargs or found.vararg else [argument.arg for argument in found.args]
