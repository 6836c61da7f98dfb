"""``mnemotune serve``: the embedded model behind HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from typing import Annotated

import typer

MEBIBYTE = 2**20


def serve_command(
    host: Annotated[str, typer.Option("--host", help="Where to listen; 0.0.0.0 is everywhere.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 8000,
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Processes; one a core by default.")] = None,
    most_requests: Annotated[
        int, typer.Option("--most-requests", min=1, help="Requests at once, waiting ones included.")
    ] = 256,
    most_mib: Annotated[int, typer.Option("--most-mib", min=1, help="Largest request, in MiB, unpacked.")] = 16,
    most_seconds: Annotated[float, typer.Option("--most-seconds", min=0.1, help="Longest work on a request.")] = 30.0,
) -> None:
    """Serve the embedded model as OpenAI's API does: chat completions, embeddings, models, health.

    Example: mnemotune serve --port 8000
    """
    processes = workers or os.cpu_count() or 1
    asyncio.run(_serve(host, port, processes, most_requests, most_mib * MEBIBYTE, most_seconds))


async def _serve(host: str, port: int, workers: int, most_requests: int, most_bytes: int, most_seconds: float) -> None:
    # imported late: other commands have no use for it
    from ...policies.lm.embedded.pool import Pool, PooledEmbedder, PooledModel
    from ...policies.lm.serving import Served, listening
    from ..config import ConfigError

    async with AsyncExitStack() as stack:
        pool = Pool(workers=workers, most_seconds=most_seconds)
        stack.push_async_callback(pool.aclose)
        served = Served(PooledModel(pool), PooledEmbedder(pool), most_requests, most_bytes)
        try:
            url = await stack.enter_async_context(listening(served, host=host, port=port))
        except OSError as error:
            raise ConfigError(f"cannot listen on {host}, port {port}: {error.strerror or error}") from error
        ended = _interrupted()
        typer.echo(f"the embedded model is served at {url} (any key will do; Ctrl-C ends it)", err=True)
        await ended.wait()


def _interrupted() -> asyncio.Event:
    """Return an event that Ctrl-C sets, and SIGTERM; from here on neither does anything else."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    return ended
