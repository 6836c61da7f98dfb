"""A memory over MCP: the real command, spoken to by the official client."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client


def server(store: Path, *arguments: str) -> StdioServerParameters:
    given = ["mcp", "--policy", "awi", "--model", "embedded", "--store", str(store), *arguments]
    return StdioServerParameters(command=sys.executable, args=["-m", "mnemotune", *given])


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return (result.structured_content or {})["result"]


async def test_a_memory_is_remembered_recalled_and_forgotten_for_good(tmp_path: Path) -> None:
    store = tmp_path / "m.db"
    async with Client(stdio_client(server(store, "--user", "ann"))) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {*tools} == {"remember", "recall", "forget"}
        assert tools["recall"].annotations is not None
        assert tools["recall"].annotations.read_only_hint
        for fact in ("I own a small boat.", "I work night shifts at the hospital."):
            assert await call(client, "remember", text=fact) == "remembered"
        refused = await client.call_tool("forget", {"text": " "})
        assert refused.is_error
        assert "the fact to forget is empty" in str(refused.content)
    async with Client(stdio_client(server(store, "--user", "ann"))) as client:
        assert "I own a small boat." in await call(client, "recall", query="Do I own a boat?")
        assert await call(client, "forget", text="small boat") == ["I own a small boat."]
        assert await call(client, "recall", query="Do I own a boat?") == ["I work night shifts at the hospital."]
    left = b"".join(file.read_bytes() for file in tmp_path.iterdir())  # noqa: ASYNC240
    assert b"small boat" not in left
