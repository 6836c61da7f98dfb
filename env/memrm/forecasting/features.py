"""How much of what questions need a memory still holds. No question is asked for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from ....policies.lm import Message
from ....policies.memory import MemoryEvent
from ..model.scoring import RewardModel
from ..rows.retrievals import Retrieval


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
