"""How much of what questions need a memory would still tell: found without a question being asked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from ....policies.lm import Message
from ....policies.memory import MemoryEvent
from ..model.scoring import RewardModel
from ..rows.showings import Shown

Told = dict[MemoryEvent, float]


@dataclass(frozen=True, slots=True)
class Recalled:
    """What is before a model when a question comes, in numbers."""

    told: float
    """Probability that all that the question needs is told, in [0, 1]; NaN where it could not be scored."""
    outdated: float
    """Of how many of the states that it needs an older value is told as well; NaN likewise."""
    buffered: float
    """Share of the states that it needs whose message is still in the buffer."""
    words: int
    """Of the memories that come back."""
    lines: int
    buffer_words: int


def recall(shown: Sequence[Shown], reward: RewardModel) -> list[Recalled]:
    """Return what is told of what each question needs; questions that need nothing that was told are left out."""
    asked = [one for one in shown if one.needs]
    events = list(dict.fromkeys(event for one in asked for event in _events(one)))
    told = dict(zip(events, reward.score(events).tolist(), strict=True))
    return [_recalled(one, told) for one in asked]


def _recalled(one: Shown, told: Told) -> Recalled:
    newest = [_told(texts[-1], one, told) for texts in one.needs]
    older = [max((_told(text, one, told) for text in texts[:-1]), default=0.0) for texts in one.needs]
    return Recalled(
        told=math.prod(newest),
        outdated=math.fsum(older),
        buffered=sum(texts[-1] in one.buffered for texts in one.needs) / len(one.needs),
        words=sum(len(line.split()) for line in one.lines),
        lines=len(one.lines),
        buffer_words=one.buffer_words,
    )


def _told(text: str, one: Shown, told: Told) -> float:
    return 1.0 if text in one.buffered else told[_event(text, one)]


def _events(one: Shown) -> Iterator[MemoryEvent]:
    return (_event(text, one) for text in chain.from_iterable(one.needs) if text not in one.buffered)


def _event(text: str, one: Shown) -> MemoryEvent:
    """Return a message held against the memories that come back."""
    return MemoryEvent((Message("user", text),), one.lines, one.lines)
