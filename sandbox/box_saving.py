"""Snapshots, as the supervisor has them made. Runs inside the box.

A fork of the interpreter, the writer, reads changed files and pickles the variables; see `box_snapshot.py`. The
interpreter's frozen copy is forked where there is one, so that the snapshot is of the moment after its cell even if the
next one has begun. Files have no frozen copy: the next cell waits until the writer has read those that changed.

What the host has stored already is never sent again, and what is under way to it is bounded.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import contextlib
import select
import selectors
import time
from typing import Any

from .box_files import Stamp, Workspace, stays_inside
from .box_host import Host
from .box_interpreters import Interpreter, Interpreters, sockets
from .box_wire import Channel, Message

FILES_S = 10.0
"""Seconds that the next cell waits at most for the writer to read the files."""
UNDER_WAY = 4 << 20
"""Bytes sent to the host that it has not confirmed yet, above which the writer waits."""


class Saving:
    """The snapshot that is being made, if one is.

    Args:
        selector: of the supervisor; the writer is registered with itself as data.
        files: the workspace.
        host: gets the snapshot.
        interpreters: one of which is forked.
        size: bytes that a snapshot may have.
    """

    def __init__(
        self, selector: selectors.BaseSelector, files: Workspace, host: Host, interpreters: Interpreters, size: int
    ) -> None:
        self._selector = selector
        self._files = files
        self._host = host
        self._interpreters = interpreters
        self._size = size
        self._asked: str | None = None
        self._id = ""
        self._deadline = 0.0
        self._has_files = False
        self._waits = False
        self._under_way = 0
        self._parts: dict[str, list[Any]] = {}
        self._stamps: dict[str, Stamp] = {}
        self._kept: dict[str, tuple[Stamp, Message]] = {}
        self._stored: set[str] = set()
        self._digests: dict[str, set[str]] = {}

    # -- what the supervisor asks ---------------------------------------------------------------------------------

    @property
    def asked(self) -> bool:
        """Whether a snapshot is to be made as soon as there is an interpreter to fork."""
        return self._asked is not None

    @property
    def holds_up(self) -> bool:
        """Whether the next cell must wait, because it could change a file that has not been read yet."""
        return self.asked or (self._interpreters.writer is not None and not self._has_files)

    @property
    def deadline(self) -> float | None:
        """When `holds_up` ends, by the monotonic clock."""
        return self._deadline if self.holds_up else None

    def ask(self, snapshot_id: str) -> None:
        """Have a snapshot made of the present point, named so; one that is being made is given up."""
        self.give_up("a newer snapshot was asked for")
        self._asked = snapshot_id
        self._deadline = time.monotonic() + FILES_S

    def begin(self) -> None:
        """Fork the interpreter, now that nothing runs."""
        source = self._interpreters.copy or self._interpreters.worker
        if self._asked is None or source is None:
            return
        self._id, self._asked = self._asked, None
        self._stamps = self._files.stamps()
        changed = [path for path, stamp in self._stamps.items() if self._kept.get(path, (None,))[0] != stamp]
        ours, theirs = sockets()
        try:
            source.channel.send(
                {"op": "snapshot", "paths": changed, "transfer": self._files.transfer, "size": self._size},
                (theirs.fileno(),),
            )
        except OSError:
            ours.close()
            self._fail("the interpreter could not be copied")
            return
        finally:
            theirs.close()
        writer = Interpreter(Channel(ours))
        self._selector.register(writer.channel, selectors.EVENT_READ, writer)
        self._interpreters.writer = writer
        self._has_files, self._waits, self._under_way = not changed, False, 0
        self._parts = {"units": [], "skipped": [], "files": [], "skipped_files": []}
        self._digests[self._id] = set()

    def settle(self) -> None:
        """Wait for the writer to say who it is: until then it cannot be told from a process of user code's."""
        deadline = time.monotonic() + 1.0
        writer = self._interpreters.writer
        while writer is not None and not writer.pid and time.monotonic() < deadline:
            select.select([writer.channel], [], [], 0.2)
            self.on_writer()
            writer = self._interpreters.writer

    def give_up(self, why: str) -> None:
        """End the snapshot that is being made, if one is, and say why."""
        if self._asked is not None:
            self._id, self._asked = self._asked, None
            self._fail(why)
        if self._interpreters.writer is not None:
            self._drop()
            self._fail(why)

    # -- the host -------------------------------------------------------------------------------------------------

    def confirmed(self, message: Message) -> None:
        """The host has taken bytes that were under way."""
        self._under_way = max(0, self._under_way - int(message.get("bytes") or 0))
        if self._waits and self._under_way <= UNDER_WAY and self._interpreters.writer is not None:
            self._waits = False
            self._tell({"op": "go"})

    def stored(self, snapshot_id: str) -> None:
        """The host has stored a snapshot: what is in it need not be sent again."""
        self._stored = self._digests.pop(snapshot_id, set()) or self._stored
        self._digests = {self._id: self._digests[self._id]} if self._id in self._digests else {}

    def assume(self, message: Message) -> None:
        """Take what a restored snapshot holds as stored, and its files as they are now as those that it holds.

        Args:
            message: `files`, as the manifest has them, and `digests` of the variables.
        """
        stamps = self._files.look()
        self._kept = {file["path"]: (stamps[file["path"]], file) for file in message["files"] if file["path"] in stamps}
        self._stored = {digest for file in message["files"] for digest in file["chunks"]} | set(message["digests"])

    # -- the writer -----------------------------------------------------------------------------------------------

    def on_writer(self) -> None:
        """Take what the writer says."""
        writer = self._interpreters.writer
        assert writer is not None
        try:
            messages, alive = writer.channel.poll()
        except EOFError:
            messages, alive = [], False
        for message in messages:
            self._on_message(message)
        if not alive and self._interpreters.writer is writer:
            self._drop()
            self._fail("the process that wrote it ended, for example for want of memory")

    def _on_message(self, message: Message) -> None:
        op = message.get("op")
        writer = self._interpreters.writer
        if writer is None:
            return
        if op == "writer":
            writer.pid = int(message.get("pid") or 0)
        elif op == "offer":
            digests = [str(digest) for digest in message.get("digests") or []]
            mine = self._digests[self._id]
            wanted = [place for place, digest in enumerate(digests) if digest not in self._stored | mine]
            mine.update(digests)
            self._tell({"op": "want", "places": wanted})
        elif op == "chunk":
            data = str(message.get("data"))
            self._under_way += len(data)
            self._host.send({"ev": "chunk", "id": self._id, "digest": str(message.get("digest")), "data": data})
            if self._under_way > UNDER_WAY:
                self._waits = True
            else:
                self._tell({"op": "go"})
        elif op in self._parts and isinstance(message.get("of"), dict):
            self._parts[op].append(message["of"])
        elif op == "read":
            self._has_files = True
        elif op == "end":
            self._finish(message)

    def _finish(self, message: Message) -> None:
        self._drop()
        written = {str(file.get("path")): file for file in self._parts["files"]}
        kept: dict[str, tuple[Stamp, Message]] = {}
        for path, stamp in self._stamps.items():
            if path in written:
                kept[path] = (stamp, written[path])
            elif path in self._kept and self._kept[path][0] == stamp:
                kept[path] = self._kept[path]
                self._digests[self._id].update(self._kept[path][1]["chunks"])
        self._kept = kept
        manifest = {
            **self._parts,
            "files": [file for _, file in kept.values()],
            "folders": self._files.folders,
            "links": [link for link in self._files.links if stays_inside(*link)],
            "python": str(message.get("python")),
        }
        self._host.send({"ev": "snapshot", "id": self._id, "manifest": manifest})

    def _tell(self, message: Message) -> None:
        if self._interpreters.writer is not None:
            with contextlib.suppress(OSError):
                self._interpreters.writer.channel.send(message)

    def _fail(self, why: str) -> None:
        self._digests.pop(self._id, None)
        self._host.send({"ev": "snapshot", "id": self._id, "error": why})

    def _drop(self) -> None:
        writer, self._interpreters.writer = self._interpreters.writer, None
        if writer is not None:
            self._interpreters.drop(writer)
