"""Any OpenAI-compatible endpoint: OpenAI itself, vLLM, Ollama, the llama.cpp server, a proxy."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack
from weakref import WeakValueDictionary

import numpy as np
from tenacity import AsyncRetrying, RetryCallState, before_sleep_log, retry_if_exception, stop_after_attempt

from .base import CallRole, Completion, EndpointDown, LanguageModelError, Ledger, Request, Usage, Vectors
from .cache import ResponseCache, cache_key

if TYPE_CHECKING:
    import openai

OFFICIAL_URL = "https://api.openai.com/v1"
ROLE_HEADER = "X-Mnemotune-Role"
LONGEST_RETRY_AFTER_SECONDS = 300.0
"""A server that asks for a longer wait gets no second call."""
FIRST_BACKOFF_SECONDS = 1.0
LONGEST_BACKOFF_SECONDS = 60.0
CHARACTERS_PER_TOKEN = 4
"""Used only where a server does not count tokens."""
TOO_LONG = r"(?i)context.{0,3}(length|window|size)|maximum model length|prompt is too long"
"""How OpenAI, vLLM, the llama.cpp server and others complain of a long prompt."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Prices:
    """What a model's tokens cost."""

    input_usd: float
    """US dollars per million input tokens, without the discounts that some providers give for repeated ones."""
    output_usd: float
    """US dollars per million output tokens."""
    taken: date
    """Day on which the two were read from the price list."""

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        """Return US dollars."""
        return (input_tokens * self.input_usd + output_tokens * self.output_usd) / 1e6


@dataclass(frozen=True, slots=True)
class Clock:
    """Where waits take time and chance from."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    seconds: Callable[[], float] = time.monotonic
    """Never runs backwards; its zero means nothing."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    chance: Callable[[], float] = field(default_factory=lambda: random.SystemRandom().random)
    """Uniform in [0, 1). Spreads retries out; no result depends on it."""


class EndpointOptions(TypedDict, total=False):
    """The keywords of ``Endpoint``, which say how its models are reached; all may be left out."""

    base_url: str | None
    api_key: str | None
    concurrency: int
    requests_per_minute: float | None
    timeout_seconds: float
    attempts: int
    clock: Clock


class Endpoint:
    """One model behind one URL: paces calls, repeats the ones worth repeating, explains the others.

    Lives in one event loop.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        concurrency: int = 16,
        requests_per_minute: float | None = None,
        timeout_seconds: float = 120.0,
        attempts: int = 6,
        clock: Clock | None = None,
    ) -> None:
        """Connect to nothing yet.

        ``base_url`` and ``api_key`` default to OPENAI_BASE_URL and OPENAI_API_KEY; only OpenAI's own endpoint insists
        on a key. ``concurrency`` counts calls under way, those that wait for their retry included, so that a struggling
        server sees fewer. ``attempts`` counts the first. Raises LanguageModelError when the URL or the key is missing.
        """
        if concurrency < 1 or attempts < 1 or timeout_seconds <= 0 or (requests_per_minute or 1) <= 0:
            raise ValueError("concurrency, attempts, timeout_seconds and requests_per_minute must be positive")
        import openai

        self.model = model
        self.url = (base_url or os.environ.get("OPENAI_BASE_URL") or OFFICIAL_URL).rstrip("/")
        self._client = openai.AsyncOpenAI(
            base_url=self.url, api_key=_key(self.url, api_key), timeout=timeout_seconds, max_retries=0
        )
        self._slots = asyncio.Semaphore(concurrency)
        self._interval = 60.0 / requests_per_minute if requests_per_minute else 0.0
        self._next_start = -math.inf
        self._timeout = timeout_seconds
        self._attempts = attempts
        self._clock = clock or Clock()

    async def post(self, path: str, body: Mapping[str, object], *, role: CallRole) -> object:
        """Return the JSON that the server answers. Raises LanguageModelError when it will not."""
        retrying = AsyncRetrying(
            sleep=self._clock.sleep,
            stop=stop_after_attempt(self._attempts),
            wait=self._wait,
            retry=retry_if_exception(lambda error: isinstance(error, _AttemptError) and error.again),
            before_sleep=before_sleep_log(_log, logging.INFO),
            reraise=True,
        )
        async with self._slots:
            try:
                return await retrying(self._attempt, path, body, role)
            except _AttemptError as error:
                tries = retrying.statistics["attempt_number"]
                what = f"{error}{f' (tried {tries} times)' if tries > 1 else ''}"
                raise self.error(what, down=error.down) from error.__cause__

    def error(self, what: str, *, down: bool = False) -> LanguageModelError:
        """Return an error that names this endpoint and model; ``down`` when no other call would do better."""
        shown = re.sub(r"//[^/]*@", "//", self.url)  # a URL may hold a password
        return (EndpointDown if down else LanguageModelError)(f"{shown}, model {self.model}: {what}")

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def _attempt(self, path: str, body: Mapping[str, object], role: CallRole) -> object:
        import openai

        await self._pace()
        headers = {ROLE_HEADER: role}
        try:
            text = await self._client.post(path, cast_to=str, body=body, options={"headers": headers})
        except openai.APIStatusError as error:
            raise _refusal(error, self._clock.now()) from error
        except openai.APITimeoutError as error:
            what = f"no reply within {self._timeout:g} s; raise timeout_seconds or lower concurrency"
            raise _AttemptError(what, again=True) from error
        except openai.APIConnectionError as error:
            what = f"no connection ({error.__cause__ or error}); check that the server runs, and OPENAI_BASE_URL"
            raise _AttemptError(what, again=True, down=True) from error
        try:
            return json.loads(text)
        except ValueError as error:
            what = f"the reply is not JSON: {_excerpt(text)}; check base_url, which mostly ends in /v1"
            raise _AttemptError(what) from error

    async def _pace(self) -> None:
        """Wait for this call's turn under ``requests_per_minute``."""
        now = self._clock.seconds()
        start = max(now, self._next_start)
        self._next_start = start + self._interval
        if start > now:
            await self._clock.sleep(start - now)

    def _wait(self, state: RetryCallState) -> float:
        """Return the seconds until the next attempt: what the server said, else doubling ones, less up to a half."""
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, _AttemptError) and error.retry_after:
            return error.retry_after
        backoff = min(LONGEST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** (state.attempt_number - 1))
        return backoff * (1.0 - self._clock.chance() / 2.0)


class OpenAIModel:
    """A chat model behind an OpenAI-compatible endpoint. Calls under way at the same time share its limits."""

    def __init__(
        self,
        name: str,
        *,
        prices: Prices | None = None,
        cache: ResponseCache | None = None,
        extra_body: Mapping[str, object] | None = None,
        max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens",
        **endpoint: Unpack[EndpointOptions],
    ) -> None:
        """Ask model ``name``.

        Without ``prices`` the cost of a call is not known. ``extra_body`` is added to every request and wins. The
        ``cache`` stays open at ``aclose``: others may share it. ``endpoint`` takes the keywords of ``Endpoint``.
        """
        self._endpoint = Endpoint(name, **endpoint)
        self._prices = prices
        self._cache = cache
        self._extra_body = dict(extra_body or {})
        self._max_tokens_field = max_tokens_field
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def name(self) -> str:
        """The model's name at its endpoint."""
        return self._endpoint.model

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """Return what a call costs in US dollars, None where it is not known. Fits ``Budget(price=...)``."""
        return self._prices.cost(input_tokens, output_tokens) if self._prices else None

    async def complete(self, request: Request) -> Completion:
        """Return the reply, from the cache where it is known. An empty reply is "", not an error."""
        body = self._body(request)
        if self._cache is None:
            return await self._ask(body, request)
        key = cache_key({"endpoint": self._endpoint.url, "body": body, "repeat": request.repeat})
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:  # whoever asks the same meanwhile waits for this answer
            known = self._cache.get(key)
            if known is not None:
                return known
            completion = await self._ask(body, request)
            self._cache.put(key, completion)
            return completion

    async def aclose(self) -> None:
        """Close all connections."""
        await self._endpoint.aclose()

    def _body(self, request: Request) -> dict[str, object]:
        body: dict[str, object] = {
            "model": self.name,
            "messages": [{"role": message.role, "content": message.content} for message in request.messages],
            "temperature": request.temperature,
            self._max_tokens_field: request.max_tokens,
        }
        if request.json_mode:
            body["response_format"] = {"type": "json_object"}
        return body | self._extra_body

    async def _ask(self, body: Mapping[str, object], request: Request) -> Completion:
        reply = await self._endpoint.post("/chat/completions", body, role=request.role)
        match reply:
            case {"choices": [{"message": {"content": str(content)}}, *_]}:
                text = content.encode(errors="replace").decode()  # half of a surrogate pair cannot be sent or stored
            case {"choices": [{"message": dict(message)}, *_]} if message.get("content") is None:
                text = ""
            case _:
                raise self._endpoint.error(f"the reply holds no choice with a text: {_excerpt(json.dumps(reply))}")
        said = sum(len(message.content) for message in request.messages)
        input_tokens = _tokens(reply, "prompt_tokens", characters=said)
        output_tokens = _tokens(reply, "completion_tokens", characters=len(text))
        return Completion(text, Usage(input_tokens, output_tokens, self.price(input_tokens, output_tokens)))


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
        body = {"model": self.name, "input": asked} | self._extra_body
        reply = await self._endpoint.post("/embeddings", body, role="embed")
        tokens = _tokens(reply, "prompt_tokens", characters=sum(map(len, asked)))
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
            what = f"the reply does not hold {count} vectors of finite numbers: {_excerpt(json.dumps(reply))}"
            raise self._endpoint.error(what)
        return rows


class _AttemptError(Exception):
    """One attempt came to nothing; ``again`` says whether another may do better, ``down`` that no call ever will."""

    def __init__(self, what: str, *, again: bool = False, down: bool = False, retry_after: float | None = None) -> None:
        super().__init__(what)
        self.again = again
        self.down = down
        self.retry_after = retry_after


def _key(url: str, api_key: str | None) -> str:
    """Return the key to send to ``url``; a made-up one where none is needed, since the client insists on one."""
    if not re.match(r"https?://.", url):
        raise LanguageModelError(f"base_url must start with http:// or https://, got {url!r}; see OPENAI_BASE_URL")
    key = api_key or os.environ.get("OPENAI_API_KEY")
    if not key and url.startswith("https://api.openai.com"):
        raise LanguageModelError(
            f"{url} needs a key: set OPENAI_API_KEY, or set OPENAI_BASE_URL (base_url) to a server that needs none"
        )
    return key or "none"


def _refusal(error: openai.APIStatusError, now: datetime) -> _AttemptError:
    """Say what a status of 400 or more means and whether to ask again."""
    body = error.body if isinstance(error.body, dict) else {}
    message = body["message"] if isinstance(body.get("message"), str) else error.response.text
    status = error.status_code
    spent = body.get("code") == "insufficient_quota"  # OpenAI says 429 for an empty account too; waiting fills none
    again = (status in (408, 409, 429) or status >= 500) and not spent
    advice = "add credit to the account of OPENAI_API_KEY" if spent else _advice(status, message)
    retry_after = _retry_after_seconds(error.response.headers.get("retry-after", ""), now)
    if again and retry_after is not None and retry_after > LONGEST_RETRY_AFTER_SECONDS:
        again = False
        advice = (
            f"it asks to wait {retry_after:.0f} s, and no call waits longer than {LONGEST_RETRY_AFTER_SECONDS:.0f} s:"
            " run again later"
        )
    down = spent or status in (401, 403, 404)
    what = f"status {status}: {_excerpt(message)}; {advice}"
    return _AttemptError(what, again=again, down=down, retry_after=retry_after)


def _advice(status: int, message: str) -> str:
    if status == 413 or re.search(TOO_LONG, message):
        return "lower the policy's buffer_size, top_k or read.budget_tokens, or take a model with a longer context"
    if "max_completion_tokens" in message:
        return 'set max_tokens_field to "max_completion_tokens"'
    if status >= 500:
        return "the server fails: see its log, or run again later"
    return {
        401: "check OPENAI_API_KEY",
        403: "check that OPENAI_API_KEY may use this model",
        404: "check the model's name, and base_url, which mostly ends in /v1",
        429: "lower concurrency or requests_per_minute",
    }.get(status, "the server does not take this request: check the model's name and extra_body")


def _retry_after_seconds(value: str, now: datetime) -> float | None:
    """Read a Retry-After header, in seconds or as an HTTP date (RFC 9110, 10.2.3); None where it says nothing."""
    if re.fullmatch(r"\s*[0-9]+(\.[0-9]*)?\s*", value):
        return float(value)
    try:
        until = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (until - now).total_seconds())


def _tokens(reply: object, counter: str, *, characters: int) -> int:
    """Return the server's count, or an estimate where it gives none (or 0, as some do)."""
    match reply:
        case {"usage": dict(usage)} if isinstance(count := usage.get(counter), int) and count > 0:
            return count
    return math.ceil(characters / CHARACTERS_PER_TOKEN)


def _excerpt(text: str) -> str:
    """Return the start of what a server said, without HTML tags, on one line."""
    plain = " ".join(re.sub(r"<[^>]*>", " ", text).split())
    return (plain[:300] + "..." if len(plain) > 300 else plain) or "(no message)"
