"""Forecasts of how often a model answers rightly, from what its memory shows. Candidates are ranked by them."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from ....data.record import first_problem
from ....policies.lm import Message
from ....policies.memory import MemoryEvent
from ..model.checkpoint import CheckpointError
from ..model.scoring import RewardModel, Scores
from ..rows.retrievals import Retrieval, RetrievalLog
from ..trees import BoostedTrees, fit_trees

FORECAST = "forecast.json"
TREES = {"n_estimators": 100, "max_depth": 4, "learning_rate": 0.08, "subsample": 0.5, "min_samples_leaf": 50}
"""How the boosted trees are fitted, in scikit-learn's words."""
MOST_EPISODES = 400
"""That a forecast is fitted on."""


class Features(NamedTuple):
    """What is before a model when a question comes, in numbers."""

    present: float
    """Probability that everything that the question needs is there, in [0, 1]; NaN where it could not be scored."""
    outdated: float
    """Of how many of the needed facts an older value is there as well; NaN likewise."""
    buffered: float
    """Share of the needed facts whose message is still in the buffer."""
    words: int
    """Of the memories that come back."""
    lines: int
    buffer_words: int


def features_of(retrievals: Sequence[Retrieval], reward: RewardModel) -> list[Features]:
    """Return the features of each retrieval; questions that need nothing known so far are left out."""
    needing = [retrieval for retrieval in retrievals if retrieval.needs]
    texts = ((r, text) for r in needing for text in chain.from_iterable(r.needs) if text not in r.buffered)
    events = list(dict.fromkeys(_event(text, retrieval) for retrieval, text in texts))
    probability = dict(zip(events, reward.score(events).tolist(), strict=True))
    return [_features(retrieval, probability) for retrieval in needing]


def _features(retrieval: Retrieval, probability: Mapping[MemoryEvent, float]) -> Features:
    def is_there(text: str) -> float:
        return 1.0 if text in retrieval.buffered else probability[_event(text, retrieval)]

    present = [list(map(is_there, texts)) for texts in retrieval.needs]
    return Features(
        present=math.prod(newest for *_, newest in present),
        outdated=math.fsum(max(older, default=0.0) for *older, _ in present),
        buffered=sum(texts[-1] in retrieval.buffered for texts in retrieval.needs) / len(retrieval.needs),
        words=sum(len(line.split()) for line in retrieval.lines),
        lines=len(retrieval.lines),
        buffer_words=retrieval.buffer_words,
    )


def _event(text: str, retrieval: Retrieval) -> MemoryEvent:
    """Return a message held against the memories that come back."""
    return MemoryEvent((Message("user", text),), retrieval.lines, retrieval.lines)


FEATURES = len(Features._fields)
COUNTS = [Features._fields.index(name) for name in ("words", "lines", "buffer_words")]
"""Numbers of a question that the trees see."""


class Forecast(BoostedTrees):
    """Boosted trees on what memory shows before a question: the log-odds of a right answer."""

    FEATURES = FEATURES

    def right(self, features: Sequence[Features]) -> Scores:
        """Return the probability of a right answer to each question, in [0, 1]; NaN where a feature is."""
        table = feature_table(features)
        known = ~np.isnan(table).any(axis=1)
        right = np.full(len(features), np.nan)
        right[known] = self.probability(table[known])
        return right

    def score(self, features: Sequence[Features]) -> float:
        """Return the share of right answers to expect, in [0, 1]; NaN unless half of the questions have a forecast."""
        right = self.right(features)
        known = right[~np.isnan(right)]
        return float(known.mean()) if len(known) and 2 * len(known) >= len(right) else float("nan")


def feature_table(features: Sequence[Features]) -> NDArray[np.float64]:
    """Return what the trees see, a row for each question; shape ``(questions, FEATURES)``."""
    table = np.array(features, dtype=np.float64).reshape(len(features), FEATURES)
    table[:, COUNTS] = np.log1p(table[:, COUNTS])
    return table


def fit_forecast(logs: Iterable[RetrievalLog], reward: RewardModel, *, seed: int) -> Forecast:
    """Fit a forecast on at most ``MOST_EPISODES`` episodes, drawn by the seed.

    Raises CheckpointError where answers are all right or all wrong.
    """
    every = list(logs)
    drawn = random.Random(f"forecast:{seed}").sample(every, min(MOST_EPISODES, len(every)))
    features, answers = list[Features](), list[bool]()
    for log in drawn:
        needing = [(retrieval, right) for retrieval, right in log.retrievals() if retrieval.needs and right is not None]
        features += features_of([retrieval for retrieval, _ in needing], reward)
        answers += [right for _, right in needing]
    table = feature_table(features)
    known, labels = ~np.isnan(table).any(axis=1), np.array(answers, dtype=bool)
    if len(set(labels[known].tolist())) < 2:
        raise CheckpointError("a forecast needs questions that were answered rightly and ones that were not")
    return fit_trees(Forecast, table[known], labels[known], TREES | {"random_state": seed})


def write_forecast(folder: Path, forecast: Forecast) -> None:
    """Write ``forecast.json`` into a checkpoint's folder."""
    (folder / FORECAST).write_text(forecast.model_dump_json() + "\n", encoding="utf-8")


def read_forecast(folder: Path) -> Forecast:
    """Read ``forecast.json``. Raises CheckpointError when it is missing or damaged."""
    path = folder / FORECAST
    if not path.is_file():
        raise CheckpointError(
            f"{folder}: holds no {FORECAST}, so it cannot rank policies; train it on rows of `mnemotune memrm collect` "
            "that have their .shown.jsonl beside them"
        )
    try:
        return Forecast.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise CheckpointError(f"{path}: {first_problem(error)}") from None
