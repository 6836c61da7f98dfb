"""``mnemotune serve``: the embedded model behind HTTP, or a memory in front of another endpoint."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ...data.cores import usable_cores
from . import options

MEBIBYTE = 2**20


@dataclass(frozen=True)
class _Place:
    host: str
    port: int
    most_requests: int
    most_bytes: int


def serve_command(
    host: Annotated[str, typer.Option("--host", help="Where to listen; 0.0.0.0 is everywhere.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 8000,
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Processes; one a core by default.")] = None,
    most_requests: Annotated[
        int, typer.Option("--most-requests", min=1, help="Requests at once, waiting ones included.")
    ] = 256,
    most_mib: Annotated[int, typer.Option("--most-mib", min=1, help="Largest request, in MiB, unpacked.")] = 16,
    most_seconds: Annotated[
        float | None, typer.Option("--most-seconds", min=0.1, help="Longest work on a request; 30 by default.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option("--policy", help="A run's folder, a policy's file or a preset: serve its memory.")
    ] = None,
    upstream: Annotated[
        str | None, typer.Option("--upstream", help="The endpoint behind the memory; else OPENAI_BASE_URL.")
    ] = None,
    store: Annotated[Path | None, options.STORE] = None,
    user: Annotated[
        str | None, typer.Option("--user", help="Whose a call without the header X-Mnemotune-User is.")
    ] = None,
    model: Annotated[str | None, options.WRITER] = None,
    embedder: options.Embedder = None,
    context_tokens: Annotated[int | None, options.SHOWN] = None,
) -> None:
    """Serve the embedded model as OpenAI's API does; with --policy, a memory in front of another endpoint.

    Each call to a memory says in its header X-Mnemotune-User whose it is.
    Example: mnemotune serve --policy runs/quickstart-001 --upstream http://localhost:8080/v1 --port 8000
    """
    from ..config import ConfigError

    place = _Place(host, port, most_requests, most_mib * MEBIBYTE)
    of_memory: dict[str, object] = {"--upstream": upstream, "--store": store, "--user": user, "--model": model}
    of_memory |= {"--embedder": embedder, "--context-tokens": context_tokens}
    of_model: dict[str, object] = {"--workers": workers, "--most-seconds": most_seconds}
    unused = of_model if policy is not None else of_memory
    for name, value in unused.items():
        if value is not None:
            how = "with --policy" if policy is not None else "without --policy"
            raise ConfigError(f"{name}: has no effect {how}; leave it out")
    if policy is None:
        serving = _embedded_model(place, workers or usable_cores(), 30.0 if most_seconds is None else most_seconds)
    else:
        given = {"model": model, "embedder": embedder, "context_tokens": context_tokens}
        serving = _memory(place, policy, store or options.DEFAULT_STORE, upstream, user, given)
    asyncio.run(_serve(serving, place))


async def _serve(serving: AbstractAsyncContextManager[str], place: _Place) -> None:
    from ..config import ConfigError

    async with AsyncExitStack() as stack:
        try:
            line = await stack.enter_async_context(serving)
        except OSError as error:
            where = f"{place.host}, port {place.port}"
            raise ConfigError(f"cannot listen on {where}: {error.strerror or error}") from error
        ended = _interrupted()
        typer.echo(line, err=True)
        await ended.wait()


@asynccontextmanager
async def _embedded_model(place: _Place, workers: int, most_seconds: float) -> AsyncIterator[str]:
    # imported late: other commands have no use for it
    from ...policies.lm.embedded.pool import Pool, PooledEmbedder, PooledModel
    from ...policies.lm.serving import Served, listening

    pool = Pool(workers=workers, most_seconds=most_seconds)
    try:
        served = Served(PooledModel(pool), PooledEmbedder(pool), place.most_requests, place.most_bytes)
        async with listening(served, host=place.host, port=place.port) as url:
            yield f"the embedded model is served at {url} (any key will do; Ctrl-C ends it)"
    finally:
        await pool.aclose()


@asynccontextmanager
async def _memory(
    place: _Place, policy: str, store: Path, upstream: str | None, user: str | None, given: dict[str, Any]
) -> AsyncIterator[str]:
    from ...policies.deploy.deployment import deployed_store, read_deployment
    from ...policies.deploy.proxy import USER_HEADER, Proxied, proxying
    from ...policies.lm.address import url_of
    from ...policies.lm.secrets import without_login

    deployment, behind = read_deployment(policy, **given), url_of(upstream)
    async with deployed_store(deployment, store, base_url=behind) as memories:
        tokens, most = deployment.context_tokens, (place.most_requests, place.most_bytes)
        async with proxying(Proxied(memories, behind, tokens, user, *most), host=place.host, port=place.port) as url:
            whose = f"{USER_HEADER} says whose a call is" + (f", {user} without it" if user else "")
            line = f"memory is served at {url}, in front of {without_login(behind)} ({whose}; Ctrl-C ends it)"
            yield "\n".join(filter(None, (line, deployment.remark)))


def _interrupted() -> asyncio.Event:
    """Return an event that Ctrl-C sets, and SIGTERM; from here on neither does anything else."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    return ended
