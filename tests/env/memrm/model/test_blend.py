"""Words beside shape.

1. The trees say what scikit-learn's say, without scikit-learn.
2. What tells more about held-out writes weighs more.
3. Where words cannot be read or are foreign, the shape alone decides; what is no write has no score.
4. A damaged file is an error that names it.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier

from mnemotune.env.memrm.evaluation.quality import harmful_rows
from mnemotune.env.memrm.model.blend import (
    SETTINGS,
    TREES,
    BlendedMemRM,
    WordlessTrees,
    fit_wordless,
    load_reward,
    table_of,
    words_of,
    write_trees,
)
from mnemotune.env.memrm.model.checkpoint import CheckpointError
from mnemotune.env.memrm.model.scoring import TINY, MemRM, Scores, load_memrm
from mnemotune.env.memrm.rows.row import Row
from mnemotune.policies.lm import Message
from mnemotune.policies.memory import MemoryEvent


class Fixed(MemRM):
    """The bundled model with scores of its own."""

    def __init__(self, p_safe: Any) -> None:
        bundled = load_memrm("tiny")
        super().__init__(bundled._runner, bundled.tokens, bundled.card)
        self._p_safe = p_safe

    def score(self, events: Sequence[MemoryEvent]) -> Scores:
        return np.array([self._p_safe(event) for event in events])


def fitted(rows: Sequence[Row], words: MemRM) -> WordlessTrees:
    learned, held_out = rows[:80], rows[80:]
    return fit_wordless(
        table_of([row.event for row in learned]),
        ~harmful_rows(learned),
        words=words,
        held_out=[row.event for row in held_out],
        held_out_safe=~harmful_rows(held_out),
    )


@pytest.fixture
def clairvoyant(rows: list[Row]) -> Fixed:
    label = {row.event: 0.05 if row.harmful else 0.95 for row in rows}
    return Fixed(lambda event: label.get(event, 0.5))


@pytest.fixture
def trees(rows: list[Row], clairvoyant: Fixed) -> WordlessTrees:
    return fitted(rows, clairvoyant)


def test_the_trees_are_scikit_learns_invariant_1(rows: list[Row], trees: WordlessTrees) -> None:
    table = table_of([row.event for row in rows])
    model = GradientBoostingClassifier(**SETTINGS).fit(table[:80], ~harmful_rows(rows[:80]))
    np.testing.assert_allclose(trees.score([row.event for row in rows]), model.predict_proba(table)[:, 1], atol=1e-9)


def test_what_tells_more_weighs_more_invariant_2(rows: list[Row], trees: WordlessTrees) -> None:
    rng = random.Random(0)
    guessing = Fixed(lambda _: rng.uniform(0.05, 0.95))
    assert fitted(rows, guessing).of_shape > 2 * abs(fitted(rows, guessing).of_words)
    events = list(dict.fromkeys(row.event for row in rows))
    safe = np.array([rng.random() < 0.5 for _ in events])
    known = dict(zip(events, np.where(safe, 0.95, 0.05), strict=True))
    unseen = fit_wordless(
        table_of(events[:40]), safe[:40], words=Fixed(known.get), held_out=events[40:], held_out_safe=safe[40:]
    )
    assert unseen.of_words > 2 * abs(unseen.of_shape)


def test_the_blend_follows_the_better_part_invariant_2(
    rows: list[Row], trees: WordlessTrees, clairvoyant: Fixed
) -> None:
    p_safe = BlendedMemRM(clairvoyant, trees).score([row.event for row in rows])
    assert ((p_safe < 0.5) == harmful_rows(rows)).mean() > 0.95


@pytest.mark.parametrize("why", ["beyond the window", "foreign"])
def test_the_shape_alone_decides_where_words_cannot_invariant_3(
    trees: WordlessTrees, rows: list[Row], why: str
) -> None:
    said = rows[0].evicted[0].content if why == "beyond the window" else "Zřejmě žluťoučký kůň úpěl ďábelské ódy. " * 3
    event = MemoryEvent((Message("user", said),), (), ("a line",))
    words = Fixed(lambda _: np.nan if why == "beyond the window" else 0.999)
    assert BlendedMemRM(words, trees).score([event]) == trees.score([event])


@pytest.mark.parametrize("event", [MemoryEvent((), (), ()), MemoryEvent((Message("user", "\x00"),), (), ())])
def test_what_is_empty_or_no_text_has_no_score_invariant_3(trees: WordlessTrees, event: MemoryEvent) -> None:
    good = MemoryEvent((Message("user", "I moved to the coast."),), (), ("home: coast",))
    blended = BlendedMemRM(load_memrm("tiny"), trees).score([good, event])
    assert 0 < blended[0] < 1
    assert np.isnan(blended[1])


def test_one_label_is_too_few(rows: list[Row], clairvoyant: Fixed) -> None:
    with pytest.raises(CheckpointError, match="SAFE and ones that are HARMFUL"):
        fitted([row for row in rows if row.harmful], clairvoyant)


def test_held_out_writes_of_one_label_leave_the_trees_alone(rows: list[Row], clairvoyant: Fixed) -> None:
    ordered = sorted(rows, key=lambda row: row.harmful)
    safe_last = [*ordered[20:], *ordered[:20]]
    mixed = safe_last[:100] + [row for row in safe_last[100:] if not row.harmful]
    found = fit_wordless(
        table_of([row.event for row in mixed[:100]]),
        ~harmful_rows(mixed[:100]),
        words=clairvoyant,
        held_out=[row.event for row in mixed[100:]],
        held_out_safe=~harmful_rows(mixed[100:]),
    )
    assert (found.of_words, found.of_shape, found.bias) == (0.0, 1.0, 0.0)


@pytest.fixture
def folder(tmp_path: Path, trees: WordlessTrees) -> Path:
    shutil.copytree(TINY, tmp_path / "model")
    write_trees(tmp_path / "model", trees)
    return tmp_path / "model"


def test_a_folder_gives_what_was_written(folder: Path, trees: WordlessTrees) -> None:
    loaded = load_reward(folder)
    assert isinstance(loaded, BlendedMemRM)
    assert loaded.trees == trees
    assert words_of(loaded).card == load_memrm("tiny").card


def test_a_folder_without_trees_is_words_alone(folder: Path) -> None:
    (folder / TREES).unlink()
    assert isinstance(load_reward(folder), MemRM)


def tree(feature: list[int], child: list[int]) -> dict[str, Any]:
    values = [0.0] * len(feature)
    return {"trees": [{"feature": feature, "threshold": values, "left": child, "right": child, "value": values}]}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"start": None}, "start"),
        (
            {"trees": [{"feature": [99, -1], "threshold": [0, 0], "left": [1, -1], "right": [1, -1], "value": [0, 0]}]},
            "feature 99",
        ),
        (tree([0], [0]), "node 0"),
    ],
)
def test_a_damaged_file_is_named_invariant_4(folder: Path, change: dict[str, Any], problem: str) -> None:
    path = folder / TREES
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(CheckpointError, match=problem) as error:
        load_reward(folder)
    assert str(path) in str(error.value)
