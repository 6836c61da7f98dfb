"""A language model and an embedder behind HTTP, after OpenAI's API: chat completions, embeddings, models, health."""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import chain
from uuid import uuid4

import numpy as np
from aiohttp import web

from .base import (
    AnyWidth,
    Completion,
    Embedder,
    LanguageModel,
    LanguageModelError,
    Refused,
    Request,
    estimated_tokens,
    to_json,
)
from .ledger import Usage
from .wire import ApiError, Chat, Embeddings, Json, Reply, read_request

GRACE_SECONDS = 5.0
"""What requests that have arrived are given to finish when the server ends."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Served:
    """What is served, and to how many at once."""

    model: LanguageModel
    embedder: Embedder
    most_requests: int = 256
    """Requests that are here at once, waiting ones included; more are refused with status 429."""
    most_bytes: int = 16 * 2**20
    """Largest request when it is unpacked; a larger one is refused with status 413."""
    patience_seconds: float = 30.0
    """For a request to arrive, and for a part of a stream to be taken. A client that connects and says nothing for so
    long is hung up on; a request whose body takes longer is refused with status 408."""
    clock: Callable[[], float] = time.time
    """In seconds since 1970; the API wants to know when a reply was made."""


def application(served: Served) -> web.Application:
    """Return an application that serves a model and an embedder under ``/v1``, with ``/health`` beside it."""
    api = _Api(served)
    app = web.Application(client_max_size=served.most_bytes, middlewares=[api.guard])
    app[API] = api
    app.add_routes(
        [
            web.post("/v1/chat/completions", api.chat),
            web.post("/v1/embeddings", api.embeddings),
            web.get("/v1/models", api.models),
            web.get("/v1/models/{name:.+}", api.model),
            web.get("/health", api.health),
        ]
    )
    return app


@asynccontextmanager
async def listening(served: Served, *, host: str, port: int) -> AsyncIterator[str]:
    """Serve inside the block, and let requests under way finish at its end.

    Gives the URL for clients; where ``port`` is 0, a free port is chosen. Raises OSError when it cannot listen.
    """
    app = application(served)
    runner = web.AppRunner(
        app,
        access_log=None,
        keepalive_timeout=served.patience_seconds,
        handler_cancellation=True,  # a client that hangs up wants no reply any more
        shutdown_timeout=GRACE_SECONDS,
    )
    await runner.setup()
    silence = asyncio.create_task(app[API].end_silent(runner.server))
    try:
        await web.TCPSite(runner, host, port).start()
        name, bound = runner.addresses[0][:2]
        yield f"http://{f'[{name}]' if ':' in name else name}:{bound}/v1"
    finally:
        silence.cancel()
        await runner.cleanup()


class _Api:
    def __init__(self, served: Served) -> None:
        self.served = served
        self.here = 0
        """Requests for work, from before they are read to after they are answered."""
        self.heard: set[object] = set()
        """Connections on which a request has begun."""

    async def end_silent(self, server: web.Server | None) -> None:
        """Hang up on those who have connected and do not ask; aiohttp itself waits for them without end."""
        clock, patience = asyncio.get_running_loop().time, self.served.patience_seconds
        since: dict[web.RequestHandler, float] = {}
        while server is not None:
            self.heard &= set(server.connections)
            silent = [connection for connection in server.connections if connection not in self.heard]
            since = {connection: since.get(connection, clock()) for connection in silent}
            for connection, begin in since.items():
                if clock() - begin >= patience:
                    connection.force_close()
            await asyncio.sleep(min(1.0, patience / 2))

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let no more in than there is room for, and say every failure in OpenAI's form."""
        self.heard.add(request.protocol)
        try:
            return await (self.admit(request, handler) if request.method == "POST" else handler(request))
        except ApiError as error:
            return _refusal(error)
        except web.HTTPException as error:
            return _refusal(self._explain(request, error), allow=error.headers.get("Allow"))
        except web.RequestPayloadError:
            return _refusal(ApiError(400, "the request: its body cannot be unpacked; see Content-Encoding"))
        except Refused as error:
            return _refusal(ApiError(413, str(error)))
        except LanguageModelError as error:
            return _refusal(ApiError(500, str(error)))
        except Exception:  # noqa: BLE001 - the log has it
            _log.exception("%s %s", request.method, request.path)
            return _refusal(ApiError(500, "the server failed; its log says why"))

    async def admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self.here >= self.served.most_requests:
            what = f"{self.here:,} requests are here already; try again in a second"
            raise ApiError(429, what, code="rate_limit_exceeded")
        self.here += 1
        try:
            return await handler(request)
        finally:
            self.here -= 1

    async def read(self, request: web.Request) -> bytes:
        patience = self.served.patience_seconds
        try:
            async with asyncio.timeout(patience):
                return await request.read()
        except TimeoutError:
            raise ApiError(408, f"the request has not arrived within {patience:g} s") from None

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = read_request(Chat, await self.read(request))
        model = self.served.model
        _check_name(body.model, model.name)
        completion = await model.complete(Request(body.conversation, role="reply", form=body.form))
        reply = await asyncio.to_thread(self.reply, body, completion)
        if not body.stream:
            return web.json_response(reply.whole())
        with_usage = body.stream_options is not None and body.stream_options.include_usage
        return await self.stream(request, reply, with_usage=with_usage)

    def reply(self, body: Chat, completion: Completion) -> Reply:
        """Return what a model said as a request wants it."""
        calls, n = body.called(completion.text), body.n or 1
        text, finish = body.shaped(completion.text, calls)
        usage = Usage(completion.usage.input_tokens, estimated_tokens(text) * n)
        name, now = self.served.model.name, int(self.served.clock())
        return Reply(f"chatcmpl-{uuid4().hex}", now, name, text, finish, n, usage, calls)

    async def stream(self, request: web.Request, reply: Reply, *, with_usage: bool) -> web.StreamResponse:
        """Send server-sent events, to a client that takes them."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        events = (b"data: " + to_json(piece) + b"\n\n" for piece in reply.pieces(with_usage=with_usage))
        try:
            await response.prepare(request)
            for event in chain(events, [b"data: [DONE]\n\n"]):
                async with asyncio.timeout(self.served.patience_seconds):
                    await response.write(event)
        except ConnectionError:
            _log.debug("a client hung up in its stream")
        except TimeoutError:
            request.protocol.force_close()
        return response

    async def embeddings(self, request: web.Request) -> web.Response:
        body = read_request(Embeddings, await self.read(request))
        name = self.served.embedder.name
        _check_name(body.model, name)
        embedder = self.served.embedder
        if body.dimensions is not None and isinstance(embedder, AnyWidth):
            embedder = embedder.of_width(body.dimensions)
        rows = np.asarray((await embedder.embed(body.input)).vectors, dtype="<f4")
        if body.dimensions not in {None, rows.shape[1]}:
            raise ApiError(400, f"dimensions: {name} has {rows.shape[1]} and no others", param="dimensions")
        coded = body.encoding_format == "base64"
        vectors = [base64.b64encode(row.tobytes()).decode() if coded else row.tolist() for row in rows]
        data = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
        tokens_in = sum(map(estimated_tokens, body.input))
        usage = {"prompt_tokens": tokens_in, "total_tokens": tokens_in}
        return web.json_response({"object": "list", "data": data, "model": name, "usage": usage})

    async def models(self, _: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [_model(name) for name in self._names]})

    async def model(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        _check_name(name, *self._names)
        return web.json_response(_model(name))

    async def health(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "requests": self.here})

    @property
    def _names(self) -> tuple[str, str]:
        return self.served.model.name, self.served.embedder.name

    def _explain(self, request: web.Request, error: web.HTTPException) -> ApiError:
        match error:
            case web.HTTPRequestEntityTooLarge():
                what = f"the request is larger than {self.served.most_bytes:,} bytes"
            case web.HTTPNotFound():
                known = "POST /v1/chat/completions, POST /v1/embeddings, GET /v1/models, GET /health"
                what = f"there is no {request.method} {request.path}; there are {known}"
            case web.HTTPMethodNotAllowed():
                what = f"{request.path} takes {', '.join(sorted(error.allowed_methods))}, not {request.method}"
            case _:
                what = error.reason
        return ApiError(error.status, what)


API: web.AppKey[_Api] = web.AppKey("api", _Api)


def _check_name(name: str, *known: str) -> None:
    if name not in known:
        there_is = " and ".join(map(repr, known))
        raise ApiError(404, f"no model {name!r} here; there is {there_is}", param="model", code="model_not_found")


def _model(name: str) -> Json:
    return {"id": name, "object": "model", "created": 0, "owned_by": "mnemotune"}


def _refusal(error: ApiError, *, allow: str | None = None) -> web.Response:
    headers = {"Allow": allow} if allow else {"Retry-After": "1"} if error.status == 429 else {}
    return web.json_response(error.body, status=error.status, headers=headers)
