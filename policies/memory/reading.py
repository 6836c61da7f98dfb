"""How memories come back: which of them, and in which order."""

from __future__ import annotations

from ..policy import MemoryPolicy
from .protocol import Context, Item
from .stores import MemoryState, VectorIndex, ranked


async def read(policy: MemoryPolicy, state: MemoryState, index: VectorIndex, query: str) -> Context:
    """Return all that the policy puts before a query, however much it is."""
    if policy.prompts.reply is None:
        return Context(messages=state.buffer)
    chosen = await ranked(policy, state, index, query)
    items = [Item(str(entry.id), entry.line, rank) for rank, entry in enumerate(chosen)]
    if policy.read.order == "time":
        place = {str(entry.id): i for i, entry in enumerate(state.entries)}
        items.sort(key=lambda item: place[item.id])
    return Context(tuple(items), state.buffer, policy.prompts.reply)
