"""Texts that a call runs as code, so that the safety check can read them too."""

import ast

from .evaluation import Evaluator
from .references import CODE_RUNNERS

_RUNNERS = CODE_RUNNERS | {
    "builtins.eval",
    "builtins.exec",
    "builtins.compile",
    "ast.parse",
    "builtins.get_ipython().run_cell",
}
_EXPRESSION_METHODS = frozenset({"query", "eval"})
_MAX_TEXTS = 8


def nested_code(evaluator: Evaluator, node: ast.AST) -> list[tuple[str, str]]:
    """Known texts that a call runs as code.

    Args:
        evaluator: values of the cell.
        node: any node; only a call runs anything.

    Returns:
        The name of the function and the code, for each text.
    """
    if not isinstance(node, ast.Call):
        return []
    paths = evaluator.refs(node.func)
    names = [name for name in paths if name in _RUNNERS]
    given = [*node.args[:2], *(keyword.value for keyword in node.keywords)]
    if names:
        texts = [text for argument in given for text in evaluator.texts(argument)]
        return [(names[0].removeprefix("builtins."), text.value) for text in texts if text.whole][:_MAX_TEXTS]
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in _EXPRESSION_METHODS:
        return []
    # An expression of pandas, in which `@name` is a variable of the cell. Plain words in it are columns, which may
    # be called `open` or `subprocess`, so only an expression that calls something is read.
    texts = [text for argument in given for text in evaluator.texts(argument)]
    return [
        (node.func.attr, text.value.replace("@", "").strip()) for text in texts if text.whole and "(" in text.value
    ][:_MAX_TEXTS]
