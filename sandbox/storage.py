"""Where the bytes of snapshots lie: a folder of this machine, or anything else that fsspec reaches.

A local folder is written here with plain system calls, because what matters there is out of fsspec's reach: rights from
the first byte on, and a file that appears whole or not at all. Object stores take each object whole anyway, and get
many small ones at once. Options of a store, such as keys and endpoints, come from fsspec's own configuration and from
the environment.
"""

import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from actloop.errors import ConfigError, SnapshotError

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
_PACKAGES = {"smbclient": "smbprotocol", "libarchive": "libarchive-c"}
"""Packages of drivers whose modules have another name."""
_UNFINISHED = "~"
"""In the name of a file that is being written, and in no other."""


class Storage(Protocol):
    """One folder of small files, by relative paths. Every failure is a SnapshotError; what is not there is None."""

    def read(self, paths: Sequence[str]) -> list[bytes | None]:
        """Contents of files, in order."""
        ...

    def write(self, files: Mapping[str, bytes]) -> None:
        """Write files, each whole or not at all, whatever was there."""
        ...

    def files(self, folder: str = "") -> dict[str, int]:
        """Path below `folder` and size of every file that is complete."""
        ...

    def remove(self) -> None:
        """Remove everything, and nothing outside."""
        ...


def open_storage(url: str, name: str) -> Storage:
    """The folder `name` of a store; nothing is made before the first file is written.

    Args:
        url: a path, or what fsspec takes: `file:///…`, `s3://bucket/…`, `memory://…`.
        name: one component of a path.

    Raises:
        ConfigError: the name is not one folder, the address is none, or the driver for it is not installed.
    """
    if _NAME.fullmatch(name) is None:
        raise ConfigError(
            f"{name[:200]!r} cannot name a folder of snapshots. Use up to 200 letters, digits, '.', '_' and '-',"
            " and no '.' first."
        )
    files, root = _reach(url)
    if "file" in _protocols(files):
        return FolderStorage(f"{root.rstrip('/')}/{name}")
    return FsspecStorage(files, f"{root.rstrip('/')}/{name}", _shown(url))


def _reach(url: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs  # some 30 ms that only a thread with snapshots pays

    try:
        if not url.strip():
            raise ValueError("it is empty")
        files, root = url_to_fs(url)
    except ImportError as error:
        module = getattr(error.__cause__, "name", None) or error.name or url.partition(":")[0]
        package = _PACKAGES.get(module, module)
        raise ConfigError(
            f"The snapshot store {_shown(url)} needs the package {package}, which is not installed."
            f" Install it with `pip install {package}`."
        ) from error
    except Exception as error:
        raise ConfigError(
            f"{_shown(url)!r} is no address of a snapshot store: {_said(error)}. Give a path, or a URL such as s3://bucket/folder."
        ) from error
    return files, root


def _protocols(files: Any) -> tuple[str, ...]:
    return (files.protocol,) if isinstance(files.protocol, str) else tuple(files.protocol)


class FolderStorage:
    """A folder of this machine, for its owner alone: folders 0700, files 0600.

    Nothing is flushed to the disk: a snapshot outlives the process, not the loss of power.
    """

    def __init__(self, root: str) -> None:
        self._root = root

    def read(self, paths: Sequence[str]) -> list[bytes | None]:
        """Contents of files, in order."""
        with _translated(self._root):
            return [_read(f"{self._root}/{path}") for path in paths]

    def write(self, files: Mapping[str, bytes]) -> None:
        """Write files, each whole or not at all, whatever was there."""
        with _translated(self._root):
            for path, data in files.items():
                _write(f"{self._root}/{path}", data)

    def files(self, folder: str = "") -> dict[str, int]:
        """Path below `folder` and size of every file that is complete."""
        top = os.path.join(self._root, folder).rstrip("/")
        with _translated(self._root):
            return {path[len(top) + 1 :]: size for path, size in _walk(top)}

    def remove(self) -> None:
        """Remove everything, and nothing outside: links are not followed."""
        with _translated(self._root), suppress(FileNotFoundError):
            shutil.rmtree(self._root)


# Plain texts instead of `Path` from here on: a snapshot may be thousands of small files, and those would take thrice
# the time.


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _walk(folder: str) -> Iterator[tuple[str, int]]:
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path)
        elif _UNFINISHED not in entry.name:  # others vanish at any moment
            yield entry.path, entry.stat(follow_symlinks=False).st_size


def _write(path: str, data: bytes) -> None:
    temporary = _temporary(path)
    try:
        handle = _create(temporary)
    except FileNotFoundError:
        _make(os.path.dirname(path))
        handle = _create(temporary)
    try:
        with open(handle, "wb", buffering=0) as file:
            left = memoryview(data)
            while left:
                left = left[file.write(left) :]
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _temporary(path: str) -> str:
    return f"{path}{_UNFINISHED}{secrets.token_hex(8)}"


def _create(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _make(folder: str) -> None:
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        _make(os.path.dirname(folder))
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)


class FsspecStorage:
    """A folder of any other filesystem of fsspec.

    Args:
        files: the filesystem.
        root: the folder on it.
        shown: the store's address as errors may show it.
    """

    def __init__(self, files: Any, root: str, shown: str) -> None:
        self._files = files
        self._root = root
        self._shown = shown
        # Servers of files (SFTP, SMB) show a file while it grows; object stores do not, and their drivers are async.
        self._takes_whole = files.async_impl or "memory" in _protocols(files)

    def read(self, paths: Sequence[str]) -> list[bytes | None]:
        """Contents of files, in order, all at once where the store can do that."""
        if not paths:
            return []
        full = [self._path(path) for path in paths]
        with _translated(self._shown):
            found = self._files.cat(full, on_error="return")
            contents = [found.get(self._files._strip_protocol(path), FileNotFoundError()) for path in full]
            for content in contents:
                if isinstance(content, Exception) and not isinstance(content, FileNotFoundError):
                    raise content
        return [content if isinstance(content, bytes) else None for content in contents]

    def write(self, files: Mapping[str, bytes]) -> None:
        """Write files, each whole or not at all, whatever was there."""
        if not files:
            return
        with _translated(self._shown):
            if self._takes_whole:
                self._files.pipe({self._path(path): data for path, data in files.items()})
                return
            for path, data in files.items():
                self._write(self._path(path), data)

    def _write(self, path: str, data: bytes) -> None:
        temporary = _temporary(path)
        self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._files.pipe_file(temporary, data)
        self._files.mv(temporary, path)

    def files(self, folder: str = "") -> dict[str, int]:
        """Path below `folder` and size of every file that is complete."""
        top = self._path(folder).rstrip("/")
        with _translated(self._shown):
            self._files.invalidate_cache()
            try:
                found = self._files.find(top, detail=True)
            except FileNotFoundError:
                return {}
            prefix = len(self._files._strip_protocol(top)) + 1
            return {
                path[prefix:]: int(facts["size"] or 0)
                for path, facts in found.items()
                if facts["type"] == "file" and _UNFINISHED not in path[prefix:]
            }

    def remove(self) -> None:
        """Remove everything, and nothing outside."""
        with _translated(self._shown), suppress(FileNotFoundError):
            self._files.invalidate_cache()
            self._files.rm(self._root, recursive=True)

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}"


@contextmanager
def _translated(shown: str) -> Iterator[None]:
    """Make one kind of error of the many that drivers raise: botocore's, aiohttp's and paramiko's share no base."""
    try:
        yield
    except SnapshotError:
        raise
    except Exception as error:
        raise SnapshotError(f"The snapshot store {shown} {_problem(error)}") from error


def _problem(error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else None
    if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "is full. Make room in it, or name another one."
    if isinstance(error, PermissionError) or number == errno.EROFS:
        return f"refuses access ({_said(error)}). Give this user the right to read and write it, or name another one."
    return f"cannot be used: {_said(error)}. Check its address and whether it can be reached."


def _said(error: Exception) -> str:
    """The error in a few words of its own, without what an address may hold."""
    text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return _shown(" ".join(text.split()))[:200].rstrip(".")


def _shown(url: str) -> str:
    """An address without user and password."""
    return re.sub(r"//[^/@\s]*@", "//", url)


def in_batches(paths: Iterable[str], count: int) -> Iterator[list[str]]:
    """Groups of at most `count` paths."""
    batch: list[str] = []
    for path in paths:
        batch.append(path)
        if len(batch) == count:
            yield batch
            batch = []
    if batch:
        yield batch
