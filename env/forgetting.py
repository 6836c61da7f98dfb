"""Whether memory forgets what it is asked to forget, and no more than that."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any

from ..data.task import Fact, Task
from ..policies.deploy.stating import forget_fact
from ..policies.memory import Memory
from ..policies.memory.saving import Savable
from .evidence import telling
from .stored import Tellings, words_of

ASKED = 5
"""Most facts that are asked to be forgotten; half of those that memory tells at most."""


@dataclass(frozen=True, slots=True)
class Forgetting:
    """What came of it, as shares in [0, 1]; NaN where there was nothing to forget, or nothing else to keep."""

    unforgotten: float = math.nan
    """Of the facts that were to be forgotten, those that memory still tells."""
    taken_along: float = math.nan
    """Of all other facts that memory told, those that it tells no more."""


async def forgetting(task: Task, memory: Memory) -> Forgetting:
    """Have a fork of a memory forget facts that it tells, one after another, and look for all facts again.

    A fact is told where a text of the memories, of the snapshot or of what is saved tells it, as ``Stored.of`` has it,
    with more than half of its words.
    """
    tellings = Tellings(task.facts.values())

    @cache
    def told_by(text: str) -> frozenset[str]:
        return frozenset(tellings.by(words_of(text), scraps=False))

    def told(texts: Iterable[str]) -> frozenset[str]:
        return frozenset[str]().union(*map(told_by, texts))

    before = told(await texts_of(memory))
    if not before:
        return Forgetting()
    count = min(ASKED, math.ceil(len(before) / 2))
    asked = frozenset(random.Random(task.id).sample(sorted(before), count))
    requests = [request(task.facts[fact]) for fact in sorted(asked)]
    fork = await memory.fork()
    for each in requests:
        await forget_fact(fork, each)
    after, others = told(await texts_of(fork)), before - asked - told(requests)
    along = len(others - after) / len(others) if others else math.nan
    return Forgetting(len(asked & after) / len(asked), along)


def request(fact: Fact) -> str:
    """Return by what words a fact is forgotten: the sentence that told it last, or else its own text."""
    return telling(fact.text, fact.sources[-1]) if fact.sources else fact.text


async def texts_of(memory: Memory) -> list[str]:
    """Return all texts that a memory lists, and those of its snapshot and of what is saved of it, each once."""
    saved = await memory.dump() if isinstance(memory, Savable) else None
    held = [[item.text for item in await memory.listing()], await memory.snapshot(), saved]
    return [*dict.fromkeys(_texts_in(held))]


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif is_dataclass(value):
        for field in fields(value):
            yield from _texts_in(getattr(value, field.name))
    elif isinstance(value, Mapping | list | tuple | set | frozenset):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts_in(part)
