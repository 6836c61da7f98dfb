"""How much of what questions need memory still holds.

1. What the buffer has is there for certain, and nothing is scored for it.
2. All needs have to be there; an older value that is there as well is counted apart.
3. Equal messages before equal memories are scored once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from mnemotune.env.memrm.forecasting.forecast import features_of
from mnemotune.env.memrm.model.scoring import Scores
from mnemotune.env.memrm.rows.retrievals import Retrieval
from mnemotune.policies.memory import MemoryEvent


@dataclass
class FixedScores:
    """A reward model with a fixed score for each message."""

    p_safe: dict[str, float]
    scored: list[MemoryEvent] = field(default_factory=list)

    def score(self, events: Sequence[MemoryEvent]) -> Scores:
        self.scored += events
        return np.array([self.p_safe[event.evicted[0].content] for event in events], dtype=np.float64)


def before(*needs: tuple[str, ...], buffered: Sequence[str] = (), lines: tuple[str, ...] = ("one two",)) -> Retrieval:
    return Retrieval("0.0", needs, frozenset(buffered), lines, buffer_words=7)


def test_all_needs_have_to_be_there() -> None:
    [features] = features_of([before(("a",), ("b",), lines=("one two", "three"))], FixedScores({"a": 0.5, "b": 0.4}))
    assert features.present == pytest.approx(0.2)
    assert (features.outdated, features.buffered, features.words, features.lines, features.buffer_words) == (
        0,
        0,
        3,
        2,
        7,
    )


def test_what_the_buffer_has_is_there_for_certain_invariant_1() -> None:
    reward = FixedScores({"b": 0.4})
    [features] = features_of([before(("a",), ("b",), buffered=["a"])], reward)
    assert (features.present, features.buffered) == (0.4, 0.5)
    assert [event.evicted[0].content for event in reward.scored] == ["b"]


def test_an_older_value_that_is_there_as_well_is_counted_apart_invariant_2() -> None:
    reward = FixedScores({"old": 0.3, "older": 0.9, "new": 0.8, "b": 0.5})
    [features] = features_of([before(("older", "old", "new"), ("b",))], reward)
    assert features.present == pytest.approx(0.4)
    assert features.outdated == pytest.approx(0.9), "the clearest of the older ones"


def test_equal_messages_before_equal_memories_are_scored_once_invariant_3() -> None:
    reward = FixedScores({"a": 0.5})
    features_of([before(("a",)), before(("a",)), before(("a",), lines=("other",))], reward)
    assert len(reward.scored) == 2


def test_questions_that_need_nothing_that_was_heard_are_left_out() -> None:
    assert features_of([before()], FixedScores({})) == []


def test_what_cannot_be_scored_is_nan() -> None:
    [features] = features_of([before(("a",), ("b",))], FixedScores({"a": math.nan, "b": 0.5}))
    assert math.isnan(features.present)
