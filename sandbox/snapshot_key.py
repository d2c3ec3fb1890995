"""The key that signs the snapshots of sessions which belong to no graph."""

import contextlib
import os
import secrets
from pathlib import Path

from actloop.errors import SnapshotError


def local_key(path: Path) -> bytes:
    """Read the key, or make one that only this user can read.

    Raises:
        SnapshotError: the file cannot be read or made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            temporary = path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with os.fdopen(fd, "w") as file:
                    file.write(secrets.token_hex(32))
                # A link fails where another process was first, whose key then holds.
                os.link(temporary, path)
            finally:
                os.unlink(temporary)
        return bytes.fromhex(path.read_text("ascii"))
    except (OSError, ValueError) as error:
        raise SnapshotError(
            f"The key of the snapshots cannot be kept in {path}: {error}. Set ACTLOOP_DATA_DIR to a folder that can be "
            "written."
        ) from error
