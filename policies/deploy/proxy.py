"""A memory in front of any OpenAI-compatible endpoint: what it knows of a user goes before each of their calls."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from ..lm.address import headers_for, proxy_of
from ..lm.base import Message, to_json
from ..lm.connections import Connections
from ..lm.door import Door, open_door
from ..lm.secrets import without_login
from ..lm.streaming import DONE, Events, Said
from ..lm.wire import ApiError
from .background import Background
from .conversation import before, besides, message_of, newest_of, query_of
from .store import MemoryStore, StoreError, UserMemory

USER_HEADER = "X-Mnemotune-User"
"""Says whose call it is; it is not handed on."""
KNOWN = "POST /v1/chat/completions, whatever else the endpoint has under /v1, GET /health"
HOP_BY_HOP = frozenset(
    "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade"
    " content-length host".split()
)
"""Headers between two peers, which are not handed on."""
CONNECT_SECONDS = 30.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Proxied:
    """A memory, the endpoint behind it, and to how many it is served at once; the rest is as ``Served`` has it."""

    store: MemoryStore
    upstream: str
    """Its URL, which mostly ends in /v1."""
    context_tokens: int | None = None
    """Most that memory puts before a call, in tokens of 4 bytes."""
    user: str | None = None
    """Whose a call without the header is; None: it is refused."""
    most_requests: int = 256
    most_bytes: int = 16 * 2**20
    patience_seconds: float = 30.0


@asynccontextmanager
async def proxying(proxied: Proxied, *, host: str, port: int) -> AsyncIterator[str]:
    """Serve inside the block, as ``open_door`` has it; gives the URL for clients.

    What waits in the store is observed too. At the end writes under way are given a moment; what is not written then
    waits in the store. Raises LanguageModelError when the endpoint's URL is none, or its key is missing, and
    UserIdError when ``user`` is empty.
    """
    if proxied.user is not None:
        proxied.store.memory(proxied.user)
    proxy = _Proxy(proxied)
    routes = [
        web.post("/v1/chat/completions", proxy.chat),
        web.route("*", "/v1/{path:.*}", proxy.hand_on),
    ]
    try:
        async with open_door(proxy.door.application(routes), host=host, port=port) as url:
            proxy.writes.begin_waiting()
            yield url
    finally:
        await proxy.writes.aclose()
        await proxy.connections.aclose()


class _Proxy:
    def __init__(self, proxied: Proxied) -> None:
        self.proxied = proxied
        self.door = Door(proxied, known=KNOWN)
        self.writes = Background(proxied.store)
        self.ours = headers_for(proxied.upstream, None)
        self.url = without_login(proxied.upstream.rstrip("/"))
        self.connections = Connections(self.connect)

    def connect(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=2.0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),  # a cookie is its client's alone
            proxy=proxy_of(self.proxied.upstream),
        )

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Hand a call on with what memory puts before it, and the reply back; then remember both."""
        memory = self.memory_of(request)
        raw = await self.door.read(request)
        try:
            body = json.loads(raw)
            messages = body["messages"]
        except (ValueError, TypeError, KeyError, RecursionError):
            return await self.hand_on(request, raw)
        if not isinstance(messages, list):
            return await self.hand_on(request, raw)
        shown = [message for given in messages if (message := message_of(given)) is not None]
        context = await memory.context(query_of(shown), tokens=None)
        known = besides(context, shown, tokens=self.proxied.context_tokens, policy=memory.policy)
        body["messages"] = before(known.render(), messages)
        headers = self.onward(request.headers) | {"Accept-Encoding": "identity", "Content-Type": "application/json"}
        async with self.asked("POST", request, to_json(body), headers) as reply:
            if reply.status >= 400:
                return await self.back(request, reply)
            if reply.content_type == "text/event-stream":
                return await self.streamed(request, reply, memory, newest_of(shown))
            with self.answered():
                whole = await reply.read()
        self.remember(memory, newest_of(shown), _said_in(whole))
        return web.Response(body=whole, status=reply.status, headers=_backward(reply.headers))

    def memory_of(self, request: web.Request) -> UserMemory:
        """Return the memory of whose call it is. Raises ApiError where nothing says that."""
        user = request.headers.get(USER_HEADER, self.proxied.user)
        if user is None:
            what = f"{USER_HEADER}: the header is missing, which says whose memory it is"
            raise ApiError(400, f"{what}; send it with each call, or start the server with --user")
        try:
            return self.proxied.store.memory(user)
        except ValueError as error:
            raise ApiError(400, f"{USER_HEADER}: {error}") from None

    async def streamed(
        self, request: web.Request, reply: aiohttp.ClientResponse, memory: UserMemory, newest: Sequence[Message]
    ) -> web.StreamResponse:
        """Hand a stream back as it comes, and remember it once it is whole."""
        events, said, left = Events(), Said(), [*newest]

        def take(piece: bytes) -> None:
            data = _taken(events, piece)
            for each in data:
                said.take(_json(each))
            if left and (said.finished or DONE in data):
                self.remember(memory, left, said.message)
                left.clear()

        return await self.back(request, reply, take=take)

    async def hand_on(self, request: web.Request, raw: bytes | None = None) -> web.StreamResponse:
        """Hand a request on as it is, and the reply back."""
        body = await self.door.read(request) if raw is None else raw
        async with self.asked(request.method, request, body, self.onward(request.headers)) as reply:
            return await self.back(request, reply)

    async def back(
        self, request: web.Request, reply: aiohttp.ClientResponse, *, take: Callable[[bytes], None] | None = None
    ) -> web.StreamResponse:
        """Hand a reply back as it comes; ``take`` hears of each piece before the client does.

        Where the endpoint breaks off, so does the reply.
        """
        response = web.StreamResponse(status=reply.status, reason=reply.reason, headers=_backward(reply.headers))
        response.content_length = reply.content_length
        await response.prepare(request)
        try:
            async for piece in reply.content.iter_any():
                if take is not None:
                    take(piece)
                async with asyncio.timeout(self.proxied.patience_seconds):
                    await response.write(piece)
            await response.write_eof()
        except ConnectionError:
            _log.debug("a client hung up in its reply")
        except (aiohttp.ClientError, TimeoutError) as error:
            _log.warning("a reply broke off: %s", error or type(error).__name__)
            request.protocol.force_close()
        return response

    @asynccontextmanager
    async def asked(
        self, method: str, request: web.Request, body: bytes, headers: Mapping[str, str]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Ask the endpoint, and give its reply as it begins. Raises ApiError with status 502 where it gives none."""
        url = self.url + request.rel_url.raw_path_qs.removeprefix("/v1")
        session = await self.connections.session()
        with self.answered():
            reply = await session.request(
                method,
                url,
                data=body or None,
                headers=headers,
                allow_redirects=False,
                skip_auto_headers=["Accept-Encoding"],  # a client that has not asked for it cannot unpack a reply
            )
        async with reply:
            yield reply

    @contextmanager
    def answered(self) -> Iterator[None]:
        """Turn what goes wrong between the endpoint and here into ApiError."""
        try:
            yield
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise ApiError(502, f"no reply from {self.url}: {error or type(error).__name__}") from None

    def onward(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the headers that the endpoint gets: the client's, with our key where the client has none."""
        left_out = {*HOP_BY_HOP, USER_HEADER.lower(), "content-encoding"}
        headers = {name: value for name, value in given.items() if name.lower() not in left_out}
        there = {name.lower() for name in headers}
        return headers | {name: value for name, value in self.ours.items() if name.lower() not in there}

    def remember(self, memory: UserMemory, newest: Sequence[Message], reply: Message | None) -> None:
        """Put what was said last into the store, and write it in the background."""
        if not newest or reply is None or not reply.text:
            return
        try:
            memory.queue([*newest, reply])
        except StoreError as error:  # the reply is there, and goes to the client
            _log.error("user %s: a reply is not remembered: %s", memory.user, error)
        else:
            self.writes.begin(memory.user)


def _backward(headers: Mapping[str, str]) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in HOP_BY_HOP)


def _taken(events: Events, piece: bytes) -> list[str]:
    try:
        return events.take(piece)
    except ValueError:
        return []


def _json(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _said_in(body: bytes) -> Message | None:
    """Return what the first choice of a reply says; None where there is nothing to be read."""
    match _json(body):
        case {"choices": [{"message": dict(message)}, *_]}:
            return message_of({"role": "assistant", **message})
    return None
