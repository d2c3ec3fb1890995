"""The worker and its frozen copies, as the supervisor holds them. Runs inside the box.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import struct
import sys
import time

from .box_proc import memory_room, resident_bytes
from .box_wire import EXIT_NO_CHANNEL, Channel, Message

TAKE_OVER_S = 5.0
"""Seconds that a frozen copy may take to wake."""
COPY_AFTER_S = 0.005
"""Seconds between a cell's end and the making of a copy: the record is on its way, and a fork would slow it down."""
SPARE = 16 << 20
"""Bytes that must be left when a worker and a copy that shares nothing any more are both in memory."""

_START = "import os\nwith os.fdopen(3,'rb') as f: s=f.read()\nexec(compile(s,'<actloop worker>','exec'))"


class Interpreter:
    """A worker, or a frozen copy of one."""

    def __init__(self, channel: Channel, pid: int = 0) -> None:
        self.channel = channel
        self.pid = pid
        self.ready = False
        self.names: list[str] = []
        """Variables that it holds."""
        self.threads = 0
        """Threads besides its main one; a copy has none of them."""
        self.tools: object = None
        """The functions of the host that it knows of; a copy knows those of its worker."""


class Interpreters:
    """The worker, its frozen copy, and the copy that is being made.

    Args:
        selector: of the supervisor; each interpreter is registered with itself as data.
        program: source text of the worker.
        dying: processes that were killed and have not been collected yet; those that are ended here are added.
    """

    def __init__(self, selector: selectors.BaseSelector, program: bytes, dying: set[int]) -> None:
        self._selector = selector
        self._program = program
        self._dying = dying
        self.worker: Interpreter | None = None
        self.copy: Interpreter | None = None
        self.saves = False
        """Snapshots are made: the worker may load what they need while it has nothing to do."""
        self.coming: Interpreter | None = None
        self.copy_at: float | None = None
        """When a copy is to be made, by the monotonic clock; None where none is due."""
        self.tools: list[Message] = []
        """The functions of the host that cells may call."""
        self.writers: list[Interpreter] = []
        """Forks that write snapshots; see `box_saving.py`."""

    def own(self) -> set[int]:
        """The processes of the supervisor's own: itself and the interpreters."""
        return {os.getpid()} | {who.pid for who in (self.worker, self.copy, *self.writers) if who is not None}

    def start(self) -> None:
        """Start a worker with nothing in it."""
        ours, theirs = sockets()
        program = os.memfd_create("worker")
        os.write(program, self._program)
        os.lseek(program, 0, os.SEEK_SET)
        pid = _fork()
        if pid == 0:
            try:
                null = os.open(os.devnull, os.O_RDWR)
                # What goes wrong before the first cell is told on our own stderr; that cell gets pipes of its own.
                for fd in (0, 1):
                    os.dup2(null, fd)
                # By way of high numbers: 3 and 4 may be in use for what is to be moved.
                for source, number in ((program, 200), (theirs.fileno(), 201), (200, 3), (201, 4)):
                    os.dup2(source, number)
                os.closerange(5, 256)
                os.execv(sys.executable, [sys.executable, "-I", "-c", _START])
            finally:
                os._exit(EXIT_NO_CHANNEL)
        os.close(program)
        theirs.close()
        self.worker = self._watch(Interpreter(Channel(ours), pid))

    def teach(self, worker: Interpreter) -> None:
        """Let a worker know of the functions of the host, unless it does."""
        if worker.tools is not self.tools:
            worker.tools = self.tools
            with contextlib.suppress(OSError):
                worker.channel.send({"op": "tools", "tools": self.tools})

    def plan_copy(self, after_s: float = COPY_AFTER_S) -> None:
        """Have a copy made after so many seconds, or before the next cell if that comes first."""
        self.copy_at = time.monotonic() + after_s

    def ask_for_copy(self) -> str:
        """Have the worker fork; it does so before it takes the next cell, while the model thinks.

        Returns:
            Why no copy is made, or nothing.
        """
        self.copy_at = None
        worker = self.worker
        if worker is None or not worker.ready or self.coming is not None:
            return ""
        room = memory_room()
        if room is not None and resident_bytes(worker.pid) + SPARE > room:
            return "no copy of the interpreter was made before this cell: it fills more than half of the memory"
        ours, theirs = sockets()
        try:
            worker.channel.send({"op": "copy", "saves": self.saves}, (theirs.fileno(),))
        except OSError:
            ours.close()
            return ""
        finally:
            theirs.close()
        self.coming = self._watch(Interpreter(Channel(ours)))
        self.coming.names = list(worker.names)
        self.coming.threads = worker.threads
        self.coming.tools = worker.tools
        return ""

    def on_frozen(self, message: Message) -> None:
        """The copy that was being made has gone to sleep; it replaces the one before."""
        copy, self.coming = self.coming, None
        assert copy is not None
        copy.pid = int(message.get("pid", 0))
        copy.ready = True
        old, self.copy = self.copy, copy
        if old is not None:
            self.drop(old)

    def settle(self) -> None:
        """Wait for a copy that is being made: until its process is known it cannot be told from user code's."""
        deadline = time.monotonic() + 1.0
        while self.coming is not None and time.monotonic() < deadline:
            self.coming.channel.sock.settimeout(0.2)
            try:
                message, _ = self.coming.channel.receive()
            except socket.timeout:  # noqa: UP041 - another class than TimeoutError until Python 3.10
                continue
            except (OSError, EOFError):
                break
            finally:
                self.coming.channel.sock.settimeout(None)
            self.on_frozen(message)
        if self.coming is not None:
            self.drop(self.coming)
            self.coming = None

    def take_over(self) -> bool:
        """Let the frozen copy go on as the worker, or start an empty one; True if the copy did."""
        copy, self.copy = self.copy, None
        if copy is not None:
            copy.channel.sock.settimeout(TAKE_OVER_S)
            try:
                copy.channel.send({"op": "wake"})
                message, _ = copy.channel.receive()
                awake = message.get("op") == "awake"
            except (OSError, EOFError):
                awake = False
            if awake:
                copy.channel.sock.settimeout(None)
                self.worker = copy
                return True
            self.drop(copy)
        self.start()
        return False

    def drop_all(self) -> None:
        """End all of them."""
        for who in (self.worker, self.copy, self.coming, *self.writers):
            if who is not None:
                self.drop(who)
        self.worker = self.copy = self.coming = self.copy_at = None
        self.writers.clear()

    def drop(self, who: Interpreter) -> None:
        """End an interpreter and forget it."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(who.channel)
        who.channel.close()
        if who.pid:
            with contextlib.suppress(OSError):
                os.kill(who.pid, signal.SIGKILL)
                self._dying.add(who.pid)

    def _watch(self, who: Interpreter) -> Interpreter:
        self._selector.register(who.channel, selectors.EVENT_READ, who)
        return who


def sockets() -> tuple[socket.socket, socket.socket]:
    """Two ends of a channel; sending on ours gives up after a while, for a worker may have been stopped."""
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 5, 0))
    return ours, theirs


def _fork() -> int:
    """Fork, waiting for a process number where the cell that was just ended had used them all."""
    for _ in range(100):
        try:
            return os.fork()
        except BlockingIOError:
            time.sleep(0.02)
    return os.fork()
