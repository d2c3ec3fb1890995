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

from .box_files import MAX_LINKS, Stamp, Workspace, stays_inside
from .box_host import Host
from .box_interpreters import Interpreter, Interpreters, sockets
from .box_wire import Channel, Message

FILES_S = 10.0
"""Seconds that the next cell waits at most for a writer to read the files."""
UNDER_WAY = 4 << 20
"""Bytes sent to the host that it has not confirmed yet, above which the writers wait."""
MAX_WRITERS = 4
"""Snapshots that are written at the same time; with more the next cell waits for one of them."""


class Writer(Interpreter):
    """A fork of an interpreter that writes one snapshot."""

    def __init__(self, channel: Channel, snapshot_id: str, changed: list[str], source: Interpreter) -> None:
        super().__init__(channel)
        self.id = snapshot_id
        self.source = source
        self.has_read = not changed
        """All changed files are read."""
        self.waits = False
        """It waits for leave to go on."""
        self.changed = changed
        self.parts: dict[str, list[Any]] = {
            "units": [],
            "skipped": [],
            "files": [],
            "skipped_files": [],
            "notes": [],
        }
        self.digests: set[str] = set()
        self.rest: Message = {}
        """The parts of the manifest that the supervisor knows itself."""
        self.variable = ""
        """The variable that it is looking at."""


class Saving:
    """The snapshots that are being made.

    Args:
        selector: of the supervisor; each writer is registered with itself as data.
        files: the workspace.
        host: gets the snapshots.
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
        self._deadline = 0.0
        self._under_way = 0
        self._kept: dict[str, tuple[Stamp, Message]] = {}
        self._stored: set[str] = set()
        self._unconfirmed: dict[str, set[str]] = {}
        self._refused: dict[str, str] = {}

    # -- what the supervisor asks ---------------------------------------------------------------------------------

    @property
    def asked(self) -> bool:
        """Whether a snapshot is to be made as soon as there is an interpreter to fork."""
        return self._asked is not None

    @property
    def holds_up(self) -> bool:
        """Whether the next cell must wait, because it could change a file that has not been read yet."""
        return self.asked or any(not writer.has_read for writer in self._writers())

    @property
    def deadline(self) -> float | None:
        """When `holds_up` ends, by the monotonic clock."""
        return self._deadline if self.holds_up else None

    def ask(self, snapshot_id: str) -> None:
        """Have a snapshot made of the present point, named so."""
        self._asked = snapshot_id
        self._deadline = time.monotonic() + FILES_S

    def begin(self) -> None:
        """Fork the interpreter, now that nothing runs."""
        source = self._interpreters.copy or self._interpreters.worker
        if self._asked is None or source is None or len(self._interpreters.writers) >= MAX_WRITERS:
            return
        snapshot_id, self._asked = self._asked, None
        self._interpreters.saves = True
        self._fork(source, snapshot_id)

    def _fork(self, source: Interpreter, snapshot_id: str) -> None:
        stamps = self._files.stamps()
        self._kept = {path: kept for path, kept in self._kept.items() if stamps.get(path) == kept[0]}
        changed = [path for path in stamps if path not in self._kept]
        ours, theirs = sockets()
        writer = Writer(Channel(ours), snapshot_id, changed, source)
        order = {
            "op": "snapshot",
            "paths": changed,
            "transfer": self._files.transfer,
            "size": self._size,
            "refused": self._refused,
        }
        try:
            source.channel.send(order, (theirs.fileno(),))
        except OSError:
            writer.channel.close()
            self._fail(writer, "the interpreter could not be copied")
            return
        finally:
            theirs.close()
        self._selector.register(writer.channel, selectors.EVENT_READ, writer)
        self._interpreters.writers.append(writer)
        links = [link for link in self._files.links if stays_inside(*link)][:MAX_LINKS]
        writer.rest = {"stamps": stamps, "folders": list(self._files.folders), "links": links}
        if writer.has_read:
            self._on_read(writer)

    def settle(self) -> None:
        """Wait for writers to say who they are: until then they cannot be told from processes of user code's."""
        deadline = time.monotonic() + 1.0
        for writer in self._writers():
            while not writer.pid and writer in self._interpreters.writers and time.monotonic() < deadline:
                if select.select([writer.channel], [], [], 0.2)[0]:
                    self.on_writer(writer)

    def give_up(self, why: str, holding_up: bool = False) -> None:
        """End the snapshots that are being made, and say why.

        Args:
            why: in words.
            holding_up: only those that the next cell waits for; otherwise nothing of the session is left either.
        """
        if not holding_up:
            self._kept, self._refused, self._stored, self._unconfirmed = {}, {}, set(), {}
        asked, self._asked = self._asked, None
        if asked is not None:
            self._host.send({"ev": "snapshot", "id": asked, "error": why})
        for writer in self._writers():
            if not (holding_up and writer.has_read):
                self._drop(writer)
                self._fail(writer, why)

    # -- the host -------------------------------------------------------------------------------------------------

    def confirmed(self, message: Message) -> None:
        """The host has taken bytes that were under way."""
        self._under_way = max(0, self._under_way - int(message.get("bytes") or 0))
        if self._under_way <= UNDER_WAY:
            for writer in self._writers():
                if writer.waits:
                    writer.waits = False
                    _tell(writer, {"op": "go"})

    def stored(self, snapshot_id: str) -> None:
        """The host has stored a snapshot: what is in it need not be sent again."""
        self._stored = self._unconfirmed.pop(snapshot_id, self._stored)

    def assume(self, message: Message) -> None:
        """Take what a restored snapshot holds as stored, and its files as they are now as those that it holds.

        Args:
            message: `files`, as the manifest has them, and `digests` of the variables.
        """
        stamps = self._files.look()
        self._kept = {file["path"]: (stamps[file["path"]], file) for file in message["files"] if file["path"] in stamps}
        self._stored = {digest for file in message["files"] for digest in file["chunks"]} | set(message["digests"])
        self._unconfirmed = {}

    # -- the writers ----------------------------------------------------------------------------------------------

    def on_writer(self, writer: Writer) -> None:
        """Take what a writer says."""
        try:
            messages, alive = writer.channel.poll()
        except EOFError:
            messages, alive = [], False
        for message in messages:
            if writer in self._interpreters.writers:
                self._on_message(writer, message)
        if not alive and writer in self._interpreters.writers:
            self._drop(writer)
            self._on_death(writer)

    def _on_death(self, writer: Writer) -> None:
        """Begin again without the variable that ended the writer; it is left out of later snapshots as well."""
        known = writer.variable in self._refused
        if writer.variable:
            self._refused[writer.variable] = "keeping it ended the process that did so"
        copy = self._interpreters.copy
        if writer.variable and not known and copy is not None and writer.source is copy:
            self._fork(copy, writer.id)
        else:
            self._fail(writer, "the process that wrote it ended, for example for want of memory")

    def _on_message(self, writer: Writer, message: Message) -> None:
        op = message.get("op")
        if op == "writer":
            writer.pid = int(message.get("pid") or 0)
        elif op == "begin":
            writer.variable = str(message.get("name"))
        elif op == "offer":
            digests = [str(digest) for digest in message.get("digests") or []]
            places = [
                place
                for place, digest in enumerate(digests)
                if digest not in self._stored and digest not in writer.digests
            ]
            writer.digests.update(digests)
            _tell(writer, {"op": "want", "places": places})
        elif op == "chunk":
            data = str(message.get("data"))
            self._under_way += len(data)
            self._host.send({"ev": "chunk", "id": writer.id, "digest": str(message.get("digest")), "data": data})
            writer.waits = self._under_way > UNDER_WAY
            if not writer.waits:
                _tell(writer, {"op": "go"})
        elif op in writer.parts and isinstance(message.get("of"), dict):
            writer.parts[op].append(message["of"])
        elif op == "read":
            writer.has_read = True
            self._on_read(writer)
        elif op == "end":
            self._drop(writer)
            manifest = {**writer.parts, **writer.rest, "python": str(message.get("python"))}
            self._unconfirmed[writer.id] = writer.digests
            while len(self._unconfirmed) > MAX_WRITERS:
                del self._unconfirmed[next(iter(self._unconfirmed))]
            self._host.send({"ev": "snapshot", "id": writer.id, "manifest": manifest})

    def _on_read(self, writer: Writer) -> None:
        """Its files are complete: those that it read, and those that have not changed since an earlier snapshot."""
        stamps = writer.rest.pop("stamps", {})
        for file in writer.parts["files"]:
            if file.get("path") in stamps:
                self._kept[file["path"]] = (stamps[file["path"]], file)
        kept = [self._kept[path][1] for path in stamps if path in self._kept]
        writer.rest["files"] = kept
        writer.digests.update(digest for file in kept for digest in file["chunks"])

    def _writers(self) -> list[Writer]:
        return [writer for writer in self._interpreters.writers if isinstance(writer, Writer)]

    def _fail(self, writer: Writer, why: str) -> None:
        self._host.send({"ev": "snapshot", "id": writer.id, "error": why})

    def _drop(self, writer: Writer) -> None:
        self._interpreters.writers.remove(writer)
        self._interpreters.drop(writer)


def _tell(writer: Writer, message: Message) -> None:
    with contextlib.suppress(OSError):
        writer.channel.send(message)
