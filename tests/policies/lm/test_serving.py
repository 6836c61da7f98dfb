"""The server as HTTP: statuses, bodies and events, and what it does when it is full, fails or ends.

Invariants:

1. Whatever is sent, the answer is JSON (or events of JSON), and a refusal names the field at fault.
2. Work for a client that has gone is given up.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import logging
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import numpy as np
import pytest
from yarl import URL

from mnemotune.policies.forms import ANY_OBJECT
from mnemotune.policies.lm import Completion, LanguageModel, LanguageModelError, Message, Request, Usage
from mnemotune.policies.lm.lexical import DIMENSIONS, LexicalEmbedder
from mnemotune.policies.lm.serving import Served, listening

HELLO = [{"role": "user", "content": "I own a small boat. Where shall I go?"}]
CHAT = {"model": "embedded", "messages": HELLO}
TEXT = {"model": "said", "messages": HELLO}
PATIENCE_SECONDS = 10.0

Post = Callable[..., Awaitable[tuple[int, Any]]]


class SaidModel(LanguageModel):
    """Says one text, or raises one error, as soon as it may; remembers what it was asked."""

    name = "said"

    def __init__(self, said: str | Exception = "one two three four five") -> None:
        self.said = said
        self.asked: list[Request] = []
        self.given_up = 0
        self.may = asyncio.Event()
        self.may.set()

    async def complete(self, request: Request) -> Completion:
        self.asked.append(request)
        try:
            await self.may.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        if isinstance(self.said, Exception):
            raise self.said
        return Completion(self.said, Usage(7, 3))

    async def aclose(self) -> None:
        pass


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not true():  # noqa: ASYNC110 - others change it
            await asyncio.sleep(0.002)


async def until_here(requests: int, session: aiohttp.ClientSession, url: str) -> None:
    """Wait until so many requests are at the server."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        told = None
        while told != requests:
            async with session.get(url.removesuffix("/v1") + "/health") as reply:
                told = (await reply.json())["requests"]


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as made:
        yield made


@pytest.fixture
def post(session: aiohttp.ClientSession, embedded_url: str) -> Post:
    """Post JSON, or bytes as they are, and return the status and what came back as JSON."""

    async def sent(path: str, body: object, url: str = embedded_url) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with session.post(url + path, data=data) as reply:
            return reply.status, await reply.json()

    return sent


def serving(model: LanguageModel, **limits: Any) -> Any:
    return listening(Served(model, LexicalEmbedder(), **limits), host="127.0.0.1", port=0)


def port_of(url: str) -> int:
    return URL(url).port or 0


# Chat completions


async def test_a_completion_has_the_fields_of_openais(post: Post) -> None:
    async with serving(SaidModel("Go to the island."), clock=lambda: 1234.5) as url:
        _, reply = await post("/chat/completions", TEXT, url)
        _, other = await post("/chat/completions", TEXT, url)
    assert reply.pop("id").startswith("chatcmpl-") is True
    message = {"role": "assistant", "content": "Go to the island.", "refusal": None}
    assert reply == {
        "object": "chat.completion",
        "created": 1234,
        "model": "said",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
    }
    assert other["id"] != reply.get("id")


async def test_the_model_is_asked_what_the_client_asks(post: Post) -> None:
    model = SaidModel('Here: {"a": 1}')
    async with serving(model) as url:
        _, plain = await post("/chat/completions", TEXT, url)
        _, asked = await post("/chat/completions", {**TEXT, "response_format": {"type": "json_object"}}, url)
    assert [request.messages for request in model.asked] == [(Message("user", HELLO[0]["content"]),)] * 2
    assert [request.form for request in model.asked] == [None, ANY_OBJECT]
    said = [reply["choices"][0]["message"]["content"] for reply in (plain, asked)]
    assert said == ['Here: {"a": 1}', '{"a": 1}']


async def test_n_choices_are_given_and_paid_for(post: Post) -> None:
    async with serving(SaidModel("Go home.")) as url:
        _, reply = await post("/chat/completions", {**TEXT, "n": 3}, url)
    assert [choice["index"] for choice in reply["choices"]] == [0, 1, 2]
    assert {choice["message"]["content"] for choice in reply["choices"]} == {"Go home."}
    assert reply["usage"] == {"prompt_tokens": 7, "completion_tokens": 6, "total_tokens": 13}


# Streams


async def events(session: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> list[str]:
    async with session.post(f"{url}/chat/completions", json={**TEXT, "stream": True} | body) as reply:
        assert reply.status == 200
        assert reply.content_type == "text/event-stream"
        pieces = (await reply.text()).split("\n\n")
    assert pieces.pop() == ""
    assert all(piece.startswith("data: ") for piece in pieces)
    return [piece.removeprefix("data: ") for piece in pieces]


async def test_a_stream_says_who_speaks_then_the_text_then_why_it_ends(session: aiohttp.ClientSession) -> None:
    said = "one line\n\nand another: data: ü, and some more of it"
    async with serving(SaidModel(said), clock=lambda: 1234.5) as url:
        *sent, last = await events(session, url, {"n": 2})
    assert last == "[DONE]"
    chunks = [json.loads(piece) for piece in sent]
    heads = {(chunk["id"], chunk["object"], chunk["created"], chunk["model"]) for chunk in chunks}
    assert len(heads) == 1
    assert heads.pop()[1:] == ("chat.completion.chunk", 1234, "said")
    assert all("usage" not in chunk for chunk in chunks)
    for i in (0, 1):
        own = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == i]
        assert own[0]["delta"] == {"role": "assistant", "content": ""}
        assert "".join(choice["delta"].get("content", "") for choice in own) == said
        assert len(own) > 4
        assert [choice["finish_reason"] for choice in own] == [None] * (len(own) - 1) + ["stop"]
        assert own[-1]["delta"] == {}


async def test_a_stream_ends_with_the_usage_where_that_is_asked_for(session: aiohttp.ClientSession) -> None:
    async with serving(SaidModel()) as url:
        sent = await events(session, url, {"stream_options": {"include_usage": True}, "max_tokens": 2})
    *chunks, usage = [json.loads(piece) for piece in sent[:-1]]
    assert all(chunk["usage"] is None for chunk in chunks)
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"
    assert usage["choices"] == []
    assert usage["usage"] == {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}


# Embeddings, models, health


async def test_embeddings_come_as_numbers_or_as_base64(post: Post) -> None:
    texts = ["I own a boat.", "", "My boat sails."]
    _, plain = await post("/embeddings", {"model": "lexical", "input": texts})
    _, coded = await post("/embeddings", {"model": "lexical", "input": texts, "encoding_format": "base64"})
    rows = (await LexicalEmbedder().embed(texts)).vectors
    assert [item["index"] for item in plain["data"]] == [0, 1, 2]
    for item, same, row in zip(plain["data"], coded["data"], rows, strict=True):
        assert np.array_equal(np.array(item["embedding"], dtype=np.float32), row)
        assert np.array_equal(np.frombuffer(base64.b64decode(same["embedding"]), dtype="<f4"), row)
    assert (plain["object"], plain["model"]) == ("list", "lexical")
    assert plain["usage"] == {"prompt_tokens": 8, "total_tokens": 8}


async def test_one_text_is_embedded_as_a_list_of_one(post: Post) -> None:
    _, one = await post("/embeddings", {"model": "lexical", "input": "I own a boat.", "dimensions": DIMENSIONS})
    assert len(one["data"]) == 1
    assert len(one["data"][0]["embedding"]) == DIMENSIONS


async def test_models_and_health_are_told(session: aiohttp.ClientSession) -> None:
    async def got(url: str) -> Any:
        async with session.get(url) as reply:
            return await reply.json()

    model = SaidModel()
    model.may.clear()
    async with serving(model) as url:
        assert [model["id"] for model in (await got(f"{url}/models"))["data"]] == ["said", "lexical"]
        assert await got(f"{url}/models/said") == {
            "id": "said",
            "object": "model",
            "created": 0,
            "owned_by": "mnemotune",
        }
        assert (await got(f"{url}/models/other"))["error"]["code"] == "model_not_found"
        health = url.removesuffix("/v1") + "/health"
        assert await got(health) == {"status": "ok", "requests": 0}
        async with asyncio.TaskGroup() as group:
            group.create_task(session.post(f"{url}/chat/completions", json=TEXT))
            await until(lambda: len(model.asked) == 1)
            assert await got(health) == {"status": "ok", "requests": 1}
            model.may.set()


# Refusals


async def test_a_request_that_cannot_be_read_is_refused_with_the_field_at_fault(post: Post) -> None:
    for path in ("/chat/completions", "/embeddings"):
        status, told = await post(path, {"model": "embedded"})
        field = "messages" if path == "/chat/completions" else "input"
        error = {"message": f"{field}: Field required", "type": "invalid_request_error", "param": field, "code": None}
        assert (status, told) == (400, {"error": error})
        status, told = await post(path, b"{")
        assert status == 400
        assert told["error"]["message"].startswith("the request: Invalid JSON")


async def test_a_schema_that_no_reply_can_keep_to_is_refused(post: Post) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "array"}}}
    status, told = await post("/chat/completions", {**CHAT, "response_format": wanted})
    assert (status, told["error"]["param"]) == (400, "response_format.json_schema.schema")


async def test_vectors_have_as_many_dimensions_as_the_request_chooses(post: Post) -> None:
    _, told = await post("/embeddings", {"model": "lexical", "input": "I own a boat.", "dimensions": 256})
    vector = (await LexicalEmbedder(dimensions=256).embed(["I own a boat."])).vectors[0]
    assert told["data"][0]["embedding"] == pytest.approx(vector.tolist())


@pytest.mark.parametrize("dimensions", [0, -1, 8193])
async def test_dimensions_that_there_are_not_are_refused(post: Post, dimensions: int) -> None:
    status, told = await post("/embeddings", {"model": "lexical", "input": "a", "dimensions": dimensions})
    assert (status, told["error"]["param"]) == (400, "dimensions")


async def test_unknown_models_paths_and_methods_are_refused_with_what_there_is(
    post: Post, session: aiohttp.ClientSession, embedded_url: str
) -> None:
    for path, name, there_is in (("/chat/completions", "lexical", "'embedded'"), ("/embeddings", "gpt", "'lexical'")):
        status, told = await post(path, {"model": name, "messages": HELLO, "input": "a"})
        assert (status, told["error"]["code"]) == (404, "model_not_found")
        assert there_is in told["error"]["message"]
    status, told = await post("/responses", {})
    assert status == 404
    assert "POST /v1/chat/completions" in told["error"]["message"]
    async with session.get(f"{embedded_url}/embeddings") as reply:
        assert (reply.status, reply.headers["Allow"]) == (405, "POST")
        assert "takes POST, not GET" in (await reply.json())["error"]["message"]


async def test_a_packed_request_is_unpacked_or_refused(session: aiohttp.ClientSession) -> None:
    async with serving(SaidModel(), most_bytes=1000) as url:
        for data, status in (
            (gzip.compress(json.dumps(TEXT).encode()), 200),
            (gzip.compress(b" " * 100_000), 413),
            (b"not packed", 400),
        ):
            packed = {"Content-Encoding": "gzip"}
            async with session.post(f"{url}/chat/completions", data=data, headers=packed) as reply:
                assert reply.status == status
                assert ("error" in await reply.json()) == (status != 200)


async def test_a_request_that_is_too_large_is_refused(post: Post) -> None:
    async with serving(SaidModel(), most_bytes=1000) as url:
        status, told = await post("/chat/completions", {**TEXT, "user": "x" * 1000}, url)
        assert (status, told["error"]["message"]) == (413, "the request is larger than 1,000 bytes")
        assert (await post("/chat/completions", TEXT, url))[0] == 200


async def test_one_request_too_many_is_asked_to_come_again(post: Post, session: aiohttp.ClientSession) -> None:
    model = SaidModel()
    model.may.clear()
    async with serving(model, most_requests=2) as url:
        first = [asyncio.create_task(post("/chat/completions", TEXT, url)) for _ in range(2)]
        await until(lambda: len(model.asked) == 2)
        async with session.post(f"{url}/embeddings", json={"model": "lexical", "input": "a"}) as refused:
            assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
            error = (await refused.json())["error"]
        assert (error["type"], error["code"]) == ("requests", "rate_limit_exceeded")
        async with session.get(f"{url}/models") as reply:
            assert reply.status == 200, "looking costs nothing"
        model.may.set()
        assert [status for status, _ in await asyncio.gather(*first)] == [200, 200]
        assert (await post("/chat/completions", TEXT, url))[0] == 200


async def test_a_failing_model_is_told_and_an_unforeseen_failure_is_logged(
    post: Post, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(SaidModel(LanguageModelError("out of memory"))) as url:
        status, told = await post("/chat/completions", TEXT, url)
    assert (status, told["error"]["type"], told["error"]["message"]) == (500, "server_error", "out of memory")
    assert caplog.records == []
    async with serving(SaidModel(ZeroDivisionError("by zero"))) as url:
        status, told = await post("/chat/completions", TEXT, url)
    assert (status, told["error"]["message"]) == (500, "the server failed; its log says why")
    assert "by zero" in caplog.text


# Coming and going


async def once_closed(url: str, then: Callable[[], None]) -> None:
    """Do something as soon as nobody can connect any more."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port_of(url))
        except ConnectionRefusedError:
            return then()
        writer.close()
        await asyncio.sleep(0.002)


async def test_work_for_a_client_that_hangs_up_is_given_up(
    post: Post, session: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    model = SaidModel()
    model.may.clear()
    async with serving(model, most_requests=1) as url:
        gone = asyncio.create_task(post("/chat/completions", TEXT, url))
        await until(lambda: len(model.asked) == 1)
        gone.cancel()
        await until(lambda: model.given_up == 1)
        model.may.set()
        assert (await post("/chat/completions", TEXT, url))[0] == 200, "its place is free again"
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


async def test_a_client_that_hangs_up_in_a_stream_leaves_no_trace(
    session: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(SaidModel("word " * 200_000), most_requests=1) as url:
        reply = await session.post(f"{url}/chat/completions", json={**TEXT, "stream": True})
        await reply.content.readany()
        reply.close()
        await until_here(0, session, url)
    assert caplog.records == []


async def test_a_client_that_hangs_up_in_its_request_leaves_no_trace(
    session: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(SaidModel(), most_requests=1) as url:
        _, writer = await asyncio.open_connection("127.0.0.1", port_of(url))
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
        await until_here(1, session, url)
        writer.close()
        await until_here(0, session, url)
    assert caplog.records == []


async def test_a_client_that_is_gone_when_its_stream_begins_leaves_no_trace_either(
    session: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    class Rude(SaidModel):
        """Hangs up the client's end itself, so that nothing can happen between that and the first piece."""

        async def complete(self, request: Request) -> Completion:
            client.close()
            return await super().complete(request)

    body = json.dumps({**TEXT, "stream": True}).encode()
    async with serving(Rude(), most_requests=1) as url:
        with socket.create_connection(("127.0.0.1", port_of(url))) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close without goodbye
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body))
            client.sendall(body)
            await until(lambda: client.fileno() < 0)
        await until_here(0, session, url)
    assert caplog.records == []


async def test_a_request_under_way_is_answered_when_the_server_ends(post: Post) -> None:
    model = SaidModel()
    model.may.clear()
    async with serving(model) as url:
        under_way = asyncio.create_task(post("/chat/completions", TEXT, url))
        await until(lambda: len(model.asked) == 1)
        ending = asyncio.create_task(once_closed(url, model.may.set))
    assert (await under_way)[0] == 200
    await ending


async def test_a_port_that_is_taken_is_an_error() -> None:
    async with serving(SaidModel()) as url:
        with pytest.raises(OSError, match="address already in use"):
            async with listening(Served(SaidModel(), LexicalEmbedder()), host="127.0.0.1", port=port_of(url)):
                pass
