"""What a snapshot needs of an interpreter besides its variables. Runs inside the box, in the worker.

The parts that pickle and load are carried along and loaded late; here is what the worker must know from its start.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NamedTuple

from .box_carried import carried
from .box_code import Compiler

SESSION_UNIT = "<session>"
"""Name of the unit that holds the settings; it is loaded before all others."""


class Start(NamedTuple):
    """What an interpreter began with: only changes are kept."""

    environment: dict[str, str]
    path: list[str]
    filters: list[Any]


class Memory:
    """Settings of the interpreter, and the way back of variables.

    Args:
        compiler: of its cells.
        root: folder of the workspace.
    """

    def __init__(self, compiler: Compiler, root: str) -> None:
        self.class_cells = compiler.class_cells
        self._compiler = compiler
        self._root = root
        warnings = sys.modules.get("warnings")
        self._start = Start(dict(os.environ), list(sys.path), list(getattr(warnings, "filters", [])))
        self._settings: Any = None
        self._restored: dict[str, Any] = {}

    def prepare(self) -> Any:
        """Load what snapshots need, unless it is loaded; later forks of this process then have it."""
        if self._settings is None:
            self._settings = carried("box_settings").Settings(self._compiler, self._root, self._start)
        return self._settings

    def take(self) -> dict[str, Any]:
        """The settings as they are; to be taken before the fork that saves, which `random` notices."""
        taken: dict[str, Any] = self.prepare().take()
        return taken

    def load(self, names: list[str], contents: list[Any], namespace: dict[str, Any]) -> dict[str, str]:
        """Make the variables of a unit, or bring back the settings.

        Args:
            names: of the variables, or that of the unit of the settings.
            contents: as saved.
            namespace: of the interpreter.

        Returns:
            What could not be made, with the reason.
        """
        settings = self.prepare()
        if names == [SESSION_UNIT]:
            try:
                self._restored = carried("box_settings").unpack(contents[0])
                problems = settings.begin_restore(self._restored) + settings.end_restore(self._restored)
            except Exception as error:
                problems = [f"{type(error).__name__}: {error}"]
            return {SESSION_UNIT: "; ".join(problems)} if problems else {}
        failed: dict[str, str] = carried("box_loading").load(names, contents, namespace, self.class_cells)
        # What was loaded may have drawn random numbers.
        settings.reseed(self._restored)
        return failed
