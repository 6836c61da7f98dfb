"""Evaluations against the deterministic server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ...env import Cast, DialogueTrack, Evaluator, Protocol
from ...policies.lm.lexical import LexicalEmbedder
from ...policies.lm.openai import OpenAIModel


@asynccontextmanager
async def evaluator_at(
    url: str, *, protocol: Protocol | None = None, concurrency: int = 64
) -> AsyncIterator[Evaluator]:
    """Give an evaluator whose model is the server's."""
    model = OpenAIModel("m", base_url=url, concurrency=concurrency)
    try:
        yield Evaluator(DialogueTrack(protocol or Protocol()), Cast(model, model, LexicalEmbedder()))
    finally:
        await model.aclose()
