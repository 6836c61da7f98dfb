"""Rows as training examples."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...policies.memory import MemoryEvent
from .recipe import Recipe, RecipeError
from .render import Prompt, render, unreadable
from .rows import Row, read_rows
from .splits import read_splits


@dataclass(frozen=True, slots=True)
class Example:
    """One prompt with its label."""

    prompt: Prompt
    safe: bool


@dataclass(frozen=True, slots=True)
class Examples:
    """What a model learns from, and what it is looked at with: no user is in both."""

    train: tuple[Example, ...]
    held_out: tuple[Example, ...]

    def weights(self, cap: float) -> tuple[float, float]:
        """Return the loss weights of SAFE and HARMFUL: both classes weigh the same, but for the cap."""
        share = sum(example.safe for example in self.train) / len(self.train)
        ratio = min(max((1 - share) / share, 1 / cap), cap) ** 0.5
        return ratio, 1 / ratio


def read_examples(recipe: Recipe) -> Examples:
    """Read a recipe's rows and hold users out.

    The model also learns from the parts of a row: a message alone. Raises RecipeError where too few users or only one
    class are left.
    """
    splits = None if recipe.splits is None else read_splits(recipe.splits)
    rows = [row for row in read_rows(recipe.rows) if splits is None or splits.of(row) == "train"]
    users = sorted({row.user for row in rows})
    if len(users) < 2:
        raise RecipeError(f"rows: {recipe.rows} has {len(users)} users with labelled writes; two are needed at least")
    held = set(random.Random(f"held out:{recipe.seed}").sample(users, max(1, round(recipe.held_out * len(users)))))
    learnt = [row for row in rows if row.user not in held]
    train = tuple(_examples([part for row in learnt for part in (_whole(row), *_parts(row))]))
    if len({example.safe for example in train}) < 2:
        raise RecipeError(f"rows: {recipe.rows} has writes of one label only; a model needs SAFE and HARMFUL ones")
    return Examples(train, tuple(_examples([_whole(row) for row in rows if row.user in held])))


def _examples(labelled: Iterable[tuple[MemoryEvent, bool]]) -> Iterator[Example]:
    for event, is_safe in labelled:
        if unreadable(event) is None:
            yield Example(render(event), is_safe)


def _whole(row: Row) -> tuple[MemoryEvent, bool]:
    return row.event, row.label == "SAFE"


def _parts(row: Row) -> Iterator[tuple[MemoryEvent, bool]]:
    """Yield the messages of a row that has several, as if each were held against the new memory by itself."""
    if sum(message.role == "user" for message in row.evicted) < 2:
        return
    memory = tuple(row.after)
    for place, message in enumerate(row.event.evicted):
        lost = [fact.lost for fact in row.facts if fact.message == place]
        if lost and None not in lost:
            yield MemoryEvent((message,), memory, memory), not any(lost)
