"""HTTP connections that close when their event loop ends, so that none is left open whoever forgets it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...data.per_loop import PerLoop

if TYPE_CHECKING:
    import aiohttp

MOST_REPLY_BYTES = 32 * 2**20
"""Of a reply when it is unpacked; a larger one is given up, and asked for again as one that is cut."""


@dataclass(slots=True)
class _Held:
    session: aiohttp.ClientSession | None = None
    holder: AsyncIterator[aiohttp.ClientSession] | None = None


class Connections:
    """A session in each event loop that asks for one."""

    def __init__(self, connect: Callable[[], aiohttp.ClientSession]) -> None:
        """Connect to nothing yet."""
        self._connect = connect
        self._per_loop = PerLoop(_Held)

    async def session(self) -> aiohttp.ClientSession:
        """Return the running loop's session."""
        held = self._per_loop.here()
        if held.session is None:
            held.holder = self._holding()
            held.session = await anext(held.holder)
        return held.session

    async def aclose(self) -> None:
        """Close the running loop's connections; the next call opens others."""
        held = self._per_loop.here()
        if held.session is not None:
            session, held.session = held.session, None
            await session.close()

    async def _holding(self) -> AsyncIterator[aiohttp.ClientSession]:
        """Give a session, and close it when the event loop ends: that is when a loop closes its generators."""
        session = self._connect()
        try:
            yield session
        finally:
            await session.close()
            await asyncio.sleep(0)  # its sockets close in the loop's next turn


async def read_whole(reply: aiohttp.ClientResponse) -> bytes:
    """Return a reply, unpacked. Raises ClientPayloadError as soon as it is larger."""
    import aiohttp

    content = bytearray()
    async for piece in reply.content.iter_chunked(2**16):
        content += piece
        if len(content) > MOST_REPLY_BYTES:
            raise aiohttp.ClientPayloadError(f"the reply is larger than {MOST_REPLY_BYTES:,} bytes")
    return bytes(content)
