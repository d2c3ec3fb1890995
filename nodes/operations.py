"""Operators, slices and methods on texts that are known."""

import ast
from collections.abc import Sequence
from itertools import islice, product
from typing import TYPE_CHECKING

from . import folding
from .values import MAX_ITEMS, MAX_TEXT, Items, Number, Text, Value, as_text

if TYPE_CHECKING:
    from .evaluation import Evaluator


def operation(evaluator: "Evaluator", node: ast.BinOp) -> list[Value]:
    """Values of `+`, `/`, `%` and `*` on texts, paths and lists."""
    if isinstance(node.op, ast.Add):
        return _sum(evaluator, node)
    left = [text for text in options(evaluator, node.left) if text is not None]
    if isinstance(node.op, ast.Div):
        pairs = product(left, options(evaluator, node.right))
        return [path for first, second in pairs if (path := folding.join_paths([first, second])) is not None]
    if isinstance(node.op, ast.Mod):
        values = evaluator.sequence(node.right) if isinstance(node.right, ast.Tuple) else [evaluator.first(node.right)]
        arguments = [as_text(value) for value in values or []]
        return [filled for text in left if (filled := folding.percent(text, arguments)) is not None]
    times = evaluator.first(node.right)
    if isinstance(node.op, ast.Mult) and isinstance(times, Number) and 0 < times.value < 1000:
        short = [text for text in left if len(text.value) * times.value < MAX_TEXT]
        return [Text(text.value * times.value, text.kind) for text in short]
    return []


def _sum(evaluator: "Evaluator", node: ast.BinOp) -> list[Value]:
    """A chain of `+`, however long, without recursion."""
    operands: list[ast.expr] = []
    pending: list[ast.expr] = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add):
            pending += [part.right, part.left]
        else:
            operands.append(part)
    del operands[MAX_ITEMS:]
    found = concatenated([options(evaluator, part) for part in operands])
    lists = [value for part in operands for value in evaluator.of(part) if isinstance(value, Items)]
    nodes = [item for value in lists for item in value.nodes]
    return [*found, Items(tuple(nodes[:MAX_ITEMS]))] if nodes else found


def options(evaluator: "Evaluator", node: ast.AST) -> list[Text | None]:
    """Texts that a part of a text may be; one None where it is not known."""
    known: list[Text | None] = [text for value in evaluator.of(node) if (text := as_text(value)) is not None]
    return known[:4] or [None]


def concatenated(choices: Sequence[Sequence[Text | None]]) -> list[Value]:
    """Texts made of parts that each have some choices; the first eight."""
    rows = islice(product(*choices), 8)
    return [text for parts in rows if (text := folding.concatenate(parts)) is not None]


def cut(evaluator: "Evaluator", text: Text, key: ast.expr) -> list[Value]:
    """`text[key]` for a known index or slice."""
    if isinstance(key, ast.Slice):
        bounds = []
        for part in (key.lower, key.upper, key.step):
            value = evaluator.first(part) if part is not None else None
            if part is not None and not isinstance(value, Number):
                return []
            bounds.append(value.value if isinstance(value, Number) else None)
        return [] if bounds[2] == 0 else [Text(text.value[slice(*bounds)], text.kind, text.decoded)]
    index = evaluator.first(key)
    if isinstance(index, Number) and -len(text.value) <= index.value < len(text.value):
        return [Text(text.value[index.value])]
    return []


def _spread(evaluator: "Evaluator", node: ast.Call) -> list[Text | None]:
    """The positional arguments of a call as texts, those behind a `*` one by one."""
    given: list[Text | None] = []
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            given += [as_text(value) for value in evaluator.sequence(argument.value) or [None]]
        else:
            given.append(as_text(evaluator.first(argument)))
    return given


def _named(evaluator: "Evaluator", node: ast.Call) -> dict[str, Text | None]:
    return {keyword.arg: as_text(evaluator.first(keyword.value)) for keyword in node.keywords if keyword.arg}


def text_method(
    evaluator: "Evaluator", base: Text, name: str, node: ast.Call, arguments: Sequence[Text | None]
) -> list[Value]:
    """Result of a method of a text or path.

    Args:
        evaluator: values of the cell.
        base: the text.
        name: the method.
        node: the call.
        arguments: its positional arguments as texts, None for an unknown one.
    """
    text: Text | None
    if name == "join" and node.args:
        items = evaluator.sequence(node.args[0])
        if items is None:
            return []
        parts: list[Text | None] = []
        for item in items:
            parts += [base, as_text(item)] if parts else [as_text(item)]
        text = folding.concatenate(parts)
    elif name == "format":
        text = folding.braces(base, _spread(evaluator, node), _named(evaluator, node))
    elif base.kind == "path" and name in {"joinpath", "resolve", "absolute", "expanduser"}:
        text = folding.join_paths([base, *(argument for argument in arguments if argument is not None)])
    elif base.kind == "path" and name in {"glob", "rglob", "iterdir"}:
        text = base
    else:
        text = folding.method(base, name, arguments)
    return [text] if text is not None else []
