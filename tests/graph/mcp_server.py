"""A small MCP server for tests, on stdin and stdout."""

from mcp.server.fastmcp import FastMCP

server = FastMCP("places")


@server.tool()
def population(city: str, year: int = 2024) -> str:
    """People who live in a city."""
    if city == "Atlantis":
        raise ValueError("there is no such city")
    return f"{city} {year}: 1000"


if __name__ == "__main__":
    server.run()
