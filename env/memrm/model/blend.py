"""MemRM beside boosted trees that read no word.

Words tell what a write lost where their texts are like those that the model learned from. Lengths, counts and kept
shares tell it less well, but of any text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from ....data.record import first_problem
from ....policies.memory import MemoryEvent
from ..trees import BoostedTrees, Finite, Table, fit_trees
from .checkpoint import CheckpointError, ModelCard, is_foreign
from .render import unreadable
from .scoring import MemRM, Scores, folder_of, load_memrm
from .shape import FEATURES, shape_of

TREES = "trees.json"
SETTINGS = {"n_estimators": 100, "max_depth": 3, "subsample": 0.5, "min_samples_leaf": 10, "random_state": 0}
"""How the trees are fitted, in scikit-learn's words."""
SUREST = 12.0
"""Log-odds beyond which it makes no difference how sure a part is."""


class WordlessTrees(BoostedTrees):
    """The log-odds that a write is safe by its shape, and how much they count beside those by its words."""

    FEATURES = FEATURES

    of_words: Finite = 0.0
    """Weight of the log-odds by words."""
    of_shape: Finite = 1.0
    """Weight of the log-odds by shape."""
    bias: Finite = 0.0

    def score(self, events: Sequence[MemoryEvent]) -> Scores:
        """Return P(safe) of each write by its shape alone; NaN for what is no text or empty."""
        p_safe = np.full(len(events), np.nan)
        able = [place for place, event in enumerate(events) if unreadable(event) is None]
        p_safe[able] = self.probability(table_of([events[place] for place in able]))
        return p_safe


class BlendedMemRM:
    """A reward model whose words and shape are weighed as held-out writes have it.

    Where texts are foreign to the words' model, or beyond its window, the shape alone decides.
    """

    def __init__(self, words: MemRM, trees: WordlessTrees) -> None:
        """Blend as the trees say."""
        self.words, self.trees = words, trees

    @property
    def card(self) -> ModelCard:
        """The words' model's."""
        return self.words.card

    def score(self, events: Sequence[MemoryEvent]) -> Scores:
        """Return P(safe) for each event; NaN for an empty one and for one that is not text."""
        by_words, by_shape = self.words.score(events), self.trees.score(events)
        odds = self.trees.of_words * log_odds(by_words) + self.trees.of_shape * log_odds(by_shape) + self.trees.bias
        foreign = np.array([self._is_foreign(event) for event in events], dtype=bool)
        p_safe: Scores = np.where(np.isnan(by_words) | foreign, by_shape, 1 / (1 + np.exp(-odds)))
        return p_safe

    def _is_foreign(self, event: MemoryEvent) -> bool:
        said = [message.content for message in event.evicted if message.role != "assistant"]
        return unreadable(event) is None and is_foreign(said, self.words.tokens, self.words.card)


AnyMemRM = MemRM | BlendedMemRM
"""What a checkpoint folder holds."""


def log_odds(p_safe: Scores) -> Scores:
    """Return log-odds of at most ``SUREST``; NaN stays NaN."""
    with np.errstate(divide="ignore"):
        odds: Scores = np.clip(np.log(p_safe) - np.log1p(-p_safe), -SUREST, SUREST)
    return odds


def table_of(events: Sequence[MemoryEvent]) -> Table:
    """Return the shapes of writes, a row each."""
    return np.array([shape_of(event) for event in events], dtype=np.float64).reshape(len(events), FEATURES)


def fit_wordless(
    table: Table,
    safe: NDArray[np.bool_],
    *,
    words: MemRM,
    held_out: Sequence[MemoryEvent],
    held_out_safe: NDArray[np.bool_],
) -> WordlessTrees:
    """Fit trees on the shapes of writes, and their weight beside a model of words on other writes.

    Where those have one class only, the trees stand alone. Raises CheckpointError where the writes do.
    """
    from sklearn.linear_model import LogisticRegression  # only who trains needs it

    if len(set(safe.tolist())) < 2:
        raise CheckpointError("trees need writes that are SAFE and ones that are HARMFUL")
    trees = fit_trees(WordlessTrees, table, safe, SETTINGS)
    odds = np.column_stack([log_odds(words.score(held_out)), log_odds(trees.score(held_out))])
    known = ~np.isnan(odds).any(axis=1)
    if len(set(held_out_safe[known].tolist())) < 2:
        return trees
    fitted = LogisticRegression().fit(odds[known], held_out_safe[known])
    of_words, of_shape = map(float, fitted.coef_[0])
    weights = {"of_words": of_words, "of_shape": of_shape, "bias": float(fitted.intercept_[0])}
    return trees.model_copy(update=weights)


def write_trees(folder: Path, trees: WordlessTrees) -> None:
    """Write ``trees.json`` into a checkpoint's folder."""
    (folder / TREES).write_text(trees.model_dump_json() + "\n", encoding="utf-8")


def words_of(reward: AnyMemRM) -> MemRM:
    """Return the model that reads words."""
    return reward.words if isinstance(reward, BlendedMemRM) else reward


def load_reward(checkpoint: Path | str = "tiny", *, torch: bool = False) -> AnyMemRM:
    """Load a checkpoint folder, or the bundled ``tiny``, with its trees where it has some. Raises CheckpointError."""
    words, path = load_memrm(checkpoint, torch=torch), folder_of(checkpoint) / TREES
    if not path.is_file():
        return words
    try:
        return BlendedMemRM(words, WordlessTrees.model_validate_json(path.read_bytes()))
    except ValidationError as error:
        raise CheckpointError(f"{path}: {first_problem(error)}") from None
