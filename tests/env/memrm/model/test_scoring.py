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

from mnemotune.env.memrm.model.checkpoint import ModelCard
from mnemotune.env.memrm.model.runner import Logits, Padded, padded
from mnemotune.env.memrm.model.scoring import Calibration, MemRM, fit_calibration, log_safe, summed
from mnemotune.env.memrm.model.tokens import Ids, Tokens, train_tokens
from mnemotune.env.memrm.rows.row import Row
from mnemotune.policies.lm import Message
from mnemotune.policies.memory import MemoryEvent


class Counting:
    """A runner whose logit of safe is a checksum of what it read in order; it counts the tokens it was given."""

    batch_tokens = 10_000

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
    return MemRM(runner or Counting(), tokens, ModelCard(**{"window": 4000, **card}))


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


def test_what_writes_share_is_read_once(tokens: Tokens) -> None:
    said = (Message("assistant", "Along the coast " + "they moved " * 8), Message("assistant", "My pony trots."))
    given = [MemoryEvent(said, (), (f"moved {i}",)) for i in range(8)]
    apart, together = Counting(), Counting()
    for event in given:
        model(tokens, apart).score([event])
    model(tokens, together).score(given)
    assert together.calls == 2, "what was said, and then what became of it"
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


def test_the_temperature_moves_statements_towards_a_half() -> None:
    differences = np.array([-3.0, -0.1, 0.0, 2.0, 40.0])
    sharp, dull = (np.exp(log_safe(differences, Calibration(t, 0.0))) for t in (1.0, 4.0))
    assert (np.abs(dull - 0.5) <= np.abs(sharp - 0.5)).all()


def asked(counts: Sequence[int]) -> list[list[Ids] | None]:
    return [[Ids((), (0,))] * count for count in counts]


def test_a_write_is_as_safe_as_all_its_statements_together(tokens: Tokens, rows: list[Row]) -> None:
    reward, event = model(tokens), rows[0].event
    [prompts] = reward.encode([event])
    assert prompts is not None
    assert len(prompts) > 1
    each = 1 / (1 + np.exp(-reward.differences([prompts])))
    assert reward.score([event])[0] == pytest.approx(each.prod())


def test_a_write_that_has_nothing_to_lose_is_safe(tokens: Tokens) -> None:
    event = MemoryEvent((Message("user", "Yes, I do."),), ("a boat",), ("a boat",))
    assert model(tokens).score([event])[0] == 1.0


def test_the_temperature_and_the_bias_that_made_the_labels_are_found() -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 4, 20_000)
    differences = rng.normal(3, 6, counts.sum())
    p_safe = np.exp(summed(log_safe(differences, Calibration(2.5, -1.5)), asked(counts)))
    labels = rng.random(len(counts)) < p_safe
    assert fit_calibration(differences, asked(counts), labels.tolist()) == pytest.approx((2.5, -1.5), rel=0.1)


@pytest.mark.parametrize("given", [[None, None], asked([1, 1])], ids=["unscored", "one class"])
def test_where_nothing_can_be_fitted_scores_stay_as_they_are(given: list[list[Ids] | None]) -> None:
    differences = np.zeros(sum(len(prompts) for prompts in given if prompts is not None))
    assert fit_calibration(differences, given, [True, True]) == (1.0, 0.0)


def test_padding_is_on_the_right() -> None:
    found = padded([[1, 2, 3], [4]])
    assert found.ids.tolist() == [[1, 2, 3], [4, 0, 0]]
    assert found.length.tolist() == [3, 1]


def test_what_was_read_is_not_read_again_until_it_is_forgotten(tokens: Tokens, rows: list[Row]) -> None:
    runner = Counting()
    reward = model(tokens, runner)
    first = reward.score(events(rows))
    read = runner.tokens
    np.testing.assert_array_equal(reward.score(events(rows)), first)
    assert runner.tokens == read
    reward.forget()
    np.testing.assert_array_equal(reward.score(events(rows)), first)
    assert runner.tokens == 2 * read
