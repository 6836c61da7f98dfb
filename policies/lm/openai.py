"""Models behind any OpenAI-compatible endpoint: OpenAI itself, vLLM, Ollama, the llama.cpp server, a proxy."""

from __future__ import annotations

import asyncio
import base64
import logging
import math
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from pydantic import ValidationError

from ...data.record import first_problem
from ..forms import ResponseFormat
from .base import (
    MOST_TEXTS,
    Bill,
    Completion,
    Embedding,
    LanguageModelError,
    Message,
    Refused,
    Request,
    Vectors,
    in_batches,
    most_input_tokens,
    to_json,
)
from .budget import BudgetExhausted
from .cache import Cache, cache_key
from .completions import is_cut, said_in, tokens_in, tokens_of, whole
from .endpoint import Endpoint
from .endpoint_config import EndpointConfig
from .ledger import CallRole, Usage
from .outage import Clock
from .secrets import without_login
from .streaming import Said
from .structured import ResponseFormats, in_format, response_format

PING = {"messages": [{"role": "user", "content": "ping"}]}
"""A request whose answer tells only that the endpoint gives answers."""
SHORT_CHARACTERS = 512
"""Of a text that every embedding model takes; a longer one that is refused may be too long."""
CUT = "model %s: a reply (%s) was cut at its limit of %d tokens or at the context's end; see endpoint.max_tokens"

_log = logging.getLogger(__name__)


class _OpenAI:
    """A model behind an OpenAI-compatible endpoint."""

    def __init__(
        self,
        name: str,
        *,
        cache: Cache | None = None,
        api_key: str | None = None,
        clock: Clock | None = None,
        **settings: Any,
    ) -> None:
        """Ask model ``name``; ``settings`` are those of ``EndpointConfig``, for example ``base_url``.

        Without a price the cost of a call is not known. The ``cache`` stays open at ``aclose``: others may share it.
        ``api_key`` defaults to OPENAI_API_KEY. Raises ValueError for a wrong setting, and LanguageModelError when the
        URL or the key is missing.
        """
        try:
            self._config = EndpointConfig.model_validate(settings)
        except ValidationError as error:
            raise ValueError(first_problem(error)) from None
        self._endpoint = Endpoint(name, self._config, api_key=api_key, clock=clock)
        self._prices = self._config.prices.get(name)
        self._cache = cache
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def name(self) -> str:
        """The model's name at its endpoint."""
        return self._endpoint.model

    async def aclose(self) -> None:
        """Close all connections."""
        await self._endpoint.aclose()

    def _usage(self, input_tokens: int, output_tokens: int = 0) -> Usage:
        cost = None if self._prices is None else self._prices.cost(input_tokens, output_tokens)
        return Usage(input_tokens, output_tokens, cost)


class OpenAIModel(_OpenAI):
    """A chat model behind an OpenAI-compatible endpoint. Calls under way at the same time share its limits."""

    def __init__(self, name: str, *, cache: Cache | None = None, **settings: Any) -> None:
        """Ask model ``name``, as ``_OpenAI`` has it."""
        super().__init__(name, cache=cache, **settings)
        where = f"{without_login(self._endpoint.url)} {name}"
        self._cut = set[CallRole]()
        self._formats = ResponseFormats(self._config.structured, cache=cache, where=where)

    def worst_case(self, request: Request) -> Usage:
        """Return the most that one attempt can take: every byte a token, the reply as long as it may be."""
        return self._usage(most_input_tokens(request.messages, request.tools), self._longest(request))

    async def complete(self, request: Request) -> Completion:
        """Return the reply, from the cache where it is known. An empty reply is "", not an error."""
        if self._cache is None:
            return await self._formats.ask(request.form, partial(self._ask, request))
        for refused in [] if request.form is None else self._formats.tried(request.form)[:-1]:
            known = self._known(self._cache, self._key(request, refused))
            if known is not None:
                return in_format(known, refused)
        return await self._formats.ask(request.form, partial(self._look_up, self._cache, request))

    async def stream(self, request: Request) -> AsyncIterator[str]:
        """Yield the text of the reply as it comes; a reply in a form, or that a cache may hold, comes in one piece."""
        if self._cache is not None or request.form is not None:
            yield (await self.complete(request)).text
            return
        said = Said()
        asking = self._endpoint.stream(
            "/chat/completions",
            lambda: b"".join(self._body(request, None, stream=True)),
            role=request.role,
            ping=self._ping(),
            bill=request.bill,
        )
        async with asking as events:
            async for event in events:
                if text := whole(said.take(event)):
                    yield text
        if text := whole(said.rest()):
            yield text

    async def _look_up(self, cache: Cache, request: Request, kind: ResponseFormat | None) -> Completion:
        key = self._key(request, kind)
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:  # equal requests wait for this answer
            known = self._known(cache, key)
            if known is not None:
                return known
            completion = await self._ask(request, kind)
            cache.put(key, completion)
            return completion

    def _known(self, cache: Cache, key: str) -> Completion | None:
        known = cache.get(key)
        if known is None:
            return None
        full = self._usage(known.usage.input_tokens, known.usage.output_tokens)
        return replace(known, usage=replace(known.usage, saved_usd=full.cost_usd))

    def _key(self, request: Request, kind: ResponseFormat | None) -> str:
        return cache_key(without_login(self._endpoint.url), request.repeat, self._body(request, kind))

    def _body(self, request: Request, kind: ResponseFormat | None, *, stream: bool = False) -> Iterator[bytes]:
        """Return the request as JSON, piece by piece."""
        settings: dict[str, object] = {
            "model": self.name,
            "temperature": request.temperature,
            self._config.max_tokens_field: self._longest(request),
            **response_format(request.form, kind),
            **({"tools": [tool.as_json() for tool in request.tools]} if request.tools else {}),
            **({"stream": True} if stream else {}),
        }
        yield b'{"messages": ['
        for i, message in enumerate(request.messages):
            if i:
                yield b", "
            yield message.encoded
        yield b"], " + to_json(settings | self._config.extra_body)[1:]

    async def _ask(self, request: Request, kind: ResponseFormat | None) -> Completion:
        reply, (text, calls) = await self._endpoint.post(
            "/chat/completions",
            lambda: b"".join(self._body(request, kind)),
            role=request.role,
            ping=self._ping(),
            read=lambda reply: (reply, said_in(reply, tools=bool(request.tools))),
            bill=request.bill,
        )
        usage = self._usage(*tokens_of(reply, request, text, calls))
        return Completion(text, replace(usage, cut=self._is_cut(reply, request)), calls)

    def _ping(self) -> bytes:
        return to_json(PING | {"model": self.name, self._config.max_tokens_field: 1} | self._config.extra_body)

    def _is_cut(self, reply: object, request: Request) -> bool:
        if not is_cut(reply):
            return False
        if request.role not in self._cut:
            self._cut.add(request.role)
            _log.warning(CUT, self.name, request.role, self._longest(request))
        return True

    def _longest(self, request: Request) -> int:
        given = self._config.max_tokens
        return given.get(request.role, request.max_tokens) if isinstance(given, dict) else given or request.max_tokens


@dataclass(slots=True)
class _Parts:
    """What became of a batch that is sent in parts."""

    answered: int = 0
    """Requests."""
    shortened: int = 0
    """Times that a text was too long."""


class OpenAIEmbedder(_OpenAI):
    """An embedding model behind an OpenAI-compatible endpoint."""

    def __init__(self, name: str, *, cache: Cache | None = None, **settings: Any) -> None:
        """Ask model ``name``, as ``_OpenAI`` has it."""
        super().__init__(name, cache=cache, **settings)
        self._most_texts = MOST_TEXTS

    def worst_case(self, texts: Sequence[str]) -> Usage:
        """Return the most that one attempt can take: every byte a token."""
        return self._usage(most_input_tokens([Message("user", text) for text in texts]))

    async def embed(self, texts: Sequence[str], *, bill: Bill | None = None) -> Embedding:
        """Return the vectors, from the cache where they are known.

        A blank text has a row of zeros. No texts have shape ``(0, 0)``.
        """
        ask = self._ask if self._cache is None else partial(self._look_up, self._cache)
        return await in_batches(texts, lambda batch: ask(batch, bill))

    async def _look_up(self, cache: Cache, texts: Sequence[str], bill: Bill | None) -> Embedding:
        """Ask only for the texts that are not in the cache. Each is kept by itself: the next batch may be another."""
        keys = [cache_key(without_login(self._endpoint.url), 0, [self._body([text])]) for text in texts]
        known = {key: answer for key in set(keys) if (answer := cache.get(key)) is not None}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        cost: float | None = 0.0
        too_much = None
        if missing and bill is not None:
            try:
                await bill.reserve()  # a call that waits for a text of this one may have what this one waits for
            except BudgetExhausted as error:
                too_much = error
        async with AsyncExitStack() as stack:
            for key in sorted(missing):  # in one order, so that no two calls wait for each other
                await stack.enter_async_context(self._locks.setdefault(key, asyncio.Lock()))
            known |= {key: answer for key in missing if (answer := cache.get(key)) is not None}
            new = {key: text for key, text in missing.items() if key not in known}
            if new and too_much is not None:
                raise too_much
            if new:
                reply = await self._ask(list(new.values()), bill)
                cost = None if reply.usage is None else reply.usage.cost_usd
                for key, answer in zip(new, _apart(reply, list(new.values())), strict=True):
                    cache.put(key, answer)
                    known[key] = answer
        rows = [_vector_of(known[key].text) for key in keys]
        tokens = sum(answer.usage.input_tokens for answer in known.values())
        return Embedding(np.array(rows, dtype=np.float32), Usage(tokens, 0, cost, cached=not new))

    async def _ask(self, texts: Sequence[str], bill: Bill | None) -> Embedding:
        """Return the vectors. A batch that is refused is halved, and none is larger from then on if that helps.

        Of a long text that is refused by itself the beginning is taken, which stands for it.
        """
        parts = _Parts()
        try:
            return await in_batches(texts, lambda batch: self._ask_in_parts(batch, bill, parts), most=self._most_texts)
        except LanguageModelError:
            if parts.answered and bill is not None:  # the server bills these, and the call as a whole has no answer
                with suppress(BudgetExhausted):  # that is for the next call to say
                    await bill.unanswered()
            raise

    async def _ask_in_parts(self, texts: Sequence[str], bill: Bill | None, parts: _Parts) -> Embedding:
        try:
            answer = await self._ask_at_once(texts, bill)
        except Refused:
            if len(texts) == 1 and len(texts[0]) <= SHORT_CHARACTERS:
                raise
        else:
            parts.answered += 1
            return answer
        if len(texts) == 1:
            parts.shortened += 1
            return await self._ask_in_parts([texts[0][: len(texts[0]) // 2]], bill, parts)
        half, shortened = math.ceil(len(texts) / 2), parts.shortened
        answer = await in_batches(texts, lambda batch: self._ask_in_parts(batch, bill, parts), most=half)
        if parts.shortened == shortened:  # else it was a text that was too long, and not the batch
            self._most_texts = min(self._most_texts, half)
        return answer

    async def _ask_at_once(self, texts: Sequence[str], bill: Bill | None) -> Embedding:
        spoken = np.array([bool(text.strip()) for text in texts])
        body = self._body(texts)
        reply, rows = await self._endpoint.post(
            "/embeddings",
            lambda: body,
            role="embed",
            ping=self._body(["ping"]),
            read=lambda reply: (reply, _rows(reply, count=len(texts))),
            bill=bill,
        )
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        unit: Vectors = rows / np.where(lengths > 0, lengths, 1) * spoken[:, None]
        return Embedding(unit.astype(np.float32), self._usage(tokens_in(reply, "prompt_tokens", texts)))

    def _body(self, texts: Sequence[str]) -> bytes:
        sent = [text if text.strip() else "-" for text in texts]  # OpenAI refuses a whole batch for one empty text
        return to_json({"model": self.name, "input": sent} | self._config.extra_body)


def _rows(reply: object, *, count: int) -> Vectors:
    """Return the vectors in the order of the texts, whatever the order of the reply. Raises ValueError."""
    try:
        data = list(enumerate(reply["data"]))  # type: ignore[index]
        data.sort(key=lambda item: int(item[0] if item[1].get("index") is None else item[1]["index"]))
        rows = np.array([item["embedding"] for _, item in data], dtype=np.float32)
    except (KeyError, TypeError, ValueError, AttributeError):
        rows = np.zeros((0, 0), dtype=np.float32)
    if rows.ndim != 2 or len(rows) != count or not np.isfinite(rows).all():
        raise ValueError(f"the reply does not hold {count} vectors of finite numbers")
    return rows


def _apart(embedding: Embedding, texts: Sequence[str]) -> Iterator[Completion]:
    """Return each text's vector as text, with its share of the tokens by its length."""
    lengths = np.cumsum([max(1, len(text)) for text in texts])
    tokens = 0 if embedding.usage is None else embedding.usage.tokens
    shares = np.diff(np.round(lengths * tokens / lengths[-1]).astype(int), prepend=0)
    for row, share in zip(embedding.vectors, shares, strict=True):
        yield Completion(as_kept(row), Usage(int(share), 0))


def as_kept(vector: Vectors) -> str:
    """Return a vector as a cache keeps it: a text, Base64 of its numbers."""
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


def _vector_of(kept: str) -> Vectors:
    return np.frombuffer(base64.b64decode(kept, validate=True), dtype="<f4")


def is_vector(kept: str) -> bool:
    """Tell whether an answer of a cache is a text's vector: its length is 1, or 0 for a blank text."""
    try:
        vector = _vector_of(kept)
    except ValueError:
        return False
    with np.errstate(all="ignore"):  # what is no vector may be any number
        length = float(np.linalg.norm(vector.astype(float)))
    return len(vector) > 0 and (length == 0 or math.isclose(length, 1, rel_tol=1e-3))
