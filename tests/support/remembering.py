"""What tests of memories say and see."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mnemotune.policies import MemoryPolicy, load_policy
from mnemotune.policies.lm import Message
from mnemotune.policies.memory import Memory, MemoryEvent


def preset(name: str, **changes: Any) -> MemoryPolicy:
    """Return a preset with other numbers, and the prompts that it starts from."""
    values = load_policy(name).model_dump(exclude_none=True, exclude={"prompts"})
    return MemoryPolicy.model_validate(values | changes)


def facts(*texts: Any) -> str:
    """Return a reply that names new facts."""
    return json.dumps({"facts": list(texts)})


def steps(*given: Any) -> str:
    """Return a reply that merges facts."""
    return json.dumps({"memory": list(given)})


async def lines(memory: Memory) -> list[str]:
    """Return all memories, oldest write first."""
    return [item.text for item in await memory.listing()]


async def shown(memory: Memory, query: str, *, tokens: int | None = None) -> list[Message]:
    """Return what a model is shown before a query."""
    return list((await memory.context(query, tokens=tokens)).render())


async def observe_all(memory: Memory, rounds: Sequence[list[Message]]) -> list[MemoryEvent]:
    """Take in rounds; return the writes."""
    return [event for messages in rounds for event in await memory.observe(messages)]
