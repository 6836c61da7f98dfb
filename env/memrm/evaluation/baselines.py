"""What needs no reward model: baselines that a write's lengths and words already give. Higher is safer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ....policies.memory import MemoryEvent
from ....policies.text import stems
from ...episode import lines_beyond
from .metrics import Floats, Labels

FOLDS = 5
PENALTY = 1.0
"""On the squared weights of the regression, beside the summed loss."""


def majority(events: Sequence[MemoryEvent]) -> Floats:
    """Return the same for all."""
    return np.zeros(len(events))


def length_ratio(events: Sequence[MemoryEvent]) -> Floats:
    """Return the new memory's characters per character of the old memory and the messages."""
    return np.array([_size(e.after) / max(1, _size(e.before) + _size(_said(e))) for e in events])


def lexical_overlap(events: Sequence[MemoryEvent]) -> Floats:
    """Return the share of the words of the user's messages that the new memory has; 1 where nothing was said."""
    return np.array([_overlap(event) for event in events])


def logistic_regression(events: Sequence[MemoryEvent], harmful: Labels, clusters: Sequence[str]) -> Floats:
    """Return P(safe) of a logistic regression on lengths, counts and overlap, fitted on other clusters' writes."""
    p_safe = np.full(len(events), 0.5)
    features = np.array([_features(event) for event in events])
    names = sorted(set(clusters))
    for fold in range(min(FOLDS, len(names))):
        here = np.isin(np.asarray(clusters), names[fold::FOLDS])
        if here.all() or len(set(harmful[~here])) < 2:
            continue
        middle, spread = features[~here].mean(axis=0), features[~here].std(axis=0) + 1e-9
        weights = _fitted((features[~here] - middle) / spread, harmful[~here])
        p_safe[here] = 1 / (1 + np.exp(_odds((features[here] - middle) / spread, weights)))
    return p_safe


def _fitted(features: Floats, harmful: Labels) -> Floats:
    from scipy.optimize import minimize  # imported late: SciPy takes a while that most commands do not need

    signs = np.where(harmful, 1.0, -1.0)

    def loss(weights: NDArray[np.float64]) -> tuple[float, Floats]:
        margins = signs * _odds(features, weights)
        pull = -signs / (1 + np.exp(np.clip(margins, -50, 50)))
        slopes = np.append(features.T @ pull, pull.sum()) + 2 * PENALTY * np.append(weights[:-1], 0.0)
        return float(np.logaddexp(0.0, -margins).sum() + PENALTY * (weights[:-1] ** 2).sum()), slopes

    return np.asarray(minimize(loss, np.zeros(features.shape[1] + 1), jac=True, method="L-BFGS-B").x)


def _odds(features: Floats, weights: Floats) -> Floats:
    return np.asarray(features @ weights[:-1] + weights[-1])


def _features(event: MemoryEvent) -> list[float]:
    removed, added = lines_beyond(event.before, event.after), lines_beyond(event.after, event.before)
    sizes = [_size(_said(event)), _size(event.before), _size(event.after), _size(removed), _size(added)]
    counts = [len(event.evicted), len(event.before), len(removed), len(added)]
    return [*map(np.log1p, sizes), *map(np.log1p, counts), _overlap(event)]


def _overlap(event: MemoryEvent) -> float:
    said = {word for message in event.evicted if message.role == "user" for word in stems(message.content)}
    known = {word for line in event.after for word in stems(line)}
    return len(said & known) / len(said) if said else 1.0


def _said(event: MemoryEvent) -> list[str]:
    return [message.content for message in event.evicted]


def _size(texts: Sequence[str]) -> int:
    return sum(map(len, texts))
