"""What a snapshot holds: the records that name its contents, and the rules that every one of them keeps.

A manifest comes from the box or from a store, and neither is trusted: counts, sizes and texts have bounds, paths stay
in the workspace, and one that breaks a rule is refused as a whole. Contents are not in it, only the digests of their
chunks; what the chunks of variables mean is known inside the box alone.

The lists of a manifest are sorted, whatever the order in which they came, so that equal snapshots are equal records.
"""

import re
from collections.abc import Iterator
from hashlib import blake2b
from operator import attrgetter
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from actloop.errors import SnapshotRefused
from actloop.protocols import Record

from .box_files import MAX_LINKS as MAX_LINKS
from .box_files import MAX_LISTED
from .box_wire import CHUNK as CHUNK
from .snapshot_paths import check_path, check_target, check_tree

MAX_FILES = MAX_LISTED
"""Files of a snapshot at most; the same for empty folders and for files that are left out."""
MAX_NAMES = 5000
"""Variables at most; the same for variables that are left out."""
MAX_NOTES = 100
MAX_CHUNKS = 1 << 16
"""Chunks, and contents, that one snapshot may name."""
MAX_TEXT = 200
"""Characters kept of a reason or a type name."""

_POINT = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,100}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def digest_of(data: bytes | bytearray | memoryview) -> str:
    """Name of a chunk: 64 hexadecimal digits."""
    return blake2b(data, digest_size=32).hexdigest()


def is_digest(text: str) -> bool:
    """Whether this can be the name of a chunk."""
    return _DIGEST.fullmatch(text) is not None


def is_point(text: str) -> bool:
    """Whether this can be the id of a point: 1 to 100 of `A-Z a-z 0-9 . _ -`, neither `.` nor `..`."""
    return _POINT.fullmatch(text) is not None


def _check_point(text: str) -> str:
    if not is_point(text):
        raise ValueError("not the id of a point")
    return text


def _check_digest(text: str) -> str:
    if not is_digest(text):
        raise ValueError("not the digest of a chunk")
    return text


def _cut(value: object) -> object:
    """Only shown to people and models, so that neither its length nor its letters may cost the snapshot."""
    return value[:MAX_TEXT].encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value


def _check_name(name: str) -> str:
    name.encode("utf-8")  # a lone surrogate is a ValueError here
    return name


Point = Annotated[str, AfterValidator(_check_point)]
Digest = Annotated[str, AfterValidator(_check_digest)]
Digests = Annotated[tuple[Digest, ...], Field(max_length=MAX_CHUNKS)]
Text = Annotated[str, BeforeValidator(_cut)]
Name = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_check_name)]
Path = Annotated[str, AfterValidator(check_path)]
Target = Annotated[str, AfterValidator(check_target)]
Bytes = Annotated[int, Field(strict=True, ge=0, le=1 << 53)]
Version = Annotated[str, Field(pattern=r"^[0-9]{1,3}(\.[0-9]{1,3}){2}[A-Za-z0-9.+-]{0,40}$")]


def _check_size(size: int, chunks: tuple[str, ...]) -> None:
    if len(chunks) > max(size, 1) or size > len(chunks) * CHUNK:
        raise ValueError(f"{size} bytes cannot be {len(chunks)} chunks")


class Unit(Record):
    """Variables that were saved together, because they share values."""

    names: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MAX_NAMES)]
    needs: Annotated[tuple[Name, ...], Field(max_length=MAX_NAMES)] = ()
    """Variables of other units that these refer to: their units are loaded before."""
    contents: Annotated[tuple[Digests, ...], Field(min_length=1, max_length=MAX_CHUNKS)]
    """For each content the digests of its chunks, in order."""
    sizes: Annotated[tuple[Bytes, ...], Field(max_length=MAX_CHUNKS)]
    """Bytes of each content."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.sizes) != len(self.contents):
            raise ValueError("not as many sizes as contents")
        for size, chunks in zip(self.sizes, self.contents, strict=True):
            _check_size(size, chunks)
        return self


class SkippedName(Record):
    """A variable that is not in the snapshot, or not as it was."""

    name: Name
    type: Text
    why: Text


class KeptFile(Record):
    """A regular file of the workspace."""

    path: Path
    size: Bytes
    mode: Annotated[int, Field(strict=True, ge=0, le=0o777)]
    """Permission bits."""
    mtime_ns: Annotated[int, Field(strict=True, ge=-(1 << 63), lt=1 << 63)]
    """Nanoseconds since 1970."""
    chunks: Digests

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_size(self.size, self.chunks)
        return self


class Note(Record):
    """Something that is kept, and yet not as it was."""

    text: Text


class SkippedFile(Record):
    """A file that is not in the snapshot. Its path is only shown: it may be the very reason."""

    path: Text
    size: Bytes
    why: Text


_SORTED = AfterValidator(lambda items: tuple(sorted(items)))


def _by(*fields: str) -> AfterValidator:
    return AfterValidator(lambda items: tuple(sorted(items, key=attrgetter(*fields))))


class Manifest(Record):
    """Variables and files of one session at one point."""

    point: Point
    """Id of the cell after which it was taken."""
    parent: Point | None = None
    """The point before, None for the first."""
    cells: Annotated[int, Field(strict=True, ge=0, le=1 << 31)] = 0
    """Cells that the session had run by then; the next one is numbered on."""
    python: Version
    """Version that the variables were saved with: `3.11.2`."""
    units: Annotated[tuple[Unit, ...], Field(max_length=MAX_NAMES), _by("names")] = ()
    skipped: Annotated[tuple[SkippedName, ...], Field(max_length=MAX_NAMES), _by("name", "type", "why")] = ()
    files: Annotated[tuple[KeptFile, ...], Field(max_length=MAX_FILES), _by("path")] = ()
    skipped_files: Annotated[tuple[SkippedFile, ...], Field(max_length=MAX_FILES), _by("path", "size", "why")] = ()
    notes: Annotated[tuple[Note, ...], Field(max_length=MAX_NOTES), _by("text")] = ()
    folders: Annotated[tuple[Path, ...], Field(max_length=MAX_FILES), _SORTED] = ()
    """Folders with nothing in them; all others follow from the files."""
    links: Annotated[tuple[tuple[Path, Target], ...], Field(max_length=MAX_LINKS), _SORTED] = ()
    """Path and target of each symbolic link that stays inside the workspace."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [name for unit in self.units for name in unit.names]
        if len(names) > MAX_NAMES:
            raise ValueError(f"more than {MAX_NAMES} variables")
        paths = [*(file.path for file in self.files), *self.folders, *(path for path, _ in self.links)]
        if len(set(names)) < len(names) or len(set(paths)) < len(paths):
            raise ValueError("the same name twice")
        contents = sum(len(unit.contents) for unit in self.units)
        if max(contents, sum(1 for _ in self.chunks())) > MAX_CHUNKS:
            raise ValueError(f"more than {MAX_CHUNKS} chunks")
        check_tree((file.path for file in self.files), self.folders, dict(self.links))
        return self

    def chunks(self) -> Iterator[str]:
        """Digests of all chunks that variables and files need; the same one may come again."""
        for unit in self.units:
            for content in unit.contents:
                yield from content
        for file in self.files:
            yield from file.chunks


def read_manifest(raw: object) -> Manifest:
    """Make a manifest of what a box or a store says it is.

    Args:
        raw: plain data, as JSON gives it.

    Raises:
        SnapshotRefused: it breaks a rule of this module.
    """
    try:
        return Manifest.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(step)[:40] for step in first["loc"]) or "the whole"
        raise SnapshotRefused(
            f"A snapshot breaks the rules at {place}: {first['msg'][:MAX_TEXT]}. It is not used; an earlier one may be."
        ) from None
