"""Checkpoints: in a SQLite file, or wherever a URL says."""

import sqlite3
import weakref
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from actloop.config import Settings
from actloop.errors import ConfigError, InputError

from .leases import FileLease, holding
from .threaded import Threaded
from .versions import ShortVersions

if TYPE_CHECKING:
    from .postgres import PostgresCheckpoints

_FORMS = "a path, sqlite:///path (with a fourth slash where the path is absolute), or postgresql://user@host/database"


def open_checkpoints(where: str | Path | None, settings: Settings) -> "SqliteCheckpoints | PostgresCheckpoints":
    """Open the place where threads are kept.

    Args:
        where: path of a SQLite file, or a URL: `sqlite:///relative`, `sqlite:////absolute`, `postgresql://…`. None
            takes what the settings say, and where they say nothing the file `checkpoints.sqlite` in the data folder.
        settings: what the environment says.

    Raises:
        ConfigError: the URL is of no kind that is known, or the extra `postgres` is not installed.
        InputError: the file or the database cannot be used.
    """
    where = where or settings.checkpoints or settings.data_dir / "checkpoints.sqlite"
    scheme, found, rest = str(where).partition("://")
    if isinstance(where, Path) or not found:
        return SqliteCheckpoints(Path(where).expanduser())
    match scheme.lower():
        case "sqlite" if rest.startswith("/") and len(rest) > 1:
            return SqliteCheckpoints(Path(rest[1:]))
        case "postgresql" | "postgres":
            return _postgres(str(where))
    # The rest of the URL may hold a password.
    raise ConfigError(f"Checkpoints cannot be kept at {scheme}://…: give {_FORMS}.")


def _postgres(url: str) -> "PostgresCheckpoints":
    try:
        from .postgres import PostgresCheckpoints
    except ImportError as error:
        raise ConfigError(
            f"Checkpoints in Postgres need the package {error.name}: run pip install 'actloop[postgres]'."
        ) from error
    return PostgresCheckpoints(url)


def strict_serializer() -> JsonPlusSerializer:
    """Loads plain data and LangChain messages, and no other class: a stored name never leads to an import."""
    return JsonPlusSerializer(allowed_msgpack_modules=())


class SqliteCheckpoints(ShortVersions, Threaded, SqliteSaver):
    """`SqliteSaver` with its asynchronous half, and a lock on each thread that runs.

    Args:
        path: of the database file, made with its folder where it is missing.

    Raises:
        InputError: the file cannot be made or opened.
    """

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(path, check_same_thread=False, timeout=30)
            super().__init__(connection, serde=strict_serializer())
            # A graph has no end that its users would know of: the file is closed when nobody holds the graph any more.
            self._closing = weakref.finalize(self, connection.close)
            # Rows of checkpoints fill half of a page of the usual size, or a little more. Only a new file takes this.
            connection.execute("PRAGMA page_size=8192")
            # A commit then waits for the operating system and not for the disk; what a power cut may cost is the last
            # step, and a step that is repeated does not run its cell again.
            connection.execute("PRAGMA synchronous=NORMAL")
            # This turns on WAL, in which a reader does not wait for a writer.
            self.setup()
        except (OSError, sqlite3.Error) as error:
            raise InputError(
                f"Checkpoints cannot be kept in {path}: {error}. Set ACTLOOP_CHECKPOINTS to a file that can be "
                "written, or ACTLOOP_DATA_DIR to such a folder."
            ) from error
        # Other processes may reach the same file by another path.
        self._locks = Path(f"{path.resolve()}.locks")

    def hold(self, thread: str, part: str = "") -> AbstractContextManager[None]:
        """Hold a thread against other processes for one run; freed where this process is killed.

        Args:
            thread: whose.
            part: of it; a graph within a graph has its own.

        Raises:
            SessionBusy: another run holds it; the message names its process.
        """
        return holding(FileLease(self._locks, f"{thread}\0{part}"), thread)

    def sizes(self) -> dict[str, int]:
        """Bytes of the values that each thread has stored, by its id."""
        total: Counter[str] = Counter()
        with self.cursor(transaction=False) as cursor:
            # The length of a value stands in the head of its row: the values themselves are not read.
            for query in (
                "SELECT thread_id, SUM(LENGTH(checkpoint) + LENGTH(metadata)) FROM checkpoints GROUP BY thread_id",
                "SELECT thread_id, SUM(LENGTH(value)) FROM writes GROUP BY thread_id",
            ):
                for thread, size in cursor.execute(query).fetchall():
                    total[thread] += size or 0
        return dict(total)

    def close(self) -> None:
        """Close the database; safe to repeat."""
        self._closing()
