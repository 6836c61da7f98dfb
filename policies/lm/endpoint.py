"""One OpenAI-compatible endpoint: pacing, retries, and errors that say what to do."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, TypedDict

from tenacity import AsyncRetrying, RetryCallState, before_sleep_log, retry_if_exception, stop_after_attempt

from .base import CallRole, EndpointDown, LanguageModelError

if TYPE_CHECKING:
    import openai

OFFICIAL_URL = "https://api.openai.com/v1"
ROLE_HEADER = "X-Mnemotune-Role"
LONGEST_RETRY_AFTER_SECONDS = 300.0
"""A server that asks for a longer wait gets no second call."""
IDLE_SECONDS = 2.0
FIRST_BACKOFF_SECONDS = 1.0
LONGEST_BACKOFF_SECONDS = 60.0
TOO_LONG = r"(?i)context.{0,3}(length|window|size)|maximum model length|prompt is too long"
"""How OpenAI, vLLM, the llama.cpp server and others complain of a long prompt."""

_log = logging.getLogger(__name__)


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
        import httpx
        import openai

        self.model = model
        self.url = (base_url or os.environ.get("OPENAI_BASE_URL") or OFFICIAL_URL).rstrip("/")
        # Servers mostly drop connections that idle for 5 s; ours go first, lest a request meets one that is just going.
        limits = httpx.Limits(max_connections=concurrency, keepalive_expiry=IDLE_SECONDS)
        self._client = openai.AsyncOpenAI(
            base_url=self.url,
            api_key=_key(self.url, api_key),
            timeout=timeout_seconds,
            max_retries=0,
            http_client=openai.DefaultAioHttpClient(limits=limits),
        )
        self._slots = asyncio.Semaphore(concurrency)
        self._interval = 60.0 / requests_per_minute if requests_per_minute else 0.0
        self._next_start = -math.inf
        self._timeout = timeout_seconds
        self._attempts = attempts
        self._clock = clock or Clock()

    async def post(
        self, path: str, body: Mapping[str, object], *, role: CallRole, unanswered: Callable[[], None] | None = None
    ) -> tuple[object, float]:
        """Return the JSON that the server answers, and the seconds it took with all attempts.

        Raises LanguageModelError when there is no answer to be had.

        ``unanswered`` is called for each attempt that was sent and not answered; what it raises ends the call.
        """
        retrying = AsyncRetrying(
            sleep=self._clock.sleep,
            stop=stop_after_attempt(self._attempts),
            wait=self._wait,
            retry=retry_if_exception(lambda error: isinstance(error, _AttemptError) and error.again),
            before_sleep=before_sleep_log(_log, logging.INFO),
            reraise=True,
        )
        async with self._slots:
            start = self._clock.seconds()
            try:
                reply: object = await retrying(self._attempt, path, body, role, unanswered)
                return reply, self._clock.seconds() - start
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

    async def _attempt(
        self, path: str, body: Mapping[str, object], role: CallRole, unanswered: Callable[[], None] | None
    ) -> object:
        import aiohttp
        import openai

        await self._pace()
        headers = {ROLE_HEADER: role}
        try:
            text = await self._client.post(path, cast_to=str, body=body, options={"headers": headers})
        except openai.APIStatusError as error:
            raise _refusal(error, self._clock.now()) from error
        except openai.APIConnectionError as error:
            causes = _causes(error)  # the layers between call a timeout what is none
            unconnected = aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError
            was_sent = not any(isinstance(cause, unconnected) for cause in causes)
            if was_sent and unanswered is not None:
                unanswered()
            if any(isinstance(cause, TimeoutError) for cause in causes):
                what = f"no reply within {self._timeout:g} s; raise timeout_seconds or lower concurrency"
                raise _AttemptError(what, again=True) from error
            if was_sent:
                raise _AttemptError(f"the connection was lost ({causes[-1]}); see the server's log") from error
            what = f"no connection ({causes[-1]}); check that the server runs, and OPENAI_BASE_URL"
            raise _AttemptError(what, down=True) from error
        try:
            return json.loads(text)
        except ValueError as error:
            what = f"the reply is not JSON: {excerpt(text)}; check base_url, which mostly ends in /v1"
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


class _AttemptError(Exception):
    """One attempt came to nothing; ``again`` says whether another may do better, ``down`` that no call ever will."""

    def __init__(self, what: str, *, again: bool = False, down: bool = False, retry_after: float | None = None) -> None:
        super().__init__(what)
        self.again = again
        self.down = down
        self.retry_after = retry_after


def _causes(error: BaseException) -> list[BaseException]:
    """Return an error and what caused it, step by step."""
    return [error] if error.__cause__ is None else [error, *_causes(error.__cause__)]


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
    what = f"status {status}: {excerpt(message)}; {advice}"
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


def excerpt(text: str) -> str:
    """Return the start of what a server said, without HTML tags, on one line."""
    plain = " ".join(re.sub(r"<[^>]*>", " ", text).split())
    return (plain[:300] + "..." if len(plain) > 300 else plain) or "(no message)"
