"""The workspace: files in and out, and what a cell did to them. Runs inside the box, in the supervisor.

Only regular files cross. A path is walked one component at a time without following links, so that a link that user
code planted can neither be read through nor written through.

Standard library only, Python 3.9 and later.
"""

from __future__ import annotations

import base64
import contextlib
import os
import stat
from typing import Any

MAX_LISTED = 4096
"""Files listed at most."""
MAX_DEPTH = 24
"""Folders below each other that a listing enters."""
OWN = ".actloop"
"""Folder of the supervisor's own files, left out of every listing."""

Stamp = tuple[int, int, int]


def split_path(path: str) -> list[str]:
    """Components of a path of the workspace.

    Args:
        path: relative, or absolute below `/workspace`, with `/`.

    Raises:
        ValueError: the path is empty, leaves the workspace, or holds what a file name cannot hold.
    """
    if path.startswith("/workspace/"):
        path = path[len("/workspace/") :]
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or path.startswith("/") or ".." in parts or "\0" in path:
        raise ValueError(f"{path[:200]!r} is not a path inside the workspace")
    if any(len(os.fsencode(part)) > 255 for part in parts) or len(parts) > MAX_DEPTH:
        raise ValueError("the path is too long or too deep")
    return parts


class Workspace:
    """Files of one session.

    Args:
        root: its folder.
        transfer: size of one file that may cross, in bytes.
    """

    def __init__(self, root: str, transfer: int) -> None:
        self.root = root
        self._transfer = transfer
        self._seen: dict[str, Stamp] = {}
        self._open: dict[int, tuple[int, int, str, str]] = {}

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Do what the host asks for: `put`, `get` or `ls`.

        Returns:
            The reply; one that is not `ok` says in `error` whether the file is `missing` or was `refused`, and why.
        """
        reply: dict[str, Any] = {"ev": "reply", "n": message.get("n"), "ok": True}
        try:
            if message["op"] == "ls":
                reply["files"] = self.ls()
            elif message["op"] == "get":
                data, size = self.get(str(message["path"]), int(message["offset"]), int(message["size"]))
                reply["data"], reply["total"] = base64.b64encode(data).decode("ascii"), size
            else:
                data = base64.b64decode(message["data"])
                self.put(message["n"], str(message["path"]), data, message["first"], message["last"])
        except (ValueError, KeyError, TypeError, OSError) as error:
            missing = isinstance(error, FileNotFoundError)
            text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            reply.update(ok=False, error="missing" if missing else "refused", text=text)
        return reply

    def put(self, number: int, path: str, data: bytes, first: bool, last: bool) -> None:
        """Write one part of a file; it appears under its name only when the last part is there.

        Args:
            number: of the transfer.
            path: in the workspace; missing folders are made.
            data: the part.
            first: begin a new file.
            last: finish it.

        Raises:
            ValueError: the path leaves the workspace, or the file grows past the limit.
            OSError: the disk is full, or a component of the path is no folder.
        """
        if first:
            folder, name = self._folder(split_path(path), make=True)
            try:
                temporary = f".put-{os.getpid()}-{number}"
                fd = os.open(
                    temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=folder
                )
            except OSError:
                os.close(folder)
                raise
            self._open[number] = (fd, folder, temporary, name)
        if number not in self._open:
            return
        fd, folder, temporary, name = self._open[number]
        try:
            while data:
                data = data[os.write(fd, data) :]
            if os.fstat(fd).st_size > self._transfer:
                raise ValueError(f"the file is larger than {self._transfer} bytes")
            if last:
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
                self._finish(number)
                self.note(path)
        except (OSError, ValueError):
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            self._finish(number)
            raise

    def _finish(self, number: int) -> None:
        fd, folder, _, _ = self._open.pop(number)
        os.close(fd)
        os.close(folder)

    def get(self, path: str, offset: int, size: int) -> tuple[bytes, int]:
        """Read a part of a regular file.

        Returns:
            The part, and the size of the whole file.

        Raises:
            ValueError: not a regular file of the workspace, or too large.
            FileNotFoundError: there is no such file.
        """
        folder, name = self._folder(split_path(path), make=False)
        try:
            # O_NONBLOCK: opening a FIFO must not wait for its writer.
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except FileNotFoundError:
            raise
        except OSError:
            raise ValueError(f"{path} is not a regular file") from None
        finally:
            os.close(folder)
        try:
            facts = os.fstat(fd)
            if not stat.S_ISREG(facts.st_mode):
                raise ValueError(f"{path} is not a regular file")
            if facts.st_size > self._transfer:
                raise ValueError(f"{path} is larger than {self._transfer} bytes")
            return os.pread(fd, size, offset), facts.st_size
        finally:
            os.close(fd)

    def ls(self) -> list[dict[str, Any]]:
        """The regular files, sorted by path."""
        return [{"path": path, "size": stamp[1]} for path, stamp in sorted(self._scan().items())]

    def note(self, path: str) -> None:
        """Take a file that the host wrote as seen, so that no cell is said to have made it."""
        relative = "/".join(split_path(path))
        try:
            facts = os.lstat(os.path.join(self.root, relative))
        except OSError:
            return
        self._seen[relative] = (facts.st_mtime_ns, facts.st_size, facts.st_ino)

    def changes(self) -> dict[str, list[Any]]:
        """What happened to the files since the last call, as a `Files` record."""
        before, now = self._seen, self._scan()
        self._seen = now

        def listed(paths: list[str]) -> list[dict[str, Any]]:
            return [{"path": path, "size": now[path][1]} for path in sorted(paths)]

        return {
            "created": listed([path for path in now if path not in before]),
            "changed": listed([path for path in now if path in before and now[path] != before[path]]),
            "deleted": sorted(path for path in before if path not in now),
        }

    def _folder(self, parts: list[str], make: bool) -> tuple[int, str]:
        """Open the folder of a path; the caller closes it."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for part in parts[:-1]:
            try:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o755, dir_fd=fd)
                below = os.open(part, flags, dir_fd=fd)
            except FileNotFoundError:
                os.close(fd)
                raise
            except OSError:
                os.close(fd)
                raise ValueError(f"{part} is not a folder") from None
            os.close(fd)
            fd = below
        return fd, parts[-1]

    def _scan(self) -> dict[str, Stamp]:
        found: dict[str, Stamp] = {}
        self._scan_folder(self.root, "", 0, found)
        return found

    def _scan_folder(self, folder: str, prefix: str, depth: int, found: dict[str, Stamp]) -> None:
        try:
            entries = list(os.scandir(folder))
        except OSError:
            return
        for entry in entries:
            if len(found) >= MAX_LISTED:
                return
            name = prefix + entry.name
            if name == OWN or entry.name in ("__pycache__",):
                continue
            facts = _facts(entry)
            if facts is None:
                continue
            if stat.S_ISDIR(facts.st_mode) and depth < MAX_DEPTH:
                self._scan_folder(entry.path, name + "/", depth + 1, found)
            elif stat.S_ISREG(facts.st_mode) and _printable(name):
                found[name] = (facts.st_mtime_ns, facts.st_size, facts.st_ino)


def _facts(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:
        return None


def _printable(name: str) -> bool:
    """A name that is not valid UTF-8 cannot be told to the host; it stays in the box."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
