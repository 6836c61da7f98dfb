"""Rows as training examples."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from .recipe import Recipe, RecipeError
from .render import Prompt, render, unreadable
from .rows import read_rows
from .splits import Splits


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

    Rows without a fact at stake are left out: nobody can tell what they teach. Raises RecipeError where too few users
    or only one class are left.
    """
    splits = None if recipe.splits is None else _splits(recipe.splits)
    found = [
        (row.user, Example(render(row.event, lines=recipe.lines), row.label == "SAFE"))
        for row in read_rows(recipe.rows)
        if row.facts and unreadable(row.event) is None and (splits is None or splits.of(row) == "train")
    ]
    users = sorted({user for user, _ in found})
    if len(users) < 2:
        raise RecipeError(f"rows: {recipe.rows} has {len(users)} users with labelled writes; two are needed at least")
    held = set(random.Random(f"held out:{recipe.seed}").sample(users, max(1, round(recipe.held_out * len(users)))))
    train = tuple(example for user, example in found if user not in held)
    if len({example.safe for example in train}) < 2:
        raise RecipeError(f"rows: {recipe.rows} has writes of one label only; a model needs SAFE and HARMFUL ones")
    return Examples(train, tuple(example for user, example in found if user in held))


def _splits(card: Path) -> Splits:
    try:
        return Splits.model_validate(json.loads(card.read_bytes())["splits"])
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        raise RecipeError(f"splits: {card} is no data card of `mnemotune memrm collect`: {error}") from None
