"""Examples in the docstrings of packages: cells of analysts that somebody else wrote."""

import ast
import doctest
from collections.abc import Iterator
from pathlib import Path

from actloop.nodes.source import parse, parses

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def examples(package: Path) -> Iterator[str]:
    """The examples of each docstring below a folder, as one cell; not single lines, nor what does not parse."""
    parser = doctest.DocTestParser()
    for path in sorted(package.rglob("*.py")):
        source = path.read_text(encoding="utf-8", errors="replace")
        tree = parse(source) if ">>>" in source else None
        for node in ast.walk(tree) if isinstance(tree, ast.AST) else ():
            text = ast.get_docstring(node) if isinstance(node, _DOCUMENTED) else None
            try:
                code = "".join(example.source for example in parser.get_examples(text or ""))
            except ValueError:
                continue  # what looks like an example has no indentation that doctest takes
            if code.count("\n") > 1 and parses(code):
                yield code
