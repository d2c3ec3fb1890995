"""Functions of the host, as cells call them. Runs inside the box, in the worker.

A call goes to the supervisor with one end of a socket of its own, on which its answer comes: so any number of threads
can wait at the same time, and none of them reads what belongs to another. What crosses is JSON.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import array
import builtins
import json
import os
import socket
from collections.abc import Callable
from typing import Any

_dumps = json.JSONEncoder().encode
_loads = json.JSONDecoder().decode
_getpid = os.getpid


class HostCallError(RuntimeError):
    """A function of the host failed, or it is not known whether it was called."""


HostCallError.__module__ = "builtins"

Send = Callable[[dict[str, Any], int], None]


class Tools:
    """The functions of the host that cells may call; they stand among the builtins, where user code may shadow them.

    Args:
        send: hands a call and its descriptor to the supervisor.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._pid = _getpid()
        self._names: set[str] = set()
        builtins.HostCallError = HostCallError  # type: ignore[attr-defined]

    def offer(self, tools: list[dict[str, Any]]) -> None:
        """Make functions.

        Args:
            tools: each with `name`, `signature` and `doc`.
        """
        for name in self._names:
            vars(builtins).pop(name, None)
        self._names = set()
        for tool in tools:
            name = str(tool["name"])
            self._names.add(name)
            setattr(builtins, name, self._function(name, str(tool.get("signature", "(...)")), str(tool.get("doc", ""))))

    def adopt_process(self) -> None:
        """Go on in a process that was forked from the one that calls were allowed in."""
        self._pid = _getpid()

    def _function(self, name: str, signature: str, doc: str) -> Callable[..., Any]:
        def function(*args: Any, **kwargs: Any) -> Any:
            return self._call(name, args, kwargs)

        function.__name__ = function.__qualname__ = name
        function.__module__ = "builtins"
        function.__doc__ = f"{name}{signature}\n\n{doc}".strip()
        return function

    def _call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if _getpid() != self._pid:
            raise HostCallError(f"{name} can be called from the cell's own process only, not from a child process")
        try:
            arguments = _dumps({"args": args, "kwargs": kwargs})
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(
                f"the arguments of {name} must be plain data (text, numbers, lists, dicts): {error}"
            ) from None
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                self._send({"op": "call", "tool": name, "arguments": arguments}, theirs.fileno())
            answer = _receive(ours)
        if answer is None:
            raise HostCallError(f"{name} got no answer: the cell was ended")
        if "error" in answer:
            raise HostCallError(answer["error"])
        return _loads(answer["result"]) if "result" in answer else None


def _receive(sock: socket.socket) -> Any:
    """Wait for the file that holds the answer; None if nobody will send one."""
    _, ancillary, _, _ = sock.recvmsg(1, socket.CMSG_SPACE(4))
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fd = array.array("i", payload[:4])[0]
            with os.fdopen(fd, "rb") as file:
                file.seek(0)
                return _loads(file.read().decode("utf-8"))
    return None
