"""A language model and an embedder behind HTTP, after OpenAI's API: chat completions, embeddings, models, health."""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import chain
from uuid import uuid4

import numpy as np
from aiohttp import web

from .base import AnyWidth, Completion, Embedder, LanguageModel, Request, estimated_tokens, to_json
from .door import Door, open_door
from .ledger import Usage
from .wire import ApiError, Chat, Embeddings, Json, Reply, read_request

KNOWN = "POST /v1/chat/completions, POST /v1/embeddings, GET /v1/models, GET /health"

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
    routes = [
        web.post("/v1/chat/completions", api.chat),
        web.post("/v1/embeddings", api.embeddings),
        web.get("/v1/models", api.models),
        web.get("/v1/models/{name:.+}", api.model),
    ]
    return api.door.application(routes)


@asynccontextmanager
async def listening(served: Served, *, host: str, port: int) -> AsyncIterator[str]:
    """Serve inside the block, as ``open_door`` has it; gives the URL for clients."""
    async with open_door(application(served), host=host, port=port) as url:
        yield url


class _Api:
    def __init__(self, served: Served) -> None:
        self.served = served
        self.door = Door(served, known=KNOWN)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = read_request(Chat, await self.door.read(request))
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
        body = read_request(Embeddings, await self.door.read(request))
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

    @property
    def _names(self) -> tuple[str, str]:
        return self.served.model.name, self.served.embedder.name


def _check_name(name: str, *known: str) -> None:
    if name not in known:
        there_is = " and ".join(map(repr, known))
        raise ApiError(404, f"no model {name!r} here; there is {there_is}", param="model", code="model_not_found")


def _model(name: str) -> Json:
    return {"id": name, "object": "model", "created": 0, "owned_by": "mnemotune"}
