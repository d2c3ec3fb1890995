"""What Python itself stands on, put back when a cell has taken it away. Runs inside the box, in the worker.

A cell may delete builtins, modules or the import system. Without them no later cell could import anything, though the
variables are all there.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import builtins
import sys
from typing import Any

_CORE = {"sys", "builtins", "os", "io", "importlib"}


class Essentials:
    """Builtins, loaded modules and the import system, as they were before a cell."""

    def __init__(self) -> None:
        self._builtins = dict(vars(builtins))
        self._live_modules = sys.modules
        self._modules = dict(sys.modules)
        self._finders = list(sys.meta_path)
        self._path = list(sys.path)
        self._overdue: list[str] = []
        self.settled = False
        self.begin()

    def begin(self) -> None:
        """Remember what there is, unless that was done since the last cell, while nobody waited."""
        if self.settled:
            return
        self.settled = True
        self._overdue += self._heal()
        self._number = len(vars(builtins))
        # A new dict writes to each module, and each such page is one that the frozen copy does not share any more.
        if len(self._modules) != len(sys.modules):
            self._modules = dict(sys.modules)
        self._finders = list(sys.meta_path)
        self._path = list(sys.path)

    def end(self) -> list[str]:
        """Put back what is gone; what was only replaced stays as the cell left it.

        A builtin that was removed while another was added is noticed only by `begin`, and told with the next cell.

        Returns:
            A note, where something was.
        """
        modules = self._live_modules
        if (
            len(vars(builtins)) == self._number
            and sys.modules is modules
            and modules.keys() >= _CORE
            and sys.meta_path
            and sys.path
        ):
            return []
        return self._heal()

    def overdue(self) -> list[str]:
        """Notes of what `begin` had to put back."""
        notes, self._overdue = self._overdue, []
        return notes

    def _heal(self) -> list[str]:
        gone: list[str] = []
        names: dict[str, Any] = vars(builtins)
        if not self._builtins.keys() <= names.keys():
            gone.append("builtins")
            names.update({name: value for name, value in self._builtins.items() if name not in names})
        sys.modules = self._live_modules
        if not sys.modules.keys() >= _CORE:
            gone.append("loaded modules")
            sys.modules.update({name: value for name, value in self._modules.items() if name not in sys.modules})
        if self._finders and not sys.meta_path:
            gone.append("the import system")
            sys.meta_path[:] = self._finders
        if self._path and not sys.path:
            gone.append("the module search path")
            sys.path[:] = self._path
        return [f"the cell removed {', '.join(gone)}, which Python needs; they were put back"] if gone else []
