"""Calls from a cell to functions on the host, as the supervisor keeps them. Runs inside the box.

A call is kept here from its beginning to the end of its cell, so that a host that comes after another one has died
finds it: not yet taken up, which the new host may do; taken up without a result, of which nobody knows whether it was
made; or answered, which the cell has got already.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
from typing import Any

from .box_host import Host
from .box_wire import Message, encode_clean_line

MAX_CALLS = 10_000
"""Calls of one cell, whatever the host allows."""
MAX_KEPT = 2000
"""Characters of an argument or a result in the record of a cell."""
MAX_KEPT_IN_ALL = 2 << 20
"""Characters of all of them: the record must fit in a line. What comes later is left out, not the calls."""

_NOT_RECORDED = ("taken", "arrow")


class Calls:
    """The host calls of one cell.

    Args:
        cell_id: of the cell.
    """

    def __init__(self, cell_id: str) -> None:
        self._cell_id = cell_id
        self._open: dict[int, int] = {}
        self._made: dict[int, Message] = {}
        self._room = MAX_KEPT_IN_ALL

    @property
    def pending(self) -> bool:
        """Whether the cell waits for an answer."""
        return bool(self._open)

    def begin(self, message: Message, fd: int, host: Host) -> None:
        """Take a call of the cell's.

        Args:
            message: the worker's, with `tool` and `arguments`.
            fd: where the caller waits for its answer; closed with it.
            host: is asked to make the call.
        """
        number = len(self._made) + 1
        if number > MAX_CALLS:
            _answer(fd, {"error": f"a cell may make {MAX_CALLS} calls"})
            return
        self._made[number] = {
            "number": number,
            "tool": str(message.get("tool"))[:200],
            "arguments": str(message.get("arguments")),
            "arrow": bool(message.get("arrow")),
        }
        self._open[number] = fd
        host.send(self._told(number))

    def tell_again(self, host: Host) -> None:
        """Tell a host that has come anew what the cell waits for."""
        for number in self._open:
            host.send(self._told(number))

    def _told(self, number: int) -> Message:
        return {"ev": "call", "id": self._cell_id, "taken": False, **self._made[number]}

    def take_up(self, message: Message) -> None:
        """Note that a host begins to make a call: from now on it may have been made."""
        made = self._made.get(int(message.get("number") or 0))
        if made is not None:
            made["taken"] = True

    def answer(self, message: Message) -> None:
        """Hand the result, or the error, to the caller that waits for it; one that came before is not replaced."""
        number = int(message.get("number") or 0)
        fd = self._open.pop(number, None)
        if fd is None:
            return
        given = {name: str(message[name]) for name in ("result", "error") if message.get(name) is not None}
        # From now on it is needed for the record alone.
        made = self._made[number]
        made["arguments"] = self._cut(made["arguments"])
        made.update({name: self._cut(text) for name, text in given.items()})
        _answer(fd, given)

    def _cut(self, text: str) -> str:
        kept = text if len(text) <= MAX_KEPT else f"{text[:MAX_KEPT]} ... ({len(text)} characters)"
        if len(kept) > self._room:
            return "..."
        self._room -= len(kept)
        return kept

    def close(self) -> list[Message]:
        """End the calls that nobody will answer any more.

        Returns:
            All calls of the cell, as `HostCall` records.
        """
        for number, fd in self._open.items():
            self._made[number]["arguments"] = self._cut(self._made[number]["arguments"])
            self._made[number]["error"] = "the cell ended before the answer came"
            with contextlib.suppress(OSError):
                os.close(fd)
        self._open = {}
        return [
            {name: value for name, value in made.items() if name not in _NOT_RECORDED} for made in self._made.values()
        ]


def _answer(fd: int, message: dict[str, Any]) -> None:
    """Give an answer to whoever waits: as a file in memory, so that one who does not read it holds up nobody."""
    answer = os.memfd_create("answer")
    try:
        data = encode_clean_line(message)
        while data:
            data = data[os.write(answer, data) :]
        with socket.socket(fileno=fd) as caller:
            caller.setblocking(False)
            caller.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [answer]).tobytes())])
    except OSError:
        # The thread that called has ended, or what it gave is no socket: there is nobody to tell.
        with contextlib.suppress(OSError):
            os.close(fd)
    finally:
        os.close(answer)
