"""What a cell printed: head, tail and size of each stream, and the full text in a file of the workspace.

Runs inside the box: standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import os
from collections import deque
from typing import Any


class HeadTail:
    """Keep the first and the last bytes of a stream in bounded memory.

    Args:
        keep: bytes to keep in all, half of them from the head.
    """

    def __init__(self, keep: int) -> None:
        self.total = 0
        self._room = keep - keep // 2
        self._tail_size = keep // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._held = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self.total += len(data)
        free = self._room - len(self._head)
        if free > 0:
            self._head += data[:free]
            data = data[free:]
        if not data:
            return
        if len(data) >= self._tail_size:
            data = data[len(data) - self._tail_size :]
            self._tail.clear()
            self._held = 0
        self._tail.append(data)
        self._held += len(data)
        while self._held - len(self._tail[0]) >= self._tail_size and len(self._tail) > 1:
            self._held -= len(self._tail.popleft())

    @property
    def cut(self) -> bool:
        """Whether less is kept than came."""
        return self.total > self._room + self._tail_size

    def kept(self) -> bytes:
        """Everything, as long as nothing was cut."""
        return bytes(self._head) + b"".join(self._tail)

    def text(self, where: str = "") -> str:
        """Head, a line that says what is missing, and tail.

        Args:
            where: what the notice says of the full text, for example the name of its file.
        """
        if not self.cut:
            return self.kept().decode("utf-8", "replace")
        tail = b"".join(self._tail)[-self._tail_size :] if self._tail_size else b""
        head = _whole_characters(bytes(self._head))
        # A tail may begin within a character: its continuation bytes belong to what was cut.
        while tail and tail[0] & 0xC0 == 0x80:
            tail = tail[1:]
        missing = self.total - len(head) - len(tail)
        notice = f"\n[... {missing} of {self.total} bytes left out{where} ...]\n"
        return head.decode("utf-8", "replace") + notice + tail.decode("utf-8", "replace")


def _whole_characters(data: bytes) -> bytes:
    """Drop an unfinished UTF-8 character from the end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        need = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if need > back else data
    return data


class OutputLog:
    """stdout and stderr of one cell, apart and together, with one file for what does not fit.

    Args:
        keep: bytes kept of each stream.
        root: the workspace.
        name: path of the file below it, made only when something is cut.
        most: bytes that the file may take.
    """

    def __init__(self, keep: int, root: str, name: str, most: int) -> None:
        self.stdout = HeadTail(keep)
        self.stderr = HeadTail(keep)
        self.both = HeadTail(keep)
        self._root = root
        self._name = name
        self._most = most
        self._fd: int | None = None
        self._written = 0
        self._failed = ""

    def feed(self, stream: str, data: bytes) -> None:
        """Take bytes of a stream, `stdout` or `stderr`, in the order in which they were written."""
        if (
            self._fd is None
            and not self._failed
            and self.both.total + len(data) > self.both._room + self.both._tail_size
        ):
            self._open()
        (self.stdout if stream == "stdout" else self.stderr).feed(data)
        self.both.feed(data)
        if self._fd is not None:
            self._write(data)

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def outputs(self) -> dict[str, dict[str, Any]]:
        """The three `Output` records, as JSON."""
        path = self._name if self._written else None
        where = "; the full text is in " + self._name if path else ""
        if self._failed:
            where = "; the full text could not be kept: " + self._failed
            path = path or self._name
        elif self._written >= self._most:
            where = f"; the first {self._written} bytes are in {self._name}"
        return {
            name: {"text": part.text(where), "total_bytes": part.total, "path": path if part.cut else None}
            for name, part in (("stdout", self.stdout), ("stderr", self.stderr), ("output", self.both))
        }

    def _open(self) -> None:
        path = os.path.join(self._root, self._name)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        except OSError as error:
            self._failed = error.strerror or "cannot be written"
            return
        self._write(self.both.kept())

    def _write(self, data: bytes) -> None:
        data = data[: self._most - self._written]
        try:
            while data and self._fd is not None:
                done = os.write(self._fd, data)
                self._written += done
                data = data[done:]
        except OSError as error:
            self._failed = error.strerror or "cannot be written"
            self.close()
