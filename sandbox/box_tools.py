"""Functions of the host, as cells call them. Runs inside the box, in the worker.

A call goes to the supervisor with one end of a socket of its own, on which its answer comes: so any number of threads
and coroutines can wait at the same time, and none of them reads what belongs to another. What crosses is JSON.

Where an event loop runs in the calling thread a call is a coroutine, to be awaited; elsewhere it waits and returns.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations
import __future__

import array
import builtins
import json
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

from .box_values import decode, encode, has_arrow

MAX_AT_ONCE = 200
"""Awaited calls that are under way at one time: each takes a descriptor here and one in the supervisor."""

_ANNOTATIONS = __future__.annotations.compiler_flag
"""What annotations name need not be there."""
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
        self._room: tuple[Any, Any] = (None, None)
        builtins.HostCallError = HostCallError  # type: ignore[attr-defined]

    def offer(self, tools: list[dict[str, Any]]) -> None:
        """Make functions.

        Args:
            tools: each with `name`, `signature` and `doc`; `arrow` where the host reads tables in that form.
        """
        for name in self._names:
            vars(builtins).pop(name, None)
        self._names = set()
        for tool in tools:
            name = str(tool["name"])
            self._names.add(name)
            setattr(builtins, name, self._function(name, tool))

    def adopt_process(self) -> None:
        """Go on in a process that was forked from the one that calls were allowed in."""
        self._pid = _getpid()

    def _function(self, name: str, tool: dict[str, Any]) -> Callable[..., Any]:
        stub = _stub(name, str(tool.get("signature")))
        arrow = bool(tool.get("arrow"))

        def function(*args: Any, **kwargs: Any) -> Any:
            if stub is not None:
                # Arguments that do not fit are an error of the caller's, and no call.
                stub(*args, **kwargs)
            arguments = self._arguments(name, args, kwargs, arrow)
            loop = _running_loop()
            return self._wait(name, arguments) if loop is None else self._coroutine(name, arguments, loop)

        function.__name__ = function.__qualname__ = name
        function.__module__ = "builtins"
        function.__doc__ = str(tool.get("doc", "")) or None
        if stub is not None:
            function.__wrapped__ = stub  # type: ignore[attr-defined]
        return function

    def _arguments(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], arrow: bool) -> str:
        if _getpid() != self._pid:
            raise HostCallError(f"{name} can be called from the cell's own process only, not from a child process")
        try:
            return encode({"args": args, "kwargs": kwargs}, arrow)
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(
                f"the arguments of {name} must be plain data (text, numbers, lists, dicts, bytes, tables): {error}"
            ) from None

    def _begin(self, name: str, arguments: str) -> socket.socket:
        """Send a call; its answer comes on the socket."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                call = {"op": "call", "tool": name, "arguments": arguments, "arrow": has_arrow()}
                self._send(call, theirs.fileno())
        except BaseException:
            ours.close()
            raise
        return ours

    def _wait(self, name: str, arguments: str) -> Any:
        with self._begin(name, arguments) as ours:
            answer = _receive(ours)
        return _value(name, answer)

    async def _coroutine(self, name: str, arguments: str, loop: Any) -> Any:
        async with self._room_in(loop):
            ours = self._begin(name, arguments)
            try:
                come = loop.create_future()
                loop.add_reader(ours, _ring, come)
                try:
                    await come
                finally:
                    loop.remove_reader(ours)
                answer = _receive(ours)
            finally:
                ours.close()
        return _value(name, answer)

    def _room_in(self, loop: Any) -> Any:
        """What bounds the calls under way on a loop."""
        known, room = self._room
        if known is not loop:
            room = sys.modules["asyncio"].Semaphore(MAX_AT_ONCE)
            self._room = (loop, room)
        return room


def _stub(name: str, signature: str) -> Any:
    """A function that takes what the host's takes, and does nothing; None where its signature is not known."""
    made: dict[str, Any] = {"__builtins__": {}}
    try:
        code = compile(f"def {name}{signature}: pass", f"<actloop {name}>", "exec", _ANNOTATIONS, dont_inherit=True)
        exec(code, made)  # noqa: S102 - the host wrote it
    except (SyntaxError, NameError, TypeError):
        return None
    made[name].__module__ = "builtins"
    return made[name]


def _running_loop() -> Any:
    """The event loop that runs in this thread, or None; without loading asyncio, which takes 40 ms."""
    asyncio = sys.modules.get("asyncio")
    return asyncio._get_running_loop() if asyncio is not None else None


def _ring(come: Any) -> None:
    if not come.done():
        come.set_result(None)


def _value(name: str, answer: Any) -> Any:
    if answer is None:
        raise HostCallError(f"{name} got no answer: the cell was ended")
    if "error" in answer:
        raise HostCallError(answer["error"])
    return decode(answer["result"]) if "result" in answer else None


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
