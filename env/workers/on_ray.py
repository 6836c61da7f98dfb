"""Workers on a Ray cluster, on this machine or on several."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Any

from ...data.errors import MnemotuneError
from .peer import Handler, Peer, stopping
from .pool import Start
from .processes import SECONDS_TO_END
from .worker import Setup, Worker

SECONDS_TO_ANSWER = 10.0
HOW_TO_CONNECT = "; where it asks for a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH"


class RayError(MnemotuneError, RuntimeError):
    """The cluster cannot be used; the message says why and what to do."""


def on_ray(setup: Setup, *, most: int, address: str | None, cores: int) -> Start:
    """Return how to start workers on a cluster, each of which plays ``most`` tasks side by side and takes ``cores``.

    ``address`` is the cluster's, for example ``10.0.0.5:6379``; None starts one on this machine. Machines need the same
    version of this package. Raises RayError.
    """
    ray = _connected(address)
    actor = ray.remote(num_cpus=cores, max_concurrency=4, max_restarts=0, scheduling_strategy="SPREAD")(_RayWorker)

    async def start(handlers: Mapping[str, Handler]) -> _OnRay:
        return _OnRay(ray, actor.remote(setup, most), handlers)

    return start


def _connected(address: str | None) -> Any:
    try:
        import ray
    except ImportError:
        raise RayError("workers.runner: ray is not installed: pip install 'mnemotune[ray]'") from None
    if ray.is_initialized():
        return ray
    _check_listens(address)
    logging.getLogger("ray").setLevel(logging.ERROR)  # else a local cluster tells how it checks who connects
    where = {"address": address} if address is not None else {"address": "local", "include_dashboard": False}
    try:
        ray.init(**where, log_to_driver=False, logging_level="ERROR", configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        told = " ".join(str(error).split())[:300]
        place, advice = address or "this machine", "" if "RAY_AUTH_MODE" in os.environ else HOW_TO_CONNECT
        raise RayError(f"workers.address: no Ray cluster at {place} can be used ({told}){advice}") from None
    return ray


def _check_listens(address: str | None) -> None:
    """Raise RayError when nothing listens at a cluster's ``host:port``: Ray itself waits for minutes."""
    host, _, port = (address or "").rpartition(":")
    if host and port.isdecimal() and "/" not in host:
        try:
            socket.create_connection((host, int(port)), timeout=SECONDS_TO_ANSWER).close()
        except OSError as error:
            raise RayError(f"workers.address: no Ray cluster at {address} ({error})") from None


class _OnRay:
    """A worker in an actor: what it says is asked for, and what it is told is sent in order."""

    def __init__(self, ray: Any, actor: Any, handlers: Mapping[str, Handler]) -> None:
        self._ray = ray
        self._actor = actor
        self._outbox: asyncio.Queue[bytes] = asyncio.Queue()
        self.peer = Peer(self._outbox.put_nowait, handlers)
        self._tasks = [asyncio.create_task(self._tell()), asyncio.create_task(self._listen())]

    async def aclose(self) -> None:
        """End the actor, once it has closed its containers and pages."""
        for task in self._tasks:
            task.cancel()
        with suppress(TimeoutError, self._ray.exceptions.RayError):
            async with asyncio.timeout(SECONDS_TO_END):
                await self._actor.close.remote()
        self._ray.kill(self._actor)
        self.peer.lose()

    async def _tell(self) -> None:
        try:
            while True:
                await self._actor.take.remote([await self._outbox.get(), *_waiting(self._outbox)])
        except self._ray.exceptions.RayError:
            self.peer.lose()

    async def _listen(self) -> None:
        try:
            while True:
                for message in await self._actor.messages.remote():
                    self.peer.receive(message)
        except self._ray.exceptions.RayError:
            pass
        finally:
            self.peer.lose()


class _RayWorker:
    """What an actor runs."""

    def __init__(self, setup: Setup, most: int) -> None:
        self._setup = setup
        self._most = most
        self._open = ExitStack()
        self._outbox: asyncio.Queue[bytes] = asyncio.Queue()
        self._worker: Worker | None = None

    async def take(self, messages: list[bytes]) -> None:
        """Take what the coordinator says."""
        if self._worker is None:
            try:
                track, self._cast = self._open.enter_context(self._setup())
            except Exception as error:  # noqa: BLE001 - the coordinator hears why, as the user watches that
                self._outbox.put_nowait(stopping(error))
                return
            self._worker = Worker(track, self._cast, self._outbox.put_nowait, most=self._most)
        for message in messages:
            self._worker.peer.receive(message)

    async def close(self) -> None:
        """End what is under way, and close what it has opened."""
        if self._worker is not None:
            self._worker.peer.lose()
            await self._worker.peer.ended()
            await self._worker.aclose()
            await self._cast.aclose()
            self._open.close()

    async def messages(self) -> list[bytes]:
        """Return what the worker has to say, as soon as that is something."""
        return [await self._outbox.get(), *_waiting(self._outbox)]


def _waiting(queue: asyncio.Queue[bytes]) -> list[bytes]:
    return [queue.get_nowait() for _ in range(queue.qsize())]
