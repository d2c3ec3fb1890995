"""Opening a session by the name of a backend."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from actloop.config import DEFAULT_IMAGE, Limits, Settings
from actloop.errors import ConfigError

from .boxes import EngineLookup
from .docker import open_docker_session, remove_docker_box
from .engine import connect, translate_errors
from .image import image_facts
from .order import Order
from .pool import Pool
from .session import BoxSession
from .snapshot_key import local_key
from .snapshots import Snapshots

Backend: TypeAlias = Literal["auto", "docker"]
BACKENDS: tuple[Backend, ...] = ("auto", "docker")


def open_session(
    backend: str = "auto",
    *,
    limits: Limits | None = None,
    image: str = DEFAULT_IMAGE,
    thread: str | None = None,
    snapshots: str | Path | None = None,
    order: Order | None = None,
) -> BoxSession:
    """Start a box with an interpreter; use the result as a context manager, or close it.

    Args:
        backend: `docker`, or `auto` for the best there is. Code never runs outside a box.
        limits: of the box; `Limits()` if not given.
        image: image of the box.
        thread: name for the box's label and for the folder of its snapshots.
        snapshots: folder or URL where `session.snapshot()` keeps; by default a folder of the user's data.
        order: all of that at once, and more, as the graph gives it.

    Raises:
        ConfigError: there is no such backend.
        SandboxUnavailable, ImageMissing: the backend cannot start a box now.
    """
    if backend not in BACKENDS:
        raise ConfigError(f"There is no sandbox {backend!r}; choose one of {', '.join(BACKENDS)}.")
    if order is None:
        order = Order(thread=thread or "", snapshots=lambda: local_snapshots(snapshots, thread or "sessions"))
    return open_docker_session(limits or Limits(), image, order)


def aopen_session(
    backend: str = "auto",
    *,
    limits: Limits | None = None,
    image: str = DEFAULT_IMAGE,
    thread: str | None = None,
    snapshots: str | Path | None = None,
) -> AbstractAsyncContextManager[BoxSession]:
    """Start a box for async callers; use the result with `async with`. See the twin without an `a`."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[BoxSession]:
        session = await asyncio.to_thread(
            open_session, backend, limits=limits, image=image, thread=thread, snapshots=snapshots
        )
        try:
            yield session
        finally:
            await session.aclose()

    return opened()


def open_pool(size: int, backend: str = "auto", *, limits: Limits | None = None, image: str = DEFAULT_IMAGE) -> Pool:
    """Keep boxes started for threads to come; the first ones are started in the background.

    Args:
        size: boxes that wait.
        backend: as for `open_session`.
        limits: of each box.
        image: of each box.
    """
    return Pool(size, lambda order: open_session(backend, limits=limits, image=image, order=order), EngineLookup())


def local_snapshots(where: str | Path | None, name: str) -> Snapshots:
    """The snapshots of sessions outside a graph: signed with a key that this user has, made when first needed.

    Args:
        where: folder or URL; None is what the settings say.
        name: folder of the thread.
    """
    settings = Settings()
    return Snapshots(str(where or settings.snapshot_store), name, local_key(settings.data_dir / "snapshot.key"))


def remove_box(key: str) -> None:
    """Remove the box of a thread, wherever there is one; see `Order.key`."""
    remove_docker_box(key)


def session_facts(image: str = DEFAULT_IMAGE) -> tuple[str, str]:
    """Python version, and installed packages in one line, of boxes made from an image."""
    with translate_errors():
        client = connect()
        try:
            facts = image_facts(client, image)
        finally:
            client.close()
    return facts.python or "3", ", ".join(facts.packages) or "nothing"
