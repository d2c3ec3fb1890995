"""What the safety check finds in one node of the syntax tree, by the names of the rules in `policy.py`."""

import ast
import ipaddress
import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from .accesses import Kind, accesses
from .evaluation import Evaluator
from .folding import DECODERS
from .pickles import unsafe_globals
from .places import Place, is_root_of_workspace, place_of
from .references import FILE_LOADERS, IMPORTERS, INTROSPECTION, LOADERS, POWERFUL, matches
from .values import Ref, Text, canonical

Hit: TypeAlias = tuple[str, str]
"""Id of a rule, and what is wrong in words."""

Check: TypeAlias = Callable[[Evaluator, ast.AST], Iterator[Hit]]

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:KEY|APIKEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|PRIVATE)(?:_|$)", re.IGNORECASE
)
_URL = re.compile(r"(?:https?|ftps?|s3|gs|gcs|abfs|hdfs|ssh|sftp|wss?)://", re.IGNORECASE)
_METADATA = ("169.254.169.254", "169.254.170.2", "metadata.google.internal", "fd00:ec2::254", "100.100.100.200")
_READER = re.compile(r".*\.(?:read|load|open|imread|fetch|download|scan|genfrom)\w*")
_WRITER = re.compile(r"to_\w+")
_TEMPLATE = re.compile(r"\{[^{}]*\.__(?:class|globals|init|mro|base|subclasses|dict|builtins)")
_ONLY_LOOKS = frozenset(
    {
        *("builtins.getattr", "builtins.hasattr", "builtins.dir", "builtins.help", "builtins.print", "builtins.type"),
        *("builtins.len", "builtins.list", "builtins.sorted", "builtins.set"),
        *("builtins.id", "builtins.repr", "builtins.str", "builtins.vars", "builtins.isinstance", "builtins.callable"),
        *("importlib.reload", "operator.attrgetter()", "object.__getattribute__", "builtins.object.__getattribute__"),
    }
)
"""Functions that a module may be given to: they only look, or what they give is followed."""
_ENVIRON = frozenset({"os.environ", "os.environb"})
_UNSAFE_FUNCTIONS = frozenset({"builtins.eval", "builtins.exec", "builtins.compile", "builtins.__import__"})


def imports(evaluator: Evaluator, node: ast.AST) -> Iterator[Hit]:
    """Import of a module that a reference rule names."""
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    for name in names:
        path = canonical(name)
        for reference in matches(path):
            yield reference.rule, f"{path} {reference.says}."


def references(evaluator: Evaluator, node: ast.AST) -> Iterator[Hit]:
    """Use of a module or function that a reference rule names."""
    if not isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        return
    if isinstance(node, ast.Name | ast.Attribute) and not isinstance(node.ctx, ast.Load):
        return
    for path in evaluator.refs(node):
        for reference in matches(path):
            yield reference.rule, f"{path} {reference.says}."


def introspection(evaluator: Evaluator, node: ast.AST) -> Iterator[Hit]:
    """Attributes that lead to the interpreter's internals, also by `getattr` with a text."""
    names: list[str] = []
    if isinstance(node, ast.Attribute):
        names = [node.attr]
    elif isinstance(node, ast.Call) and len(node.args) > 1 and "builtins.getattr" in evaluator.refs(node.func):
        names = [text.value for text in evaluator.texts(node.args[1])]
        known = any(text.whole for text in evaluator.texts(node.args[1]))
        for path in evaluator.refs(node.args[0]) if not known else ():
            if path in POWERFUL | {"sys", "shutil"}:
                yield "dynamic_code", f"An attribute of {path} is chosen at run time."
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        bases = evaluator.refs(node.value)
        known = any(text.whole for text in evaluator.texts(node.slice))
        if not known and {"sys.modules", "builtins", *(f"{name}.__dict__" for name in POWERFUL)} & set(bases):
            yield "dynamic_code", f"An entry of {bases[0]} is chosen at run time."
        names = [text.value for text in evaluator.texts(node.slice)] if not bases else []
    for name in names:
        if name in INTROSPECTION:
            yield "introspection", f"{name} leads to the interpreter's own objects."


def handed_on(evaluator: Evaluator, node: ast.AST) -> Iterator[Hit]:
    """A module that can do everything, given away as a value: what becomes of it cannot be followed."""
    if not isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        return
    if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        return
    given = [
        path for path in evaluator.refs(node) if path.removesuffix(".__dict__") in POWERFUL or path == "sys.modules"
    ]
    if not given or not _is_given_away(evaluator, node):
        return
    yield "dynamic_code", f"{given[0]} is handed on as a value; what is called through it cannot be read."


def _is_given_away(evaluator: Evaluator, node: ast.AST) -> bool:
    parent = evaluator.bindings.parents.get(id(node))
    if isinstance(parent, ast.keyword):
        node, parent = parent, evaluator.bindings.parents.get(id(parent))
    if isinstance(parent, ast.Call) and parent.func is not node:
        return not _ONLY_LOOKS & set(evaluator.refs(parent.func))
    if isinstance(parent, ast.Attribute):
        return parent.attr in {"items", "values"}
    return isinstance(
        parent, ast.Dict | ast.List | ast.Tuple | ast.Set | ast.Lambda | ast.Return | ast.Yield | ast.Starred
    )


def formats(evaluator: Evaluator, node: ast.AST) -> Iterator[Hit]:
    """A template that reads an object's internals: `"{0.__class__}".format(x)`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.startswith("format"):
        for text in evaluator.texts(node.func.value):
            if _TEMPLATE.search(text.value):
                yield "introspection", "A template reads attributes that lead to the interpreter's own objects."


def environment(evaluator: Evaluator, node: ast.AST) -> Iterator[Hit]:
    """The environment read as a whole, or a variable whose name promises a secret."""
    if isinstance(node, ast.Call) and "os.getenv" in evaluator.refs(node.func):
        yield from _variable(evaluator, node.args[0] if node.args else None)
        return
    if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return
    if not _ENVIRON & set(evaluator.refs(node)):
        return
    parent = evaluator.bindings.parents.get(id(node))
    if isinstance(parent, ast.Subscript) and parent.value is node:
        if isinstance(parent.ctx, ast.Load):
            yield from _variable(evaluator, parent.slice)
        return
    if isinstance(parent, ast.Attribute) and parent.attr in {"get", "setdefault", "update", "pop", "__setitem__"}:
        call = evaluator.bindings.parents.get(id(parent))
        if isinstance(call, ast.Call) and parent.attr != "update":
            yield from _variable(evaluator, call.args[0] if call.args else None)
        return
    if isinstance(parent, ast.Compare | ast.ImportFrom):
        return
    yield "environment", "The environment is read as a whole; it may hold secrets."


def _variable(evaluator: Evaluator, key: ast.expr | None) -> Iterator[Hit]:
    for text in evaluator.texts(key):
        if _SECRET_NAME.search(text.value):
            yield "environment", f"The environment variable {text.value} may hold a secret."
            return
    yield "environment_variable", "An environment variable is read."


def code_in_text(evaluator: Evaluator, node: ast.AST) -> Iterator[Hit]:
    """`eval`, `exec`, `compile` and imports whose argument cannot be read, or was hidden by an encoding."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        for decorator in node.decorator_list:
            if _UNSAFE_FUNCTIONS & set(evaluator.refs(decorator)):
                yield "dynamic_code", "A decorator runs what it decorates as code."
    if not isinstance(node, ast.Call):
        return
    names = set(evaluator.refs(node.func))
    first = node.args[0] if node.args else None
    running = names & (_UNSAFE_FUNCTIONS | IMPORTERS)
    for name in running:
        texts = evaluator.texts(first)
        short = name.removeprefix("builtins.")
        if any(text.decoded for text in texts) or _decoder_inside(evaluator, first):
            yield "obfuscation", f"{short} runs code that is hidden by an encoding."
        elif not (texts and all(text.whole for text in texts)) and not _is_compiled(evaluator, first):
            yield "dynamic_code", f"{short} gets code or a name that is made at run time."
    for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
        for path in _UNSAFE_FUNCTIONS & set(evaluator.refs(argument)) if isinstance(argument, ast.Name) else ():
            yield "dynamic_code", f"{path.removeprefix('builtins.')} is handed on to be called later."


def _is_compiled(evaluator: Evaluator, node: ast.expr | None) -> bool:
    """Whether the argument is the result of a `compile` that was judged itself."""
    return "builtins.compile()" in evaluator.refs(node)


def _decoder_inside(evaluator: Evaluator, node: ast.expr | None) -> bool:
    paths = [path for inner in ast.walk(node) for path in evaluator.refs(inner)] if node is not None else []
    return any(path.partition("()")[0] in DECODERS for path in paths)


def loading(evaluator: Evaluator, node: ast.AST) -> Iterator[Hit]:
    """Data that runs code when it is loaded: pickles of unknown origin, `__reduce__` with a call in it."""
    if isinstance(node, ast.FunctionDef) and node.name in {"__reduce__", "__reduce_ex__"}:
        for inner in ast.walk(node):
            for path in evaluator.refs(inner) if isinstance(inner, ast.expr) else ():
                if path in _UNSAFE_FUNCTIONS or any(r.rule == "process" for r in matches(path)):
                    yield "unsafe_load", f"{node.name} makes loading the pickle call {path.removeprefix('builtins.')}."
        return
    if not isinstance(node, ast.Call):
        return
    paths = set(evaluator.refs(node.func))
    in_memory = {"io.BytesIO()"} & set(evaluator.refs(node.args[0] if node.args else None))
    for path in FILE_LOADERS & paths:
        if in_memory:
            yield "unsafe_load", f"{path} can run code that lies in its data."
        elif path != "numpy.load" or any(keyword.arg == "allow_pickle" for keyword in node.keywords):
            yield "pickle_file", f"{path} can run code that lies in the file."
    for path in LOADERS & paths:
        argument = node.args[0] if node.args else None
        if path.startswith("yaml.load") and _safe_yaml(evaluator, node):
            continue
        values = evaluator.of(argument)
        if values and all(isinstance(v, Ref) and v.path.endswith(".dumps()") for v in values):
            continue
        texts = [value for value in values if isinstance(value, Text)]
        unsafe = [name for text in texts for name in unsafe_globals(text.value.encode("latin-1", "replace"))]
        detail = f"; this data calls {unsafe[0]}" if unsafe else ""
        yield "unsafe_load", f"{path} can run code that lies in its data{detail}."


def _safe_yaml(evaluator: Evaluator, call: ast.Call) -> bool:
    given = [*call.args[1:], *(keyword.value for keyword in call.keywords if keyword.arg == "Loader")]
    names = [path for argument in given for path in evaluator.refs(argument)]
    return any(name.endswith(("SafeLoader", "BaseLoader")) for name in names)


def addresses(evaluator: Evaluator, node: ast.AST) -> Iterator[Hit]:
    """A URL that a reading function opens, and addresses of cloud metadata in any call."""
    if not isinstance(node, ast.Call):
        return
    # The namespaces of XML are names in the form of addresses.
    arguments = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg != "namespaces")]
    names = evaluator.refs(node.func)
    printing = any(name in {"builtins.print", "builtins.len", "builtins.str"} for name in names)
    for argument in arguments if not printing else ():
        for text in evaluator.texts(argument):
            if len(text.value) < 2000 and _is_metadata(text.value):
                yield "metadata_address", "The address of the cloud's metadata service gives out credentials."
            elif _URL.match(text.value) and any(_READER.fullmatch(name) for name in names):
                yield "network", f"{names[0]} reads from {text.value.split('/')[2][:80]}."
            elif _URL.match(text.value) and isinstance(node.func, ast.Attribute) and _WRITER.fullmatch(node.func.attr):
                yield "network", f"{node.func.attr} writes to {text.value.split('/')[2][:80]}."


def _is_metadata(text: str) -> bool:
    if any(address in text for address in _METADATA):
        return " " not in text.strip()
    host = re.match(r"(?:\w+://)?\[?([0-9a-fA-Fx:.]+)\]?(?:[:/].*)?$", text)
    if host is None or "://" not in text:
        return False
    try:
        number = int(host[1], 0)
        return str(ipaddress.ip_address(number)) in _METADATA
    except ValueError:
        return False


def files(evaluator: Evaluator, node: ast.AST) -> Iterator[Hit]:
    """Files outside the workspace, and trees that are deleted."""
    if not isinstance(node, ast.Call):
        return
    for kind, argument in accesses(evaluator, node):
        texts = evaluator.texts(argument)
        if kind == "tree" and not texts and not _temporary(evaluator, argument):
            yield "delete", "A whole tree is deleted, and its path is not known before the run."
        for text in texts:
            place = place_of(text.value)
            if place is not None:
                yield from _judge(kind, place, text.value)


def _temporary(evaluator: Evaluator, node: ast.expr) -> bool:
    return any(path.startswith("tempfile.") for path in evaluator.refs(node))


def _judge(kind: Kind, place: Place, path: str) -> Iterator[Hit]:
    shown = path.replace("\x00", "…")[:120]
    if place == "secret":
        yield "secret_path", f"{shown} holds secrets or control of the system."
        return
    if kind in {"delete", "tree"}:
        if place != "inside" or (kind == "tree" and is_root_of_workspace(path)):
            yield "delete", f"{shown} is deleted, which is not a file of the workspace alone."
        else:
            yield "delete_inside", f"{shown} is deleted."
    elif kind == "write" and place != "inside":
        yield "outside_write", f"{shown} is written, which lies outside the workspace."
    elif place == "system":
        yield "system_path", f"{shown} is read, which belongs to the system."
    elif place == "outside":
        yield "outside_read", f"{shown} is read, which lies outside the workspace."


CHECKS: tuple[Check, ...] = (
    imports,
    references,
    introspection,
    handed_on,
    formats,
    environment,
    code_in_text,
    loading,
    addresses,
    files,
)
