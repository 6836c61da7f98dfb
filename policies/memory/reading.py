"""How memories come back: which of them, and in which order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..lm.base import CHARACTERS_PER_TOKEN
from ..policy import MemoryPolicy
from .protocol import Context, Item
from .stores import Entry, MemoryState, VectorIndex, ranked


async def read(policy: MemoryPolicy, state: MemoryState, index: VectorIndex, query: str) -> Context:
    """Return all that the policy puts before a query, however much it is."""
    if policy.prompts.reply is None:
        return Context(messages=state.buffer)
    chosen = _within(await ranked(policy, state, index, query), policy.read.budget_tokens)
    items = [Item(str(entry.id), entry.line, rank) for rank, entry in enumerate(chosen)]
    if policy.read.order == "time":
        place = {str(entry.id): i for i, entry in enumerate(state.entries)}
        items.sort(key=lambda item: place[item.id])
    return Context(tuple(items), state.buffer, policy.prompts.reply)


def _within(entries: Sequence[Entry], budget_tokens: int | None) -> list[Entry]:
    """Keep the first entries that fit into the budget."""
    if budget_tokens is None:
        return list(entries)
    sizes = np.cumsum([len(entry.line) / CHARACTERS_PER_TOKEN for entry in entries])
    return list(entries[: int(np.searchsorted(sizes, budget_tokens, side="right"))])
