"""The stream between host and box: bytes out, bytes in, and a way to cut it off."""

import contextlib
import socket
import struct
from collections.abc import Iterator
from typing import Any, Protocol

from .box_wire import READ


class Link(Protocol):
    """A two-way stream of bytes to a supervisor."""

    def send(self, data: bytes) -> None:
        """Send all of it.

        Raises:
            OSError: the stream is gone.
        """
        ...

    def receive(self) -> Iterator[bytes]:
        """What comes, piece by piece, until the stream ends."""
        ...

    def close(self) -> None:
        """Cut the stream off; whoever is in `receive` comes back."""
        ...

    @property
    def complaint(self) -> str:
        """What the supervisor wrote to its stderr, which is empty unless it failed."""
        ...


class AttachedLink:
    """The stream of a container, as Docker attaches it: stdin as it is, stdout and stderr in frames.

    Args:
        stream: what docker-py's `attach_socket` returns: a file on the socket of the upgraded HTTP connection.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        sock: socket.socket = getattr(stream, "_sock", stream)
        self._sock = sock
        self._complaint = b""
        # The client's time-out is for requests; a quiet cell may take hours.
        sock.settimeout(None)

    def send(self, data: bytes) -> None:
        """Send all of it."""
        self._sock.sendall(data)

    def receive(self) -> Iterator[bytes]:
        """Stdout of the supervisor, piece by piece. Each frame has a header of 8 bytes: stream, 3 zeros, length."""
        buffer = b""
        while True:
            try:
                data = self._sock.recv(READ)
            except OSError:
                return
            if not data:
                return
            buffer += data
            while len(buffer) >= 8:
                stream, size = struct.unpack_from(">BxxxL", buffer)
                if len(buffer) < 8 + size:
                    break
                payload, buffer = buffer[8 : 8 + size], buffer[8 + size :]
                if stream == 2:
                    self._complaint = (self._complaint + payload)[-4096:]
                else:
                    yield payload

    def close(self) -> None:
        """Shut the socket down before closing it and what stands on it: with any of them open, removal hangs."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        # docker-py hangs the HTTP response on the stream; closing it closes the stream, which otherwise it would do
        # once more, and in vain, when it is collected.
        parts: list[Any] = [getattr(self._stream, "_response", self._stream), self._stream, self._sock]
        for part in parts:
            with contextlib.suppress(OSError, ValueError):
                part.close()

    @property
    def complaint(self) -> str:
        """What the supervisor wrote to its stderr."""
        return self._complaint.decode("utf-8", "replace").strip()
