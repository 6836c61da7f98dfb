"""A user's memory as an MCP server: three tools, remember, recall and forget."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from ...data.errors import MnemotuneError
from ..lm.base import Message
from .background import Background
from .extras import needing
from .store import UserMemory

if TYPE_CHECKING:
    from mcp.server import MCPServer

INSTRUCTIONS = (
    "A memory of what the user has said, which lasts from one conversation to the next. Call recall before you answer"
    " what may depend on it, and remember whenever the user tells something about themselves or their work."
)


def mcp_server(memory: UserMemory, *, context_tokens: int | None = None) -> MCPServer:
    """Return a server on one user's memory; run it with ``run_stdio_async``.

    What is remembered is in the store before anything is written, and waits there where the model does not answer. What
    is recalled takes at most ``context_tokens``. Raises MissingExtra when the package mcp is not installed.
    """
    with needing("mcp"):
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp_types import ToolAnnotations

    writes = Background(memory.store)
    server: MCPServer = MCPServer("mnemotune", instructions=INSTRUCTIONS)

    @asynccontextmanager
    async def explained() -> AsyncIterator[None]:
        try:
            yield
        except (MnemotuneError, ValueError) as error:
            raise ToolError(str(error)) from error

    @server.tool(annotations=ToolAnnotations(destructive_hint=False, open_world_hint=False))
    async def remember(text: Annotated[str, Field(min_length=1, description="What the user said.")]) -> str:
        """Remember something that the user said, in their words."""
        async with explained():
            memory.queue([Message("user", text)])
        writes.begin(memory.user)
        await writes.done()
        return "remembered"

    @server.tool(annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
    async def recall(query: Annotated[str, Field(description="What it is to be about.")]) -> list[str]:
        """Return what is remembered about something, one text each; the newest messages of the user are among it."""
        async with explained():
            context = await memory.context(query, tokens=context_tokens)
        return [*(item.text for item in context.items), *(message.text for message in context.messages)]

    @server.tool(annotations=ToolAnnotations(destructive_hint=True, idempotent_hint=True, open_world_hint=False))
    async def forget(
        text: Annotated[str, Field(description="The fact, in the words of what recall returned.")],
    ) -> list[str]:
        """Forget a fact for good: every memory that has all words of it which carry meaning. Return what is gone."""
        async with explained():
            return await memory.forget_fact(text)

    return server
