"""How the processes in the box talk: lines to the host, framed messages between supervisor and worker.

Runs inside the box: standard library only, Python 3.9 and later. The host uses `LineReader` as well.

To the host every message is one line of ASCII JSON. A line can be resynchronised: whatever a former host left
half-written ends at the next line end and does not decode, so it is dropped.
"""

from __future__ import annotations

import array
import json
import os
import socket
import struct
from collections.abc import Iterator
from typing import Any

Message = dict[str, Any]

EXIT_NO_CHANNEL = 213
"""Exit code of a worker that cannot reach the supervisor any more; no code that a program is likely to use."""
encode = json.JSONEncoder(separators=(",", ":")).encode
"""`json.dumps` with separators makes an encoder for each call."""
_decode = json.JSONDecoder().raw_decode
"""Without the checks that `json.loads` makes by way of builtins, which user code may have replaced."""
_HEAD = struct.Struct("!IB")
CHUNK = 1 << 20
"""Bytes of a chunk of a snapshot at most."""
READ = 1 << 16
"""Bytes read at once: no more than a pipe holds, and little enough that the room for it needs no pages of its own."""
_ROOM_FOR_FDS = socket.CMSG_SPACE(4 * 8)
MAX_LINE = 24 << 20
"""Longest line either side accepts, in bytes; a longer one is dropped. The displays of a cell fit in."""


def encode_line(message: Message) -> bytes:
    """Write a message as one line."""
    return encode(message).encode("ascii") + b"\n"


def encode_clean_line(message: Message) -> bytes:
    """Write a message as one line; half a surrogate pair, which no text on the host may hold, becomes `?`."""
    line = encode_line(message)
    if b"\\ud" in line:
        return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    return line


def decode_line(line: bytes) -> Message | None:
    """Read a line; None for one that holds no message (half-written, forged, nested without end)."""
    try:
        text = line.decode("utf-8")
        message, end = _decode(text)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) and not text[end:].strip() else None


class LineReader:
    """Cut a stream of bytes into messages."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[Message]:
        """Take what arrived and yield each message that is complete; lines that hold none are passed over."""
        *whole, rest = data.split(b"\n")
        for piece in whole:
            line = b"".join([*self._parts, piece])
            self._parts, self._size = [], 0
            if line and len(line) <= MAX_LINE:
                message = decode_line(line)
                if message is not None:
                    yield message
        if rest:
            self._size += len(rest)
            # An endless line must not fill the memory: keep only that it was too long.
            if self._size <= MAX_LINE:
                self._parts.append(rest)
            else:
                self._parts = [b"\0"]


class Channel:
    """One end of the socket between supervisor and worker: length and number of descriptors, then JSON."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._buffer = b""
        self._fds: list[int] = []

    def fileno(self) -> int:
        """Descriptor of the socket, for selectors."""
        return self.sock.fileno()

    def send(self, message: Message, fds: tuple[int, ...] = ()) -> None:
        """Send a message; blocks while the other side does not read."""
        body = encode(message).encode("ascii")
        data = _HEAD.pack(len(body), len(fds)) + body
        if fds:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds).tobytes())]
            sent = self.sock.sendmsg([data], rights)
            data = data[sent:]
        if data:
            self.sock.sendall(data)

    def receive(self) -> tuple[Message, list[int]]:
        """Wait for the next message and the descriptors that came with it.

        Raises:
            EOFError: the other side is gone.
        """
        while True:
            message = self._take()
            if message is not None:
                return message, message.pop("fds", [])
            if not self._fill():
                raise EOFError

    def poll(self) -> tuple[list[Message], bool]:
        """Read what is there without waiting.

        Returns:
            The messages, each with the descriptors that came with it under `fds`, where some did; and False once the
            other side is gone.
        """
        alive = True
        try:
            alive = self._fill(socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass
        except OSError:
            alive = False
        messages: list[Message] = []
        while True:
            message = self._take()
            if message is None:
                if not self._buffer:
                    # Descriptors that belong to no message are forged.
                    for fd in self._fds:
                        os.close(fd)
                    self._fds = []
                return messages, alive
            messages.append(message)

    def close(self) -> None:
        """Close this end."""
        self.sock.close()

    def _fill(self, flags: int = 0) -> bool:
        data, ancillary, _, _ = self.sock.recvmsg(READ, _ROOM_FOR_FDS, flags)
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                received = array.array("i")
                received.frombytes(payload[: len(payload) - len(payload) % received.itemsize])
                self._fds.extend(received)
                for fd in received:
                    os.set_inheritable(fd, False)
        self._buffer += data
        return bool(data)

    def _take(self) -> Message | None:
        if len(self._buffer) < _HEAD.size:
            return None
        size, count = _HEAD.unpack_from(self._buffer)
        # A length beyond any message of ours is forged: what follows cannot be understood either.
        if size > MAX_LINE:
            raise EOFError
        end = _HEAD.size + size
        if len(self._buffer) < end:
            return None
        body, self._buffer = self._buffer[_HEAD.size : end], self._buffer[end:]
        message = decode_line(body) or {}
        message.pop("fds", None)
        if count:
            # They arrive with the first byte of their message, which may be read together with one before it.
            message["fds"], self._fds = self._fds[:count], self._fds[count:]
        return message
