"""Which expressions each name of a cell may stand for.

Order and scope are left out on purpose: a name stands for everything that is bound to it anywhere in the cell. That
sees through reordering, and errs towards one question too many.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .values import Ref

How: TypeAlias = Literal["is", "element"]
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

_ADDERS = frozenset({"append", "add", "insert", "extend", "update", "setdefault", "put", "appendleft"})


@dataclass(frozen=True)
class Binding:
    """A value that a name may have: that of an expression, or of an element of it."""

    how: How
    node: ast.expr


class Bindings:
    """All bindings of one syntax tree."""

    def __init__(self, tree: ast.AST) -> None:
        self.names: dict[str, list[Binding]] = defaultdict(list)
        self.imports: dict[str, list[Ref]] = defaultdict(list)
        self.attributes: dict[str, list[ast.expr]] = defaultdict(list)
        self.functions: dict[str, list[Function]] = defaultdict(list)
        self.returns: dict[str, list[ast.expr]] = defaultdict(list)
        self.stars: list[str] = []
        self.parents: dict[int, ast.AST] = {}
        self.nodes: list[ast.AST] = []
        self._calls: list[ast.Call] = []
        self._walk(tree)
        for call in self._calls:
            self._bind_call(call)

    def _walk(self, tree: ast.AST) -> None:
        pending: list[tuple[ast.AST, str]] = [(tree, "")]
        while pending:
            node, function = pending.pop()
            self.nodes.append(node)
            self._bind(node, function)
            inner = function
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = node.name
            for child in ast.iter_child_nodes(node):
                self.parents[id(child)] = node
                pending.append((child, inner))

    def _bind(self, node: ast.AST, function: str) -> None:
        match node:
            case ast.Import():
                for alias in node.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    self.imports[name].append(Ref(alias.name if alias.asname else name))
            case ast.ImportFrom():
                self._import_from(node)
            case ast.Assign():
                for target in node.targets:
                    self._assign(target, node.value)
            case ast.AnnAssign() | ast.NamedExpr():
                if node.value is not None:
                    self._assign(node.target, node.value)
            case ast.AugAssign():
                total = ast.BinOp(left=_load(node.target), op=node.op, right=node.value)
                self._assign(node.target, ast.copy_location(total, node))
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                self._assign(node.target, node.iter, "element")
            case ast.withitem(optional_vars=ast.expr()):
                assert node.optional_vars is not None
                self._assign(node.optional_vars, node.context_expr)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.functions[node.name].append(node)
                self._defaults(node.args)
            case ast.ClassDef():
                for item in node.body:
                    if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                        self.functions[node.name].append(item)
                    elif isinstance(item, ast.Assign):
                        for left in item.targets:
                            if isinstance(left, ast.Name):
                                self.attributes[left.id].append(item.value)
            case ast.Return(value=ast.expr()) | ast.Yield(value=ast.expr()):
                assert node.value is not None
                self.returns[function].append(node.value)
            case ast.Call():
                self._calls.append(node)

    def _import_from(self, node: ast.ImportFrom) -> None:
        if node.level or node.module is None:
            return
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(node.module)
            else:
                self.imports[alias.asname or alias.name].append(Ref(f"{node.module}.{alias.name}"))

    def _assign(self, target: ast.expr, value: ast.expr, how: How = "is") -> None:
        match target:
            case ast.Name():
                self.names[target.id].append(Binding(how, value))
                if isinstance(value, ast.Lambda):
                    self.functions[target.id].append(value)
                    self.returns[target.id].append(value.body)
            case ast.Tuple() | ast.List():
                if how == "is" and isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
                    for left, right in zip(target.elts, value.elts, strict=True):
                        self._assign(left, right)
                    return
                for left in target.elts:
                    self._assign(left, value, "element")
            case ast.Starred():
                self._assign(target.value, value, how)
            case ast.Attribute():
                self.attributes[target.attr].append(value)
            case ast.Subscript(value=ast.Name()):
                assert isinstance(target.value, ast.Name)
                self.names[target.value.id].append(Binding("is", ast.List(elts=[value], ctx=ast.Load())))

    def _defaults(self, arguments: ast.arguments) -> None:
        positional = [*arguments.posonlyargs, *arguments.args]
        for argument, default in zip(reversed(positional), reversed(arguments.defaults), strict=False):
            self.names[argument.arg].append(Binding("is", default))
        for argument, keyword in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if keyword is not None:
                self.names[argument.arg].append(Binding("is", keyword))

    def _bind_call(self, call: ast.Call) -> None:
        for function in self._called(call.func):
            self._bind_arguments(function, call.args, call.keywords)
        if isinstance(call.func, ast.Attribute) and call.func.attr in _ADDERS and isinstance(call.func.value, ast.Name):
            held = [argument for argument in call.args if not isinstance(argument, ast.Starred)]
            self.names[call.func.value.id].append(Binding("is", ast.List(elts=held, ctx=ast.Load())))
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        for passed in given:
            # A function handed on, as in `map(f, paths)` or `Thread(target=f, args=(path,))`.
            if isinstance(passed, ast.Name | ast.Lambda) and (functions := list(self._called(passed))):
                others = [argument for argument in given if argument is not passed]
                for function in functions:
                    self._bind_loosely(function, others)

    def _called(self, func: ast.expr) -> Iterator[Function]:
        if isinstance(func, ast.Lambda):
            yield func
        name = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
        yield from self.functions.get(name, ())[:4]

    def _bind_arguments(self, function: Function, given: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> None:
        parameters = _parameters(function)
        for parameter, argument in zip(parameters, given, strict=False):
            if not isinstance(argument, ast.Starred):
                self.names[parameter].append(Binding("is", argument))
        rest = function.args.vararg
        if rest is not None and len(given) > len(parameters):
            held = ast.List(elts=list(given[len(parameters) :]), ctx=ast.Load())
            self.names[rest.arg].append(Binding("is", held))
        for keyword in keywords:
            if keyword.arg is not None:
                self.names[keyword.arg].append(Binding("is", keyword.value))

    def _bind_loosely(self, function: Function, given: Sequence[ast.expr]) -> None:
        for parameter in _parameters(function):
            for argument in given:
                self.names[parameter] += [Binding("is", argument), Binding("element", argument)]


def _parameters(function: Function) -> list[str]:
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def _load(target: ast.expr) -> ast.expr:
    match target:
        case ast.Name():
            return ast.copy_location(ast.Name(id=target.id, ctx=ast.Load()), target)
        case _:
            return target
