"""Bringing a box to another point: empty it, put files and variables back. Runs inside the box, in the supervisor.

The host sends the files as it sends any file, and the variables unit by unit; the worker, which has no privileges,
makes objects of them. A unit that ends the worker, or keeps it busy for ever, costs the attempt: the host begins again
without it.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import time
from typing import Any

from .box_files import Workspace
from .box_host import Host
from .box_interpreters import Interpreters
from .box_journal import Journal
from .box_pipes import Pipes
from .box_proc import end_all_but
from .box_processes import Processes
from .box_saving import Saving
from .box_wire import Message

UNIT_S = 20.0
"""Seconds that the worker may take for one unit."""
PLACES = ("/tmp", "/dev/shm")
"""Folders besides the workspace that cells can write into."""


class Restoring:
    """What is being restored.

    Args:
        host: gets the replies.
        files: the workspace.
        pipes: of the output.
        processes: which cells have left.
        interpreters: whose worker makes the objects.
        saving: the snapshots that are being made.
        journal: of cells.
    """

    def __init__(
        self,
        host: Host,
        files: Workspace,
        pipes: Pipes,
        processes: Processes,
        interpreters: Interpreters,
        saving: Saving,
        journal: Journal,
    ) -> None:
        self._host = host
        self._files = files
        self._pipes = pipes
        self._processes = processes
        self._interpreters = interpreters
        self._saving = saving
        self._journal = journal
        self._emptied: list[Any] = []
        self._incoming = -1
        self._number: Any = None
        self.deadline: float | None = None
        """When the unit that is being loaded has taken too long, by the monotonic clock."""

    def empty(self, message: Message) -> None:
        """Begin anew: no variable, no file, no process of a cell is left. The reply is sent when a worker is ready."""
        self._saving.give_up("the session was brought to another point")
        self._interpreters.drop_all()
        end_all_but({os.getpid()})
        self._processes.collect({os.getpid()})
        self._processes.forget_stock()
        self._pipes.retire()
        for place in (self._files.root, *PLACES):
            with contextlib.suppress(OSError):
                _empty(place)
        self._files.forget()
        self._journal.forget()
        self._emptied.append(message.get("n"))
        self._interpreters.start()

    def unit(self, message: Message) -> None:
        """Take a part of a unit; after the last one the worker loads it, and then the reply is sent."""
        if message.get("first"):
            self._close()
            self._incoming = os.memfd_create("unit")
        data = base64.b64decode(message["data"])
        while data:
            data = data[os.write(self._incoming, data) :]
        if not message.get("last"):
            self._reply(message.get("n"), {})
            return
        self._number = message.get("n")
        self.deadline = time.monotonic() + UNIT_S
        worker = self._interpreters.worker
        order = {"op": "load", "names": message.get("names"), "sizes": message.get("sizes")}
        try:
            if worker is None:
                raise OSError
            worker.channel.send(order, (self._incoming,))
        except OSError:
            self.on_worker_end()
        self._close()

    def arrive(self, message: Message) -> None:
        """All of a snapshot is here."""
        self._files.place(message["folders"], message["links"])
        self._saving.assume(message)
        self._journal.arrive(str(message["point"]), int(message["cells"]))
        if self._interpreters.worker is not None:
            self._interpreters.worker.names = [str(name) for name in message["names"]]
        self._interpreters.plan_copy(0.0)
        self._reply(message.get("n"), {})

    def on_ready(self) -> None:
        """The worker is ready: the box is empty, if that was asked for."""
        emptied, self._emptied = self._emptied, []
        for number in emptied:
            self._reply(number, {})

    def on_loaded(self, message: Message) -> None:
        """The worker has loaded a unit."""
        if self.deadline is not None:
            self.deadline = None
            failed = message.get("failed")
            self._reply(self._number, {"failed": failed if isinstance(failed, dict) else {}})

    def on_worker_end(self) -> None:
        """The worker has ended; the unit that it was loading has ended it."""
        if self.deadline is not None:
            self.deadline = None
            self._reply(self._number, {"ended": True})

    def on_time(self) -> None:
        """End a worker that takes too long."""
        if self.deadline is not None and time.monotonic() >= self.deadline and self._interpreters.worker is not None:
            with contextlib.suppress(OSError):
                os.kill(self._interpreters.worker.pid, signal.SIGKILL)

    def _reply(self, number: Any, more: Message) -> None:
        self._host.send({"ev": "reply", "n": number, "ok": True, **more})

    def _close(self) -> None:
        if self._incoming >= 0:
            os.close(self._incoming)
        self._incoming = -1


def _empty(folder: str) -> None:
    """Remove what is in a folder, without following links and without recursion: a tree may be thousands deep.

    Folders below folders are moved up before the one that held them is removed.
    """
    moved = 0
    while True:
        entries = list(os.scandir(folder))
        if not entries:
            return
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
                continue
            os.chmod(entry.path, 0o700)
            for below in os.scandir(entry.path):
                if below.is_dir(follow_symlinks=False):
                    os.chmod(below.path, 0o700)
                    moved += 1
                    os.rename(below.path, os.path.join(folder, f".moved-{os.getpid()}-{moved}"))
                else:
                    os.unlink(below.path)
            os.rmdir(entry.path)
