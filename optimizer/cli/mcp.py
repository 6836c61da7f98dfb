"""``mnemotune mcp``: a user's memory for programs that speak MCP."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from . import options


def mcp_command(
    policy: Annotated[str, typer.Option("--policy", help="A run's folder, a policy's file or a preset.")],
    store: Annotated[Path, options.STORE] = options.DEFAULT_STORE,
    user: Annotated[str, typer.Option("--user", help="Whose memory it is.")] = "me",
    model: Annotated[str | None, options.WRITER] = None,
    embedder: options.Embedder = None,
    context_tokens: Annotated[int | None, options.SHOWN] = None,
) -> None:
    """Serve a user's memory over MCP on standard input and output: remember, recall, forget.

    Models are asked at OPENAI_BASE_URL. Needs the extra `mcp`.
    Example: mnemotune mcp --policy runs/quickstart-001 --store memories.db
    """
    asyncio.run(_serve(policy, store, user, model, embedder, context_tokens))


async def _serve(
    policy: str, store: Path, user: str, model: str | None, embedder: str | None, context_tokens: int | None
) -> None:
    from ...policies.deploy.deployment import deployed_store, read_deployment
    from ...policies.deploy.mcp_server import mcp_server

    deployment = read_deployment(policy, model=model, embedder=embedder, context_tokens=context_tokens)
    async with deployed_store(deployment, store, base_url=None) as memories:
        server = mcp_server(memories.memory(user), context_tokens=deployment.context_tokens)
        if deployment.remark:
            typer.echo(deployment.remark, err=True)
        await server.run_stdio_async()
