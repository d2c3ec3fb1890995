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
"""Files listed at most, and kept in a snapshot."""
MAX_LINKS = 1024
"""Symbolic links of a snapshot."""
MAX_DEPTH = 24
"""Parts that a path may have: folders below each other, and the file."""
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


def open_file(root: str, path: str) -> int:
    """Open a regular file of the workspace for reading; the caller closes it.

    Raises:
        ValueError: not a regular file of the workspace.
        FileNotFoundError: there is no such file.
    """
    folder, name = _open_folder(root, split_path(path), make=False)
    try:
        # O_NONBLOCK: opening a FIFO must not wait for its writer.
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError:
        raise ValueError(f"{path} is not a regular file") from None
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ValueError(f"{path} is not a regular file")
    return fd


def stays_inside(path: str, target: str) -> bool:
    """Whether a symbolic link of the workspace points into the workspace, by its text alone."""
    try:
        split_path(path)
        split_path(os.path.normpath(os.path.join(os.path.dirname(path), target)))
    except ValueError:
        return False
    return not target.startswith("/")


def _open_folder(root: str, parts: list[str], make: bool) -> tuple[int, str]:
    """Open the folder of a path, one component after the other; the caller closes it."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
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


class Workspace:
    """Files of one session.

    Args:
        root: its folder.
        transfer: size of one file that may cross, in bytes.
    """

    def __init__(self, root: str, transfer: int) -> None:
        self.root = root
        self.transfer = transfer
        self._seen: dict[str, Stamp] = {}
        self._open: dict[int, tuple[int, int, str, str]] = {}
        self.folders: list[str] = []
        """Folders in which there was nothing when the files were last looked at."""
        self.links: list[tuple[str, str]] = []
        """Symbolic links that were there then, and what they point to."""

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
                self.put(message["n"], str(message["path"]), data, message["first"], message["last"], message)
        except (ValueError, KeyError, TypeError, OSError) as error:
            missing = isinstance(error, FileNotFoundError)
            text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            reply.update(ok=False, error="missing" if missing else "refused", text=text)
        return reply

    def put(
        self, number: int, path: str, data: bytes, first: bool, last: bool, facts: dict[str, Any] | None = None
    ) -> None:
        """Write one part of a file; it appears under its name only when the last part is there.

        Args:
            number: of the transfer.
            path: in the workspace; missing folders are made.
            data: the part.
            first: begin a new file.
            last: finish it.
            facts: `mode` and `mtime_ns` that the file had, where it is restored.

        Raises:
            ValueError: the path leaves the workspace, or the file grows past the limit.
            OSError: the disk is full, or a component of the path is no folder.
        """
        if first:
            folder, name = _open_folder(self.root, split_path(path), make=True)
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
            if os.fstat(fd).st_size > self.transfer:
                raise ValueError(f"the file is larger than {self.transfer} bytes")
            if last:
                if facts is not None and "mtime_ns" in facts:
                    os.fchmod(fd, int(facts["mode"]) & 0o777)
                    os.utime(fd, ns=(int(facts["mtime_ns"]), int(facts["mtime_ns"])))
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
        fd = open_file(self.root, path)
        try:
            whole = os.fstat(fd).st_size
            if whole > self.transfer:
                raise ValueError(f"{path} is larger than {self.transfer} bytes")
            return os.pread(fd, size, offset), whole
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

    def place(self, folders: list[str], links: list[list[str]]) -> None:
        """Make empty folders and symbolic links again, as far as they stay inside and nothing is there yet."""
        for path in folders:
            with contextlib.suppress(OSError, ValueError):
                folder, name = _open_folder(self.root, split_path(path), make=True)
                try:
                    os.mkdir(name, 0o755, dir_fd=folder)
                finally:
                    os.close(folder)
        for path, target in links:
            if not stays_inside(path, target):
                continue
            with contextlib.suppress(OSError, ValueError):
                folder, name = _open_folder(self.root, split_path(path), make=True)
                try:
                    os.symlink(target, name, dir_fd=folder)
                finally:
                    os.close(folder)

    def look(self) -> dict[str, Stamp]:
        """Take everything that is there now as seen."""
        self._seen = self._scan()
        return self.stamps()

    def stamps(self) -> dict[str, Stamp]:
        """The regular files as they were when last looked at, each with what tells whether it has changed."""
        return dict(self._seen)

    def forget(self) -> None:
        """There is nothing in the workspace any more."""
        self._seen = {}
        self.folders, self.links = [], []

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

    def _scan(self) -> dict[str, Stamp]:
        found: dict[str, Stamp] = {}
        self.folders, self.links = [], []
        self._scan_folder(self.root, "", 0, found)
        return found

    def _scan_folder(self, folder: str, prefix: str, depth: int, found: dict[str, Stamp]) -> None:
        try:
            entries = list(os.scandir(folder))
        except OSError:
            return
        if not entries and prefix and _printable(prefix):
            self.folders.append(prefix.rstrip("/"))
        for entry in entries:
            if len(found) >= MAX_LISTED or len(self.folders) + len(self.links) >= MAX_LISTED:
                return
            name = prefix + entry.name
            if name == OWN or entry.name in ("__pycache__",):
                continue
            facts = _facts(entry)
            if facts is None:
                continue
            if stat.S_ISDIR(facts.st_mode) and depth < MAX_DEPTH - 1:
                self._scan_folder(entry.path, name + "/", depth + 1, found)
            elif stat.S_ISREG(facts.st_mode) and _printable(name):
                found[name] = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
            elif stat.S_ISLNK(facts.st_mode) and _printable(name):
                with contextlib.suppress(OSError, UnicodeError):
                    target = os.readlink(entry.path)
                    target.encode("utf-8")
                    self.links.append((name, target))


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
