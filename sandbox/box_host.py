"""The stream to the host, as the supervisor sees it. Standard library only, Python 3.9 and later.

A host that reads slowly or not at all never blocks the box: live events are passed over once too much is waiting, and
how much was passed over is said. Records and replies are never passed over.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator

from .box_wire import MAX_LINE, READ, LineReader, Message, encode_clean_line

MAX_LIVE = 256 << 10
"""Bytes waiting for the host above which live events are passed over."""


class Host:
    """The attached stream.

    Args:
        read_fd: what comes from the host.
        write_fd: what goes to it.
    """

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._lines = LineReader()
        self._queue: deque[bytes] = deque()
        self._waiting = 0
        self.gone = False
        os.set_blocking(read_fd, False)
        os.set_blocking(write_fd, False)

    @property
    def pending(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._queue)

    def read(self) -> Iterator[Message]:
        """Messages that have arrived; sets `gone` at the end of the stream."""
        try:
            data = os.read(self._read_fd, READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.gone = True
            return
        yield from self._lines.feed(data)

    def send(self, message: Message, live: bool = False) -> bool:
        """Queue a message and write what can be written now.

        Args:
            message: what to say.
            live: it may be passed over when the host is behind.

        Returns:
            False if it was passed over.
        """
        if live and self._waiting > MAX_LIVE:
            return False
        line = encode_clean_line(message)
        if len(line) > MAX_LINE:
            line = encode_clean_line(_shortened(message))
        self._queue.append(line)
        self._waiting += len(line)
        self.flush()
        return True

    def flush(self) -> None:
        """Write as much as the stream takes without waiting."""
        while self._queue:
            line = self._queue[0]
            try:
                done = os.write(self._write_fd, line)
            except BlockingIOError:
                return
            except OSError:
                self.gone = True
                return
            self._waiting -= done
            if done < len(line):
                self._queue[0] = line[done:]
                return
            self._queue.popleft()


def _shortened(message: Message) -> Message:
    """A record without what the worker says of itself: more than fits in a line is no honest claim."""
    record = {
        name: value
        for name, value in message.get("record", {}).items()
        if name not in ("displays", "result", "error", "names", "answer", "answer_type", "question")
    }
    record["notes"] = ["what the interpreter said of this cell was too long and is left out"]
    return {"ev": message.get("ev"), "id": message.get("id"), "record": record}
