"""Functions of the host that cells may call, and the making of such a call.

What crosses is JSON, never a pickle. A call is announced to the box before it is made: whoever comes after a host that
has died finds out that it may have been made, and does not make it again unless its function allows that.
"""

import asyncio
import contextlib
import inspect
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from actloop.errors import SandboxLost
from actloop.protocols import Function

from .box_wire import Message
from .cell import RunningCell
from .talk import Talk


@dataclass(frozen=True)
class HostFunction:
    """A function that cells may call."""

    name: str
    function: Callable[..., Any]
    """Called with the arguments of the cell, which are plain data; it may be a coroutine function."""
    signature: str = "(...)"
    """As the model reads it: `(city: str, days: int = 1) -> dict`."""
    doc: str = ""
    idempotent: bool = False
    """Calling it twice does no more than calling it once: a call whose outcome is unknown is made again."""

    def described(self) -> dict[str, str]:
        """What the box needs to know of it."""
        return {"name": self.name, "signature": self.signature, "doc": self.doc}

    def call(self, arguments: str) -> dict[str, str]:
        """Make a call.

        Args:
            arguments: JSON with `args` and `kwargs`.

        Returns:
            `result`, as JSON; or `error`, as the cell reads it.
        """
        try:
            given = json.loads(arguments)
            value = self.function(*given["args"], **given["kwargs"])
            if inspect.isawaitable(value):
                value = asyncio.run(_wait(value))
        except Exception as error:
            return {"error": f"{self.name} failed: {type(error).__name__}: {error}"}
        try:
            return {"result": json.dumps(value)}
        except (TypeError, ValueError, RecursionError) as error:
            return {"error": f"{self.name} was called, but its result is no plain data: {error}"}


class HostFunctions:
    """The functions that the cells of a session may call.

    Args:
        talk: with the box.
    """

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._functions: dict[str, Function] = {}

    def offer(self, functions: Sequence[Function]) -> None:
        """Let cells call functions; they replace those that were offered before."""
        self._functions = {function.name: function for function in functions}
        self._talk.send({"op": "tools", "tools": [function.described() for function in functions]})

    def begin(self, cell: RunningCell, message: Message) -> None:
        """Make a call that a cell asks for, in a thread of its own, in the context of whoever runs the cell."""
        threading.Thread(target=cell.context.copy().run, args=(self._call, message), daemon=True).start()

    def _call(self, message: Message) -> None:
        function = self._functions.get(str(message.get("tool")))
        about = {"id": message.get("id"), "number": message.get("number")}
        with contextlib.suppress(SandboxLost):
            if function is None:
                outcome = {"error": _no_such_function(str(message.get("tool")))}
            elif message.get("taken") and not function.idempotent:
                outcome = {"error": _unknown_outcome(function.name)}
            else:
                self._talk.send({"op": "taken", **about})
                outcome = function.call(str(message.get("arguments")))
            self._talk.send({"op": "result", **about, **outcome})


async def _wait(value: Any) -> Any:
    return await value


def _unknown_outcome(name: str) -> str:
    """What a cell is told of a call that a process which has ended may have made."""
    return (
        f"it is not known whether {name} was called: the program that made the call ended before its result came. "
        "It was not called again; find out what has happened before you call it once more"
    )


def _no_such_function(name: str) -> str:
    """What a cell is told when it calls what this host does not offer."""
    return f"there is no function {name} on this host"
