"""What the pickles of a snapshot call to make functions, classes and the like again. Runs inside the box.

A pickle names these functions, so their names and arguments are part of the format of snapshots.

Functions of the session get the real namespace as their globals. A class is made without what its definition would set
off a second time: no metaclass, no `__init_subclass__` and no `__set_name__` of the user runs.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import abc
import builtins
import contextlib
import enum
import functools
import importlib
import linecache
import sys
import types
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from .box_kinds import mro_of, vars_of

MAIN = "__main__"


class Place:
    """Where things are made: the namespace of the session, and what it knows about its classes.

    Args:
        namespace: the dict of `__main__`.
        class_cells: see `Compiler.class_cells`.
    """

    def __init__(self, namespace: dict[str, Any], class_cells: dict[str, str]) -> None:
        self.namespace = namespace
        self.class_cells = class_cells


class NotRestored(Exception):
    """A variable refers to another one that is not there; its text names that one."""


_place = Place({}, {})


def the_namespace() -> dict[str, Any]:
    """Where things are made at present."""
    return _place.namespace


@contextlib.contextmanager
def making_in(place: Place) -> Iterator[None]:
    """Make things in this place."""
    global _place
    before, _place = _place, place
    try:
        yield
    finally:
        _place = before


def walk(start: Any, path: Sequence[str]) -> Any:
    """Follow names from class to class; what a class or static method wraps stands for it."""
    for part in path:
        start = vars_of(start)[part]
        start = start.__func__ if isinstance(start, (classmethod, staticmethod)) else start
    return start


def named(name: str, *path: str) -> Any:
    """The value of another variable, or a part of a class in it."""
    if name not in _place.namespace:
        raise NotRestored(name)
    return walk(_place.namespace[name], path)


def attribute(module: str, name: str) -> Any:
    """What a module holds under a name."""
    return getattr(importlib.import_module(module), name)


def module(name: str) -> Any:
    """A module by its name."""
    return sys.modules[MAIN] if name == MAIN else importlib.import_module(name)


# -- functions ----------------------------------------------------------------------------------------------------


def code(arguments: tuple[Any, ...], text: str | None) -> types.CodeType:
    """Code, and the text of its cell for tracebacks and `inspect`."""
    made = types.CodeType(*arguments)
    _remember(made.co_filename, text)
    return made


def _remember(filename: str, text: str | None) -> None:
    if text is not None and filename not in linecache.cache:
        linecache.cache[filename] = (len(text), None, [line + "\n" for line in text.split("\n")], filename)


def function(code: types.CodeType, home: Any, closure: Any) -> types.FunctionType:
    """A function that `set_function` completes.

    Args:
        code: its code.
        home: its globals, or the name of the module whose they are.
        closure: its cells.
    """
    if home == MAIN:
        home = _place.namespace
    elif isinstance(home, str):
        home = importlib.import_module(home).__dict__
    home.setdefault("__builtins__", builtins)
    return types.FunctionType(code, home, code.co_name, None, closure)


def set_function(function: Any, state: dict[str, Any]) -> None:
    """Give a function what `function` left out."""
    function.__dict__.update(state.pop("__dict__"))
    for name, value in state.items():
        setattr(function, name, value)


def cell() -> types.CellType:
    """An empty cell."""
    return types.CellType()


def set_cell(cell: types.CellType, contents: tuple[Any]) -> None:
    """Fill a cell."""
    cell.cell_contents = contents[0]


def find_method(owner: type, name: str) -> Any:
    """The function that a class finds under a name; None where there is none."""
    for kind in mro_of(owner):
        raw = vars_of(kind).get(name)
        if raw is not None:
            return raw.__func__ if isinstance(raw, (classmethod, staticmethod)) else raw
    return None


def bound(holder: Any, name: str) -> types.MethodType:
    """A method of an object or, where the object is a class, a class method."""
    return types.MethodType(find_method(holder if isinstance(holder, type) else type(holder), name), holder)


def cached(limit: int | None, typed: bool, wrapped: Any) -> Any:
    """A function with an empty cache in front."""
    return functools.lru_cache(limit, typed)(wrapped)


def set_attributes(thing: Any, state: dict[str, Any]) -> None:
    """Set attributes that lie in an object's `__dict__`."""
    thing.__dict__.update(state)


# -- classes ------------------------------------------------------------------------------------------------------


def new_class(meta: Any, name: str, bases: tuple[type, ...], space: dict[str, Any], source: Any) -> Any:
    """A class that `set_class` completes.

    Args:
        meta: its metaclass.
        name: its name.
        bases: its bases.
        space: what must be in its namespace from the start.
        source: name of the cell that defined it and the text of that cell, or None.
    """
    with _quiet(bases):
        made = _without_python(meta, "__new__")(meta, name, bases, space)
    if isinstance(made, abc.ABCMeta):
        abc._abc_init(made)  # type: ignore[attr-defined]
    _note_source(made, source)
    return made


def _without_python(meta: Any, method: str) -> Any:
    """A method of a metaclass as it is without what metaclasses written in Python make of it."""
    written_in_c = (types.BuiltinFunctionType, types.WrapperDescriptorType)
    found = (kind.__dict__.get(method) for kind in meta.__mro__)
    return next(function for function in found if isinstance(function, written_in_c))


@contextlib.contextmanager
def _quiet(bases: tuple[type, ...]) -> Iterator[None]:
    """Keep `__init_subclass__` of the bases from running: it has run when the class was defined."""
    hook = "__init_subclass__"
    loud = next((kind for base in bases for kind in base.__mro__ if hook in kind.__dict__ and kind is not object), None)
    if loud is None or loud.__module__ == "typing":
        yield
        return
    real = loud.__dict__[hook]
    type.__setattr__(loud, hook, classmethod(lambda cls, **options: None))
    try:
        yield
    finally:
        type.__setattr__(loud, hook, real)


def _note_source(made: Any, source: Any) -> None:
    if source is not None:
        filename, text = source
        _place.class_cells[made.__qualname__.split(".")[0]] = filename
        _remember(filename, text)


def set_class(made: Any, state: tuple[dict[str, Any], list[Any]]) -> None:
    """Give a class its attributes, and register what an abstract one was told to be its subclasses."""
    attributes, registered = state
    setter = _without_python(type(made), "__setattr__")
    for name, value in attributes.items():
        setter(made, name, value)
    for kind in registered:
        abc.ABCMeta.register(made, kind)


def new_enum(
    meta: Any, name: str, bases: tuple[type, ...], members: dict[str, Any], about: dict[str, Any], source: Any
) -> Any:
    """An enumeration that `set_enum` completes.

    Args:
        meta: its metaclass.
        name: its name.
        bases: its bases.
        members: values by name, in order, aliases among them.
        about: its module, its qualified name and, where the Python version has it, how flags treat foreign bits.
        source: see `new_class`.
    """
    options = {"boundary": about["boundary"]} if "boundary" in about else {}
    space = enum.EnumMeta.__prepare__(name, bases)
    for key in ("__module__", "__qualname__"):
        space[key] = about[key]
    for key, value in members.items():
        space[key] = value
    made = enum.EnumMeta.__new__(meta, name, bases, space, **options)
    _note_source(made, source)
    return made


def set_enum(made: Any, state: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Give an enumeration its methods, and its members what their `__init__` had set."""
    attributes, members = state
    for name, value in attributes.items():
        type.__setattr__(made, name, value)
    for name, extra in members.items():
        made.__members__[name].__dict__.update(extra)


# -- others -------------------------------------------------------------------------------------------------------


def exception(kind: Any, arguments: tuple[Any, ...]) -> BaseException:
    """An exception, made without its class's `__init__`, which may want other arguments than it passed on."""
    made: BaseException = kind.__new__(kind, *arguments)
    base = next(parent for parent in kind.__mro__ if parent.__module__ == "builtins")
    base.__init__(made, *arguments)
    return made


def set_exception(error: BaseException, state: tuple[dict[str, Any], Any, bool]) -> None:
    """Give an exception its attributes and its cause."""
    attributes, error.__cause__, error.__suppress_context__ = state
    error.__dict__.update(attributes)


def reference(target: Any) -> Any:
    """A weak reference; to nothing where the target is None."""
    return weakref.ref(_Gone() if target is None else target)


class _Gone:
    """Something to refer to that is gone at once."""


def memory(base: Any, form: str, shape: tuple[int, ...]) -> memoryview:
    """A view of the whole of an object's memory."""
    view = memoryview(base).cast("B")
    return view if (form, shape) == ("B", view.shape) else view.cast(form, shape)  # type: ignore[call-overload]


def array_view(
    root: Any, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, writable: bool
) -> Any:
    """A numpy array that lies in the memory of another one."""
    whole = root if root.flags.c_contiguous else root.T
    view = type(root)(shape, dtype, whole, offset, strides)
    if not writable:
        view.flags.writeable = False
    return view


def block(reduced: Any, refs: Any) -> Any:
    """A part of a pandas data frame.

    Args:
        reduced: what makes it, and with what.
        refs: pandas' list of the parts that lie in the same memory; this one is added.
    """
    maker, arguments = reduced[:2]
    made = maker(*arguments)
    refs.add_reference(made)
    made.refs = refs
    return made
