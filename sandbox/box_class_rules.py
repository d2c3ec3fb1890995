"""How classes, enumerations and type variables are taken apart for a snapshot; `box_makers` makes them again.

Runs inside the box. Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import abc
import enum
import types
from typing import TYPE_CHECKING, Any

from . import box_makers as make
from .box_kinds import Refused, vars_of

if TYPE_CHECKING:
    from .box_pickler import VariablePickler

_FROM_THE_START = ("__module__", "__slots__", "__orig_bases__")
_MADE_ANEW = {
    "__dict__",
    "__weakref__",
    "__qualname__",
    "__slotnames__",
    "_abc_impl",
    *_FROM_THE_START,
}
_ENUM_MADE_ANEW = {
    "_generate_next_value_",
    "_member_names_",
    "_member_map_",
    "_member_type_",
    "_value2member_map_",
    "_unhashable_values_",
    "_unhashable_values_map_",
    "_hashable_values_",
    "_use_args_",
    "_value_repr_",
    "_boundary_",
    "_flag_mask_",
    "_singles_mask_",
    "_all_bits_",
    "_inverted_",
    "_new_member_",
    "__new_member__",
    "__new__",
}
_MEMBER_MADE_ANEW = {"_value_", "_name_", "__objclass__", "_sort_order_", "_inverted_"}


def reduce_class(pickler: VariablePickler, kind: Any) -> Any:
    """A class: by name where it can be imported or another variable holds it, else all that is in it."""
    cloudpickle = pickler.scope.cloudpickle
    special = kind in (type(None), type(...), type(NotImplemented)) or kind in cloudpickle._BUILTIN_TYPE_NAMES
    if special or cloudpickle._should_pickle_by_reference(kind):
        pickler.apart.add(id(kind))
        return cloudpickle._class_reduce(kind)
    within = pickler.within_variable(kind) if kind.__module__ == make.MAIN else None
    if within:
        return within
    if kind.__module__ == "_ctypes":
        raise Refused("a ctypes type", kind)
    own = vars_of(kind)
    if issubclass(kind, enum.Enum):
        return _reduce_enum(pickler, kind, own)
    space = {name: own[name] for name in _FROM_THE_START if name in own}
    space["__qualname__"] = kind.__qualname__
    registered = []
    if isinstance(kind, abc.ABCMeta):
        registered = [target() for target in abc._get_dump(kind)[0]]  # type: ignore[attr-defined]
    arguments = (type(kind), kind.__name__, kind.__bases__, space, _source(pickler, kind))
    return make.new_class, arguments, (_attributes(kind, own, _MADE_ANEW), registered), None, None, make.set_class


def _attributes(kind: type, own: Any, but: set[str]) -> dict[str, Any]:
    slots = (types.MemberDescriptorType, types.GetSetDescriptorType)
    return {
        name: value
        for name, value in own.items()
        if name not in but and not (isinstance(value, slots) and value.__objclass__ is kind)
    }


def _source(pickler: VariablePickler, kind: type) -> tuple[str, str | None] | None:
    """The cell that defined a class."""
    if kind.__module__ != make.MAIN or "<locals>" in kind.__qualname__:
        return None
    filename = pickler.scope.place.class_cells.get(kind.__qualname__.split(".")[0])
    return None if filename is None else (filename, pickler.scope.source(filename))


def _reduce_enum(pickler: VariablePickler, kind: Any, own: Any) -> Any:
    made = own.get("__new_member__")
    if kind.__members__ and isinstance(made, types.FunctionType) and kind._member_type_ is not object:
        raise Refused(f"an enumeration that makes values of {kind._member_type_.__name__} by itself", kind)
    about = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    if "_boundary_" in own:
        about["boundary"] = own["_boundary_"]
    members = {name: member._value_ for name, member in kind.__members__.items()}
    extras = {
        name: {key: value for key, value in member.__dict__.items() if key not in _MEMBER_MADE_ANEW}
        for name, member in kind.__members__.items()
    }
    arguments = (type(kind), kind.__name__, kind.__bases__, members, about, _source(pickler, kind))
    attributes = _attributes(kind, own, _MADE_ANEW | _ENUM_MADE_ANEW | members.keys())
    return make.new_enum, arguments, (attributes, extras), None, None, make.set_enum


def reduce_member(pickler: VariablePickler, member: Any) -> Any:
    """A member of an enumeration: its class has it, so that nothing new is made."""
    pickler.apart.add(id(member))
    return NotImplemented


def reduce_type_variable(pickler: VariablePickler, variable: Any) -> Any:
    """A type variable."""
    cloudpickle = pickler.scope.cloudpickle
    if cloudpickle._lookup_module_and_qualname(variable, name=variable.__name__) is not None:
        pickler.apart.add(id(variable))
        return cloudpickle._typevar_reduce(variable)
    # The last one is an identity that cloudpickle mints, different in each process.
    return cloudpickle._make_typevar, (*cloudpickle._decompose_typevar(variable)[:-1], None)
