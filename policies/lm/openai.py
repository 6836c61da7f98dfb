"""Models behind any OpenAI-compatible endpoint: OpenAI itself, vLLM, Ollama, the llama.cpp server, a proxy."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, Unpack
from weakref import WeakValueDictionary

import numpy as np

from .base import CHARACTERS_PER_TOKEN, Completion, Ledger, Request, Usage, Vectors, most_input_tokens, to_json
from .cache import ResponseCache, cache_key
from .endpoint import Endpoint, EndpointOptions, excerpt
from .prices import Prices

RESERVED = ("model", "messages", "input", "n", "stream", "max_tokens", "max_completion_tokens")
"""What ``extra_body`` may not hold: the accounting rests on it."""


class OpenAIModel:
    """A chat model behind an OpenAI-compatible endpoint. Calls under way at the same time share its limits."""

    def __init__(
        self,
        name: str,
        *,
        prices: Prices | None = None,
        cache: ResponseCache | None = None,
        extra_body: Mapping[str, object] | None = None,
        max_tokens: int | None = None,
        max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens",
        **endpoint: Unpack[EndpointOptions],
    ) -> None:
        """Ask model ``name``.

        Without ``prices`` the cost of a call is not known. ``max_tokens`` stands in for what each request asks for.
        ``extra_body`` is added to every request and wins. The ``cache`` stays open at ``aclose``: others may share it.
        ``endpoint`` takes the keywords of ``Endpoint``. Raises ValueError when ``extra_body`` holds a RESERVED key.
        """
        check_extra_body(extra_body)
        self._endpoint = Endpoint(name, **endpoint)
        self._prices = prices
        self._cache = cache
        self._extra_body = dict(extra_body or {})
        self._max_tokens = max_tokens
        self._max_tokens_field = max_tokens_field
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def name(self) -> str:
        """The model's name at its endpoint."""
        return self._endpoint.model

    def worst_case(self, request: Request) -> Usage:
        """Return the most that one attempt can take: every byte a token, the reply as long as it may be."""
        return self._usage(most_input_tokens(request.messages), self._longest(request))

    async def complete(self, request: Request) -> Completion:
        """Return the reply, from the cache where it is known. An empty reply is "", not an error."""
        if self._cache is None:
            return await self._ask(request)
        key = cache_key(self._endpoint.url, request.repeat, self._body(request))
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:  # whoever asks the same meanwhile waits for this answer
            known = self._cache.get(key)
            if known is not None:
                return known
            completion = await self._ask(request)
            self._cache.put(key, completion)
            return completion

    async def aclose(self) -> None:
        """Close all connections."""
        await self._endpoint.aclose()

    def _body(self, request: Request) -> Iterator[bytes]:
        """Return the request as JSON, piece by piece."""
        settings: dict[str, object] = {
            "model": self.name,
            "temperature": request.temperature,
            self._max_tokens_field: self._longest(request),
        }
        if request.json_mode:
            settings["response_format"] = {"type": "json_object"}
        yield b'{"messages": ['
        for i, message in enumerate(request.messages):
            if i:
                yield b", "
            yield message.encoded
        yield b"], " + to_json(settings | self._extra_body)[1:]

    async def _ask(self, request: Request) -> Completion:
        reply = await self._endpoint.post(
            "/chat/completions", lambda: b"".join(self._body(request)), role=request.role, unanswered=request.unanswered
        )
        match reply:
            case {"choices": [{"message": {"content": str(content)}}, *_]}:
                text = content.encode(errors="replace").decode()  # half of a surrogate pair cannot be sent or stored
            case {"choices": [{"message": dict(message)}, *_]} if message.get("content") is None:
                text = ""
            case _:
                raise self._endpoint.error(f"the reply holds no choice with a text: {excerpt(json.dumps(reply))}")
        input_tokens = _tokens(reply, "prompt_tokens", (message.content for message in request.messages))
        output_tokens = _tokens(reply, "completion_tokens", [text])
        return Completion(text, self._usage(input_tokens, output_tokens))

    def _longest(self, request: Request) -> int:
        return self._max_tokens or request.max_tokens

    def _usage(self, input_tokens: int, output_tokens: int) -> Usage:
        cost = None if self._prices is None else self._prices.cost(input_tokens, output_tokens)
        return Usage(input_tokens, output_tokens, cost)


class OpenAIEmbedder:
    """An embedding model behind an OpenAI-compatible endpoint."""

    def __init__(
        self,
        name: str,
        *,
        prices: Prices | None = None,
        extra_body: Mapping[str, object] | None = None,
        batch_size: int = 128,
        **endpoint: Unpack[EndpointOptions],
    ) -> None:
        """Ask model ``name`` for at most ``batch_size`` texts a call; the rest as for ``OpenAIModel``."""
        if batch_size < 1:
            raise ValueError("batch_size must be positive")
        check_extra_body(extra_body)
        self._endpoint = Endpoint(name, **endpoint)
        self._prices = prices
        self._extra_body = dict(extra_body or {})
        self._batch_size = batch_size
        self.ledger = Ledger()

    @property
    def name(self) -> str:
        """The model's name at its endpoint."""
        return self._endpoint.model

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row per text, of length 1; a blank text has a row of zeros. No texts have shape ``(0, 0)``."""
        starts = range(0, len(texts), self._batch_size)
        batches = [await self._embed_batch(texts[start : start + self._batch_size]) for start in starts]
        return np.concatenate(batches) if batches else np.zeros((0, 0), dtype=np.float32)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._endpoint.aclose()

    async def _embed_batch(self, texts: Sequence[str]) -> Vectors:
        spoken = np.array([bool(text.strip()) for text in texts])
        asked = [text if text.strip() else "-" for text in texts]  # OpenAI refuses a whole batch for one empty text
        body = to_json({"model": self.name, "input": asked} | self._extra_body)
        reply = await self._endpoint.post("/embeddings", lambda: body, role="embed")
        tokens = _tokens(reply, "prompt_tokens", asked)
        self.ledger.add("embed", Usage(tokens, 0, self._prices.cost(tokens, 0) if self._prices else None))
        rows = self._rows(reply, count=len(texts))
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        unit: Vectors = rows / np.where(lengths > 0, lengths, 1) * spoken[:, None]
        return unit

    def _rows(self, reply: object, *, count: int) -> Vectors:
        """Return the vectors in the order of the texts, whatever the order of the reply."""
        try:
            data = sorted(reply["data"], key=lambda item: int(item["index"]))  # type: ignore[index]
            rows = np.array([item["embedding"] for item in data], dtype=np.float32)
        except (KeyError, TypeError, ValueError):
            rows = np.zeros((0, 0), dtype=np.float32)
        if rows.ndim != 2 or len(rows) != count or not np.isfinite(rows).all():
            what = f"the reply does not hold {count} vectors of finite numbers: {excerpt(json.dumps(reply))}"
            raise self._endpoint.error(what)
        return rows


def check_extra_body(extra_body: Mapping[str, object] | None) -> None:
    """Raise ValueError when ``extra_body`` holds a RESERVED key."""
    taken = sorted(set(extra_body or {}) & set(RESERVED))
    if taken:
        raise ValueError(f"extra_body cannot hold {', '.join(taken)}; the longest reply is max_tokens")


def _tokens(reply: object, counter: str, texts: Iterable[str]) -> int:
    """Return the server's count, or an estimate from the texts where it gives none (or 0, as some do)."""
    match reply:
        case {"usage": dict(usage)} if isinstance(count := usage.get(counter), int) and count > 0:
            return count
    return math.ceil(sum(map(len, texts)) / CHARACTERS_PER_TOKEN)
