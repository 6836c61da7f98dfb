"""A language model and an embedder behind HTTP, after OpenAI's API: chat completions, embeddings, models, health."""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

import numpy as np
from aiohttp import web

from .base import Embedder, LanguageModel, LanguageModelError, Request, Usage, estimated_tokens, to_json
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
    """Largest request; a larger one is refused with status 413."""
    clock: Callable[[], float] = time.time
    """In seconds since 1970; the API wants to know when a reply was made."""


def application(served: Served) -> web.Application:
    """Return an application that serves a model and an embedder under ``/v1``, with ``/health`` beside it."""
    api = _Api(served)
    app = web.Application(client_max_size=served.most_bytes, middlewares=[api.guard])
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
    runner = web.AppRunner(
        application(served),
        access_log=None,
        handler_cancellation=True,  # a client that hangs up wants no reply any more
        shutdown_timeout=GRACE_SECONDS,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        name, bound = runner.addresses[0][:2]
        yield f"http://{f'[{name}]' if ':' in name else name}:{bound}/v1"
    finally:
        await runner.cleanup()


class _Api:
    def __init__(self, served: Served) -> None:
        self.served = served
        self.here = 0
        """Requests for work, from before they are read to after they are answered."""

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let no more in than there is room for, and say every failure in OpenAI's form."""
        try:
            return await (self.admit(request, handler) if request.method == "POST" else handler(request))
        except ApiError as error:
            return _refusal(error)
        except web.HTTPException as error:
            return _refusal(self._explain(request, error), allow=error.headers.get("Allow"))
        except web.RequestPayloadError:
            return _refusal(ApiError(400, "the request: its body cannot be unpacked; see Content-Encoding"))
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

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = read_request(Chat, await request.read())
        model = self.served.model
        _check_name(body.model, model.name)
        completion = await model.complete(Request(body.conversation, role="reply", form=body.form))
        text, finish = body.shaped(completion.text)
        n = body.n or 1
        usage = Usage(completion.usage.input_tokens, estimated_tokens(text) * n)
        reply = Reply(f"chatcmpl-{uuid4().hex}", int(self.served.clock()), model.name, text, finish, n, usage)
        if not body.stream:
            return web.json_response(reply.whole())
        with_usage = body.stream_options is not None and body.stream_options.include_usage
        return await _stream(request, reply, with_usage=with_usage)

    async def embeddings(self, request: web.Request) -> web.Response:
        body = read_request(Embeddings, await request.read())
        name = self.served.embedder.name
        _check_name(body.model, name)
        rows = np.asarray((await self.served.embedder.embed(body.input)).vectors, dtype="<f4")
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


def _check_name(name: str, *known: str) -> None:
    if name not in known:
        there_is = " and ".join(map(repr, known))
        raise ApiError(404, f"no model {name!r} here; there is {there_is}", param="model", code="model_not_found")


def _model(name: str) -> Json:
    return {"id": name, "object": "model", "created": 0, "owned_by": "mnemotune"}


def _refusal(error: ApiError, *, allow: str | None = None) -> web.Response:
    headers = {"Allow": allow} if allow else {"Retry-After": "1"} if error.status == 429 else {}
    return web.json_response(error.body, status=error.status, headers=headers)


async def _stream(request: web.Request, reply: Reply, *, with_usage: bool) -> web.StreamResponse:
    """Send server-sent events."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    try:
        for piece in reply.pieces(with_usage=with_usage):
            await response.write(b"data: " + to_json(piece) + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
    except ConnectionError:
        _log.debug("a client hung up in its stream")
    return response
