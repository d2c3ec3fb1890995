"""The writer of a snapshot: a fork of the interpreter that reads files, pickles variables and ends.

It runs inside the box and hands everything to the supervisor in chunks that are named by their digest; only chunks that
the host does not have yet are handed over. User code may run in it while its objects are pickled; whatever that does
ends with this process.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import base64
import os
import stat
import sys
import time
from typing import Any

from .box_carried import carried
from .box_files import open_file
from .box_memory import SESSION_UNIT, Memory
from .box_wire import CHUNK, Channel

try:
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

BATCH = 8
"""Chunks of a file that are in memory at a time."""
CPU_S = 20.0
"""Processor seconds that the variables of a snapshot may take."""


class Writer:
    """One snapshot.

    Args:
        channel: to the supervisor.
        message: `paths` of the files to read; `transfer`, bytes of one file; `size`, bytes of the snapshot;
            `refused`, variables to leave out, with the reason.
    """

    def __init__(self, channel: Channel, message: dict[str, Any]) -> None:
        self._channel = channel
        self._paths = [str(path) for path in message["paths"]]
        self._transfer = int(message["transfer"])
        self._left = int(message["size"])
        self._refused = {str(name): str(why) for name, why in message["refused"].items()}

    def write(self, root: str, namespace: dict[str, Any], memory: Memory, settings: Any) -> None:
        """Hand over files, then settings and variables.

        Args:
            root: folder of the workspace.
            namespace: of the interpreter.
            memory: what belongs to the interpreter besides its variables.
            settings: as `Memory.take` found them before the fork.
        """
        self._channel.send({"op": "writer", "pid": os.getpid()})
        for path in self._paths:
            self._file(root, path)
        self._channel.send({"op": "read"})
        parts = carried("box_variables")
        self._unit([SESSION_UNIT], [], [carried("box_settings").pack(settings)])
        limits = parts.SaveLimits(variable=self._transfer, total=self._left, cpu_s=CPU_S)
        for item in parts.save(namespace, limits, memory.class_cells, self._begin, self._refused):
            if isinstance(item, parts.Skipped):
                self._say("skipped", name=item.name, type=item.type, why=item.why)
            else:
                self._unit(item.names, item.needs, item.contents)
                for note in item.notes:
                    self._say("notes", text=note)
        self._channel.send({"op": "end", "python": sys.version.split()[0]})

    def _begin(self, name: str) -> None:
        """Say which variable comes next: if this process ends then, it is the one to blame."""
        self._channel.send({"op": "begin", "name": name})

    def _say(self, op: str, **of: Any) -> None:
        """Say an entry of one of the manifest's lists."""
        self._channel.send({"op": op, "of": of})

    def _file(self, root: str, path: str) -> None:
        try:
            fd = open_file(root, path)
        except (OSError, ValueError) as error:
            self._say("skipped_files", path=path, size=0, why=f"it could not be read: {error}"[:200])
            return
        with os.fdopen(fd, "rb", buffering=0) as file:
            facts = os.fstat(fd)
            if facts.st_size > min(self._transfer, self._left):
                why = "it is larger than a snapshot may hold"
                self._say("skipped_files", path=path, size=facts.st_size, why=why)
                return
            chunks: list[str] = []
            size = 0
            while size <= facts.st_size:
                batch = [data for data in (file.read(CHUNK) for _ in range(BATCH)) if data]
                if not batch:
                    break
                size += sum(map(len, batch))
                chunks += self._hand_over(batch)
        self._left -= size
        mode = stat.S_IMODE(facts.st_mode) & 0o777
        self._say("files", path=path, size=size, mode=mode, mtime_ns=facts.st_mtime_ns, chunks=chunks)

    def _unit(self, names: list[str], needs: list[str], saved: list[Any]) -> None:
        contents, sizes = [], []
        for content in saved:
            view = memoryview(content).cast("B")
            sizes.append(len(view))
            digests: list[str] = []
            for start in range(0, len(view), BATCH * CHUNK):
                part = view[start : start + BATCH * CHUNK]
                digests += self._hand_over([part[place : place + CHUNK] for place in range(0, len(part), CHUNK)])
            contents.append(digests)
        self._say("units", names=names, needs=needs, contents=contents, sizes=sizes)

    def _hand_over(self, chunks: list[Any]) -> list[str]:
        """Give the supervisor those chunks that the host lacks.

        Returns:
            The digest of each.
        """
        digests = [blake2b(chunk, digest_size=32).hexdigest() for chunk in chunks]
        self._channel.send({"op": "offer", "digests": digests})
        answer, _ = self._channel.receive()
        for place in answer.get("places", []):
            data = base64.b64encode(chunks[place]).decode("ascii")
            self._channel.send({"op": "chunk", "digest": digests[place], "data": data})
            self._channel.receive()
        return digests


def become_writer(
    channel: Channel, message: dict[str, Any], root: str, namespace: Any, memory: Memory, settings: Any
) -> None:
    """Write a snapshot and end this process, which is a fork of the interpreter."""
    try:
        # What user code prints while its objects are pickled belongs to no cell.
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.nice(10)
        Writer(channel, message).write(root, namespace, memory, settings)
        # The supervisor ends this process once it has everything.
        time.sleep(5)
    finally:
        os._exit(0)
