"""Values of expressions, as far as they are known without running anything."""

import ast
import builtins
from collections.abc import Iterable, Sequence
from itertools import islice

from .bindings import Binding, Bindings
from .operations import concatenated, cut, operation, options, text_method
from .pure import call_known
from .values import (
    MAX_ITEMS,
    MAX_TEXT,
    SHADOWS,
    Getter,
    Items,
    Local,
    Number,
    Ref,
    Text,
    Value,
    as_text,
    canonical,
)

Values = tuple[Value, ...]

_MAX_VALUES = 16
_MAX_BINDINGS = 64
_MAX_DEPTH = 60
_BUILTINS = frozenset(dir(builtins)) | {"get_ipython", "__builtins__"}
_PLAIN_IMPORTS = (
    "asyncio",
    "base64",
    "codecs",
    "glob",
    "httpx",
    "io",
    "pathlib",
    "psutil",
    "requests",
    "urllib",
    "yaml",
)
EARLIER_CELLS = {name: name for name in (*sorted(SHADOWS), *_PLAIN_IMPORTS)} | {
    "Path": "pathlib.Path",
    "np": "numpy",
    "pd": "pandas",
}
"""What a name most likely is that the cell does not bind: an import of an earlier cell."""

_NAMESPACES = ("__dict__", "sys.modules", "builtins.globals()", "builtins.locals()", "builtins.vars()")


class Evaluator:
    """Values in one cell. Work is bounded: each expression is looked at once, to a limited depth."""

    def __init__(self, bindings: Bindings) -> None:
        self.bindings = bindings
        self._known: dict[int, Values] = {}
        self._names: dict[str, list[Value]] = {}
        self._given: dict[str, Value] = {}
        self._depth = 0
        self._kept: list[ast.AST] = []

    def of(self, node: ast.AST | None) -> Values:
        """All known values of an expression; empty where nothing is known."""
        if node is None or self._depth > _MAX_DEPTH:
            return ()
        if not self._given and id(node) in self._known:
            return self._known[id(node)]
        self._depth += 1
        try:
            values = tuple(islice(dict.fromkeys(self._of(node)), _MAX_VALUES))
        finally:
            self._depth -= 1
        if not self._given:
            self._known[id(node)] = values
            self._kept.append(node)  # ids stay unique only while the nodes live
        return values

    def texts(self, node: ast.AST | None) -> list[Text]:
        """Known texts of an expression, and those in a sequence that it may be."""
        found: list[Text] = []
        for value in self.of(node):
            if isinstance(value, Text):
                found.append(value)
            elif isinstance(value, Items):
                found += [
                    item for inner in value.nodes[:MAX_ITEMS] for item in self.of(inner) if isinstance(item, Text)
                ]
        return found

    def refs(self, node: ast.AST | None) -> list[str]:
        """Places in the world of modules that an expression may be."""
        return [value.path for value in self.of(node) if isinstance(value, Ref)]

    def sequence(self, node: ast.AST, depth: int = 0) -> list[Value | None] | None:
        """The elements of an expression in order, None for an unknown one; None where it is no known sequence."""
        if depth > 8:
            return None
        if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp) and len(node.generators) == 1:
            return self._comprehension(node, depth)
        for value in self.of(node):
            if isinstance(value, Items):
                return [self.first(item) for item in value.nodes[:MAX_ITEMS]]
            if isinstance(value, Text) and value.whole and len(value.value) <= MAX_ITEMS:
                numbers = value.kind == "bytes"
                return [Number(ord(char)) if numbers else Text(char) for char in value.value]
        if isinstance(node, ast.Call) and node.args:
            return self._mapped(node, depth)
        return None

    def _mapped(self, node: ast.Call, depth: int) -> list[Value | None] | None:
        names = self.refs(node.func)
        if "builtins.map" in names and len(node.args) == 2:
            items = self.sequence(node.args[1], depth + 1)
            function = self.first(node.args[0])
            if items is None or not isinstance(function, Ref):
                return None
            return [None if item is None else _single(call_known(self, function.path, node, (item,))) for item in items]
        if {"builtins.list", "builtins.tuple", "builtins.iter"} & set(names):
            return self.sequence(node.args[0], depth + 1)
        if "builtins.reversed" in names:
            items = self.sequence(node.args[0], depth + 1)
            return None if items is None else items[::-1]
        return None

    def _comprehension(
        self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp, depth: int
    ) -> list[Value | None] | None:
        generator = node.generators[0]
        items = self.sequence(generator.iter, depth + 1)
        if items is None or not isinstance(generator.target, ast.Name) or generator.ifs:
            return None
        before = dict(self._given)
        result: list[Value | None] = []
        for item in items:
            if item is None:
                result.append(None)
                continue
            self._given[generator.target.id] = item
            result.append(self.first(node.elt))
        self._given = before
        return result

    def first(self, node: ast.AST) -> Value | None:
        """The first known value of an expression."""
        return _single(self.of(node))

    def _of(self, node: ast.AST) -> Iterable[Value]:
        match node:
            case ast.Constant():
                return _constant(node.value)
            case ast.JoinedStr():
                return concatenated([options(self, part) for part in node.values])
            case ast.FormattedValue() | ast.NamedExpr() | ast.Await() | ast.Starred():
                return self.of(node.value)
            case ast.Name():
                return self._name(node.id)
            case ast.Attribute():
                return [found for base in self.of(node.value) or (None,) for found in self.attribute(base, node.attr)]
            case ast.Subscript():
                return self._subscript(node)
            case ast.Call():
                return self._call(node)
            case ast.BinOp():
                return operation(self, node)
            case ast.UnaryOp(op=ast.USub()):
                return [Number(-value.value) for value in self.of(node.operand) if isinstance(value, Number)]
            case ast.IfExp():
                return (*self.of(node.body), *self.of(node.orelse))
            case ast.BoolOp():
                return [value for part in node.values for value in self.of(part)]
            case ast.List() | ast.Tuple() | ast.Set():
                return [Items(tuple(node.elts[:MAX_ITEMS]))]
            case ast.Dict():
                return [Items(tuple(node.values[:MAX_ITEMS]))]
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                return [Items((node.elt,))]
            case _:
                return ()

    def _name(self, name: str) -> Sequence[Value]:
        if name in self._given:
            return [self._given[name]]
        if name in self._names:
            return self._names[name]
        found: list[Value] = []
        self._names[name] = found  # a binding that refers to itself sees what is known so far
        found += [Ref(canonical(ref.path)) for ref in self.bindings.imports.get(name, ())]
        found += [Local(name)] if name in self.bindings.functions else []
        found += [Ref(canonical(f"{module}.{name}")) for module in self.bindings.stars]
        if name in _BUILTINS and not any(isinstance(value, Local) for value in found):
            found.append(Ref("builtins" if name == "__builtins__" else f"builtins.{name}"))
        bound = self.bindings.names.get(name, ())
        if not found and not bound and name in EARLIER_CELLS:
            found.append(Ref(EARLIER_CELLS[name]))
        for binding in bound[:_MAX_BINDINGS]:
            values = self._bound(binding)
            found += [value for value in values if value not in found]
            if len(found) > _MAX_VALUES:
                break
        return found

    def _bound(self, binding: Binding) -> Sequence[Value]:
        values = self.of(binding.node)
        if binding.how == "is":
            return values
        elements: list[Value] = []
        for value in values:
            elements += self.elements(value)
        return elements

    def elements(self, value: Value) -> list[Value]:
        """What iterating over a value gives."""
        match value:
            case Items():
                return [item for node in value.nodes[:_MAX_VALUES] for item in self.of(node)]
            case Ref():
                return [Ref(value.path + "[]")] if len(value.path) < 200 else []
            case Text(kind="path"):
                return [value]
            case _:
                return []

    def attribute(self, base: Value | None, name: str) -> Sequence[Value]:
        """What `.name` of a value is."""
        match base:
            case Ref():
                path = canonical(base.attribute(name).path)
                constant = {"os.sep": "/", "os.curdir": ".", "os.pardir": "..", "os.path.sep": "/"}.get(path)
                return [Ref(path) if constant is None else Text(constant)]
            case Text(kind="path") if name == "parent":
                return [Text(base.value.rpartition("/")[0] or "/", "path")]
            case _:
                return [value for node in self.bindings.attributes.get(name, ())[:8] for value in self.of(node)]

    def _subscript(self, node: ast.Subscript) -> Iterable[Value]:
        found: list[Value] = []
        for base in self.of(node.value):
            if isinstance(base, Ref):
                found += self.member(base, node.slice)
            elif isinstance(base, Items):
                index = self.first(node.slice)
                known = isinstance(index, Number) and -len(base.nodes) <= index.value < len(base.nodes)
                chosen = [base.nodes[index.value]] if known and isinstance(index, Number) else base.nodes[:_MAX_VALUES]
                found += [value for item in chosen for value in self.of(item)]
            elif isinstance(base, Text) and base.whole:
                found += cut(self, base, node.slice)
        return found

    def member(self, base: Ref, key: ast.expr) -> list[Value]:
        """An entry of a namespace, by a known key."""
        if base.path == "builtins" or base.path.endswith(_NAMESPACES):
            # `__builtins__` is the module in a cell and its dictionary in every other module.
            held = base.path == "builtins" or base.path.endswith("__dict__")
            owner = base.path.removesuffix(".__dict__") if held else ""
            texts = [value.value for value in self.of(key) if isinstance(value, Text) and value.whole]
            return [Ref(canonical(f"{owner}.{text}" if owner else text)) for text in texts]
        if base.path == "os.environ":
            return [Text("~") for value in self.of(key) if isinstance(value, Text) and value.value == "HOME"]
        return [Ref(base.path + "[]")] if len(base.path) < 200 else []

    def _call(self, node: ast.Call) -> Iterable[Value]:
        found: list[Value] = []
        if isinstance(node.func, ast.Lambda):
            return self.of(node.func.body)
        if isinstance(node.func, ast.Attribute):
            arguments = [as_text(self.first(argument)) for argument in node.args]
            for base in self.of(node.func.value):
                if isinstance(base, Text):
                    found += text_method(self, base, node.func.attr, node, arguments)
        for function in self.of(node.func):
            match function:
                case Ref():
                    known = call_known(self, function.path, node, None)
                    found += [function.result] if known is None else known
                case Local():
                    found += [
                        value for item in self.bindings.returns.get(function.name, ())[:8] for value in self.of(item)
                    ]
                case Getter():
                    for base in self.of(node.args[0]) if node.args else ():
                        found += self.attribute(base, function.name)
        return found


def _single(values: Sequence[Value] | None) -> Value | None:
    return values[0] if values else None


def _constant(value: object) -> list[Value]:
    if isinstance(value, str):
        return [Text(value)] if len(value) <= MAX_TEXT else []
    if isinstance(value, bytes):
        return [Text(value.decode("latin-1"), "bytes")] if len(value) <= MAX_TEXT else []
    if isinstance(value, int) and not isinstance(value, bool):
        return [Number(value)]
    return []
