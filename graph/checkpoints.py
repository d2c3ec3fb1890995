"""Checkpoints in a SQLite file, for synchronous and asynchronous callers alike."""

import asyncio
import sqlite3
import weakref
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from actloop.errors import InputError


def strict_serializer() -> JsonPlusSerializer:
    """Loads plain data and LangChain messages, and no other class: a stored name never leads to an import."""
    return JsonPlusSerializer(allowed_msgpack_modules=())


class SqliteCheckpoints(SqliteSaver):
    """`SqliteSaver`, with the asynchronous half that it leaves out, run in a thread.

    Args:
        path: of the database file, made with its folder where it is missing.

    Raises:
        InputError: the file cannot be made or opened.
    """

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(path, check_same_thread=False, timeout=30)
            # A commit then waits for the operating system and not for the disk; what a power cut may cost is the last
            # step, and a step that is repeated does not run its cell again.
            connection.execute("PRAGMA synchronous=NORMAL")
        except (OSError, sqlite3.Error) as error:
            raise InputError(
                f"Checkpoints cannot be kept in {path}: {error}. Set ACTLOOP_DATA_DIR to a folder that can be written."
            ) from error
        super().__init__(connection, serde=strict_serializer())
        # A graph has no end that its users would know of: the file is closed when nobody holds the graph any more.
        self._closing = weakref.finalize(self, connection.close)
        self.setup()

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """`get_tuple` in a thread."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """`list` in a thread."""

        def read() -> list[CheckpointTuple]:
            found: Iterator[CheckpointTuple] = self.list(config, filter=filter, before=before, limit=limit)
            return list(found)

        for item in await asyncio.to_thread(read):
            yield item

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """`put` in a thread."""
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """`put_writes` in a thread."""
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """`delete_thread` in a thread."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    def close(self) -> None:
        """Close the database; safe to repeat."""
        self._closing()
