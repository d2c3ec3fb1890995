"""Files that cross the border of a box, and the parts in which contents cross it."""

import base64
from pathlib import Path

from actloop.errors import FileRefused
from actloop.protocols import FileInfo

from .box_files import MAX_LISTED
from .box_wire import Message
from .talk import Talk

PART = 192 << 10
"""Bytes in one message."""


class Transfer:
    """The files of a session's workspace.

    Args:
        talk: with the box.
        limit: bytes of the largest file that crosses.
    """

    def __init__(self, talk: Talk, limit: int) -> None:
        self._talk = talk
        self._limit = limit

    def put(self, path: str, data: bytes | Path) -> None:
        """Write a file into the workspace; see `actloop.protocols.Session`."""
        content = data.read_bytes() if isinstance(data, Path) else bytes(data)
        if len(content) > self._limit:
            raise FileRefused(f"{path} has {len(content)} bytes; a file that goes in may have {self._limit}.")
        number = next(self._talk.numbers)
        for start in range(0, len(content), PART) or range(1):
            end = start + PART
            piece = part(number, content[start:end], first=start == 0, last=end >= len(content))
            self._talk.ask({"op": "put", "path": path, **piece})

    def get(self, path: str) -> bytes:
        """Read a regular file of the workspace; see `actloop.protocols.Session`."""
        content = bytearray()
        total = 1
        while len(content) < total:
            reply = self._talk.ask({"op": "get", "path": path, "offset": len(content), "size": PART})
            piece = base64.b64decode(reply["data"])
            total = min(int(reply["total"]), self._limit)
            content += piece
            if not piece:
                break
        return bytes(content[: self._limit])

    def ls(self) -> list[FileInfo]:
        """The regular files of the workspace, at most 4,096."""
        reply = self._talk.ask({"op": "ls"})
        return [FileInfo.model_validate(entry) for entry in reply["files"][:MAX_LISTED]]


def part(number: int, data: bytes, first: bool, last: bool) -> Message:
    """The fields of a message that carries a piece of some content.

    Args:
        number: the same for all pieces of one content.
        data: at most `PART` bytes.
        first: it is the first piece.
        last: it is the last one.
    """
    return {"n": number, "data": base64.b64encode(data).decode("ascii"), "first": first, "last": last}
