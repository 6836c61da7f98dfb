"""What needs no reward model: baselines that a write's lengths and words already give. Higher is safer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....policies.memory import MemoryEvent
from ....policies.text import stems
from ...episode import lines_beyond
from .metrics import Floats, Labels

FOLDS = 5
PENALTY = 1.0
"""On the squared weights of the regression, beside the summed loss."""


def length_ratio(events: Sequence[MemoryEvent]) -> Floats:
    """Return the new memory's characters per character of the old memory and the messages."""
    return np.array([_size(e.after) / max(1, _size(e.before) + _size(_said(e))) for e in events])


def lexical_overlap(events: Sequence[MemoryEvent]) -> Floats:
    """Return the share of the words of the user's messages that the new memory has; 1 where nothing was said."""
    return np.array([_overlap(event) for event in events])


def logistic_regression(events: Sequence[MemoryEvent], harmful: Labels, clusters: Sequence[str]) -> Floats:
    """Return P(safe) of a logistic regression on lengths, counts and overlap, fitted on other clusters' writes."""
    # imported late: scikit-learn takes a while that most commands do not need
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    p_safe = np.full(len(events), 0.5)
    features = np.array([_features(event) for event in events])
    names = sorted(set(clusters))
    for fold in range(min(FOLDS, len(names))):
        here = np.isin(np.asarray(clusters), names[fold::FOLDS])
        if here.all() or len(set(harmful[~here])) < 2:
            continue
        model = make_pipeline(StandardScaler(), LogisticRegression(C=1 / (2 * PENALTY)))
        p_safe[here] = model.fit(features[~here], harmful[~here]).predict_proba(features[here])[:, 0]
    return p_safe


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
