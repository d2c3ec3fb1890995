"""Functions of the standard library whose result the safety check knows: they lead to modules, paths and texts."""

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import folding
from .references import IMPORTERS
from .source import Fault, parse
from .values import Getter, Items, Number, Ref, Text, Value, canonical

if TYPE_CHECKING:
    from .evaluation import Evaluator

_JOINS = frozenset(
    {
        "os.path.join",
        "posixpath.join",
        "pathlib.Path",
        "pathlib.PurePath",
        "pathlib.PosixPath",
        "pathlib.PurePosixPath",
    }
)
_SAME_PATH = frozenset(
    f"{module}.{name}"
    for module in ("os.path", "posixpath")
    for name in ("abspath", "normpath", "realpath", "expanduser", "expandvars")
) | {"os.fspath", "os.fsdecode", "os.fsencode", "builtins.str", "builtins.bytes", "builtins.bytearray", "builtins.repr"}
_IMPORTS = IMPORTERS | {"builtins.__import__"}
_PASS_ON = frozenset(
    {
        "functools.partial",
        "importlib.reload",
        "builtins.list",
        "builtins.tuple",
        "builtins.set",
        "builtins.iter",
    }
)
_NAMES_ONLY = frozenset(f"builtins.{name}" for name in ("list", "tuple", "set", "iter", "sorted"))
_FIXED = {
    "os.getcwd": Text("/workspace"),
    "pathlib.Path.cwd": Text("/workspace", "path"),
    "pathlib.Path.home": Text("~", "path"),
}


def call_known(
    evaluator: "Evaluator", path: str, node: ast.Call, given: Sequence[Value] | None
) -> Sequence[Value] | None:
    """Result of calling a function that is known.

    Args:
        evaluator: values of the cell.
        path: canonical name of the function.
        node: the call.
        given: values that take the place of the arguments (as `map` does), or None.

    Returns:
        The values; None for a function that is not known here.
    """
    first = given if given is not None else evaluator.of(node.args[0] if node.args else None)
    if path in _IMPORTS:
        return [Ref(canonical(_imported(path, text.value))) for text in first if isinstance(text, Text) and text.whole]
    if path in {"builtins.getattr", "inspect.getattr_static"} or path.endswith(".__getattribute__"):
        return _getattr(evaluator, path, node)
    if path == "builtins.vars":
        return [Ref(canonical(f"{v.path}.__dict__")) for v in first if isinstance(v, Ref)] if node.args else None
    if path in {"operator.attrgetter", "operator.methodcaller"}:
        return [Getter(text.value) for text in first if isinstance(text, Text) and text.whole]
    if path in _JOINS:
        return _join(evaluator, node)
    if path in _FIXED:
        return [_FIXED[path]]
    if path in {"builtins.bytes", "builtins.bytearray"} and (data := _of_numbers(evaluator, node)) is not None:
        return [data]
    if path in _NAMES_ONLY:
        # What iterates over a namespace gets its names.
        first = [v for v in first if not (isinstance(v, Ref) and v.path.endswith(("sys.modules", "__dict__")))]
    if path == "builtins.sorted":
        # The letters of a text, in another order, are another text.
        return [value for value in first if isinstance(value, Ref | Items)]
    if path in _SAME_PATH or path in _PASS_ON:
        return [value for value in first if isinstance(value, Text | Ref | Items | Number)] if node.args else []
    if path == "builtins.next":
        return [element for value in first for element in evaluator.elements(value)]
    if path == "builtins.chr":
        return [Text(chr(v.value)) for v in first if isinstance(v, Number) and 0 <= v.value < 0xD800]
    if path in folding.DECODERS:
        return _decoded(evaluator, path, node, first)
    if path in {"builtins.eval", "builtins.exec"}:
        return _evaluated(evaluator, first) if path.endswith("eval") else []
    return _lookup(evaluator, path, node)


def _of_numbers(evaluator: "Evaluator", node: ast.Call) -> Text | None:
    """Bytes made of a list of numbers."""
    values = evaluator.sequence(node.args[0]) if node.args else None
    numbers = [value.value for value in values or () if isinstance(value, Number) and 0 <= value.value < 256]
    return (
        Text(bytes(numbers).decode("latin-1"), "bytes", decoded=True)
        if values and len(numbers) == len(values)
        else None
    )


def _imported(path: str, name: str) -> str:
    # `pkgutil.resolve_name` takes "os:system".
    return name.partition(".")[0] if path.endswith(".__import__") else name.replace(":", ".")


def _getattr(evaluator: "Evaluator", path: str, node: ast.Call) -> list[Value]:
    owner_known = path in {"builtins.getattr", "inspect.getattr_static"} or len(node.args) > 1
    owners = evaluator.of(node.args[0]) if owner_known and node.args else (Ref(path.removesuffix(".__getattribute__")),)
    names = evaluator.of(node.args[1] if owner_known and len(node.args) > 1 else node.args[0] if node.args else None)
    return [
        value
        for owner in owners
        for name in names
        if isinstance(name, Text) and name.whole and isinstance(owner, Ref)
        for value in evaluator.attribute(owner, name.value)
    ]


def _join(evaluator: "Evaluator", node: ast.Call) -> list[Value]:
    if not node.args:
        return [Text(".", "path")]
    options: list[list[Text | None]] = []
    for argument in node.args:
        texts: list[Text | None] = [value for value in evaluator.of(argument) if isinstance(value, Text)]
        options.append(texts or [None])
    count = max(len(texts) for texts in options)
    rows = [[texts[min(row, len(texts) - 1)] for texts in options] for row in range(min(count, 8))]
    return [joined for row in rows if (joined := folding.join_paths(row)) is not None]


def _decoded(evaluator: "Evaluator", path: str, node: ast.Call, first: Sequence[Value]) -> list[Value]:
    codecs = [text.value for text in evaluator.texts(node.args[1] if len(node.args) > 1 else None)]
    texts = [folding.decode(path, value, *codecs[:1]) for value in first if isinstance(value, Text)]
    known: list[Value] = [text for text in texts if text is not None]
    return known or [Ref(path + "()")]


def _evaluated(evaluator: "Evaluator", first: Sequence[Value]) -> list[Value]:
    found: list[Value] = []
    for text in first:
        if isinstance(text, Text) and text.whole:
            tree = parse(text.value.strip(), "eval")
            if not isinstance(tree, Fault) and isinstance(tree, ast.Expression):
                found += evaluator.of(tree.body)
    return found


def _lookup(evaluator: "Evaluator", path: str, node: ast.Call) -> list[Value] | None:
    """`namespace.get(name)`, `os.getenv(name)`."""
    owner, _, method = path.rpartition(".")
    if path == "os.getenv" and node.args:
        return evaluator.member(Ref("os.environ"), node.args[0])
    if method not in {"get", "pop", "__getitem__"} or not node.args:
        return None
    if owner == "os.environ" or owner.endswith(("__dict__", "sys.modules", "builtins.globals()")):
        return evaluator.member(Ref(owner), node.args[0])
    return None
