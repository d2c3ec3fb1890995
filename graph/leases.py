"""Which process runs a thread: one at a time, or the later one would lose the messages of the earlier.

A lease is something that the operating system takes away from a process that was killed: a lock on a file, a
connection. Nothing has to be cleaned up after a crash, and no clock decides whether a holder is dead.
"""

import asyncio
import contextlib
import errno
import hashlib
import json
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from actloop.errors import SessionBusy

if sys.platform != "win32":
    import fcntl

PATIENCE_S = 3.0
"""Seconds until a run is refused: the connection of a holder that was just killed may take a moment to be noticed."""
_POLL_S = 0.05


class Holder(NamedTuple):
    """A process that runs a thread."""

    pid: int
    host: str
    since: int
    """Seconds since the epoch."""

    @classmethod
    def myself(cls) -> "Holder":
        """This process, from now on."""
        return cls(os.getpid(), socket.gethostname(), int(time.time()))


class Lease(Protocol):
    """The right to run one part of one thread."""

    def take(self) -> bool:
        """Try once, without waiting.

        Returns:
            Whether it is ours now.
        """
        ...

    def holder(self) -> Holder | None:
        """Who has it; None where nobody has it any more, or that cannot be read."""
        ...

    def free(self) -> None:
        """Give it back, if it was ours; safe to repeat."""
        ...


@contextlib.contextmanager
def holding(lease: Lease, thread: str) -> Iterator[None]:
    """Hold a lease.

    Args:
        lease: of the thread.
        thread: what the refusal calls it.

    Raises:
        SessionBusy: another run held it for `PATIENCE_S`.
    """
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not lease.take():
            if time.monotonic() >= deadline:
                raise SessionBusy(_refusal(thread, lease.holder()))
            time.sleep(_POLL_S)
        yield
    finally:
        lease.free()


@contextlib.asynccontextmanager
async def in_thread(context: AbstractContextManager[None]) -> AsyncIterator[None]:
    """Enter a context that may wait, without blocking the event loop."""
    entering = asyncio.ensure_future(asyncio.to_thread(context.__enter__))
    try:
        await asyncio.shield(entering)
    except asyncio.CancelledError:
        # The thread waits on, and nobody else would give back what it still gets.
        entering.add_done_callback(partial(_give_back, context))
        raise
    try:
        yield
    finally:
        context.__exit__(None, None, None)


def _give_back(context: AbstractContextManager[None], entered: "asyncio.Future[None]") -> None:
    if not entered.cancelled() and entered.exception() is None:
        context.__exit__(None, None, None)


def _refusal(thread: str, holder: Holder | None) -> str:
    who = "by another process"
    if holder is not None:
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(holder.since))
        who = f"by process {holder.pid} on {holder.host} since {since}"
    return (
        f"The thread {thread} is run {who}; wait for the end of that run, end that process, or give another thread_id."
    )


class FileLease:
    """A lock on a file, for processes of one machine.

    The file is there while the lease is held, and names its holder. Where the folder cannot be written, or the system
    has no such locks, every process gets the lease.

    Args:
        folder: of the files of one database, made where it is missing.
        name: of the part of the thread, any text.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / f"{digest(name).hex()[:32]}.lock"
        self._file: int | None = None
        self._owner = 0

    def take(self) -> bool:
        """See `Lease`."""
        if sys.platform == "win32":
            return True
        try:
            self._path.parent.mkdir(exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                return True
            raise
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        if not self._is_current(file):
            os.close(file)
            return False
        os.ftruncate(file, 0)
        os.pwrite(file, json.dumps(Holder.myself()._asdict()).encode(), 0)
        self._file, self._owner = file, os.getpid()
        _held.add(file)
        return True

    def holder(self) -> Holder | None:
        """See `Lease`."""
        try:
            return Holder(**json.loads(self._path.read_text()))
        except (OSError, ValueError, TypeError):
            # Removed meanwhile, or its holder has not written it yet.
            return None

    def free(self) -> None:
        """See `Lease`. The file is removed while the lock is held, so that whoever locks it next sees it is gone."""
        file, self._file = self._file, None
        if file is not None and self._owner == os.getpid():
            _held.discard(file)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)
            os.close(file)

    def _is_current(self, file: int) -> bool:
        """Whether the file still has its name: one that its holder removed after we opened it keeps nobody off."""
        try:
            return os.path.samestat(os.fstat(file), os.stat(self._path))
        except FileNotFoundError:
            return False


_held: set[int] = set()
"""Descriptors of the locks of this process."""


def _drop_inherited() -> None:
    """Close them in a forked child: a lock lives as long as any copy of its descriptor, and the child outlives us."""
    for file in _held:
        with contextlib.suppress(OSError):
            os.close(file)
    _held.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_drop_inherited)


def digest(name: str) -> bytes:
    """A name of any length and alphabet as 32 bytes."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
