"""Clients that hold a server, servers that flood a client: limits end both, and what is limited stays alive.

Invariants:

1. Whatever a client does, the server answers the next one.
2. A client takes no more of a reply than its limit.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from mnemotune.policies.lm import Completion, LanguageModel, LanguageModelError, Message, Request, Usage
from mnemotune.policies.lm.base import Refused
from mnemotune.policies.lm.embedded.pool import Pool, PooledModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.lm.openai import OpenAIModel
from mnemotune.policies.lm.schemas import SchemaError, fit
from mnemotune.policies.lm.serving import Served, listening
from mnemotune.policies.lm.wire import MOST_MESSAGES

HELLO = Request((Message("user", "hello"),), role="reply")
PATIENCE_SECONDS = 10.0


class SaidModel(LanguageModel):
    """Says one text, or raises one error."""

    name = "said"

    def __init__(self, said: str | Exception = "fine") -> None:
        self.said = said

    async def complete(self, request: Request) -> Completion:
        if isinstance(self.said, Exception):
            raise self.said
        return Completion(self.said, Usage(1, 1))

    async def aclose(self) -> None:
        pass


def serving(model: LanguageModel | None = None, **limits: Any) -> Any:
    return listening(Served(model or SaidModel(), LexicalEmbedder(), **limits), host="127.0.0.1", port=0)


def chat(**more: Any) -> bytes:
    return json.dumps({"model": "said", "messages": [{"role": "user", "content": "hello"}], **more}).encode()


async def post(url: str, data: bytes, **headers: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/chat/completions", data=data, headers=headers) as reply,
    ):
        told = await reply.json()
        return reply.status, told["error"]["message"] if "error" in told else "fine"


@pytest.mark.parametrize("said", [b"", b"POST /v1/chat/comp", b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nX: "])
async def test_a_client_that_says_no_request_is_hung_up_on(said: bytes) -> None:
    async with serving(patience_seconds=0.2) as url, asyncio.timeout(PATIENCE_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", URL(url).port)
        writer.write(said)
        assert await reader.read() == b""
        assert await post(url, chat()) == (200, "fine")
        writer.close()


async def test_a_client_that_trickles_its_request_is_hung_up_on() -> None:
    async with serving(patience_seconds=0.3) as url, asyncio.timeout(PATIENCE_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", URL(url).port)
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: ")
        while not reader.at_eof():
            writer.write(b"a")
            with suppress(TimeoutError):
                await asyncio.wait_for(reader.read(), 0.02)
        writer.close()


async def test_a_body_that_does_not_arrive_is_refused_with_408() -> None:
    async with serving(patience_seconds=0.2) as url, asyncio.timeout(PATIENCE_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", URL(url).port)
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
        assert (await reader.readline()).startswith(b"HTTP/1.1 408")
        writer.close()


async def test_a_client_that_does_not_take_its_stream_is_hung_up_on() -> None:
    async with serving(SaidModel("x" * 1_500_000), patience_seconds=0.3, most_requests=1) as url:
        with socket.create_connection(("127.0.0.1", URL(url).port or 0)) as client:
            body = chat(stream=True)
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body))
            client.sendall(body)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await asyncio.sleep(0.2)
                while (await post(url, chat()))[0] == 429:  # noqa: ASYNC110 - the server tells nobody
                    await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("data", "headers", "status"),
    [
        (b"[" * 1_000_000, {}, 400),
        (
            chat(response_format={"type": "json_schema", "json_schema": {"schema": {}}}).replace(
                b"{}", b'{"a":' * 5000
            ),
            {},
            400,
        ),
        (chat(messages=[{"role": "user", "content": "a"}] * (MOST_MESSAGES + 1)), {}, 400),
        (gzip.compress(b" " * 100_000_000), {"Content-Encoding": "gzip"}, 413),
        (gzip.compress(gzip.compress(b" " * 10_000_000)), {"Content-Encoding": "gzip"}, 400),
        (b"x" * 100, {"Content-Encoding": "deflate"}, 400),
    ],
    ids=["deep", "deep schema", "many messages", "bomb", "bomb in a bomb", "not packed"],
)
async def test_nested_packed_and_long_requests_are_refused(data: bytes, headers: dict[str, str], status: int) -> None:
    async with serving() as url:
        assert (await post(url, data, **headers))[0] == status
        assert await post(url, chat()) == (200, "fine")


async def test_work_that_is_too_long_is_refused_with_413() -> None:
    async with serving(SaidModel(Refused("it takes more than 1 s of work"))) as url:
        assert await post(url, chat()) == (413, "it takes more than 1 s of work")


async def test_a_call_works_no_longer_than_it_may_and_the_next_one_works() -> None:
    pool = Pool(workers=1, most_seconds=3.0)
    model = PooledModel(pool)
    try:
        with pytest.raises(Refused, match="more than 3 s of work: send less"):
            await model.complete(Request((Message("user", "\n" * 250_000),), role="reply"))
        assert (await model.complete(HELLO)).text
    finally:
        await pool.aclose()


def test_a_schema_offers_no_more_choices_than_can_be_compared() -> None:
    choices = {"type": "array", "minItems": 1000, "items": {"enum": [f"choice {i}" for i in range(1000)]}}
    with pytest.raises(SchemaError, match="offers more than 100,000 choices"):
        fit("no", {"properties": {"a": choices}}, heard="")


# The client


@asynccontextmanager
async def flooding(*, packed: bool, status: int = 200) -> AsyncIterator[str]:
    """Serve replies that are large, or have no end."""

    async def reply(request: web.Request) -> web.StreamResponse:
        if packed:
            headers = {"Content-Encoding": "gzip"}
            return web.Response(body=gzip.compress(b" " * 50_000_000), headers=headers, status=status)
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        while True:
            await response.write(b" " * 100_000)

    app = web.Application()
    app.router.add_post("/v1/chat/completions", reply)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("status", [200, 503])
@pytest.mark.parametrize("packed", [False, True])
async def test_a_reply_that_is_too_large_is_given_up_like_one_that_is_cut(packed: bool, status: int) -> None:
    async with flooding(packed=packed, status=status) as url:
        model = OpenAIModel("m", base_url=url, attempts=1, longest_outage_seconds=0)
        async with asyncio.timeout(PATIENCE_SECONDS):
            with pytest.raises(LanguageModelError, match="the reply is larger than 33,554,432 bytes"):
                await model.complete(HELLO)
        await model.aclose()
