"""Opening a session by the name of a backend."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Literal, TypeAlias

from actloop.config import DEFAULT_IMAGE, Limits
from actloop.errors import ConfigError

from .docker import open_docker_session
from .engine import connect, translate_errors
from .image import image_facts
from .session import BoxSession

Backend: TypeAlias = Literal["auto", "docker"]
BACKENDS: tuple[Backend, ...] = ("auto", "docker")


def open_session(
    backend: str = "auto", *, limits: Limits | None = None, image: str = DEFAULT_IMAGE, thread: str | None = None
) -> BoxSession:
    """Start a box with an interpreter; use the result as a context manager, or close it.

    Args:
        backend: `docker`, or `auto` for the best there is. Code never runs outside a box.
        limits: of the box; `Limits()` if not given.
        image: image of the box.
        thread: thread that owns the box.

    Raises:
        ConfigError: there is no such backend.
        SandboxUnavailable, ImageMissing: the backend cannot start a box now.
    """
    if backend not in BACKENDS:
        raise ConfigError(f"There is no sandbox {backend!r}; choose one of {', '.join(BACKENDS)}.")
    return open_docker_session(limits or Limits(), image, thread)


def aopen_session(
    backend: str = "auto", *, limits: Limits | None = None, image: str = DEFAULT_IMAGE, thread: str | None = None
) -> AbstractAsyncContextManager[BoxSession]:
    """Start a box for async callers; use the result with `async with`. See the twin without an `a`."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[BoxSession]:
        session = await asyncio.to_thread(open_session, backend, limits=limits, image=image, thread=thread)
        try:
            yield session
        finally:
            await session.aclose()

    return opened()


def session_facts(image: str = DEFAULT_IMAGE) -> tuple[str, str]:
    """Python version, and installed packages in one line, of boxes made from an image."""
    with translate_errors():
        client = connect()
        try:
            facts = image_facts(client, image)
        finally:
            client.close()
    return facts.python or "3", ", ".join(facts.packages) or "nothing"
