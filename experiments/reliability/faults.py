"""A proxy on the loopback interface that hits requests with the faults of a bad night."""

from __future__ import annotations

import asyncio
import json
import random
import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Literal, get_args

import aiohttp

Fault = Literal["reset", "closed", "cut", "malformed", "empty", "error", "page", "429", "500", "503"]
"""The connection is reset, closed without a reply, or closed within one; a reply is half of its JSON, has no choices,
holds an error, or is an HTML page; the status."""
FAULTS: tuple[Fault, ...] = get_args(Fault)
LONGEST_RETRY_AFTER_SECONDS = 2
HOP_BY_HOP = ("host:", "connection:", "content-length:", "accept-encoding:")
"""Headers that are the proxy's own."""

Plan = Callable[[int, bytes], Fault | None]
"""The fault that hits a request, of its 0-based number and its body; None where it is passed on."""


def no_faults(_number: int, _body: bytes) -> Fault | None:
    """Pass every request on."""
    return None


def faults_at_random(share: float, *, seed: int) -> Plan:
    """Hit a share of the requests, each with a fault drawn from all kinds."""

    def plan(number: int, _body: bytes) -> Fault | None:
        rng = random.Random(f"fault:{seed}:{number}")
        return rng.choice(FAULTS) if rng.random() < share else None

    return plan


class FaultProxy:
    """Passes requests on to an OpenAI-compatible server, except those that a fault hits and those of an outage."""

    def __init__(self, upstream: str, plan: Plan = no_faults) -> None:
        """Pass on to ``upstream``, a base URL that ends in /v1."""
        self.plan = plan
        self.hit: Counter[str] = Counter()
        """Requests by the fault that hit them; ``outage`` are connections that were turned away."""
        self.requests = 0
        self._upstream = upstream.removesuffix("/v1")
        self._down = False
        self._open: set[asyncio.StreamWriter] = set()

    def go_down(self) -> None:
        """Turn every connection away, those that are open at their next request."""
        self._down = True

    def come_back(self) -> None:
        """Take connections again."""
        self._down = False

    async def serve(self, listener: socket.socket, ended: asyncio.Event) -> None:
        """Serve until ``ended`` is set."""
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                self._open.add(writer)
                try:
                    with suppress(ConnectionError, TimeoutError, asyncio.IncompleteReadError, aiohttp.ClientError):
                        while await self._exchange(reader, writer, session):
                            pass
                finally:
                    self._open.discard(writer)
                    writer.close()

            server = await asyncio.start_server(handle, sock=listener, limit=2**26)
            await ended.wait()
            server.close()
            for writer in self._open:
                writer.transport.abort()

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, session: aiohttp.ClientSession
    ) -> bool:
        """Answer one request; tell whether the connection stays open."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        body = await reader.readexactly(int(length[1]) if length else 0)
        if self._turned_away(writer):
            return False
        number, self.requests = self.requests, self.requests + 1
        fault = self.plan(number, body)
        if fault is not None:
            self.hit[fault] += 1
            return await _hit(writer, fault, seed=number)
        first, *lines = head.decode("latin-1").strip().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines if not line.lower().startswith(HOP_BY_HOP))
        async with session.post(self._upstream + first.split(" ")[1], data=body, headers=headers) as reply:
            content = await reply.read()
            if self._turned_away(writer):
                return False
            writer.write(_reply(reply.status, content))
        await writer.drain()
        return True

    def _turned_away(self, writer: asyncio.StreamWriter) -> bool:
        """Reset a connection in an outage; tell whether there is one."""
        if self._down:
            self.hit["outage"] += 1
            _reset(writer)
        return self._down


async def _hit(writer: asyncio.StreamWriter, fault: Fault, *, seed: int) -> bool:
    """Answer a request with a fault; tell whether the connection stays open."""
    good = json.dumps({"choices": [{"message": {"role": "assistant", "content": "never heard"}}]}).encode()
    wait = random.Random(f"wait:{seed}").randint(0, LONGEST_RETRY_AFTER_SECONDS)
    replies = {
        "cut": _reply(200, good)[:-20],
        "malformed": _reply(200, good[:-20]),
        "empty": _reply(200, b'{"choices": []}'),
        "error": _reply(200, b'{"error": {"message": "upstream failed"}}'),
        "page": _reply(200, b"<html><h1>Bad Gateway</h1></html>", kind="text/html"),
        "429": _reply(429, b'{"error": {"message": "slow down"}}', more=f"Retry-After: {wait}\r\n"),
        "500": _reply(500, b"oops"),
        "503": _reply(503, b"busy", more=f"Retry-After: {wait}\r\n"),
    }
    if fault == "reset":
        _reset(writer)
    elif fault != "closed":
        writer.write(replies[fault])
        await writer.drain()
    return fault not in ("reset", "closed", "cut")


def _reply(status: int, content: bytes, *, kind: str = "application/json", more: str = "") -> bytes:
    return (
        f"HTTP/1.1 {status} x\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n{more}\r\n".encode()
        + content
    )


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection so that the other side sees it reset."""
    connection = writer.get_extra_info("socket")
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@contextmanager
def in_thread(proxy: FaultProxy) -> Iterator[str]:
    """Serve in a thread of this process; yield the base URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        loop, ended = asyncio.new_event_loop(), asyncio.Event()
        thread = threading.Thread(target=lambda: loop.run_until_complete(proxy.serve(listener, ended)), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        finally:
            loop.call_soon_threadsafe(ended.set)
            thread.join(5)
            loop.close()
