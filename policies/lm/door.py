"""What every server of ours does with those who come: listens, lets in, hangs up, and words its refusals."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Protocol

from aiohttp import web

from ...data.errors import MnemotuneError
from .base import Refused
from .wire import ApiError

GRACE_SECONDS = 5.0
"""What requests that have arrived are given to finish when the server ends."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = logging.getLogger(__name__)


class Limits(Protocol):
    """How much a server takes on."""

    @property
    def most_requests(self) -> int:
        """Requests that are here at once, waiting ones included; more are refused with status 429."""

    @property
    def most_bytes(self) -> int:
        """Largest request when it is unpacked; a larger one is refused with status 413."""

    @property
    def patience_seconds(self) -> float:
        """For a request to arrive, and for a part of a stream to be taken.

        A client that connects and says nothing for so long is hung up on; a request whose body takes longer is refused
        with status 408.
        """


class Door:
    """Lets no more in than there is room for, and says every failure in OpenAI's form."""

    def __init__(self, limits: Limits, *, known: str) -> None:
        """``known`` names the paths that there are."""
        self.limits = limits
        self.known = known
        self.here = 0
        """Requests for work, from before they are read to after they are answered."""
        self.heard: set[object] = set()
        """Connections on which a request has begun."""

    def application(self, routes: Iterable[web.RouteDef]) -> web.Application:
        """Return an application with these routes behind the door, and ``/health`` beside them."""
        app = web.Application(client_max_size=self.limits.most_bytes, middlewares=[self.guard])
        app[DOOR] = self
        app.add_routes([*routes, web.get("/health", self.health)])
        return app

    async def end_silent(self, server: web.Server | None) -> None:
        """Hang up on those who have connected and do not ask; aiohttp itself waits for them without end."""
        clock, patience = asyncio.get_running_loop().time, self.limits.patience_seconds
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
        """Let a request in, and word what goes wrong."""
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
        except MnemotuneError as error:
            return _refusal(ApiError(500, str(error)))
        except Exception:  # noqa: BLE001 - the log has it
            _log.exception("%s %s", request.method, request.path)
            return _refusal(ApiError(500, "the server failed; its log says why"))

    async def admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Handle a request for which there is room."""
        if self.here >= self.limits.most_requests:
            what = f"{self.here:,} requests are here already; try again in a second"
            raise ApiError(429, what, code="rate_limit_exceeded")
        self.here += 1
        try:
            return await handler(request)
        finally:
            self.here -= 1

    async def read(self, request: web.Request) -> bytes:
        """Return a request's body, unpacked."""
        patience = self.limits.patience_seconds
        try:
            async with asyncio.timeout(patience):
                return await request.read()
        except TimeoutError:
            raise ApiError(408, f"the request has not arrived within {patience:g} s") from None

    async def health(self, _: web.Request) -> web.Response:
        """Say that the server is there, and how much is under way."""
        return web.json_response({"status": "ok", "requests": self.here})

    def _explain(self, request: web.Request, error: web.HTTPException) -> ApiError:
        match error:
            case web.HTTPRequestEntityTooLarge():
                what = f"the request is larger than {self.limits.most_bytes:,} bytes"
            case web.HTTPNotFound():
                what = f"there is no {request.method} {request.path}; there are {self.known}"
            case web.HTTPMethodNotAllowed():
                what = f"{request.path} takes {', '.join(sorted(error.allowed_methods))}, not {request.method}"
            case _:
                what = error.reason
        return ApiError(error.status, what)


DOOR: web.AppKey[Door] = web.AppKey("door", Door)


@asynccontextmanager
async def open_door(app: web.Application, *, host: str, port: int) -> AsyncIterator[str]:
    """Serve a door's application inside the block, and let requests under way finish at its end.

    Gives the URL for clients; where ``port`` is 0, a free port is chosen. Raises OSError when it cannot listen.
    """
    door = app[DOOR]
    runner = web.AppRunner(
        app,
        access_log=None,
        keepalive_timeout=door.limits.patience_seconds,
        handler_cancellation=True,  # a client that hangs up wants no reply any more
        shutdown_timeout=GRACE_SECONDS,
    )
    await runner.setup()
    silence = asyncio.create_task(door.end_silent(runner.server))
    try:
        await web.TCPSite(runner, host, port).start()
        name, bound = runner.addresses[0][:2]
        yield f"http://{f'[{name}]' if ':' in name else name}:{bound}/v1"
    finally:
        silence.cancel()
        await runner.cleanup()


def _refusal(error: ApiError, *, allow: str | None = None) -> web.Response:
    headers = {"Allow": allow} if allow else {"Retry-After": "1"} if error.status == 429 else {}
    return web.json_response(error.body, status=error.status, headers=headers)
