"""Files that runs made, kept on the host by their content."""

import hashlib
import os
import re
import tempfile
from pathlib import Path

from actloop.errors import InputError
from actloop.state import Artifact


class ArtifactFolder:
    """A folder of files: `<sha256>/<name>`, so that a path opens with the right program and nothing is kept twice.

    Args:
        root: the folder, made when the first file comes.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def keep(self, name: str, data: bytes, media_type: str, turn: int) -> Artifact:
        """Store a file.

        Args:
            name: path in the workspace, or name of a display; only its last part, cleaned, names the file.
            data: content.
            media_type: `image/png`, ...
            turn: in which it was made.

        Raises:
            InputError: the folder cannot be written.
        """
        digest = hashlib.sha256(data).hexdigest()
        path = self._root / digest[:32] / _safe(name)
        if not path.exists():
            try:
                _write(path, data)
            except OSError as error:
                raise InputError(
                    f"The file {name} cannot be kept in {self._root}: {error.strerror}. Set ACTLOOP_DATA_DIR to a "
                    "folder that can be written."
                ) from error
        return Artifact(name=name, path=str(path), media_type=media_type, size=len(data), sha256=digest, turn=turn)


def _safe(name: str) -> str:
    """A file name that is harmless on any system."""
    last = re.sub(r"[^\w.,+=@ -]", "_", name.rpartition("/")[2]).strip(". ")
    return last[-120:] or "file"


def _write(path: Path, data: bytes) -> None:
    """Write the whole file or none: another process may be writing the same content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
