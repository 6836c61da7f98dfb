"""Scores.

1. The score of an event does not depend on what is scored with it, nor on the order.
2. An event is scored rightly, or it is NaN.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mnemotune.env.memrm.checkpoint import Card
from mnemotune.env.memrm.rows import Row
from mnemotune.env.memrm.scoring import Logits, MemRM, Padded, fit_calibration, padded, safe
from mnemotune.env.memrm.tokens import Tokens, train_tokens
from mnemotune.policies.lm import Message
from mnemotune.policies.memory import MemoryEvent


class Counting:
    """A runner whose logit of safe is a checksum of what it read in order; it counts the tokens it was given."""

    def __init__(self) -> None:
        self.tokens = 0
        self.calls = 0

    def read(self, prefixes: Padded) -> list[list[int]]:
        return self._rows(prefixes)

    def answer(self, suffixes: Padded, past: Any = None, rows: NDArray[np.int64] | None = None) -> Logits:
        new = self._rows(suffixes)
        whole = new if past is None or rows is None else [past[r] + ids for r, ids in zip(rows, new, strict=True)]
        sums = [sum(math.sin(place * ids[place]) for place in range(len(ids))) for ids in whole]
        return np.array([[total, 0.0] for total in sums], dtype=np.float32)

    def _rows(self, given: Padded) -> list[list[int]]:
        self.tokens += given.ids.size
        self.calls += 1
        return [row[:length].tolist() for row, length in zip(given.ids, given.length, strict=True)]


@pytest.fixture(scope="module")
def tokens() -> Tokens:
    return train_tokens(["I moved to the coast last week. My neighbour has a pony.\nAnswer:"] * 9, size=300)


def model(tokens: Tokens, runner: Counting | None = None, **card: Any) -> MemRM:
    return MemRM(runner or Counting(), tokens, Card(**{"window": 4000, **card}), batch_tokens=10_000)


def events(rows: Sequence[Row]) -> list[MemoryEvent]:
    return [row.event for row in rows]


def test_scores_do_not_depend_on_order_or_company(tokens: Tokens, rows: list[Row]) -> None:
    given = events(rows) * 2
    order = random.Random(1).sample(range(len(given)), len(given))
    scores = model(tokens).score(given)
    mixed = model(tokens).score([given[i] for i in order])
    alone = [model(tokens).score([event])[0] for event in given[:20]]
    np.testing.assert_allclose(mixed, scores[order], atol=1e-5)
    np.testing.assert_allclose(alone, scores[:20], atol=1e-5)


def test_a_shared_prefix_is_read_once(tokens: Tokens) -> None:
    said = (Message("assistant", "You moved to the coast last week. " * 8),)
    given = [MemoryEvent(said, (), (f"moved {i}",)) for i in range(8)]
    apart, together = Counting(), Counting()
    for event in given:
        model(tokens, apart).score([event])
    model(tokens, together).score(given)
    assert together.calls == 2
    assert together.tokens < 0.7 * apart.tokens


@pytest.mark.parametrize(
    "event",
    [
        MemoryEvent((), (), ()),
        MemoryEvent((Message("user", "a\ud800"),), (), ()),
        MemoryEvent((Message("user", b"\xff\xfe"),), (), ()),  # type: ignore[arg-type]
        MemoryEvent((Message("user", "word " * 5000),), (), ()),
    ],
    ids=["empty", "half a character", "bytes", "beyond the window"],
)
def test_what_cannot_be_judged_is_nan_and_leaves_others_alone(
    tokens: Tokens, rows: list[Row], event: MemoryEvent
) -> None:
    good = rows[0].event
    scores = model(tokens).score([good, event, good])
    assert math.isnan(scores[1])
    np.testing.assert_allclose(scores[[0, 2]], model(tokens).score([good])[0])


def test_no_events_have_no_scores(tokens: Tokens) -> None:
    assert model(tokens).score([]).shape == (0,)


def test_the_temperature_moves_scores_towards_a_half(tokens: Tokens, rows: list[Row]) -> None:
    sharp, dull = (model(tokens, temperature=t).score(events(rows)) for t in (1.0, 4.0))
    assert (np.abs(dull - 0.5) <= np.abs(sharp - 0.5)).all()


def test_the_temperature_and_the_bias_that_made_the_labels_are_found() -> None:
    rng = np.random.default_rng(0)
    differences = rng.normal(0, 6, 20_000)
    labels = rng.random(20_000) < safe((differences + 1.5) / 2.5)
    assert fit_calibration(differences, labels.tolist()) == pytest.approx((2.5, -1.5), rel=0.08)


@pytest.mark.parametrize("differences", [[math.nan, math.nan], [1.0, 2.0]])
def test_where_nothing_can_be_fitted_scores_stay_as_they_are(differences: list[float]) -> None:
    assert fit_calibration(np.array(differences), [True, True]) == (1.0, 0.0)


def test_padding_is_on_the_right() -> None:
    found = padded([[1, 2, 3], [4]])
    assert found.ids.tolist() == [[1, 2, 3], [4, 0, 0]]
    assert found.length.tolist() == [3, 1]
