"""Where threads are kept: what names a store, what is said where it cannot be used, and that both kinds do the same."""

import asyncio
import gc
import sqlite3
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg
import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint

from actloop import create_agent
from actloop.config import Settings
from actloop.errors import ConfigError, InputError
from actloop.graph.checkpoints import SqliteCheckpoints, open_checkpoints
from actloop.graph.postgres import PostgresCheckpoints
from actloop.testing import ScriptedModel

if TYPE_CHECKING:
    from tests.graph.conftest import Make, Saver

KEY: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


def put(saver: "Saver", config: RunnableConfig = KEY) -> str:
    """Store an empty checkpoint, and give its id."""
    checkpoint = empty_checkpoint()
    saver.put(config, checkpoint, {"source": "input", "step": -1, "parents": {}}, {})
    return checkpoint["id"]


# -- what names a store -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["path", "text", "url", "setting", "file URL in the setting"])
def test_a_sqlite_file_is_named_by_a_path_or_a_url(tmp_path: Path, form: str) -> None:
    path = tmp_path / "new folder" / "threads.sqlite"
    settings = Settings()
    where: str | Path | None = None
    match form:
        case "path":
            where = path
        case "text":
            where = str(path)
        case "url":
            where = f"sqlite:///{path}"
        case "setting":
            settings = Settings(checkpoints=str(path))
        case _:
            settings = Settings(checkpoints=f"sqlite:///{path}")
    saver = open_checkpoints(where, settings)
    assert isinstance(saver, SqliteCheckpoints)
    put(saver)
    saver.close()
    assert path.is_file()


def test_a_url_with_three_slashes_is_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_checkpoints("sqlite:///here.sqlite", Settings()).close()
    assert (tmp_path / "here.sqlite").is_file()


def test_without_a_word_threads_are_kept_in_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACTLOOP_CHECKPOINTS", "")
    open_checkpoints(None, Settings(data_dir=tmp_path)).close()
    assert (tmp_path / "checkpoints.sqlite").is_file()


def test_the_environment_names_the_store_of_an_agent(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACTLOOP_CHECKPOINTS", postgres_url)
    agent = create_agent(ScriptedModel([]))
    assert isinstance(agent.checkpointer, PostgresCheckpoints)
    agent.checkpointer.close()


def test_an_agent_takes_a_url(postgres_url: str, tmp_path: Path) -> None:
    first = create_agent(ScriptedModel([]), checkpointer=postgres_url).checkpointer
    second = create_agent(ScriptedModel([]), checkpointer=tmp_path / "x.sqlite").checkpointer
    assert isinstance(first, PostgresCheckpoints)
    assert isinstance(second, SqliteCheckpoints)
    first.close()
    second.close()


@pytest.mark.parametrize("url", ["mysql://me:hunter2@host/db", "sqlite://host", "sqlite:///", "://hunter2"])
def test_a_url_of_no_known_kind_is_refused_with_those_that_are(url: str) -> None:
    with pytest.raises(ConfigError, match=r"sqlite:///path.*postgresql://user@host/database") as caught:
        open_checkpoints(url, Settings())
    assert "hunter2" not in str(caught.value)


# -- stores that cannot be used -----------------------------------------------------------------------------------


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.sqlite").write_text("This is a letter and no database." * 100)
    for path in (tmp_path, tmp_path / "text.sqlite", tmp_path / "text.sqlite" / "below"):
        with pytest.raises(InputError, match=r"cannot be kept in .* Set ACTLOOP_CHECKPOINTS"):
            SqliteCheckpoints(path)


def changed(url: str, **parts: Any) -> str:
    """A URL with other parts: `user`, `password`, `port`, `database`."""
    old = urlsplit(url)
    user, password = parts.get("user", old.username), parts.get("password", old.password)
    return f"postgresql://{user}:{password}@{old.hostname}:{parts.get('port', old.port)}/{parts.get('database', 'x')}"


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"password": "hunter2"}, "user or password is wrong; correct them in the URL"),
        ({"user": "nobody-here", "password": "hunter2"}, "user or password is wrong; correct them in the URL"),
        ({"database": "not-made"}, "no such database; make it with createdb"),
        ({"port": 1}, "no server answers there; start it, or correct host and port"),
    ],
    ids=str,
)
def test_a_database_that_cannot_be_used_is_named_with_what_to_do(
    postgres_url: str, parts: dict[str, Any], told: str
) -> None:
    url = changed(postgres_url, **parts)
    with pytest.raises(InputError, match=told) as caught:
        open_checkpoints(url, Settings())
    shown = "".join(traceback.format_exception(caught.value))
    password = urlsplit(url).password
    assert password is not None
    assert password not in shown
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hunt@er2@127.0.0.1/db",
        "postgresql://me:hunt/er2@127.0.0.1/db",
        "postgresql://me:123/er2@127.0.0.1/db",
        "postgresql://me:hunter%@127.0.0.1/db",
        "postgresql://me:hunter2@127.0.0.1/db?nonsense=er2",
        "postgresql://me:hunter2@127.0.0.1:port-er2/db",
    ],
)
def test_a_url_with_a_raw_password_in_it_is_refused_without_a_piece_of_it(url: str) -> None:
    with pytest.raises(InputError, match="%40 for an @") as caught:
        open_checkpoints(url, Settings())
    assert "er2" not in str(caught.value)
    assert "hunt" not in str(caught.value)
    assert "123" not in str(caught.value)


def test_a_user_without_rights_is_told_so_until_the_tables_are_there(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS plain")
        connection.execute("CREATE ROLE plain LOGIN PASSWORD 'hunter2'")
    plain = changed(postgres_url, user="plain", password="hunter2", database=urlsplit(postgres_url).path[1:])
    with pytest.raises(InputError, match="grant CREATE on the schema"):
        open_checkpoints(plain, Settings())
    open_checkpoints(postgres_url, Settings()).close()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO plain")
    saver = open_checkpoints(plain, Settings())
    assert put(saver)
    saver.close()


def test_without_the_extra_the_error_names_it(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "sys.modules['psycopg'] = None\n"
        "from actloop.config import Settings\n"
        "from actloop.graph.checkpoints import open_checkpoints\n"
        "open_checkpoints('postgresql://me@127.0.0.1/db', Settings())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert "actloop.errors.ConfigError" in done.stderr
    assert "pip install 'actloop[postgres]'" in done.stderr


# -- what both do -------------------------------------------------------------------------------------------------


def test_one_saver_serves_both_kinds_of_callers(saver: "Saver") -> None:
    first = put(saver)

    async def use() -> list[str]:
        checkpoint = empty_checkpoint()
        config: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": first}}
        after = await saver.aput(config, checkpoint, {"source": "loop", "step": 0, "parents": {}}, {})
        await saver.aput_writes(after, [("messages", ["m"])], "task")
        found = await saver.aget_tuple(after)
        assert found is not None
        assert found.parent_config == config
        assert [(name, value) for _, name, value in found.pending_writes or []] == [("messages", ["m"])]
        listed = [item.checkpoint["id"] async for item in saver.alist(KEY)]
        history = await saver.aget_delta_channel_history(config=after, channels=["messages"])
        assert list(history) == ["messages"]
        return listed

    listed = asyncio.run(use())
    assert listed == [item.checkpoint["id"] for item in saver.list(KEY)]
    assert listed[1] == first
    asyncio.run(saver.adelete_thread("t"))
    assert saver.get_tuple(KEY) is None


def test_many_threads_use_one_saver_at_once(saver: "Saver") -> None:
    def work(number: int) -> None:
        config: RunnableConfig = {"configurable": {"thread_id": f"t{number}", "checkpoint_ns": ""}}
        for _ in range(10):
            put(saver, config)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(list(saver.list(None))) == 80


def test_many_processes_lay_out_the_tables_at_once(postgres_url: str) -> None:
    code = (
        "import sys\n"
        "from actloop.graph.postgres import PostgresCheckpoints\n"
        "saver = PostgresCheckpoints(sys.argv[1])\n"
        "print(len(list(saver.list(None))))\n"
        "saver.close()\n"
    )
    command = [sys.executable, "-W", "error", "-c", code, postgres_url]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    ends = [child.communicate(timeout=90) for child in children]
    assert [out.strip() for out, _ in ends] == ["0"] * 3, ends


def test_a_broken_connection_is_replaced(postgres_url: str) -> None:
    saver = PostgresCheckpoints(postgres_url)
    put(saver)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            "AND datname = current_database()"
        )
    put(saver)
    assert len(list(saver.list(KEY))) == 2
    saver.close()


def test_nothing_stays_open_when_nobody_holds_the_saver_any_more(postgres_url: str, tmp_path: Path) -> None:
    server, file = PostgresCheckpoints(postgres_url), SqliteCheckpoints(tmp_path / "x.sqlite")
    put(server)
    put(file)
    connection = file.conn
    del server, file
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
    assert connections(postgres_url) == 0


def connections(url: str) -> int:
    """How many others are connected to the database; one that is about to end is waited for."""
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(100):
            others = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            ).fetchall()
            if not others:
                break
            threading.Event().wait(0.05)
        return len(others)


def test_sqlite_writes_ahead_and_waits_for_the_system_only(tmp_path: Path) -> None:
    saver = SqliteCheckpoints(tmp_path / "x.sqlite")
    assert saver.conn.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert saver.conn.execute("PRAGMA synchronous").fetchone() == (1,)
    saver.close()


# -- runs ---------------------------------------------------------------------------------------------------------


def test_a_thread_goes_on_where_another_agent_left_it(make: "Make", thread: RunnableConfig, saver: "Saver") -> None:
    replies = ["```python\nx = 41\nprint('first', x)\n```", "FINAL ANSWER: 41", "QUESTION: Which one?"]
    first = make(replies, checkpointer=saver).invoke({"task": "Compute it."}, thread)
    agent = make(replies, checkpointer=saver)
    out = asyncio.run(agent.ainvoke({"task": "And now?"}, thread))
    assert (first["answer"], out["answer"]) == ("41", "Which one?")
    assert out["messages"][: len(first["messages"])] == first["messages"]
    assert agent.get_state(thread).values["messages"] == out["messages"]
