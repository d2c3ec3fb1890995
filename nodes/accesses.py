"""What a call does to files: which of its arguments are paths that it reads, writes or deletes."""

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from .evaluation import Evaluator
from .values import Text

Kind: TypeAlias = Literal["read", "write", "delete", "tree"]
Access: TypeAlias = tuple[Kind, ast.expr]

_OPENERS: Mapping[str, int] = dict.fromkeys(
    ("builtins.open", "io.open", "codecs.open", "io.FileIO", "tokenize.open", "gzip.open", "bz2.open", "lzma.open"), 1
) | {"os.open": 1, "os.fdopen": 1, "zipfile.ZipFile": 1, "tarfile.open": 1, "shelve.open": 1, "dbm.open": 1}
_FUNCTIONS: Mapping[str, tuple[Kind, ...]] = {
    **dict.fromkeys(("os.remove", "os.unlink", "os.rmdir", "os.removedirs"), ("delete",)),
    "shutil.rmtree": ("tree",),
    **dict.fromkeys(("os.mkdir", "os.makedirs", "os.truncate", "os.mkfifo", "os.utime"), ("write",)),
    **dict.fromkeys(("os.rename", "os.replace", "os.renames", "shutil.move"), ("delete", "write")),
    **dict.fromkeys(("os.link", "os.symlink"), ("read", "write")),
    **dict.fromkeys(
        ("shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree", "shutil.copymode", "shutil.copystat"),
        ("read", "write"),
    ),
    "shutil.unpack_archive": ("read", "write"),
    "shutil.make_archive": ("write", "read", "read"),
    "urllib.request.urlretrieve": ("read", "write"),
    "sqlite3.connect": ("write",),
    **dict.fromkeys(("logging.FileHandler", "logging.basicConfig"), ("write",)),
    **dict.fromkeys(("tarfile.open().add", "tarfile.TarFile().add"), ("read",)),
}
_PATH_METHODS: Mapping[str, Kind] = {
    **dict.fromkeys(("read_text", "read_bytes", "iterdir", "glob", "rglob", "walk", "readlink"), "read"),
    **dict.fromkeys(("write_text", "write_bytes", "touch", "mkdir", "symlink_to", "hardlink_to", "chmod"), "write"),
    **dict.fromkeys(("unlink", "rmdir"), "delete"),
    **dict.fromkeys(("rename", "replace"), "delete"),
}
_UNBOUND: Mapping[str, Kind] = {
    f"pathlib.{owner}.{name}": kind for owner in ("Path", "PosixPath") for name, kind in _PATH_METHODS.items()
} | {"pathlib.Path.open": "read", "pathlib.PosixPath.open": "read"}
_HARMLESS = re.compile(
    r"builtins\.(?!open$)\w+|(?:os\.path|posixpath|pathlib|re|logging|string|textwrap|fnmatch|operator|json|collections)\..*"
    r"|os\.(?:fspath|getenv|access|fsencode|fsdecode)|os\.environ\..*|sys\.path\..*|urllib\.parse\..*|argparse\..*"
    r"|functools\.(?!partial).*|itertools\..*|typing\..*|dataclasses\..*"
)
_WRITERS = re.compile(
    r"(?:to|save|write|dump|export|imwrite|extract|download|store|copy|put|upload)(?:_?\w*)|savez?\w*"
)
_READERS = re.compile(
    r"(?:read|load|open|imread|parse|from_file|genfromtxt|fetch|scan|walk|listdir|send|connect|add)(?:_?\w*)"
)
_PLAIN_METHODS = frozenset(
    {"add", "parse", "to_replace", "copy", "loads", "dumps", "to_dict", "to_numpy", "send", "store", "put"}
)
_REMOVERS = re.compile(r"(?:remove|delete|unlink|rm|rmdir)_?(?:file|dir|tree|path)?s?")
_PATH_KEYWORDS = frozenset(
    {
        "path",
        "file",
        "filename",
        "filepath",
        "fname",
        "name",
        "src",
        "dst",
        "dir",
        "root_dir",
        "filepath_or_buffer",
        "fp",
    }
)


def accesses(evaluator: Evaluator, call: ast.Call) -> Iterator[Access]:
    """Paths that a call works on; an argument whose value is not known is among them."""
    if isinstance(call.func, ast.Attribute):
        yield from _path_method(evaluator, call, call.func)
    for path in evaluator.refs(call.func):
        yield from _function(evaluator, call, path)
    if isinstance(call.func, ast.Attribute) and not evaluator.of(call.func):
        yield from _unknown_method(call, call.func.attr)
    yield from _handed_on(evaluator, call)


def _handed_on(evaluator: Evaluator, call: ast.Call) -> Iterator[Access]:
    """An opening function that is given to another, with its paths beside it: `map(open, paths)`."""
    for index, argument in enumerate(call.args):
        if isinstance(argument, ast.Name | ast.Attribute) and _OPENERS.keys() & set(evaluator.refs(argument)):
            for other in call.args[index + 1 :]:
                yield "read", other


def _arguments(call: ast.Call) -> list[ast.expr]:
    # Of `**options` any value may be the path.
    named = [keyword.value for keyword in call.keywords if keyword.arg in _PATH_KEYWORDS or keyword.arg is None]
    return [*call.args, *named]


def _function(evaluator: Evaluator, call: ast.Call, path: str) -> Iterator[Access]:
    arguments = _arguments(call)
    if path in _OPENERS:
        if arguments:
            yield _mode(evaluator, call, _OPENERS[path], path), arguments[0]
        return
    if path in _FUNCTIONS:
        yield from zip(_FUNCTIONS[path], arguments, strict=False)
        return
    if path in _UNBOUND:
        yield from ((_UNBOUND[path], argument) for argument in arguments[:1])
        return
    owner, _, name = path.rpartition(".")
    if _HARMLESS.fullmatch(path) or owner.endswith(".str"):
        return
    if owner.endswith(("()", "[]")):
        # A method of an object that a call made, as in `pandas.Series().split("/")`.
        yield from _unknown_method(call, name)
        return
    kind: Kind = "write" if _WRITERS.fullmatch(name) else "read"
    for argument in arguments:
        yield kind, argument


def _path_method(evaluator: Evaluator, call: ast.Call, func: ast.Attribute) -> Iterator[Access]:
    on_path = any(isinstance(value, Text) and value.kind == "path" for value in evaluator.of(func.value))
    if not on_path:
        return
    if func.attr == "open":
        yield _mode(evaluator, call, 0, "pathlib"), func.value
    elif func.attr in _PATH_METHODS:
        yield _PATH_METHODS[func.attr], func.value
        if func.attr in {"rename", "replace"} and call.args:
            yield "write", call.args[0]


def _unknown_method(call: ast.Call, name: str) -> Iterator[Access]:
    """A method of an object that is not known: its name tells whether it may work on files."""
    if name in _PLAIN_METHODS:
        return
    kind: Kind
    if _WRITERS.fullmatch(name):
        kind = "write"
    elif _READERS.fullmatch(name):
        kind = "read"
    elif _REMOVERS.fullmatch(name):
        kind = "delete"
    else:
        return
    for argument in _arguments(call):
        yield kind, argument


def _mode(evaluator: Evaluator, call: ast.Call, position: int, path: str) -> Kind:
    """Whether an opening function writes; a mode that is not known counts as writing."""
    given = [keyword.value for keyword in call.keywords if keyword.arg in {"mode", "flags", "flag"}]
    if len(call.args) > position:
        given.append(call.args[position])
    if not given:
        return "read"
    if path == "os.open":
        return "write" if any(name != "os.O_RDONLY" for name in _flags(evaluator, given[0])) else "read"
    modes = [value.value for value in evaluator.of(given[0]) if isinstance(value, Text)]
    return "read" if modes and not any(set(mode) & set("wax+") for mode in modes) else "write"


def _flags(evaluator: Evaluator, node: ast.expr) -> list[str]:
    if isinstance(node, ast.BinOp):
        return [*_flags(evaluator, node.left), *_flags(evaluator, node.right)]
    return evaluator.refs(node) or ["unknown"]
