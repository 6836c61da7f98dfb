"""Rows as training examples: a prompt for each statement that a write may lose."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from ..model.checkpoint import Card
from ..model.render import Prompt, Statement, statements, unreadable
from ..model.tokens import Tokens
from ..rows.row import Fact, Row, read_rows
from ..rows.showings import Showing, read_showings, shown_file
from ..rows.splits import language_model_of, read_splits
from .recipe import Recipe, RecipeError


@dataclass(frozen=True, slots=True)
class Example:
    """One prompt with its label."""

    prompt: Prompt
    safe: bool
    count: int = 1
    """How many statements of the rows have this prompt and this label."""


@dataclass(frozen=True, slots=True)
class Examples:
    """What a model learns from, and what it is looked at with: no user is in both."""

    train: tuple[Example, ...]
    """Each prompt and label once, in the order of the rows."""
    held_out: tuple[Row, ...]
    showings: tuple[Showing, ...] = ()
    """Of the users and the policies to learn from; empty where no rows have a ``.shown.jsonl`` beside them."""
    language_model: str | None = None
    """That the data cards beside all rows name; None where one is missing, or they differ."""

    def weights(self, cap: float) -> tuple[float, float]:
        """Return the loss weights of SAFE and HARMFUL: both classes weigh the same, but for the cap."""
        share = sum(example.safe for example in self.train) / len(self.train)
        ratio = min(max((1 - share) / share, 1 / cap), cap) ** 0.5
        return ratio, 1 / ratio


def read_examples(recipe: Recipe) -> Examples:
    """Read a recipe's rows and hold users out.

    Raises RecipeError where too few users or only one class are left.
    """
    splits = None if recipe.splits is None else read_splits(recipe.splits)
    named = ", ".join(map(str, recipe.rows))
    every = chain.from_iterable(map(read_rows, recipe.rows))
    rows = [row for row in every if splits is None or splits.of(row) == "train"]
    users = sorted({row.user for row in rows})
    if len(users) < 2:
        raise RecipeError(f"rows: {named} has {len(users)} users with labelled writes; two are needed at least")
    held = set(random.Random(f"held out:{recipe.seed}").sample(users, max(1, round(recipe.held_out * len(users)))))
    found: dict[tuple[Prompt, bool], int] = {}
    for row in rows:
        for given in labelled(row) if row.user not in held else ():
            found[given] = found.get(given, 0) + 1
    train = tuple(Example(prompt, safe, count) for (prompt, safe), count in found.items())
    if len({example.safe for example in train}) < 2:
        raise RecipeError(f"rows: {named} has statements of one label only; a model needs SAFE and HARMFUL ones")
    kept_apart = held if splits is None else {*held, *splits.users, *splits.policies}
    shown = chain.from_iterable(read_showings(file) for file in map(shown_file, recipe.rows) if file.is_file())
    showings = tuple(one for one in shown if kept_apart.isdisjoint({one.user, one.policy}))
    models = {language_model_of(file) for file in recipe.rows}
    return Examples(
        train, tuple(row for row in rows if row.user in held), showings, models.pop() if len(models) == 1 else None
    )


def card_before_calibration(recipe: Recipe, examples: Examples, tokens: Tokens) -> Card:
    """Return what is known of a model before it is calibrated."""
    words = tokens.per_word(example.prompt.prefix for example in examples.train)
    return Card(window=recipe.window, tokens_per_word=words, language_model=examples.language_model)


def labelled(row: Row) -> Iterator[tuple[Prompt, bool]]:
    """Yield the prompts of a row's statements, and whether each is safe.

    A statement is harmful when it tells a fact that is lost. Where it is not known which one tells a fact, or what
    became of it, the statements that might are left out.
    """
    if unreadable(row.event) is not None:
        return
    for statement in statements(row.event):
        lost = [fact.lost for fact in row.facts if _tells(statement, fact)]
        unknown = None in lost or any(_might_tell(statement, fact) for fact in row.facts)
        if True in lost or not unknown:
            yield statement.prompt, True not in lost


def _tells(statement: Statement, fact: Fact) -> bool:
    place = statement.place, statement.sentence
    return place == ((fact.message, fact.sentence) if statement.origin == "said" else (fact.line, 0))


def _might_tell(statement: Statement, fact: Fact) -> bool:
    if statement.origin == "said":
        return fact.message == statement.place and fact.sentence is None
    return fact.message is None and fact.line is None


def safe_labels(rows: Sequence[Row]) -> list[bool]:
    """Return whether each row is SAFE."""
    return [row.label == "SAFE" for row in rows]
