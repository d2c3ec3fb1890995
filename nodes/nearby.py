"""What a wrong name may have meant: the names, columns, files and packages that are there and look like it."""

import builtins
import difflib
import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from actloop.protocols import ErrorInfo

MAX_CLOSE = 3
"""Names that are offered instead of one that is not there."""
MAX_LISTED = 12

_MODULE = re.compile(r"No module named '([\w.]+)'")
_NAME = re.compile(r"(?:name|variable) '(\w+)'")
_ATTRIBUTE = re.compile(r"has no attribute '(\w+)'")
_PATH = re.compile(r"No such file or directory: '([^']+)'")
_KEY = re.compile(r"'([^']{1,80})'")
_WORD = re.compile(r"[^\W\d][\w.-]*")
_FIELD = re.compile(r"[,;|\t\n\"']| {2,}")

_DISTRIBUTIONS = {
    "sklearn": "scikit-learn",
    "cv2": "opencv-python",
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "yaml": "PyYAML",
    "dateutil": "python-dateutil",
    "skimage": "scikit-image",
}
_USUAL = {"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot", "sns": "seaborn", "sp": "scipy"}


@dataclass(frozen=True)
class Here:
    """What there is that a wrong name may have meant."""

    names: Collection[str] = ()
    """Variables of the interpreter."""
    files: Collection[str] = ()
    """Files of the workspace."""
    packages: str = ""
    """Installed packages with their versions, in one line."""
    seen: str = ""
    """What the task and earlier cells have shown, where columns and keys are found."""


def near(error: ErrorInfo, here: Here) -> str:
    """What may have been meant, in a sentence, by the type of the error; empty where nothing is close."""
    name = error.type.rpartition(".")[2]
    finders: dict[str, Callable[[str, Here], str]] = {
        "ModuleNotFoundError": _near_module,
        "NameError": _near_name,
        "KeyError": _near_key,
        "AttributeError": _near_attribute,
        "FileNotFoundError": _near_file,
    }
    find = finders.get(name) or (_near_key if "not in index" in error.message else None)
    return find(error.message, here) if find else ""


def _near_module(message: str, here: Here) -> str:
    match = _MODULE.search(message)
    if not match:
        return ""
    top = match[1].partition(".")[0]
    installed = [package.partition(" ")[0] for package in here.packages.split(", ") if package]
    if _DISTRIBUTIONS.get(top, top).lower() in (package.lower() for package in installed):
        return f"{top} is installed, but has no part {match[1]!r}."
    found = _close(top, [*installed, *sorted(name for name in sys.stdlib_module_names if name[0] != "_")])
    said = f"Do you mean {_or(found)}? " if found else ""
    return f"{said}Installed: {', '.join(installed)}." if installed else said.strip()


def _near_name(message: str, here: Here) -> str:
    match = _NAME.search(message)
    if not match:
        return ""
    if match[1] in _USUAL:
        return f"It is usually set by: import {_USUAL[match[1]]} as {match[1]}."
    if match[1] in sys.stdlib_module_names:
        return f"It is a module: import {match[1]}."
    found = _close(match[1], [*sorted(here.names), *dir(builtins)])
    return f"Do you mean {_or(found)}?" if found else _list("Variables that exist", sorted(here.names))


def _near_attribute(message: str, here: Here) -> str:
    match = _ATTRIBUTE.search(message)
    found = _close(match[1], _WORD.findall(here.seen)) if match and "DataFrame" in message else []
    return f"Columns seen so far that are close: {_or(found)}." if found else ""


def _near_key(message: str, here: Here) -> str:
    for key in _KEY.findall(message) or [message.strip()]:
        found = _close(key, [*_WORD.findall(here.seen), *_FIELD.split(here.seen)])
        if found:
            return f"Close to {key!r}, and seen so far: {_or(found)}."
    return ""


def _near_file(message: str, here: Here) -> str:
    match = _PATH.search(message)
    found = _close(match[1].rpartition("/")[2], sorted(here.files)) if match else []
    said = f"Do you mean {_or(found)}? " if found else ""
    return (said + _list("Files that exist", sorted(here.files))).strip()


def _close(wanted: str, known: Iterable[str]) -> list[str]:
    """The known names that are most like the wanted one, whatever their case and punctuation."""
    plain: dict[str, str] = {}
    for name in known:
        name = name.strip().strip(".:")
        if name and name != wanted and len(name) <= 80:
            plain.setdefault(re.sub(r"[\W_]+", "", name).casefold(), name)
    found = difflib.get_close_matches(re.sub(r"[\W_]+", "", wanted).casefold(), plain, MAX_CLOSE, 0.75)
    return [plain[match] for match in found]


def _or(names: Sequence[str]) -> str:
    return " or ".join(names)


def _list(title: str, names: Sequence[str]) -> str:
    more = len(names) - MAX_LISTED
    return f"{title}: {', '.join(names[:MAX_LISTED])}{f' and {more} more' if more > 0 else ''}." if names else ""
