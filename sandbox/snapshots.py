"""Snapshots of one thread, in a store: `chunks/<aa>/<digest>` and `points/<point>` below a folder of the thread's own.

The host never looks into what a box sent: chunks are opaque bytes, checked against their digests on the way in and
on the way out. What a point consists of is sealed with a key bound to thread and point; whoever can write to the store
can destroy snapshots, or bring back what a point held before it was written again, and nothing else.
"""

from collections.abc import Iterable, Iterator, Sequence
from threading import RLock

from actloop.errors import ConfigError, SnapshotRefused

from .manifest import CHUNK, Manifest, digest_of, is_digest, is_point
from .packing import pack, seal, unpack, unseal
from .storage import in_batches, open_storage

BUFFER = 8 << 20
"""Bytes of chunks that wait to be written together; the same number read ahead."""


class Snapshots:
    """Snapshots of one thread. Thread-safe; several processes may write to the same thread's folder.

    Args:
        url: the store: a path, or a URL of fsspec. Its options come from fsspec's configuration and the environment.
        name: folder of the thread in it.
        key: secret of the thread, at least 16 bytes. Without it no snapshot is accepted.

    Raises:
        ConfigError: `url`, `name` or `key` cannot be used, or the store's driver is not installed.

    Every method that reaches the store raises SnapshotError where it cannot be read or written.
    """

    def __init__(self, url: str, name: str, key: bytes) -> None:
        if len(key) < 16:
            raise ConfigError("The key of a thread's snapshots is too short. Use at least 16 random bytes.")
        self._storage = open_storage(url, name)
        self._name = name
        self._key = key
        self._lock = RLock()
        self._known: set[str] | None = None
        self._waiting: dict[str, bytes] = {}
        self._waiting_bytes = 0

    def has(self, digest: str) -> bool:
        """Whether a chunk is there, or waits to be written. The first call lists the store."""
        return digest in self._waiting or digest in self._listed()

    def add(self, digest: str, data: bytes) -> None:
        """Keep a chunk. It may wait in memory, up to `BUFFER` bytes of them, until `save`.

        Args:
            digest: as the box says.
            data: content, at most 1 MiB.

        Raises:
            SnapshotRefused: the digest is not that of the content, or the chunk is too large.
        """
        if len(data) > CHUNK:
            raise SnapshotRefused(f"A chunk has {len(data)} bytes. The box may send at most {CHUNK} in one.")
        if digest_of(data) != digest:
            raise SnapshotRefused("A chunk is not what its digest says. It is not kept; take the snapshot again.")
        self._keep(digest, data)

    def save(self, manifest: Manifest) -> str:
        """Write a manifest, after all its chunks.

        Returns:
            The reference of the snapshot, which is what `load` takes.

        Raises:
            SnapshotRefused: a chunk that it names was never added.
        """
        with self._lock:
            if not all(self.has(digest) for digest in set(manifest.chunks())):
                raise SnapshotRefused(
                    f"The snapshot {manifest.point} names a chunk that was not sent. It is not kept; take it again."
                )
            head, parts = pack(manifest)
            for digest, data in parts.items():
                self._keep(digest, data)
            self._flush()
            sealed = seal(self._key, self._name, manifest.point, head)
            self._storage.write({f"points/{manifest.point}": sealed})
        return manifest.point

    def load(self, point: str) -> Manifest | None:
        """Read the manifest of a point, None where there is none.

        Raises:
            SnapshotRefused: it was altered, belongs elsewhere, lacks a part, or `point` is no id of a point.
        """
        if not is_point(point):
            raise SnapshotRefused(f"{point[:200]!r} is no id of a snapshot. Use one that `points` lists.")
        [data] = self._storage.read([f"points/{point}"])
        if data is None:
            return None
        manifest = unpack(unseal(self._key, self._name, point, data), self.chunks)
        if manifest.point != point:
            raise SnapshotRefused(f"The snapshot {point} holds {manifest.point}. It is not used.")
        return manifest

    def nearest(self, points: Sequence[str]) -> Manifest | None:
        """Read the newest of these points that has a snapshot.

        Args:
            points: oldest first.

        Raises:
            SnapshotRefused: the newest that is there cannot be trusted. An older one is never taken in silence.
        """
        if not points:
            return None
        newest = self.load(points[-1])
        if newest is not None or len(points) == 1:
            return newest
        there = set(self.points())
        return next((self.load(point) for point in reversed(points) if point in there), None)

    def chunk(self, digest: str) -> bytes:
        """Content of a chunk.

        Raises:
            SnapshotRefused: it is not there, or was altered.
        """
        return next(self.chunks([digest]))

    def chunks(self, digests: Iterable[str]) -> Iterator[bytes]:
        """Contents of many chunks, in order, read from the store a few at a time.

        Raises:
            SnapshotRefused: one is not there, or was altered.
        """
        for batch in in_batches(digests, BUFFER // CHUNK):
            if not all(map(is_digest, batch)):
                raise SnapshotRefused("A snapshot names something that is no chunk. It is not used.")
            waiting = {digest: self._waiting.get(digest) for digest in batch}
            stored = [digest for digest, data in waiting.items() if data is None]
            read = zip(stored, self._storage.read([_path(digest) for digest in stored]), strict=True)
            contents = {**waiting, **dict(read)}
            for digest in batch:
                yield self._checked(digest, contents[digest])

    def size(self) -> int:
        """Bytes of the thread's snapshots in the store."""
        return sum(self._storage.files().values())

    def points(self) -> list[str]:
        """Points that have a snapshot, sorted by their text."""
        return sorted(filter(is_point, self._storage.files("points")))

    def delete(self) -> None:
        """Remove all snapshots of the thread."""
        with self._lock:
            self._forget_waiting()
            self._known = None
            self._storage.remove()

    def copy_to(self, other: "Snapshots", points: Iterable[str]) -> None:
        """Copy snapshots into another thread, whose key seals them anew. Points without a snapshot are passed over.

        Raises:
            SnapshotRefused: one of them cannot be trusted.
        """
        for point in points:
            manifest = self.load(point)
            if manifest is None:
                continue
            missing = [digest for digest in dict.fromkeys(manifest.chunks()) if not other.has(digest)]
            for digest, data in zip(missing, self.chunks(missing), strict=True):
                other.add(digest, data)
            other.save(manifest)

    def _listed(self) -> set[str]:
        known = self._known
        if known is None:
            with self._lock:
                if self._known is None:
                    names = (path.rpartition("/")[2] for path in self._storage.files("chunks"))
                    self._known = set(filter(is_digest, names))
                known = self._known
        return known

    def _keep(self, digest: str, data: bytes) -> None:
        with self._lock:
            if self.has(digest):
                return
            self._waiting[digest] = data
            self._waiting_bytes += len(data)
            if self._waiting_bytes >= BUFFER:
                self._flush()

    def _flush(self) -> None:
        """Write what waits. Where that fails it is given up, so that a store that is gone costs no memory."""
        with self._lock:
            try:
                self._storage.write({_path(digest): data for digest, data in self._waiting.items()})
                self._listed().update(self._waiting)
            finally:
                self._forget_waiting()

    def _forget_waiting(self) -> None:
        self._waiting = {}
        self._waiting_bytes = 0

    def _checked(self, digest: str, data: bytes | None) -> bytes:
        if data is not None and digest_of(data) == digest:
            return data
        with self._lock:
            self._listed().discard(digest)  # so that the next snapshot that needs it brings it again
        problem = "lacks a chunk" if data is None else "has a chunk that was altered"
        raise SnapshotRefused(f"A snapshot {problem} ({digest[:16]}…). Go on from another point, or start anew.")


def _path(digest: str) -> str:
    return f"chunks/{digest[:2]}/{digest}"
