"""Checkpoints in Postgres. Needs the extra `postgres`: `open_checkpoints` imports it on demand."""

import asyncio
import re
import time
import weakref
from collections import Counter
from contextlib import AbstractContextManager
from typing import Any, LiteralString

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row
from psycopg_pool import ConnectionPool

from actloop.errors import InputError

from .checkpoints import strict_serializer
from .leases import Holder, digest, holding
from .threaded import Threaded
from .versions import ShortVersions

CONNECT_S = 5
"""Seconds that a server may take to answer."""
SETUP_S = 60.0
"""Seconds that another process may take to lay out the tables."""


class PostgresCheckpoints(ShortVersions, Threaded, PostgresSaver):
    """`PostgresSaver` on a small pool, with its asynchronous half, its tables, and a lock on each thread that runs.

    Args:
        url: `postgresql://user:password@host:port/database`. The user needs the right to make tables once. Behind a
            proxy, sessions must be its unit: the locks belong to a session.

    Raises:
        InputError: the database cannot be used. The message never holds the password.
    """

    def __init__(self, url: str) -> None:
        self._place = _Place(url)
        # A pool tries again and again in the background; one plain connection says what is wrong.
        with self._place.connect() as probe:
            try:
                _lay_out(probe)
            except psycopg.Error as error:
                raise self._place.refusal(error) from None
        pool: ConnectionPool[psycopg.Connection[DictRow]] = ConnectionPool(
            url,
            min_size=1,
            # The saver uses one connection at a time; the other takes over from one that broke.
            max_size=2,
            timeout=30,
            check=ConnectionPool.check_connection,
            kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
            name="actloop checkpoints",
            open=True,
        )
        super().__init__(pool, serde=strict_serializer())
        # A graph has no end that its users would know of: the pool is closed when nobody holds the graph any more.
        self._closing = weakref.finalize(self, pool.close)

    def hold(self, thread: str, part: str = "") -> AbstractContextManager[None]:
        """Hold a thread against other processes for one run, by one more connection; see `SqliteCheckpoints.hold`."""
        return holding(_AdvisoryLease(self._place, f"{thread}\0{part}"), thread)

    def sizes(self) -> dict[str, int]:
        """Bytes that the values of each thread take on disk, compressed as they are, by its id."""
        total: Counter[str] = Counter()
        with self._cursor() as cursor:
            # The size of a value is known from its row: the values themselves are not read.
            for query in (
                "SELECT thread_id, sum(pg_column_size(checkpoint) + pg_column_size(metadata)) AS size "
                "FROM checkpoints GROUP BY thread_id",
                "SELECT thread_id, sum(pg_column_size(blob)) AS size FROM checkpoint_blobs GROUP BY thread_id",
                "SELECT thread_id, sum(pg_column_size(blob)) AS size FROM checkpoint_writes GROUP BY thread_id",
            ):
                for row in cursor.execute(query).fetchall():
                    total[row["thread_id"]] += int(row["size"] or 0)
        return dict(total)

    async def aprune(self, thread_ids: Any, *, strategy: str = "keep_latest") -> None:
        """`prune` in a thread."""
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)

    def close(self) -> None:
        """Close the pool; safe to repeat."""
        self._closing()


class _Place:
    """A database, and what may be said of it."""

    def __init__(self, url: str) -> None:
        try:
            parts = conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            raise self._unreadable() from None
        shown = {name: str(parts.get(name) or "") for name in ("user", "host", "port", "dbname")}
        if not re.fullmatch(r"[\d,]*", shown["port"]) or "@" in shown["host"] + shown["dbname"]:
            # A password with an `@` or a `/` of its own was cut in two: none of the parts may be shown.
            raise self._unreadable()
        self._url = url
        self._name = f"{shown['dbname'] or shown['user']} at {shown['host'] or 'localhost'}:{shown['port'] or 5432}"

    def connect(self) -> psycopg.Connection[DictRow]:
        """A connection of its own.

        Raises:
            InputError: there is none.
        """
        try:
            return psycopg.connect(self._url, autocommit=True, connect_timeout=CONNECT_S, row_factory=dict_row)
        except psycopg.Error as error:
            raise self.refusal(error) from None

    def refusal(self, error: psycopg.Error) -> InputError:
        """What is wrong, and what to do."""
        said = str(error)
        for pattern, sentence in _REASONS:
            if re.search(pattern, said):
                return InputError(f"Checkpoints cannot be kept in the database {self._name}: {sentence}.")
        # Only what the server itself says: the client's words may quote the URL.
        words = re.search(r"(?:FATAL|ERROR):\s*(.+)", said)
        what = words[1] if words else error.diag.message_primary or type(error).__name__
        return InputError(
            f"Checkpoints cannot be kept in the database {self._name}: {what}. Mend that, or give another."
        )

    @staticmethod
    def _unreadable() -> InputError:
        return InputError(
            "The URL of the database for checkpoints cannot be read: write "
            "postgresql://user:password@host:port/database, with %40 for an @ and %2F for a / in the password."
        )


_REASONS = (
    (r"password authentication failed|no password supplied", "user or password is wrong; correct them in the URL"),
    (r'database ".*" does not exist', "there is no such database; make it with createdb, or correct the URL"),
    (r'role ".*" does not exist', "there is no such user; correct the URL"),
    (r"permission denied", "the user may not make or use the tables; grant CREATE on the schema, or take another user"),
    (
        r"refused|timeout|timed out|could not translate|resolve|No such file|unreachable|closed the connection",
        "no server answers there; start it, or correct host and port in the URL",
    ),
)
"""What libpq or the server says, and what to tell."""


def _lay_out(connection: psycopg.Connection[DictRow]) -> None:
    """Make the saver's tables, or bring them up to date; one process at a time.

    The lock is tried and not waited for: an index that is made beside running queries waits for every query before it,
    so also for one that waits for the lock.
    """
    key = _key("tables of checkpoints")
    deadline = time.monotonic() + SETUP_S
    # Where nothing is to be done, no right to make tables is needed.
    while _version(connection) < len(PostgresSaver.MIGRATIONS) - 1:
        if _try_lock(connection, key):
            try:
                PostgresSaver(connection).setup()
            finally:
                connection.execute("SELECT pg_advisory_unlock(%s::bigint)", (key,))
        elif time.monotonic() > deadline:
            raise InputError(
                f"Another process has been making the tables of checkpoints for {SETUP_S:g} s; end it and try again."
            )
        else:
            time.sleep(0.1)


def _version(connection: psycopg.Connection[DictRow]) -> int:
    """Number of the saver's last migration that the database has seen; -1 where none."""
    if _value(connection, "SELECT to_regclass('checkpoint_migrations') IS NULL"):
        return -1
    return int(_value(connection, "SELECT coalesce(max(v), -1) FROM checkpoint_migrations"))


def _try_lock(connection: psycopg.Connection[DictRow], key: int) -> bool:
    return bool(_value(connection, "SELECT pg_try_advisory_lock(%s::bigint)", key))


def _value(connection: psycopg.Connection[DictRow], query: LiteralString, *parameters: Any) -> Any:
    """The one value that a query gives."""
    row = connection.execute(query, parameters).fetchone()
    return None if row is None else next(iter(row.values()))


def _key(name: str) -> int:
    """A name as the number of an advisory lock."""
    return int.from_bytes(digest(f"actloop\0{name}")[:8], "big", signed=True)


class _AdvisoryLease:
    """An advisory lock on a connection of its own, which the server closes when our end of it is gone.

    Args:
        place: the database.
        name: of the part of the thread, any text.
    """

    def __init__(self, place: _Place, name: str) -> None:
        self._place = place
        self._key = _key(name)
        self._connection: psycopg.Connection[DictRow] | None = None

    def take(self) -> bool:
        """See `Lease`."""
        if self._connection is None:
            self._connection = self._place.connect()
        try:
            self._connection.execute(_INTRODUCE, (_introduced(Holder.myself()),))
            return _try_lock(self._connection, self._key)
        except psycopg.Error as error:
            raise self._place.refusal(error) from None

    def holder(self) -> Holder | None:
        """See `Lease`."""
        if self._connection is None:
            return None
        halves = (self._key >> 32 & 0xFFFFFFFF, self._key & 0xFFFFFFFF)
        try:
            name = _value(self._connection, _WHO, *halves)
        except psycopg.Error as error:
            raise self._place.refusal(error) from None
        parts = re.fullmatch(r"actloop (\d+) (\d+) (.*)", name or "")
        return None if parts is None else Holder(int(parts[1]), parts[3], int(parts[2]))

    def free(self) -> None:
        """See `Lease`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _introduced(holder: Holder) -> str:
    """A holder as the name of its connection; the host stands last, since Postgres cuts names to 63 bytes."""
    return f"actloop {holder.pid} {holder.since} {holder.host}"


_INTRODUCE = """
    SELECT set_config('application_name', %s, false), set_config('tcp_keepalives_idle', '15', false),
        set_config('tcp_keepalives_interval', '5', false), set_config('tcp_keepalives_count', '3', false),
        (SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout')
"""
"""Beside the name: a host that vanished without a word is noticed within half a minute, and a run may take its time."""
_WHO = """
    SELECT activity.application_name
    FROM pg_locks AS locks JOIN pg_stat_activity AS activity USING (pid)
    WHERE locks.locktype = 'advisory' AND locks.granted AND locks.objsubid = 1
        AND locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND locks.classid = %s::bigint::oid AND locks.objid = %s::bigint::oid
"""
