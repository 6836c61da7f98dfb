"""One OpenAI-compatible endpoint: pacing, retries, and errors that say what to do."""

from __future__ import annotations

import asyncio
import base64
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
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from pydantic import Field, field_validator

from ...data.record import Record
from .base import CallRole, EndpointDown, LanguageModelError
from .chain import add_call
from .prices import Prices
from .slots import Slots

if TYPE_CHECKING:
    import aiohttp

OFFICIAL_URL = "https://api.openai.com/v1"
ROLE_HEADER = "X-Mnemotune-Role"
LONGEST_RETRY_AFTER_SECONDS = 300.0
"""A server that asks for a longer wait gets no second call."""
IDLE_SECONDS = 2.0
TALK = ("user", "reply", "write", "propose")
"""Roles whose calls wait for one another, so that they come first; questions fill the places in between."""
FIRST_BACKOFF_SECONDS = 1.0
LONGEST_BACKOFF_SECONDS = 60.0
TOO_LONG = r"(?i)context.{0,3}(length|window|size)|maximum model length|prompt is too long"
"""How OpenAI, vLLM, the llama.cpp server and others complain of a long prompt."""

RESERVED = ("model", "messages", "input", "n", "stream", "max_tokens", "max_completion_tokens")
"""What ``extra_body`` may not hold: the accounting rests on it."""

Positive = Annotated[int, Field(ge=1)]

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


class EndpointConfig(Record):
    """How the models of an endpoint are reached."""

    base_url: str | None = None
    """None takes OPENAI_BASE_URL, or else the official endpoint."""
    concurrency: Positive = 16
    """Requests under way at once, those that wait for their retry included: a struggling server sees fewer."""
    requests_per_minute: Positive | None = None
    timeout_seconds: Annotated[float, Field(gt=0)] = 120.0
    attempts: Positive = 6
    """The first included."""
    max_tokens: Positive | None = None
    """Longest reply, thinking included; None leaves it at what each call asks for: 2048, 4096 to edit a prompt, and
    ``generation.max_tokens``."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What the endpoint calls the longest reply."""
    extra_body: dict[str, Any] = {}
    """Added to every request, for example a reasoning effort or another temperature; it wins."""
    prices: dict[str, Prices] = {}
    """By model, US dollars per million tokens. What is missing is looked up in a list where the endpoint is the
    provider's own; else it costs a sum that is not known, never zero."""
    cache: bool = True
    """Keep replies in the run folder, so that nothing is paid for twice."""

    @field_validator("extra_body")
    @classmethod
    def _check_extra_body(cls, given: dict[str, Any]) -> dict[str, Any]:
        reserved = sorted(set(given) & set(RESERVED))
        if reserved:
            raise ValueError(f"extra_body cannot hold {', '.join(reserved)}; the longest reply is max_tokens")
        return given


class Endpoint:
    """One model behind one URL: paces calls, repeats the ones worth repeating, explains the others.

    Lives in one event loop.
    """

    def __init__(
        self, model: str, config: EndpointConfig, *, api_key: str | None = None, clock: Clock | None = None
    ) -> None:
        """Connect to nothing yet.

        ``api_key`` defaults to OPENAI_API_KEY; only OpenAI's own endpoint insists on a key. Raises LanguageModelError
        when the URL or the key is missing.
        """
        self.model = model
        self.config = config
        self.url = url_of(config.base_url)
        self._headers = _headers(self.url, api_key)
        self._session: aiohttp.ClientSession | None = None
        self._slots = Slots(config.concurrency)
        self._interval = 60.0 / config.requests_per_minute if config.requests_per_minute else 0.0
        self._next_start = -math.inf
        self._clock = clock or Clock()

    async def post(
        self, path: str, body: Callable[[], bytes], *, role: CallRole, unanswered: Callable[[], None] | None = None
    ) -> object:
        """Send JSON and return the JSON of the answer. The seconds of all attempts together are added to the chain.

        ``body`` is called when the call's turn has come: the bodies of all waiting calls would not fit into memory.
        ``unanswered`` is called for each attempt that was sent and not answered; what it raises ends the call.
        Raises LanguageModelError when there is no answer to be had.
        """
        async with self._slots.taken(0 if role in TALK else 1):
            start, attempt = self._clock.seconds(), 1
            while True:
                try:
                    reply = await self._attempt(path, body(), role, unanswered)
                    add_call(self._clock.seconds() - start)
                    return reply
                except _AttemptError as error:
                    if not error.again or attempt == self.config.attempts:
                        tries = f" (tried {attempt} times)" if attempt > 1 else ""
                        raise self.error(f"{error}{tries}", down=error.down) from error.__cause__
                    wait = self._wait(error, attempt)
                    _log.info("%s: trying again in %.1f s", error, wait)
                await self._clock.sleep(wait)
                attempt += 1

    def error(self, what: str, *, down: bool = False) -> LanguageModelError:
        """Return an error that names this endpoint and model; ``down`` when no other call would do better."""
        shown = _without_login(self.url)
        return (EndpointDown if down else LanguageModelError)(f"{shown}, model {self.model}: {what}")

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _attempt(self, path: str, body: bytes, role: CallRole, unanswered: Callable[[], None] | None) -> object:
        import aiohttp

        await self._pace()
        try:
            status, headers, text = await self._send(path, body, role)
        except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
            what = f"no connection ({error}); check that the server runs, and OPENAI_BASE_URL"
            raise _AttemptError(what, down=True) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            if unanswered is not None and not isinstance(error, aiohttp.ConnectionTimeoutError):
                unanswered()
            if isinstance(error, TimeoutError):
                seconds = self.config.timeout_seconds
                what = f"no reply within {seconds:g} s; raise timeout_seconds or lower concurrency"
                raise _AttemptError(what, again=True) from error
            raise _AttemptError(f"the connection was lost ({error}); see the server's log") from error
        if status >= 400:
            raise _refusal(status, headers, text, self._clock.now())
        try:
            return json.loads(text)
        except ValueError as error:
            what = f"the reply is not JSON: {excerpt(text)}; check base_url, which mostly ends in /v1"
            raise _AttemptError(what) from error

    async def _send(self, path: str, body: bytes, role: CallRole) -> tuple[int, Mapping[str, str], str]:
        if self._session is None:
            self._session = self._connect()
        async with self._session.post(_without_login(self.url) + path, data=body, headers={ROLE_HEADER: role}) as reply:
            return reply.status, reply.headers, await reply.text(errors="replace")

    def _connect(self) -> aiohttp.ClientSession:
        import aiohttp

        # Servers mostly close connections that are idle for 5 s. We close ours first: no request meets a closing one.
        return aiohttp.ClientSession(
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=self.config.timeout_seconds),
            connector=aiohttp.TCPConnector(limit=self.config.concurrency, keepalive_timeout=IDLE_SECONDS),
            proxy=_proxy(self.url),
        )

    async def _pace(self) -> None:
        """Wait for this call's turn under ``requests_per_minute``."""
        now = self._clock.seconds()
        start = max(now, self._next_start)
        self._next_start = start + self._interval
        if start > now:
            await self._clock.sleep(start - now)

    def _wait(self, error: _AttemptError, attempt: int) -> float:
        """Return the seconds until the next attempt: the server's, else doubling ones, less up to half by chance."""
        if error.retry_after:
            return error.retry_after
        backoff = min(LONGEST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** (attempt - 1))
        return backoff * (1.0 - self._clock.chance() / 2.0)


class _AttemptError(Exception):
    """One attempt came to nothing; ``again`` says whether another may do better, ``down`` that no call ever will."""

    def __init__(self, what: str, *, again: bool = False, down: bool = False, retry_after: float | None = None) -> None:
        super().__init__(what)
        self.again = again
        self.down = down
        self.retry_after = retry_after


def url_of(base_url: str | None) -> str:
    """Return where an endpoint is: as given, else as OPENAI_BASE_URL says, else OpenAI's own."""
    return (base_url or os.environ.get("OPENAI_BASE_URL") or OFFICIAL_URL).rstrip("/")


def _without_login(url: str) -> str:
    return re.sub(r"//[^/]*@", "//", url)


def _proxy(url: str) -> str | None:
    """Return the proxy that the environment names for ``url``; aiohttp itself would look again for every call."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)


def _headers(url: str, api_key: str | None) -> dict[str, str]:
    """Return what every request carries, as OpenAI's own client reads it from the environment."""
    headers = {"Content-Type": "application/json", "User-Agent": "mnemotune"}
    login = re.match(r"https?://([^/]*)@", url)
    key = _key(url, api_key)
    if key or not login:
        headers["Authorization"] = f"Bearer {key or 'none'}"
    else:
        headers["Authorization"] = "Basic " + base64.b64encode(unquote(login[1]).encode()).decode()
    names = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
    return headers | {header: os.environ[name] for header, name in names.items() if os.environ.get(name)}


def _key(url: str, api_key: str | None) -> str | None:
    """Return the key to send to ``url``, where there is one."""
    if not re.match(r"https?://.", url):
        raise LanguageModelError(f"base_url must start with http:// or https://, got {url!r}; see OPENAI_BASE_URL")
    key = api_key or os.environ.get("OPENAI_API_KEY")
    if not key and url.startswith("https://api.openai.com"):
        raise LanguageModelError(
            f"{url} needs a key: set OPENAI_API_KEY, or set OPENAI_BASE_URL (base_url) to a server that needs none"
        )
    return key or None


def _refusal(status: int, headers: Mapping[str, str], text: str, now: datetime) -> _AttemptError:
    """Say what a status of 400 or more means and whether to ask again."""
    body = _error_body(text)
    given = body.get("message")
    message = given if isinstance(given, str) else text
    spent = body.get("code") == "insufficient_quota"  # OpenAI says 429 for an empty account too; waiting fills none
    again = (status in (408, 409, 429) or status >= 500) and not spent
    advice = "add credit to the account of OPENAI_API_KEY" if spent else _advice(status, message)
    retry_after = _retry_after_seconds(headers.get("Retry-After", ""), now)
    if again and retry_after is not None and retry_after > LONGEST_RETRY_AFTER_SECONDS:
        again = False
        advice = (
            f"it asks to wait {retry_after:.0f} s, and no call waits longer than {LONGEST_RETRY_AFTER_SECONDS:.0f} s:"
            " run again later"
        )
    down = spent or status in (401, 403, 404)
    what = f"status {status}: {excerpt(message)}; {advice}"
    return _AttemptError(what, again=again, down=down, retry_after=retry_after)


def _error_body(text: str) -> Mapping[str, object]:
    """Return the error that a server describes in JSON; empty where it says it in another form."""
    try:
        body = json.loads(text)
    except ValueError:
        return {}
    error = body.get("error", body) if isinstance(body, dict) else body
    return error if isinstance(error, dict) else {}


def _advice(status: int, message: str) -> str:
    if status == 413 or re.search(TOO_LONG, message):
        return "set context_tokens, or lower the policy's buffer_size or top_k, or take a model with a longer context"
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
