"""A memory in front of an endpoint, both of them real servers.

Invariants:

1. What a client sends and gets is what it is without memory, but for what memory puts before its messages.
2. Each user's memory is seen in that user's calls alone, and within its tokens.
3. What was said last is in the store when the client has the reply, and is observed in its order.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import openai
import pytest
from aiohttp import web

from mnemotune.policies.deploy import MemoryStore
from mnemotune.policies.deploy.proxy import USER_HEADER, Proxied, proxying
from mnemotune.policies.lm import LanguageModelError, Message, Refused, Request
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory.conformance import Scribe

if TYPE_CHECKING:
    from ..conftest import MakePolicy

REPLY = {"id": "c1", "choices": [{"index": 0, "message": {"role": "assistant", "content": "I see."}}], "extra": 1.5}
STREAM = [{"content": "I "}, {"content": "see."}, {}]


class Upstream:
    """An endpoint that keeps what it is asked, and answers alike, or as it is said to."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answers: list[web.Response] = []
        self.breaks_off = False
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        read = json.loads(body) if body[:1] == b"{" else body
        self.asked.append({"path": request.path_qs, "headers": request.headers, "body": read})
        if self.answers:
            return self.answers.pop(0)
        if not (isinstance(read, dict) and read.get("stream")):
            return web.json_response(REPLY, headers={"X-Request-Id": "r1"})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for place, delta in enumerate(STREAM):
            end = None if delta else "stop"
            event = json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": end}]})
            await response.write(f"data: {event}\n\n".encode())
            if self.breaks_off and place == 1:
                assert request.transport is not None
                request.transport.close()
        await response.write(b"data: [DONE]\n\n")
        return response

    @property
    def messages(self) -> Any:
        """Those of the newest call."""
        return self.asked[-1]["body"]["messages"]


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what happens in the background."""
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - it is seen from outside alone
            await asyncio.sleep(0.002)


class Proxy:
    def __init__(self, url: str, upstream: Upstream, store: MemoryStore, session: aiohttp.ClientSession) -> None:
        self.url, self.upstream, self.store, self.session = url, upstream, store, session

    async def say(self, text: str | list[Any], *, user: str = "ann", **fields: Any) -> aiohttp.ClientResponse:
        messages = [{"role": "user", "content": text}] if isinstance(text, str) else text
        body = {"model": "m", "messages": messages, **fields}
        reply = await self.session.post(f"{self.url}/chat/completions", json=body, headers={USER_HEADER: user})
        await reply.read()
        return reply

    async def lines(self, user: str = "ann", *, count: int) -> list[str]:
        """Return a user's memories once there are so many."""
        async with asyncio.timeout(10):
            while len(items := await self.store.memory(user).listing()) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        return [item.text for item in items]


Start = Callable[..., Any]


@pytest.fixture
async def start(tmp_path: Path, make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Start]:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.delenv(name, raising=False)
    async with AsyncExitStack() as stack:

        async def make(mode: str = "verbatim", *, model: Any = None, options: Any = None, **changes: Any) -> Proxy:
            upstream = Upstream()
            app = web.Application()
            app.router.add_route("*", "/{path:.*}", upstream.handle)
            runner = web.AppRunner(app, shutdown_timeout=0.1)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            upstream.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
            policy = make_policy(mode, **{"buffer_size": 0, **changes})
            store = MemoryStore(tmp_path / "users.db", policy, model or Scribe(), LexicalEmbedder())
            stack.callback(store.close)
            proxied = Proxied(store, upstream.url, **(options or {}))
            url = await stack.enter_async_context(proxying(proxied, host="127.0.0.1", port=0))
            session = await stack.enter_async_context(aiohttp.ClientSession())
            return Proxy(url, upstream, store, session)

        yield make


TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}, "strict": True}}]


async def test_a_call_goes_through_untouched_and_its_reply_comes_back(start: Start) -> None:
    proxy = await start()
    fields = {"tools": TOOLS, "tool_choice": "auto", "seed": 7, "logit_bias": {"50256": -100}, "new": {"field": [None]}}
    parts = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "A heron-1."}, {"type": "image_url", "image_url": {}}]},
    ]
    reply = await proxy.say(parts, **fields)
    assert (reply.status, await reply.json(), reply.headers["X-Request-Id"]) == (200, REPLY, "r1")
    assert proxy.upstream.asked[0]["body"] == {"model": "m", "messages": parts, **fields}
    assert proxy.upstream.asked[0]["headers"]["Authorization"] == "Bearer none"
    assert USER_HEADER not in proxy.upstream.asked[0]["headers"]
    assert await proxy.lines(count=2) == ["user: A heron-1.", "assistant: I see."]


async def test_memory_goes_before_the_messages_of_its_user_alone(start: Start) -> None:
    proxy = await start()
    await proxy.say("I saw a heron.")
    await proxy.say("I saw a robin.", user="ben")
    await proxy.lines(count=2)
    await proxy.lines("ben", count=2)
    await proxy.say("What did I see?")
    known = {"role": "system", "content": "I know:\n- user: I saw a heron.\n- assistant: I see."}
    assert proxy.upstream.messages == [known, {"role": "user", "content": "What did I see?"}]
    await proxy.say("What did I see?", user="new")
    assert proxy.upstream.messages == [{"role": "user", "content": "What did I see?"}]


async def test_what_the_client_sends_again_is_neither_shown_twice_nor_observed_twice(start: Start) -> None:
    proxy = await start(buffer_size=4, update_every=2)
    talk = [{"role": "system", "content": "Be kind."}]
    for i in range(4):
        talk.append({"role": "user", "content": f"I saw heron-{i}."})
        await proxy.say(talk)
        talk.append({"role": "assistant", "content": "I see."})
    lines = await proxy.lines(count=4)
    assert lines[::2] == ["user: I saw heron-0.", "user: I saw heron-1."]
    first, *others = proxy.upstream.messages
    known = "I know:\n- user: I saw heron-0.\n- assistant: I see."
    assert (first, others) == ({"role": "system", "content": f"Be kind.\n\n{known}"}, talk[1:-1])
    await proxy.say("And now?")
    shown = [message["content"] for message in proxy.upstream.messages]
    assert shown[1:] == ["I saw heron-2.", "I see.", "I saw heron-3.", "I see.", "And now?"]


async def test_memory_takes_no_more_than_its_tokens(start: Start) -> None:
    proxy = await start(options={"context_tokens": 20})
    for i in range(6):
        await proxy.say(f"I saw heron number {i} at the lake.")
    await proxy.lines(count=12)
    await proxy.say("Which?")
    *known, newest = proxy.upstream.messages
    assert newest == {"role": "user", "content": "Which?"}
    assert known
    assert sum(-(-len(message["content"].encode()) // 4) for message in known) <= 20


async def test_tool_calls_and_their_results_are_observed_once(start: Start) -> None:
    proxy = await start()
    call = {"id": "t1", "type": "function", "function": {"name": "look", "arguments": '{"at": "lake"}'}}
    asking = {"role": "assistant", "content": None, "tool_calls": [call]}
    proxy.upstream.answers.append(web.json_response({"choices": [{"index": 0, "message": asking}]}))
    talk: list[dict[str, Any]] = [{"role": "user", "content": "What is at the lake?"}]
    await proxy.say(talk, tools=TOOLS)
    await proxy.say([*talk, asking, {"role": "tool", "content": "A heron.", "tool_call_id": "t1"}], tools=TOOLS)
    texts = ["user: What is at the lake?", 'assistant: look({"at": "lake"})', "tool: A heron."]
    assert await proxy.lines(count=3) == texts
    context = await proxy.store.memory("ann").context("", tokens=None)
    assert context.messages == (Message("assistant", "I see."),)


async def test_a_stream_comes_back_as_it_is_and_is_remembered(start: Start) -> None:
    proxy = await start()
    reply = await proxy.say("I saw a heron.", stream=True)
    assert reply.content_type == "text/event-stream"
    assert (await reply.text()).count("data: ") == 4
    assert await proxy.lines(count=2) == ["user: I saw a heron.", "assistant: I see."]


async def test_a_stream_that_breaks_off_breaks_off_and_is_not_remembered(start: Start) -> None:
    proxy = await start()
    proxy.upstream.breaks_off = True
    with pytest.raises(aiohttp.ClientPayloadError):
        await proxy.say("I saw a heron.", stream=True)
    assert proxy.store.users() == []


async def test_a_call_that_memory_cannot_read_streams_through(start: Start) -> None:
    proxy = await start()
    call = {"index": 0, "id": 7, "function": {"name": "look", "arguments": {"at": "lake"}}}
    choice = {"index": 0, "delta": {"content": "I see.", "tool_calls": [call]}, "finish_reason": "tool_calls"}
    stream = f"data: {json.dumps({'choices': [choice]})}\n\ndata: [DONE]\n\n"
    proxy.upstream.answers.append(web.Response(text=stream, content_type="text/event-stream"))
    assert await (await proxy.say("What is there?", stream=True)).text() == stream
    assert await proxy.lines(count=1) == ["user: What is there?"]


async def test_a_whole_reply_that_breaks_off_is_the_endpoint_s_failure(start: Start) -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
        await writer.drain()
        writer.close()

    proxy = await start()
    async with await asyncio.start_server(break_off, "127.0.0.1", 0) as server:
        upstream = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with proxying(Proxied(proxy.store, upstream), host="127.0.0.1", port=0) as url:
            reply = await Proxy(url, proxy.upstream, proxy.store, proxy.session).say("Hello.")
            assert reply.status == 502
            assert f"no reply from {upstream}: " in (await reply.json())["error"]["message"]
    assert proxy.store.users() == []


async def test_messages_of_another_form_go_through_and_spoil_no_memory(start: Start) -> None:
    proxy = await start()
    odd: list[Any] = [
        {"role": ["user"], "content": "a"},
        {"role": "user", "content": "I saw a heron.", "tool_calls": 5},
        {"role": "tool", "content": "b", "tool_call_id": 7},
    ]
    assert (await proxy.say(odd)).status == 200
    assert proxy.upstream.messages == odd
    assert await proxy.lines(count=2) == ["user: I saw a heron.", "assistant: I see."]


async def test_the_official_client_talks_through_it(start: Start) -> None:
    proxy = await start()
    headers = {USER_HEADER: "ann"}
    async with openai.AsyncOpenAI(base_url=proxy.url, api_key="secret", default_headers=headers) as client:
        asked: Any = {"model": "m", "messages": [{"role": "user", "content": "I saw a heron."}]}
        reply = await client.chat.completions.create(**asked)
        assert reply.choices[0].message.content == "I see."
        pieces = [piece async for piece in await client.chat.completions.create(**asked, stream=True)]
        assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == "I see."
    assert proxy.upstream.asked[0]["headers"]["Authorization"] == "Bearer secret"


@pytest.mark.parametrize("status", [400, 401, 429, 500])
async def test_refusals_are_handed_back_and_nothing_is_remembered(start: Start, status: int) -> None:
    proxy = await start()
    said = {"error": {"message": "no", "type": "t", "param": None, "code": "c"}}
    proxy.upstream.answers.append(web.json_response(said, status=status, headers={"Retry-After": "7"}))
    reply = await proxy.say("I saw a heron.", stream=status == 500)
    assert (reply.status, await reply.json(), reply.headers["Retry-After"]) == (status, said, "7")
    assert proxy.store.users() == []


async def test_an_endpoint_out_of_reach_is_named(start: Start) -> None:
    proxy = await start()
    async with proxying(Proxied(proxy.store, "http://127.0.0.1:9/v1"), host="127.0.0.1", port=0) as url:
        reply = await Proxy(url, proxy.upstream, proxy.store, proxy.session).say("Hello.")
        assert reply.status == 502
        assert "no reply from http://127.0.0.1:9/v1: " in (await reply.json())["error"]["message"]


async def test_a_cookie_is_its_client_s_alone(start: Start) -> None:
    proxy = await start()
    cookie = {"Set-Cookie": "who=ann; Path=/"}
    proxy.upstream.answers.append(web.json_response(REPLY, headers=cookie))
    named = proxy.upstream.url.replace("127.0.0.1", "localhost")  # addresses get no cookies anyway
    async with proxying(Proxied(proxy.store, named), host="127.0.0.1", port=0) as url:
        through = Proxy(url, proxy.upstream, proxy.store, proxy.session)
        assert (await through.say("Hello.")).headers["Set-Cookie"] == cookie["Set-Cookie"]
        await through.say("Hello.", user="ben")
    assert "Cookie" not in proxy.upstream.asked[-1]["headers"]


async def test_a_call_says_whose_it_is(start: Start) -> None:
    proxy = await start()
    url, body = f"{proxy.url}/chat/completions", {"messages": [{"role": "user", "content": "Hi."}]}
    for headers, what in (({}, "the header is missing"), ({USER_HEADER: " "}, "the user's id is empty")):
        async with proxy.session.post(url, json=body, headers=headers) as reply:
            assert reply.status == 400
            assert f"{USER_HEADER}: {what}" in (await reply.json())["error"]["message"]
    assert proxy.upstream.asked == []


async def test_a_call_that_says_nothing_is_the_named_user_s(start: Start) -> None:
    proxy = await start(options={"user": "me"})
    url, body = f"{proxy.url}/chat/completions", {"messages": [{"role": "user", "content": "Hi."}]}
    async with proxy.session.post(url, json=body) as reply:
        assert reply.status == 200
    assert await proxy.lines("me", count=2) == ["user: Hi.", "assistant: I see."]


@pytest.mark.parametrize("body", [b"not JSON", b"[]", b'{"messages": 7}', b"{}"])
async def test_what_memory_cannot_read_is_the_endpoint_s_to_refuse(start: Start, body: bytes) -> None:
    proxy = await start()
    proxy.upstream.answers.append(web.json_response({"error": {"message": "odd"}}, status=400))
    url = f"{proxy.url}/chat/completions"
    async with proxy.session.post(url, data=body, headers={USER_HEADER: "ann"}) as reply:
        assert (reply.status, await reply.json()) == (400, {"error": {"message": "odd"}})
    sent = proxy.upstream.asked[0]["body"]
    assert sent == (json.loads(body) if body.startswith(b"{") else body)


async def test_no_reply_is_asked_for_packed_that_the_client_has_not_asked_for(start: Start) -> None:
    proxy = await start()
    async with proxy.session.get(f"{proxy.url}/models", skip_auto_headers=["Accept-Encoding"]) as reply:
        assert reply.status == 200
    assert "Accept-Encoding" not in proxy.upstream.asked[-1]["headers"]


async def test_all_else_is_handed_on(start: Start) -> None:
    proxy = await start()
    async with proxy.session.get(f"{proxy.url}/models?limit=2") as reply:
        assert await reply.json() == REPLY
    async with proxy.session.post(f"{proxy.url}/embeddings", json={"input": "a"}) as reply:
        assert await reply.json() == REPLY
    assert [(asked["path"], asked["body"]) for asked in proxy.upstream.asked] == [
        ("/v1/models?limit=2", b""),
        ("/v1/embeddings", {"input": "a"}),
    ]
    async with proxy.session.get(proxy.url.removesuffix("/v1") + "/health") as reply:
        assert (await reply.json())["status"] == "ok"
    async with proxy.session.get(proxy.url.removesuffix("/v1") + "/other") as reply:
        assert reply.status == 404


CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def roles(proxy: Proxy) -> list[str]:
    return [message["role"] for message in proxy.upstream.messages]


async def test_a_call_of_a_tool_without_its_result_is_not_put_before_a_talk(start: Start) -> None:
    """A cancelled agent has left it; servers refuse it, and would each call of the user from then on."""
    proxy = await start(buffer_size=6, update_every=2)
    message = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    proxy.upstream.answers = [web.json_response({"choices": [{"message": message}]})]
    await proxy.say("What is at the lake?")
    await proxy.say("Hello?")
    assert roles(proxy) == ["user", "user"]
    await proxy.say([{"role": "tool", "content": "A heron.", "tool_call_id": "c9"}])
    await proxy.say("And now?")
    assert "tool" not in roles(proxy), "nor is a result whose call is not there"


class Slow(Scribe):
    """Writes when it may, and refuses or fails as it is said to."""

    def __init__(self) -> None:
        self.may = asyncio.Event()
        self.problem: LanguageModelError | None = None
        self.about = ""

    async def complete(self, request: Request) -> Any:
        await self.may.wait()
        if self.problem is not None and any(self.about in message.content for message in request.messages):
            raise self.problem
        return await super().complete(request)


async def test_replies_do_not_wait_for_writes_which_come_in_their_order(start: Start) -> None:
    model = Slow()
    proxy = await start("facts", model=model)
    for i in range(5):
        assert (await proxy.say(f"I saw heron-{i}.")).status == 200
    assert [m["content"] for m in proxy.upstream.messages if m["role"] == "user"][-2:] == [
        "I saw heron-3.",
        "I saw heron-4.",
    ], "what waits is shown already"
    assert await proxy.store.memory("ann").listing() == []
    model.may.set()
    lines = await proxy.lines(count=5)
    assert list(dict.fromkeys(lines)) == [f"The user said heron-{i}." for i in range(5)]


async def test_what_cannot_be_written_now_waits_and_what_is_refused_is_said(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    model = Slow()
    model.may.set()
    proxy = await start("facts", model=model)
    model.problem = LanguageModelError("out of order")
    await proxy.say("I saw heron-1.")
    await until(lambda: "out of order" in caplog.text)
    model.problem = None
    await proxy.say("I saw heron-2.")
    lines = await proxy.lines(count=3)
    assert list(dict.fromkeys(lines)) == ["The user said heron-1.", "The user said heron-2."]
    model.problem, model.about = Refused("too long"), "heron-3"
    with caplog.at_level(logging.ERROR):
        await proxy.say("I saw heron-3.")
        await until(lambda: "user ann: 2 messages are not remembered" in caplog.text)


@pytest.mark.parametrize("problem", [Refused("set max_tokens_field"), LanguageModelError("out of order")])
async def test_nothing_is_given_up_where_the_model_refuses_whatever_it_is_asked(
    start: Start, caplog: pytest.LogCaptureFixture, problem: LanguageModelError
) -> None:
    model = Slow()
    model.may.set()
    proxy = await start("facts", model=model)
    model.problem = problem
    for i in range(3):
        await proxy.say(f"I saw heron-{i}.")
        await until(lambda: caplog.text.count(str(problem)) == i + 1)  # noqa: B023 - awaited here
    model.problem = None
    await proxy.say("I saw heron-3.")
    lines = await proxy.lines(count=4)
    assert list(dict.fromkeys(lines)) == [f"The user said heron-{i}." for i in range(4)]


async def test_nothing_is_given_up_where_a_refusal_cannot_be_told_from_an_outage(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    class Dying(Scribe):
        async def complete(self, request: Request) -> Any:
            raise Refused("no herons") if "heron" in request.messages[-1].content else LanguageModelError("gone")

    proxy = await start("facts", model=Dying())
    await proxy.say("I saw heron-1.")
    await until(lambda: "messages wait for their next call: gone" in caplog.text)
    assert proxy.store.users_waiting() == ["ann"]


class Picky(Scribe):
    """Refuses to write of a wolf."""

    async def complete(self, request: Request) -> Any:
        if any("wolf" in message.content for message in request.messages):
            raise Refused("no wolves")
        return await super().complete(request)


async def test_a_message_in_the_buffer_that_is_refused_does_not_end_the_memory(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    proxy = await start("facts", model=Picky(), update_every=4)
    for text in ("I saw a wolf.", *(f"I saw heron-{i}." for i in range(8))):
        await proxy.say(text)
        await until(lambda: proxy.store.users_waiting() == [])
    assert (await proxy.lines(count=1))[0].startswith("The user said heron-")
    assert caplog.text.count("messages are not remembered") == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_a_full_disk_costs_the_memory_and_not_the_reply(
    start: Start, caplog: pytest.LogCaptureFixture, stream: bool
) -> None:
    proxy = await start()
    database = vars(vars(proxy.store)["_rows"])["_connection"]
    database.execute("PRAGMA max_page_count = 1").fetchall()
    reply = await proxy.say("I saw a heron. " * 2000, stream=stream)
    assert reply.status == 200
    assert "see." in await reply.text()
    assert "user ann: a reply is not remembered: cannot use the store" in caplog.text
    assert proxy.store.users() == []


async def test_what_waits_from_before_is_observed_at_the_start(
    tmp_path: Path, make_policy: MakePolicy, start: Start
) -> None:
    store = MemoryStore(tmp_path / "users.db", make_policy("verbatim"), Scribe(), LexicalEmbedder())
    store.memory("ann").queue([Message("user", "I saw a heron."), Message("assistant", "I see.")])
    store.close()
    proxy = await start()
    assert await proxy.lines(count=2) == ["user: I saw a heron.", "assistant: I see."]
