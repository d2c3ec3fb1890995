"""Tools of MCP servers, which need the extra `mcp`."""

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

from langchain_core.tools import BaseTool

from actloop.errors import ConfigError

START_S = 60.0
"""Seconds that the servers have to name their tools."""


def mcp_tools(servers: Mapping[str, Mapping[str, Any]]) -> list[BaseTool]:
    """The tools of MCP servers; each call opens a connection of its own.

    Args:
        servers: by name, each as `MultiServerMCPClient` of langchain-mcp-adapters takes it:
            `{"transport": "stdio", "command": "python", "args": ["server.py"]}`.

    Raises:
        ConfigError: the extra is not installed, a setting cannot be used, or a server does not answer.
    """
    if not servers:
        return []
    try:
        from langchain_mcp_adapters.client import MultiServerMCPClient
    except ImportError:
        raise ConfigError(
            "MCP servers need a package that is not installed; run: pip install 'actloop[mcp]'."
        ) from None
    connections: Any = {name: dict(server) for name, server in servers.items()}
    client = MultiServerMCPClient(connections)

    async def ask() -> list[BaseTool]:
        return await asyncio.wait_for(client.get_tools(), START_S)

    # In a thread of its own: where an agent is made, an event loop may run already.
    found: list[list[BaseTool]] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            found.append(asyncio.run(ask()))
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="actloop mcp")
    thread.start()
    thread.join()
    if failed:
        names = ", ".join(servers)
        raise ConfigError(f"The MCP servers ({names}) gave no tools: {_first(failed[0])}. Check how they are started.")
    return found[0]


def _first(error: BaseException) -> str:
    """What went wrong, where it comes as a group of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}".rstrip(". ")
