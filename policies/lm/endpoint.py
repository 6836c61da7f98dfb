"""One OpenAI-compatible endpoint: pacing, retries, and errors that say what to do."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ...data.per_loop import PerLoop
from .address import headers_for, proxy_of, secrets_of, url_of
from .base import Bill, EndpointDown, FormRefused, LanguageModelError
from .chain import add_call
from .connections import Connections, read_whole
from .endpoint_config import EndpointConfig
from .ledger import CallRole
from .outage import Clock, EndpointSilent, Outages, Unanswered
from .refusals import (
    DOWN,
    MADE_NO_JSON,
    NO_SUCH_PATH,
    SPENT,
    advice_for,
    error_kind,
    excerpt,
    parsed,
    retry_after_seconds,
)
from .secrets import redacted, without_login
from .slots import Slots
from .streaming import BrokenOff, events_of

if TYPE_CHECKING:
    import aiohttp

ROLE_HEADER = "X-Mnemotune-Role"
LONGEST_QUIET_WAIT_SECONDS = 60.0
"""A server's wish for a longer wait is said aloud."""
MOST_OUTAGES_OF_A_CALL = 5
"""A call that fails before each of so many outages may be what brings them about."""
FAILURES_OF_AN_OUTAGE = 3
"""A call's failed attempts after which it is asked whether the endpoint answers at all."""
IDLE_SECONDS = 2.0
TALK = ("user", "reply", "write", "propose")
"""Roles whose calls wait for one another, so that they come first; questions fill the places in between."""
FIRST_BACKOFF_SECONDS = 0.25
LONGEST_BACKOFF_SECONDS = 60.0

_log = logging.getLogger(__name__)


ReplyT = TypeVar("ReplyT")


@dataclass(slots=True)
class _Here:
    """What an endpoint has in one event loop."""

    slots: Slots
    outages: Outages


class Endpoint:
    """One model behind one URL: paces calls, repeats the ones worth repeating, explains the others.

    Several event loops may use it; each has connections and limits of its own, and closes its connections at its end.
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
        self._headers = headers_for(self.url, api_key)
        self._secrets = secrets_of(self.url, self._headers["Authorization"].partition(" ")[2])
        self._interval = 60.0 / config.requests_per_minute if config.requests_per_minute else 0.0
        self._next_start = -math.inf
        self._clock = clock or Clock()
        self._where = f"{without_login(self.url)}, model {model}"
        self._per_loop = PerLoop(self._start)
        self._connections = Connections(self._connect)

    async def post(
        self,
        path: str,
        body: Callable[[], bytes],
        *,
        role: CallRole,
        ping: bytes,
        read: Callable[[object], ReplyT],
        bill: Bill | None = None,
    ) -> ReplyT:
        """Send JSON and return what ``read`` makes of the JSON of the answer; its ValueError is a fault of the answer.

        ``body`` is called when the call's turn has come: the bodies of all waiting calls would not fit into memory.
        ``ping`` is a short request of the same kind, which tells whether the endpoint answers at all.
        ``bill`` hears of each attempt; what it raises ends the call.
        The seconds of all attempts together are added to the chain.
        Raises LanguageModelError when there is no answer to be had.
        """
        pinged, unanswered = False, _unanswered(bill)

        async def bill_ping() -> None:
            nonlocal pinged
            if not pinged:
                pinged = True
                await unanswered()

        async def sent_ping() -> None:
            """Ask for next to nothing; all pings of a call together count as one attempt without an answer."""
            await self._attempt(path, ping, role, _answer, bill_ping)
            await bill_ping()

        async with self._turn(role, bill):
            start = self._clock.seconds()
            reply = await self._insist(
                lambda: self._attempt(path, body(), role, read, unanswered),
                ping=sent_ping,
            )
            add_call(self._clock.seconds() - start)
            return reply

    @asynccontextmanager
    async def stream(
        self, path: str, body: Callable[[], bytes], *, role: CallRole, ping: bytes, bill: Bill | None = None
    ) -> AsyncIterator[AsyncIterator[Any]]:
        """Send JSON as ``post`` does, and give the JSON of each server-sent event as it comes.

        Raises LanguageModelError when there is no answer to be had, or when the stream breaks off.
        """
        unanswered = _unanswered(bill)

        async def sent_ping() -> None:
            await self._attempt(path, ping, role, _answer, unanswered)

        async with self._turn(role, bill):
            reply = await self._insist(lambda: self._begun(path, body(), role, unanswered), ping=sent_ping)
            async with reply, aclosing(self._events(reply)) as events:
                yield events

    async def aclose(self) -> None:
        """Close all connections of this event loop."""
        await self._connections.aclose()

    def _start(self) -> _Here:
        outages = Outages(self._where, longest_seconds=self.config.longest_outage_seconds, clock=self._clock)
        return _Here(Slots(self.config.concurrency), outages)

    @property
    def _slots(self) -> Slots:
        return self._per_loop.here().slots

    @property
    def _outages(self) -> Outages:
        return self._per_loop.here().outages

    @asynccontextmanager
    async def _turn(self, role: CallRole, bill: Bill | None) -> AsyncIterator[None]:
        if bill is not None:
            await bill.reserve()
        async with self._slots.taken(0 if role in TALK else 1):
            if bill is not None:
                await bill.sending()
            yield

    async def _insist(
        self, attempt: Callable[[], Awaitable[ReplyT]], *, ping: Callable[[], Awaitable[object]]
    ) -> ReplyT:
        """Return the reply of the first attempt that is answered. An outage of the endpoint is waited for."""
        since, failures, strikes, outages, waited = self._outages.seen, 0, 0, 0, 0.0
        while True:
            await self._outages.over()
            try:
                reply = await attempt()
            except Unanswered as error:
                problem = error
            else:
                self._outages.note_reply()
                return reply
            failures += 1
            strikes += not problem.limits_rate
            if failures == 1:
                since = self._outages.seen
            wait = self._wait(problem, failures)
            waited += wait
            last = strikes >= self.config.attempts or (problem.limits_rate and self._outages.too_long(waited))
            if last or failures % FAILURES_OF_AN_OUTAGE == 0:
                if await self._outages.waited_out(problem, since, ping):
                    failures, strikes, outages, waited = 0, 0, outages + 1, 0.0
                    if outages < MOST_OUTAGES_OF_A_CALL:
                        continue
                    why = "each time; it may be what the server fails at"
                    raise LanguageModelError(f"{self._where}: {problem} ({why})")
                since = self._outages.seen
            if last:
                tries = f" (tried {failures} times)" if failures > 1 else ""
                raise problem.kind(f"{self._where}: {problem}{tries}") from problem
            _log.info("%s: %s: trying again in %.1f s", self._where, problem, wait)
            await self._clock.sleep(wait)

    async def _attempt(
        self,
        path: str,
        body: bytes,
        role: CallRole,
        read: Callable[[object], ReplyT],
        unanswered: Callable[[], Awaitable[None]],
    ) -> ReplyT:
        """Send once. Raises Unanswered when another attempt may do better, and LanguageModelError when none will."""
        await self._pace()
        async with self._explained(unanswered):
            status, headers, text = await self._send(path, body, role)
        try:
            reply, refused = parsed(text, status)
            if refused is not None:
                raise self._refusal(status, headers, refused, text)
            return read(reply)
        except ValueError as error:
            await unanswered()
            said = error.problem if isinstance(error, BrokenOff) else text
            raise Unanswered(f"{error}: {self._shown(said)}") from error

    async def _begun(
        self, path: str, body: bytes, role: CallRole, unanswered: Callable[[], Awaitable[None]]
    ) -> aiohttp.ClientResponse:
        """Send once, and return a reply that has begun. Raises what ``_attempt`` does."""
        import aiohttp

        await self._pace()
        async with self._explained(unanswered):
            session = await self._connections.session()
            url = without_login(self.url) + path
            patience = aiohttp.ClientTimeout(total=None, sock_read=self.config.timeout_seconds)
            reply = await session.post(url, data=body, headers={ROLE_HEADER: role}, timeout=patience)
            if reply.status < 400:
                return reply
            async with reply:
                text = (await read_whole(reply)).decode(errors="replace")
        raise self._refusal(reply.status, reply.headers, parsed(text, reply.status)[1] or {}, text)

    async def _events(self, reply: aiohttp.ClientResponse) -> AsyncGenerator[Any]:
        import aiohttp

        try:
            async for event in events_of(reply.content):
                yield event
        except (aiohttp.ClientError, TimeoutError, ConnectionError, ValueError) as error:
            why = self._shown(str(error) or type(error).__name__)
            raise LanguageModelError(f"{self._where}: the reply broke off ({why})") from error

    @asynccontextmanager
    async def _explained(self, unanswered: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
        """Turn what goes wrong on the way into Unanswered, or into EndpointDown."""
        import aiohttp

        try:
            yield
        except aiohttp.InvalidURL as error:
            raise EndpointDown(f"{self._where}: base_url is no address ({error})") from error
        except aiohttp.ClientHttpProxyError as error:  # the endpoint has seen nothing of it
            what = f"status {error.status}: the proxy opens no way ({self._shown(error.message)}); check https_proxy"
            if error.status in DOWN:
                raise EndpointDown(f"{self._where}: {what}") from error
            raise Unanswered(what) from error
        except aiohttp.ClientConnectorError as error:
            what = f"no connection ({self._shown(str(error))}); check that the server runs, and OPENAI_BASE_URL"
            raise Unanswered(what) from error
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            if not isinstance(error, aiohttp.ConnectionTimeoutError):
                await unanswered()
            why = self._shown(str(error)) if str(error) else type(error).__name__
            what = f"the connection was lost ({why}); see the server's log"
            if isinstance(error, TimeoutError):
                seconds = self.config.timeout_seconds
                what = f"no reply within {seconds:g} s; raise timeout_seconds or lower concurrency"
            raise Unanswered(what) from error

    def _refusal(
        self, status: int, headers: Mapping[str, str], error: Mapping[str, object], text: str
    ) -> Unanswered | LanguageModelError:
        """Say what an error of the server means, also inside a reply with status 200, and whether to ask again."""
        code, given = error.get("code"), error.get("message")
        message = given if isinstance(given, str) else text
        if status < 400:
            meant = 404 if re.search(NO_SUCH_PATH, message) else 500
            status = code if isinstance(code, int) and 400 <= code < 600 else meant
        unfunded = status == 402 or "insufficient_quota" in (code, error.get("type")) or "credit balance" in message
        spent = unfunded or re.search(SPENT, message) is not None  # some say 429 for it; waiting fills no account
        advice = "add credit to the account of OPENAI_API_KEY" if unfunded else advice_for(status, message)
        what = f"status {status}: {self._shown(message)}; {advice}"
        made_no_json = re.search(MADE_NO_JSON, text) is not None
        if (made_no_json or status in (408, 409, 429) or status >= 500) and not spent:
            retry_after = retry_after_seconds(headers, self._clock.now())
            if self._outages.too_long(retry_after or 0.0):
                seconds = self.config.longest_outage_seconds
                why = f"the server asks to wait {retry_after:.0f} s, and longest_outage_seconds is {seconds:.0f}"
                return EndpointSilent(f"{self._where}: {what}; {why}")
            kind = FormRefused if made_no_json else LanguageModelError
            return Unanswered(what, limits_rate=status == 429, retry_after=retry_after, kind=kind)
        self._outages.note_reply()
        return error_kind(DOWN[0] if spent else status, message)(f"{self._where}: {what}")

    def _shown(self, text: str) -> str:
        """Return the start of what a server or the way to it said, on one line and without secrets."""
        return excerpt(redacted(text, *self._secrets)) if self.config.quote_server else "its words are not quoted"

    async def _send(self, path: str, body: bytes, role: CallRole) -> tuple[int, Mapping[str, str], str]:
        session = await self._connections.session()
        async with session.post(without_login(self.url) + path, data=body, headers={ROLE_HEADER: role}) as reply:
            return reply.status, reply.headers, (await read_whole(reply)).decode(errors="replace")

    def _connect(self) -> aiohttp.ClientSession:
        import aiohttp

        # Servers mostly close connections that are idle for 5 s. We close ours first: no request meets a closing one.
        return aiohttp.ClientSession(
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=self.config.timeout_seconds),
            connector=aiohttp.TCPConnector(limit=self.config.concurrency, keepalive_timeout=IDLE_SECONDS),
            proxy=proxy_of(self.url),
        )

    async def _pace(self) -> None:
        """Wait for this call's turn under ``requests_per_minute``."""
        now = self._clock.seconds()
        start = max(now, self._next_start)
        self._next_start = start + self._interval
        if start > now:
            await self._clock.sleep(start - now)

    def _wait(self, problem: Unanswered, failures: int) -> float:
        """Return the seconds until the next attempt: the server's, else doubling ones, less up to half by chance."""
        if problem.retry_after:
            aloud = problem.retry_after > LONGEST_QUIET_WAIT_SECONDS
            _log.log(
                logging.WARNING if aloud else logging.INFO,
                "%s: %s. The server asks to wait %.0f s",
                self._where,
                problem,
                problem.retry_after,
            )
            return problem.retry_after
        backoff = min(LONGEST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** (failures - 1))
        return backoff * (1.0 - self._clock.chance() / 2.0)


def _answer(reply: object) -> object:
    """Return a reply that answers: a gateway may also say, with status 200, that its model is still to come.

    Raises ValueError for one without choices, or vectors.
    """
    if isinstance(reply, dict) and any(
        isinstance(reply.get(name), list) and reply[name] for name in ("choices", "data")
    ):
        return reply
    raise ValueError("the reply holds neither choices nor vectors")


def _unanswered(bill: Bill | None) -> Callable[[], Awaitable[None]]:
    async def unanswered() -> None:
        if bill is not None:
            await bill.unanswered()

    return unanswered
