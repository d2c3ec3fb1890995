"""Libraries that need a hint to work in cells as they do in a script. Runs inside the box, in the worker.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

from typing import Any

from .box_code import Compiler
from .box_imports import after_import
from .box_show import Shows


def teach_inspect(compiler: Compiler) -> None:
    """Let `inspect` find the text of classes of the session."""

    def teach(inspect: Any) -> None:
        original = inspect.getfile

        def getfile(object: object) -> Any:
            return compiler.inspect_file(object) or original(object)

        inspect.getfile = getfile

    after_import("inspect", teach)


def teach_pyplot(shows: Shows) -> None:
    """Let `show()` of matplotlib show."""

    def teach(pyplot: Any) -> None:
        def show(*_args: object, **_kwargs: object) -> None:
            shows.figures()

        def show_one(figure: object, *_args: object, **_kwargs: object) -> None:
            shows.rich(figure)

        pyplot.show = show
        pyplot.Figure.show = show_one

    after_import("matplotlib.pyplot", teach)
