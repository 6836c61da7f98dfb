"""A real HTTP server on the loopback interface, in a thread of this process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

import fastapi
import uvicorn

PATIENCE_SECONDS = 10.0


class Answers(Protocol):
    """Whatever answers requests."""

    async def handle(self, request: fastapi.Request) -> fastapi.Response: ...


Answering = TypeVar("Answering", bound=Answers)


@contextmanager
def on_loopback(make: Callable[[str], Answering]) -> Iterator[Answering]:
    """Serve what is made for the server's base URL, which ends with /v1: it answers every POST."""
    with socket.socket(proto=socket.IPPROTO_TCP) as listener:  # without the protocol asyncio leaves Nagle's delay on
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)  # from here on connections are held, also while the server is still starting
        served = make(f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
        app = fastapi.FastAPI()
        app.add_api_route("/{path:path}", served.handle, methods=["POST"], response_model=None)
        running = uvicorn.Server(
            uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1, date_header=False)
        )
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        yield served
        running.should_exit = True
        thread.join(PATIENCE_SECONDS)
