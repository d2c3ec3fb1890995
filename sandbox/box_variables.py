"""From the variables of the interpreter to bytes; `box_loading` is the way back.

Runs inside the box, in a fork of the worker.

Each variable is pickled on its own, so that one that cannot be kept costs only itself. Variables that share something
which can change, such as a list that lies in both, are then pickled once more, together, as one unit. A variable whose
value is a part of another one (`frames = {"sales": sales}`) is named in the other one's pickle instead. So a unit of
which nothing has changed has the same bytes in the next snapshot, and needs no more room in a store that goes by
content.

Pickling runs code of the user: `__reduce__`, `__getstate__`, properties. `save` is therefore meant for a forked child,
whose memory, timers and signals nobody needs afterwards.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import graphlib
import os
import pickle
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from . import box_makers
from .box_budget import Budget, Output, SaveLimits, TooLarge, TooSlow, saving
from .box_kinds import ATOMS, Refused, is_class, shown_name, words_of
from .box_names import user_names
from .box_pickler import Scope, ThoroughPickler, VariablePickler

_KEPT_STREAM = 16 << 20
"""Bytes of a pickle that is kept in memory until its turn; a larger one is made twice."""

_name_of = type.__dict__["__name__"].__get__
_exit = os._exit
_getpid = os.getpid


class Saved(NamedTuple):
    """Variables that belong together, pickled."""

    names: list[str]
    needs: list[str]
    """Variables of other units that these refer to. Their units come earlier."""
    contents: list[Any]
    """The stream, then the buffers that it refers to; bytes-like. Buffers are the memory of the variables itself."""
    notes: list[str]
    """What is not as it was, in words."""


class Skipped(NamedTuple):
    """A variable that is not kept."""

    name: str
    type: str
    why: str


class _Probe:
    """What was learnt by pickling one variable alone."""

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.value = value
        self.needs: dict[str, None] = {}
        self.views: set[int] = set()
        self.shared: dict[int, Any] = {}
        """What can change, by identity. Holding it keeps an identity from being given to another object."""
        self.contents: list[Any] | None = None
        self.thorough = False


def save(
    namespace: dict[str, Any],
    limits: SaveLimits,
    class_cells: dict[str, str],
    begin: Callable[[str], None] = lambda name: None,
    refused: dict[str, str] | None = None,
) -> Iterator[Saved | Skipped]:
    """Turn the variables of the session into bytes.

    Args:
        namespace: the dict of `__main__`.
        limits: of bytes and time.
        class_cells: see `Compiler.class_cells`.
        begin: called with each name before its variable is looked at: if this process ends then, that one did it.
        refused: variables to leave out, with the reason.

    Returns:
        Units, each after those that it refers to, and what is not kept.
    """
    save = _Save(namespace, limits, class_cells, begin, refused or {})
    yield from save.run()


class _Save:
    def __init__(
        self,
        namespace: dict[str, Any],
        limits: SaveLimits,
        class_cells: dict[str, str],
        begin: Callable[[str], None],
        refused: dict[str, str],
    ) -> None:
        self._budget = Budget(limits)
        self._begin = begin
        self._refused = refused
        self._pid = _getpid()
        # A copy: code of the user that runs from here on may change the namespace.
        self._values = {name: namespace[name] for name in user_names(namespace) if name in namespace}
        self._scope = Scope(box_makers.Place(namespace, class_cells), _names_of(self._values))
        self._probes: dict[str, _Probe] = {}
        self._lost: dict[str, str] = {}
        self._roots: set[int] = set()
        # What must not come along whole.
        self._whole = {id(namespace), id(vars(sys.modules["builtins"]))}

    def run(self) -> Iterator[Saved | Skipped]:
        """Look at each variable alone, find out which belong together, and pickle those together."""
        with saving():
            for name, value in self._values.items():
                self._look_at(_Probe(name, value))
            self._look_again_at_views()
        self._lose_what_needs_lost_ones()
        for name, why in self._lost.items():
            yield Skipped(name, shown_name(type(self._values[name])), why)
        notes = self._views_apart()
        for names in self._units():
            yield from self._unit(names, [text for name, text in notes if name in names])

    # -- each alone -----------------------------------------------------------------------------------------------

    def _look_at(self, probe: _Probe) -> None:
        if probe.name in self._refused:
            self._lost[probe.name] = self._refused[probe.name]
            return
        self._begin(probe.name)
        try:
            with self._budget.one() as out:
                pickler = self._pickle_alone(out, probe)
        except BaseException as error:
            self._lost[probe.name] = _why(error, probe.value)
            return
        finally:
            self._end_child()
        probe.needs, probe.views = pickler.needs, pickler.views
        probe.contents = out.contents() if len(out.stream) <= _KEPT_STREAM else None
        self._budget.spend(out)
        self._probes[probe.name] = probe

    def _pickle_alone(self, out: Output, probe: _Probe) -> VariablePickler:
        """Pickle a variable, thoroughly if need be, and note what of it can be shared."""
        flat = _is_flat(probe.value)
        try:
            pickler = self._pickle(out, [probe])
            memo = {} if flat else pickler.memo.copy()
        except (TooLarge, TooSlow, MemoryError, RecursionError):
            raise
        except BaseException as error:
            # What failed may lie in a namespace that came along whole.
            if probe.thorough or (isinstance(error, Refused) and error.value is probe.value):
                raise
            memo = None
        if not probe.thorough and (memo is None or self._whole.intersection(memo)):
            probe.thorough = True
            out.clear()
            return self._pickle_alone(out, probe)
        if not flat:
            probe.shared = self._shared(pickler, memo or {})
        elif type(probe.value) not in ATOMS:
            probe.shared = {id(probe.value): probe.value}
        return pickler

    def _pickle(self, out: Output, probes: Sequence[_Probe]) -> VariablePickler:
        """Pickle the values of variables as one tuple."""
        kind = ThoroughPickler if any(probe.thorough for probe in probes) else VariablePickler
        values = tuple(probe.value for probe in probes)
        pickler = kind(out, self._scope, {id(value) for value in values}, self._roots)
        pickler.dump(values)
        return pickler

    def _shared(self, pickler: VariablePickler, memo: dict[int, Any]) -> dict[int, Any]:
        """What the pickle holds that can change, by identity."""
        fixed = self._scope.fixed
        return {
            place: value
            for place, (_, value) in memo.items()
            if not fixed[type(value)] and place not in pickler.apart and not isinstance(value, pickle.PickleBuffer)
        }

    def _end_child(self) -> None:
        """End a process that `__reduce__` forked off and that came back here."""
        if _getpid() != self._pid:
            _exit(0)

    def _look_again_at_views(self) -> None:
        """Pickle small views anew as views, where the array that they are a part of is kept."""
        kept = {place for probe in self._probes.values() for place in probe.shared}
        self._roots = {place for probe in self._probes.values() for place in probe.views if place in kept}
        for probe in list(self._probes.values()):
            if probe.views & self._roots:
                del self._probes[probe.name]
                self._look_at(probe)
        self._probes = {name: self._probes[name] for name in self._values if name in self._probes}

    def _views_apart(self) -> list[tuple[str, str]]:
        """Notes on arrays that shared memory and do so no more, each with the name that it is about."""
        seen: dict[int, str] = {}
        notes = []
        for probe in self._probes.values():
            for place in probe.views - self._roots:
                if seen.setdefault(place, probe.name) != probe.name:
                    notes.append((probe.name, f"{seen[place]} and {probe.name} no longer share memory"))
        return notes

    # -- together -------------------------------------------------------------------------------------------------

    def _lose_what_needs_lost_ones(self) -> None:
        found = True
        while found:
            found = False
            for probe in list(self._probes.values()):
                missing = next((name for name in probe.needs if name in self._lost), None)
                if missing is not None:
                    self._lost[probe.name] = f"it needs {missing}, which is not kept"
                    del self._probes[probe.name]
                    found = True

    def _units(self) -> list[list[str]]:
        """Names that belong together, each group after those that it refers to."""
        leader = {name: name for name in self._probes}

        def lead(name: str) -> str:
            while leader[name] != name:
                leader[name] = leader[leader[name]]
                name = leader[name]
            return name

        owners: dict[int, str] = {}
        for probe in self._probes.values():
            for place in probe.shared:
                owner = owners.setdefault(place, probe.name)
                if owner is not probe.name:
                    leader[lead(probe.name)] = lead(owner)
        while True:
            order: dict[str, list[str]] = {}
            for probe in self._probes.values():
                needed = [lead(name) for name in probe.needs]
                order.setdefault(lead(probe.name), []).extend(needed)
            graph = {name: [other for other in needed if other != name] for name, needed in order.items()}
            try:
                sequence = list(graphlib.TopologicalSorter(graph).static_order())
                break
            except graphlib.CycleError as error:
                for name in error.args[1]:
                    leader[lead(name)] = lead(error.args[1][0])
        members: dict[str, list[str]] = {name: [] for name in sequence}
        for name in self._probes:
            members[lead(name)].append(name)
        return list(members.values())

    def _unit(self, names: list[str], notes: list[str]) -> Iterator[Saved | Skipped]:
        probes = [self._probes.pop(name) for name in names]
        contents, needs = probes[0].contents, probes[0].needs
        if len(probes) > 1 or contents is None:
            try:
                with saving(), self._budget.again() as out:
                    needs = self._pickle(out, probes).needs
                contents = out.contents()
            except BaseException as error:
                for probe in probes:
                    yield Skipped(probe.name, shown_name(type(probe.value)), _why(error, probe.value))
                    self._lost[probe.name] = ""
                return
            finally:
                self._end_child()
        yield Saved(names, sorted(needs), contents, notes)


def _names_of(values: dict[str, Any]) -> dict[int, str]:
    """The variable that stands for a value: for a function or a class the one of its own name, else the first."""
    names: dict[int, str] = {}
    for name, value in values.items():
        own = (is_class(value) and _name_of(value) == name) or (
            type(value) is types.FunctionType and value.__name__ == name
        )
        if own or id(value) not in names:
            names[id(value)] = name
    return names


def _is_flat(value: Any) -> bool:
    """Whether a value is plain or holds only plain ones: nothing in it can be shared."""
    kind = type(value)
    if kind in (list, tuple, set, frozenset):
        return ATOMS.issuperset(map(type, value))
    if kind is dict:
        return ATOMS.issuperset(map(type, value)) and ATOMS.issuperset(map(type, value.values()))
    return kind in ATOMS


def _why(error: BaseException, value: Any) -> str:
    """The reason why a variable is not kept."""
    if isinstance(error, Refused):
        words = error.words
        return f"{words} cannot be kept" if error.value is value else f"it holds {words}, which cannot be kept"
    if isinstance(error, (TooLarge, TooSlow)):
        return str(error)
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, MemoryError):
        return "there is not enough memory to save it"
    words = words_of(error)
    return words if "cannot be kept" in words else f"saving it raised {words}"
