"""Functions of the host that cells may call, and the making of such a call.

What crosses is JSON, never a pickle (`box_values.py`). A call is announced to the box before it is made: whoever comes
after a host that has died finds out that it may have been made, and does not make it again unless its function allows
that.
"""

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .box_values import decode, encode, has_arrow


@dataclass(frozen=True)
class HostFunction:
    """A function that cells may call."""

    name: str
    function: Callable[..., Any]
    """Called with the arguments of the cell, which are plain data, bytes and tables; it may be a coroutine function,
    which then runs on an event loop of the session's."""
    signature: str = "(...)"
    """As the model reads it: `(city: str, days: int = 1) -> dict`. Where it is Python, the box checks arguments by it
    before it calls."""
    doc: str = ""
    idempotent: bool = False
    """Calling it twice does no more than calling it once: a call whose outcome is unknown is made again."""
    needs_approval: bool = False
    """A person is asked before each call, while the cell waits."""

    @property
    def awaits(self) -> bool:
        """Whether it is a coroutine function."""
        return inspect.iscoroutinefunction(self.function)

    def described(self) -> dict[str, Any]:
        """What the box needs to know of it."""
        return {"name": self.name, "signature": self.signature, "doc": self.doc, "arrow": has_arrow()}

    def call(self, arguments: str, arrow: bool = False) -> dict[str, str]:
        """Make a call.

        Args:
            arguments: JSON with `args` and `kwargs`.
            arrow: the caller reads tables in that form.

        Returns:
            `result`, as JSON; or `error`, as the cell reads it.
        """
        try:
            given = decode(arguments)
            value = self.function(*given["args"], **given["kwargs"])
            if inspect.isawaitable(value):
                value = asyncio.run(_wait(value))
        except Exception as error:
            return self._failed(error)
        return self._outcome(value, arrow)

    async def acall(self, arguments: str, arrow: bool = False) -> dict[str, str]:
        """`call` for a coroutine function."""
        try:
            given = decode(arguments)
            value = await self.function(*given["args"], **given["kwargs"])
        except Exception as error:
            return self._failed(error)
        return self._outcome(value, arrow)

    def _failed(self, error: Exception) -> dict[str, str]:
        return {"error": f"{self.name} failed: {type(error).__name__}: {error}"}

    def _outcome(self, value: Any, arrow: bool) -> dict[str, str]:
        try:
            return {"result": encode(value, arrow)}
        except (TypeError, ValueError, RecursionError) as error:
            return {"error": f"{self.name} was called, but its result is no plain data that can cross: {error}"}


async def _wait(value: Any) -> Any:
    return await value


def unknown_outcome(name: str) -> str:
    """What a cell is told of a call that a process which has ended may have made."""
    return (
        f"it is not known whether {name} was called: the program that made the call ended before its result came. "
        "It was not called again; find out what has happened before you call it once more"
    )


def no_such_function(name: str) -> str:
    """What a cell is told when it calls what this host does not offer."""
    return f"there is no function {name} on this host"


def too_many(name: str, number: int) -> str:
    """What a cell is told when it has used up its calls."""
    return f"{name} was not called: this cell may make {number} calls to the host, and they are used up"
