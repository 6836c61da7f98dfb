"""Rows as training examples: each statement that a write may lose is a prompt."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ..evaluation.quality import harmful_rows
from ..model.blend import table_of
from ..model.checkpoint import ModelCard
from ..model.render import Prompt, Statement, statements, unreadable
from ..model.scoring import batched
from ..model.tokens import Tokens
from ..rows.retrievals import RetrievalLog, read_retrievals, retrievals_file
from ..rows.row import FactLabel, Row, read_rows
from ..rows.splits import language_model_of, read_splits
from ..trees import Table
from .recipe import RecipeError, TrainingRecipe


@dataclass(frozen=True, slots=True)
class Example:
    """One prompt with its label."""

    prompt: Prompt
    safe: bool
    count: int = 1
    """How many statements of the rows have this prompt and this label."""


@dataclass(frozen=True, slots=True)
class Examples:
    """What a model is trained on, and what it is validated on. No group is in both."""

    train: tuple[Example, ...]
    """Each prompt and label once, in the order of the rows."""
    held_out: tuple[Row, ...]
    shapes: Table
    """Of the writes that are trained on, a row each, as ``shape_of`` has it."""
    safe: NDArray[np.bool_]
    """Their labels, aligned."""
    retrievals: tuple[RetrievalLog, ...] = ()
    """Of the groups and policies that are trained on; empty where no rows have a ``.shown.jsonl`` beside them."""
    language_model: str | None = None
    """The data cards beside all rows name it; None where a card is missing, or they differ."""

    def weights(self, cap: float) -> tuple[float, float]:
        """Return the loss weights of SAFE and HARMFUL: both classes weigh the same, but for the cap."""
        share = sum(example.safe for example in self.train) / len(self.train)
        ratio = min(max((1 - share) / share, 1 / cap), cap) ** 0.5
        return ratio, 1 / ratio


def read_examples(recipe: TrainingRecipe) -> Examples:
    """Read a recipe's rows and hold groups out.

    Raises RecipeError where too few groups or only one class are left.
    """
    splits = None if recipe.splits is None else read_splits(recipe.splits)
    named = ", ".join(map(str, recipe.rows))
    every = chain.from_iterable(map(read_rows, recipe.rows))
    rows = [row for row in every if splits is None or splits.of(row) == "train"]
    groups = sorted({row.group for row in rows})
    if len(groups) < 2:
        raise RecipeError(f"rows: {named} has {len(groups)} groups with labelled writes; two are needed at least")
    apart = list(chain.from_iterable(map(read_rows, recipe.apart)))
    share = 0 if apart else max(1, round(recipe.held_out * len(groups)))
    held = {row.group for row in apart} | set(random.Random(f"held out:{recipe.seed}").sample(groups, share))
    given = [row for row in rows if row.group not in held]
    if not given:
        raise RecipeError(f"rows: every group of {named} is in `apart` too; take rows of other groups apart")
    counts: dict[tuple[Prompt, bool], int] = {}
    for row in given:
        for example in labelled(row):
            counts[example] = counts.get(example, 0) + 1
    train = tuple(Example(prompt, safe, count) for (prompt, safe), count in counts.items())
    if len({example.safe for example in train}) < 2:
        raise RecipeError(f"rows: {named} has statements of one label only; a model needs SAFE and HARMFUL ones")
    kept_apart = held if splits is None else {*held, *splits.groups, *splits.policies}
    logs = chain.from_iterable(read_retrievals(file) for file in map(retrievals_file, recipe.rows) if file.is_file())
    retrievals = tuple(log for log in logs if kept_apart.isdisjoint({log.group, log.policy}))
    models = {language_model_of(file) for file in recipe.rows}
    able = [row for row in given if unreadable(row.event) is None]
    return Examples(
        train,
        held_out=tuple(apart or (row for row in rows if row.group in held)),
        shapes=table_of([row.event for row in able]),
        safe=~harmful_rows(able),
        retrievals=retrievals,
        language_model=models.pop() if len(models) == 1 else None,
    )


def card_before_calibration(recipe: TrainingRecipe, examples: Examples, tokens: Tokens) -> ModelCard:
    """Return what is known of a model before it is calibrated."""
    words = tokens.per_word(example.prompt.prefix for example in examples.train)
    return ModelCard(window=recipe.window, tokens_per_word=words, language_model=examples.language_model)


def shuffled_batches(lengths: Sequence[int], recipe: TrainingRecipe, *, epoch: int) -> list[list[int]]:
    """Return an epoch's batches, as places of prompts of nearly one length, in random order.

    They are the same for one seed and epoch.
    """
    rng = random.Random(f"batches:{recipe.seed}:{epoch}")
    noisy = sorted((length * rng.uniform(1.0, 1.2), place) for place, length in enumerate(lengths))
    ordered = [place for _, place in noisy]
    batches = list(batched(ordered, lengths.__getitem__, most=recipe.schedule.batch_tokens))
    rng.shuffle(batches)
    return batches


def labelled(row: Row) -> Iterator[tuple[Prompt, bool]]:
    """Yield the prompts of a row's statements, and whether each is safe.

    A statement is harmful when it tells a lost fact. A statement that might tell a fact is left out where it is not
    known which statement does, or whether the fact is lost.
    """
    if unreadable(row.event) is not None:
        return
    for statement in statements(row.event):
        lost = [fact.lost for fact in row.facts if _tells(statement, fact)]
        unknown = None in lost or any(_might_tell(statement, fact) for fact in row.facts)
        if True in lost or not unknown:
            yield statement.prompt, True not in lost


def _tells(statement: Statement, fact: FactLabel) -> bool:
    place = statement.place, statement.sentence
    return place == ((fact.message, fact.sentence) if statement.origin == "said" else (fact.line, 0))


def _might_tell(statement: Statement, fact: FactLabel) -> bool:
    if statement.origin == "said":
        return fact.message == statement.place and fact.sentence is None
    return fact.message is None and fact.line is None
