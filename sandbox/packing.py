"""A manifest as bytes: sealed, and cut so that a store grows with what changed.

A session with thousands of files changes a few of them in a turn, so a manifest must not be written whole each time.
Its entries are spread over a fixed number of parts by a hash of their names; each part is a chunk like any other, named
by its digest, and most of them are there already. The point's own file names the parts, and is sealed: an HMAC that
holds for this thread and this point alone, and that is checked before anything is parsed.
"""

import hmac
import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any

from actloop.errors import SnapshotRefused

from .manifest import Manifest, digest_of, read_manifest

PARTS = 64
"""Parts of a long manifest. With 2,000 entries a part takes about as much room as the list of the parts."""
INLINE = 64
"""Entries up to which a manifest is one piece, in the point's own file."""

_LISTS: dict[str, Callable[[Any], str]] = {
    "units": lambda unit: unit["names"][0],
    "skipped": lambda left: left["name"],
    "files": lambda file: file["path"],
    "skipped_files": lambda file: file["path"],
    "folders": lambda path: path,
    "links": lambda link: link[0],
    "notes": lambda note: note["text"],
}
"""The lists of a manifest, and what names an entry in each."""
_MAGIC = b"actloop snapshot 1\n"
_SIGNATURE = 32
"""Bytes of an HMAC with SHA-256."""


def pack(manifest: Manifest) -> tuple[bytes, dict[str, bytes]]:
    """Write a manifest as a head, and as chunks that the head names.

    Returns:
        The head, not yet sealed, and digest and content of each part.
    """
    plain = manifest.model_dump(mode="json")
    entries = [(field, entry) for field in _LISTS for entry in plain.pop(field)]
    if len(entries) <= INLINE:
        return _squeeze({**plain, "entries": entries}), {}
    parts: list[list[Any]] = [[] for _ in range(PARTS)]
    for field, entry in entries:
        parts[_part_of(field, entry)].append((field, entry))
    squeezed = [_squeeze(part) if part else b"" for part in parts]
    names = [digest_of(data) if data else "" for data in squeezed]
    return _squeeze({**plain, "parts": names}), {name: data for name, data in zip(names, squeezed, strict=True) if name}


def unpack(head: bytes, fetch: Callable[[Sequence[str]], Iterable[bytes]]) -> Manifest:
    """Read a manifest; its seal has been checked.

    Args:
        head: what `pack` returned.
        fetch: gives the contents of chunks, in order, each checked against its digest.

    Raises:
        SnapshotRefused: it was written by another version of actloop, or breaks the rules.
    """
    plain = _expand(head)
    entries = plain.pop("entries", [])
    for part in fetch([name for name in plain.pop("parts", ()) if name]):
        entries += _expand(part)
    for field in _LISTS:
        plain[field] = [entry for kind, entry in entries if kind == field]
    return read_manifest(plain)


def seal(key: bytes, thread: str, point: str, head: bytes) -> bytes:
    """Sign a head for one thread and one point."""
    return _MAGIC + _sign(key, thread, point, head) + head


def unseal(key: bytes, thread: str, point: str, data: bytes) -> bytes:
    """Check a sealed head before anything else looks at it.

    Raises:
        SnapshotRefused: it was altered, was sealed with another key or for another thread or point, or is none.
    """
    start = len(_MAGIC) + _SIGNATURE
    head = data[start:]
    if data[: len(_MAGIC)] != _MAGIC:
        problem = "is none, or was written by another version of actloop"
    elif not hmac.compare_digest(data[len(_MAGIC) : start], _sign(key, thread, point, head)):
        problem = "was altered, or was made with another key or for another thread or point"
    else:
        return head
    raise SnapshotRefused(
        f"The snapshot {point} {problem}. It is not used; go on from an earlier point, or start anew."
    )


def _sign(key: bytes, thread: str, point: str, head: bytes) -> bytes:
    # A key of its own for each place: a point moved to another thread, or under another name, is worth nothing.
    own = hmac.digest(key, b"\0".join((_MAGIC, thread.encode(), point.encode())), "sha256")
    return hmac.digest(own, head, "sha256")


def _part_of(field: str, entry: Any) -> int:
    return blake2b(f"{field}\0{_LISTS[field](entry)}".encode(), digest_size=1).digest()[0] % PARTS


def _squeeze(value: object) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return zlib.compress(text.encode("utf-8"), level=1)  # more gains 2 %: most of it is digests


def _expand(data: bytes) -> Any:
    return json.loads(zlib.decompress(data))
