"""Keeping the snapshots of a session: from what the box sends to what stands in the store.

A thread of its own writes, so that a slow store delays neither output nor cells; the box sends no more than is
confirmed. A snapshot that cannot be made or stored costs itself only, and is told of where it is missed.
"""

import base64
import contextlib
import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

from actloop.errors import SandboxError, SandboxLost, SnapshotError, SnapshotRefused

from .box_wire import Message
from .manifest import Manifest, read_manifest
from .snapshots import Snapshots

_log = logging.getLogger("actloop.snapshots")


class Keeping:
    """The snapshots of one session.

    Args:
        store: of the thread.
        size: bytes that the box may send for one snapshot.
        send: sends an order to the box.
    """

    def __init__(self, store: Snapshots, size: int, send: Callable[[Message], None]) -> None:
        self.store = store
        self._size = size
        self._send = send
        self._queue: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._coming: dict[str, Future[str]] = {}
        self._facts: dict[str, tuple[str | None, int]] = {}
        self._got: dict[str, int] = {}
        self._thread: threading.Thread | None = None

    def expect(self, snapshot_id: str, parent: str | None, cells: int) -> Future[str]:
        """Say that the box makes a snapshot.

        Args:
            snapshot_id: its name.
            parent: the point before it, where there is one.
            cells: number of cells that the box has run by then.

        Returns:
            Its reference once it is stored, or the error.
        """
        with self._lock:
            future = self._coming.setdefault(snapshot_id, Future())
            self._facts[snapshot_id] = (parent, cells)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="actloop snapshots", daemon=True)
                self._thread.start()
        return future

    def on_message(self, message: Message) -> None:
        """Take a chunk, or the end of a snapshot, from the box."""
        self._queue.put(message)

    def wait(self, timeout: float, besides: str | None) -> None:
        """Wait until what is under way is stored, or has failed, or the time is over.

        Args:
            timeout: seconds.
            besides: the cell that has not ended, whose snapshot does not begin before.
        """
        with self._lock:
            coming = [future for snapshot_id, future in self._coming.items() if snapshot_id != besides]
        wait(coming, timeout)

    def end(self) -> None:
        """The box is gone: what has not come will not."""
        self._queue.put(None)

    def _work(self) -> None:
        while True:
            message = self._queue.get()
            if message is None:
                break
            if message.get("ev") == "chunk":
                self._on_chunk(message)
            else:
                self._on_end(message)
        with self._lock:
            self._thread = None
            left, self._coming = list(self._coming.values()), {}
        for future in left:
            _fail(future, SandboxLost("The box ended before its snapshot was stored."))

    def _on_chunk(self, message: Message) -> None:
        data, snapshot_id = str(message.get("data")), str(message.get("id"))
        try:
            self._got[snapshot_id] = self._got.get(snapshot_id, 0) + len(data)
            if snapshot_id not in self._coming:
                raise SnapshotError("a snapshot that nobody asked for")
            if self._got[snapshot_id] > 2 * self._size:
                raise SnapshotError(f"it is larger than {self._size} bytes")
            self.store.add(str(message.get("digest")), base64.b64decode(data, validate=True))
        except (ValueError, SandboxError) as error:
            self._give_up(snapshot_id, error)
        self._tell({"op": "confirmed", "bytes": len(data)})

    def _on_end(self, message: Message) -> None:
        snapshot_id = str(message.get("id"))
        if "error" in message:
            self._give_up(snapshot_id, SnapshotError(f"No snapshot was made: {message['error']}."))
            return
        with self._lock:
            parent, cells = self._facts.pop(snapshot_id, (None, 0))
            future = self._coming.pop(snapshot_id, None)
        self._got.pop(snapshot_id, None)
        if future is None:
            return
        manifest = message.get("manifest")
        made = {
            **(manifest if isinstance(manifest, dict) else {}),
            "point": snapshot_id,
            "parent": parent,
            "cells": cells,
        }
        try:
            reference = self.store.save(_manifest(made))
        except SandboxError as error:
            _log.warning("the snapshot %s was not stored: %s", snapshot_id, error)
            _fail(future, error)
            return
        self._tell({"op": "stored", "id": snapshot_id})
        future.set_result(reference)

    def _give_up(self, snapshot_id: str, error: Exception) -> None:
        with self._lock:
            self._facts.pop(snapshot_id, None)
            future = self._coming.pop(snapshot_id, None)
        if future is not None:
            _log.warning("the snapshot %s was not stored: %s", snapshot_id, error)
            _fail(future, error)

    def _tell(self, message: Message) -> None:
        with contextlib.suppress(SandboxLost):
            self._send(message)


def _manifest(made: dict[str, Any]) -> Manifest:
    """The manifest as the box gives it; one link that leads out costs the links, not the snapshot."""
    try:
        return read_manifest(made)
    except SnapshotRefused:
        return read_manifest({**made, "links": []})


def _fail(future: Future[str], error: Exception) -> None:
    ours = error if isinstance(error, SandboxError) else SnapshotError(f"The box made no usable snapshot: {error}.")
    future.set_exception(ours)
