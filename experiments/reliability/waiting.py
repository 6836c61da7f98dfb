"""A server that answers every call after the same time, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...policies.lm.embedded.pool import end_with_parent

TALK = "I will keep that in mind: it is a good plan for the weekend, and there is more to say about it. " * 4
CHOICES = 4


class WaitingServer(asyncio.Protocol):
    """Answers each request after ``latency`` seconds: a question with a choice, anything else with the same talk."""

    def __init__(self, latency: float, answered: Any) -> None:
        """Count answers in ``answered``, which other processes see."""
        self.latency = latency
        self.answered = answered

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with a connection."""
        self.transport = transport
        self.received = bytearray()

    def data_received(self, data: bytes) -> None:
        """Answer each whole request."""
        self.received += data
        while (end := self.received.find(b"\r\n\r\n") + 4) >= 4:
            head = bytes(self.received[:end]).lower()
            whole = end + int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0] or 0)
            if len(self.received) < whole:
                return
            answer = _answer(bytes(self.received[end:whole]))
            del self.received[:whole]
            asyncio.get_running_loop().call_later(self.latency, self._send, answer)

    def _send(self, answer: bytes) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(answer)}\r\n\r\n"
        self.answered.value += 1
        self.transport.write(head.encode() + answer)  # type: ignore[attr-defined]


def _answer(body: bytes) -> bytes:
    """Return a reply that is always the same for the same request."""
    content = TALK
    if b'"response_format"' in body:
        content = json.dumps({"answer": zlib.crc32(body) % CHOICES + 1})
    usage = {"prompt_tokens": 1000, "completion_tokens": 100}
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": content}}], "usage": usage}).encode()


def _serve(latency: float, answered: Any, port: Any) -> None:
    end_with_parent()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: WaitingServer(latency, answered), "127.0.0.1", 0, backlog=1024)
        port.value = server.sockets[0].getsockname()[1]
        await asyncio.Event().wait()

    asyncio.run(run())


@contextmanager
def waiting_server(latency: float) -> Iterator[tuple[str, Any]]:
    """Run such a server; yield its base URL and, as ``value``, the number of its answers."""
    context = multiprocessing.get_context("spawn")
    answered, port = context.Value("L", 0, lock=False), context.Value("i", 0, lock=False)
    process = context.Process(target=_serve, args=(latency, answered, port), daemon=True)
    process.start()
    while not port.value:
        time.sleep(0.05)
    try:
        yield f"http://127.0.0.1:{port.value}/v1", answered
    finally:
        process.kill()
