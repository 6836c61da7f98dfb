"""What of a message memory shows, told by shared words: no model, and no text is foreign to it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ....policies.memory import MemoryEvent
from ....policies.text import sentences, stems
from ...statistics import nan_mean
from ..model.scoring import Scores


class SharedWords:
    """A reward model that takes for P(safe) how much of what was said stands in the new memory."""

    def score(self, events: Sequence[MemoryEvent]) -> Scores:
        """Return the mean, over the sentences of a write's messages, of the share of words that one line has.

        In [0, 1]; 1 where no sentence has a content word.
        """
        return np.array([_present(event) for event in events], dtype=np.float64)


def _present(event: MemoryEvent) -> float:
    said = (_stems(sentence) for message in event.evicted for sentence in sentences(message.content))
    lines = [_stems(line) for line in event.after]
    shares = [max((len(words & line) / len(words) for line in lines), default=0.0) for words in said if words]
    return nan_mean(shares) if shares else 1.0


@lru_cache(maxsize=1 << 13)
def _stems(text: str) -> frozenset[str]:
    return frozenset(stems(text))
