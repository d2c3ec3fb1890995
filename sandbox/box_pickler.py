"""How the values of a session are taken apart for a snapshot. Runs inside the box.

cloudpickle knows how to pickle most things that the standard library does not, but it pickles for another program:
functions get globals of their own and what two of them share is shared no more. Here the same interpreter is to go on.
So functions, classes, cells, methods and arrays have reducers of their own, which `box_makers` answers to.

A value that another variable holds is not pickled again; the pickle names that variable.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import builtins
import enum
import linecache
import pickle
import sys
import types
from collections.abc import Callable
from typing import Any

from . import box_makers as make
from .box_array_rules import BASE_RULES, NAMED_RULES
from .box_carried import carried
from .box_class_rules import reduce_class, reduce_member, reduce_type_variable
from .box_code import CELL_PREFIX
from .box_kinds import NeedsThorough, Refused, full_name, immutable, mro_of, refusal, singletons

MAX_SOURCE = 64 << 10
"""Characters of a cell whose text is kept with the functions and classes that it defined."""
IN_BAND = 16 << 10
"""Bytes below which a buffer stays in the stream."""

Rule = Callable[["VariablePickler", Any], Any]


class _Fixed(dict[type, bool]):
    def __missing__(self, kind: type) -> bool:
        self[kind] = found = immutable(kind)
        return found


class Scope:
    """What all picklers of one snapshot share.

    Args:
        place: the namespace and what the session knows about its classes.
        names: name of a variable by the identity of its value.
    """

    def __init__(self, place: make.Place, names: dict[int, str]) -> None:
        self.place = place
        self.names = names
        self.cloudpickle = carried("cloudpickle")
        ours = (types.FunctionType, types.MethodType)
        self.builtins = {id(value): name for name, value in vars(builtins).items() if type(value) in ours}
        self.streams = {id(getattr(sys, name, None)): name for name in ("stdin", "stdout", "stderr")}
        self._rules: dict[type, Rule | None] = {}
        self.fixed = _Fixed()
        """Whether values of a type cannot change, so that nobody sees whether two variables share one."""

    def rule(self, kind: type) -> Rule | None:
        """How to reduce values of a type; None where the standard library or cloudpickle know."""
        try:
            return self._rules[kind]
        except KeyError:
            rule = self._rules[kind] = self._find_rule(kind)
            return rule

    def _find_rule(self, kind: type) -> Rule | None:
        mro = mro_of(kind)
        if type in mro:
            return reduce_class
        if kind in _RULES:
            return _RULES[kind]
        if full_name(kind) in _NAMED_RULES:
            return _NAMED_RULES[full_name(kind)]
        for base in mro:
            if full_name(base) in BASE_RULES:
                return BASE_RULES[full_name(base)]
        words = refusal(mro)
        if words:
            return _refuse(words)
        if types.ModuleType in mro:
            return _reduce_module
        if enum.Enum in mro:
            return reduce_member
        known = singletons(kind)
        if known:
            return _of_module(kind.__module__, known)
        if BaseException in mro and getattr(kind.__reduce__, "__objclass__", kind).__module__ == "builtins":
            return _reduce_exception
        return None

    def source(self, filename: str) -> str | None:
        """Text of a cell."""
        entry: Any = linecache.cache.get(filename) if filename.startswith(CELL_PREFIX) else None
        if entry is None or len(entry) == 1 or entry[0] > MAX_SOURCE:
            return None
        lines: list[str] = entry[2]
        return "".join(lines)[:-1]


class VariablePickler(pickle.Pickler):
    """Pickle variables that belong together.

    Args:
        out: takes the stream (`write`) and the large buffers (`buffer`).
        scope: of the snapshot.
        members: identities of the values to pickle; any other variable's value is only named.
        roots: identities of arrays that are pickled as a whole somewhere, so that a small view is to be a view of them.
    """

    def __init__(self, out: Any, scope: Scope, members: set[int], roots: set[int]) -> None:
        self.dispatch_table = scope.cloudpickle.Pickler.dispatch_table
        super().__init__(out, 5, buffer_callback=out.buffer)
        self.scope = scope
        self.members = members
        self.roots = roots
        self.needs: dict[str, None] = {}
        """Variables that the pickle names."""
        self.apart: set[int] = set()
        """Identities of what the pickle names and does not hold."""
        self.views: set[int] = set()
        """Identities of arrays of which only a part was copied."""

    def reducer_override(self, value: Any) -> Any:
        """How to take a value apart; called for all but the plain types."""
        place = id(value)
        if place not in self.members:
            name = self.scope.names.get(place)
            if name is not None:
                self.needs[name] = None
                self.apart.add(place)
                return make.named, (name,)
        if place in self.scope.builtins:
            return self.by_name("builtins", self.scope.builtins[place], value)
        rule = self.scope.rule(type(value))
        return NotImplemented if rule is None else rule(self, value)

    def by_name(self, module: str, name: str, value: Any) -> Any:
        """Reduce to what a module holds under a name."""
        self.apart.add(id(value))
        return make.attribute, (module, name)

    def within_variable(self, value: Any) -> Any:
        """Reduce a part of a class that is a variable, such as a nested class or a plain method; None for others."""
        first, *rest = value.__qualname__.split(".")
        namespace = self.scope.place.namespace
        if not rest or first not in namespace or id(namespace[first]) in self.members:
            return None
        try:
            if make.walk(namespace[first], rest) is not value:
                return None
        except (KeyError, TypeError):
            return None
        self.needs[first] = None
        self.apart.add(id(value))
        return make.named, (first, *rest)


class ThoroughPickler(VariablePickler):
    """As `VariablePickler`, but looks at every single object, to name the namespaces that no reducer gets to see."""

    def persistent_id(self, value: Any) -> str | None:
        """A name for the namespace of the session and that of the builtins."""
        if value is self.scope.place.namespace:
            return "globals"
        return "builtins" if value is vars(builtins) else None


# -- functions ----------------------------------------------------------------------------------------------------


def _reduce_function(pickler: VariablePickler, function: Any) -> Any:
    scope = pickler.scope
    if scope.cloudpickle._should_pickle_by_reference(function):
        pickler.apart.add(id(function))
        return NotImplemented
    home = function.__globals__
    if home is scope.place.namespace:
        within = pickler.within_variable(function)
        if within:
            return within
        home = make.MAIN
    else:
        name = home.get("__name__")
        if getattr(sys.modules.get(name), "__dict__", None) is home:
            home = name
        elif not isinstance(pickler, ThoroughPickler):
            raise NeedsThorough
    names = ("__name__", "__qualname__", "__module__", "__doc__", "__defaults__", "__kwdefaults__", "__annotations__")
    state = {name: getattr(function, name) for name in names}
    if getattr(function, "__type_params__", None):
        state["__type_params__"] = function.__type_params__
    state["__dict__"] = dict(function.__dict__)
    return make.function, (function.__code__, home, function.__closure__), state, None, None, make.set_function


def _reduce_code(pickler: VariablePickler, code: types.CodeType) -> Any:
    _, arguments = pickler.scope.cloudpickle._code_reduce(code)
    # cloudpickle leaves the file name out.
    arguments = tuple(code.co_filename if argument == "<dynamic-code>" else argument for argument in arguments)
    return make.code, (arguments, pickler.scope.source(code.co_filename))


def _reduce_cell(pickler: VariablePickler, cell: types.CellType) -> Any:
    try:
        contents = (cell.cell_contents,)
    except ValueError:
        return make.cell, ()
    return make.cell, (), contents, None, None, make.set_cell


def _reduce_method(pickler: VariablePickler, method: types.MethodType) -> Any:
    holder, function = method.__self__, method.__func__
    name = getattr(function, "__name__", "")
    if make.find_method(holder if isinstance(holder, type) else type(holder), name) is function:
        return make.bound, (holder, name)
    return types.MethodType, (function, holder)


def _reduce_cached(pickler: VariablePickler, function: Any) -> Any:
    if pickler.scope.cloudpickle._lookup_module_and_qualname(function) is not None:
        pickler.apart.add(id(function))
        return NotImplemented
    limits = function.cache_parameters()
    arguments = (limits["maxsize"], limits["typed"], function.__wrapped__)
    return make.cached, arguments, dict(function.__dict__), None, None, make.set_attributes


# -- others -------------------------------------------------------------------------------------------------------


def _refuse(words: str) -> Rule:
    def rule(pickler: VariablePickler, value: Any) -> Any:
        name = pickler.scope.streams.get(id(value))
        if name is not None:
            return pickler.by_name("sys", name, value)
        raise Refused(words, value)

    return rule


def _of_module(module: str, known: dict[int, str]) -> Rule:
    def rule(pickler: VariablePickler, value: Any) -> Any:
        name = known.get(id(value))
        return NotImplemented if name is None else pickler.by_name(module, name, value)

    return rule


def _reduce_module(pickler: VariablePickler, module: Any) -> Any:
    name = module.__name__
    if sys.modules.get(name) is not module:
        return NotImplemented
    if name.split(".")[0] == __name__.split(".")[0]:
        raise Refused("a part of the sandbox", module)
    pickler.apart.add(id(module))
    return make.module, (name,)


def _reduce_exception(pickler: VariablePickler, error: Any) -> Any:
    arguments = error.__reduce__()[1]
    state = (dict(error.__dict__), error.__cause__, error.__suppress_context__)
    return make.exception, (type(error), arguments), state, None, None, make.set_exception


def _reduce_lock(pickler: VariablePickler, lock: Any) -> Any:
    # A reentrant one tells nothing but its text before Python 3.14.
    if not repr(lock).startswith("<unlocked"):
        raise Refused("a lock that is held", lock)
    import _thread

    return (_thread.allocate_lock if type(lock) is _thread.LockType else _thread.RLock), ()


def _reduce_reference(pickler: VariablePickler, reference: Any) -> Any:
    if reference.__callback__ is not None:
        raise Refused("a weak reference that calls something", reference)
    return make.reference, (reference(),)


def _reduce_weak_dict(pickler: VariablePickler, weak: Any) -> Any:
    return type(weak), (dict(weak),)


def _reduce_memory(pickler: VariablePickler, view: memoryview) -> Any:
    whole = view.obj
    if not view.c_contiguous or view.nbytes != memoryview(whole).nbytes or view.readonly != memoryview(whole).readonly:
        whole = view.tobytes() if view.readonly else bytearray(view.tobytes())
    return make.memory, (whole, view.format, view.shape)


_RULES: dict[type, Rule] = {
    types.FunctionType: _reduce_function,
    types.CodeType: _reduce_code,
    types.CellType: _reduce_cell,
    types.MethodType: _reduce_method,
    memoryview: _reduce_memory,
}
_NAMED_RULES: dict[str, Rule] = {
    "functools._lru_cache_wrapper": _reduce_cached,
    "typing.TypeVar": reduce_type_variable,
    "_thread.lock": _reduce_lock,
    "_thread.RLock": _reduce_lock,
    "weakref.ReferenceType": _reduce_reference,
    "builtins.weakref": _reduce_reference,
    "weakref.WeakKeyDictionary": _reduce_weak_dict,
    "weakref.WeakValueDictionary": _reduce_weak_dict,
    **NAMED_RULES,
}
