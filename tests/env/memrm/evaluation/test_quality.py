"""What a reward model is worth, beside what needs none."""

from __future__ import annotations

import math
import random
import string
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from mnemotune.env.memrm.evaluation.quality import (
    boosted_trees,
    length_ratio,
    lexical_overlap,
    logistic_regression,
    quality_on_memgym,
    quality_on_rows,
)
from mnemotune.env.memrm.model.memgym import MemGymRow
from mnemotune.env.memrm.rows.row import Row
from mnemotune.policies.lm import Message
from mnemotune.policies.memory import MemoryEvent

Baseline = Callable[..., np.ndarray]
LETTERS = string.ascii_letters
ROTATED = str.maketrans(LETTERS, LETTERS[13:] + LETTERS[:13])


def labels(rows: list[Row]) -> np.ndarray:
    return np.array([row.label == "HARMFUL" for row in rows])


def test_scores_that_follow_the_labels_lead_every_baseline(rows: list[Row]) -> None:
    rng = np.random.default_rng(0)
    found = quality_on_rows(np.where(labels(rows), 0.1, 0.9) + rng.uniform(-0.05, 0.05, len(rows)), rows)
    assert (found.n, found.unscored, found.clusters) == (120, 0, 10)
    assert found.harmful == labels(rows).sum()
    assert found.figures["auroc"] == found.figures["f1_safe"] == 1
    trivial, fitted = {"majority", "length ratio", "lexical overlap"}, {"logistic regression", "trees without words"}
    assert set(found.baselines) == trivial | fitted
    assert found.baselines["majority"] == 0.5
    assert set(found.leads) == set(found.baselines)
    for name, (lead, (low, high)) in found.leads.items():
        assert low <= lead <= high
        assert lead == pytest.approx(1 - found.baselines[name])


def test_by_policy_baselines_learn_from_other_policies_of_the_only_group(rows: list[Row]) -> None:
    alone = [row.model_copy(update={"group": "ann", "policy": f"policy-{place % 6}"}) for place, row in enumerate(rows)]
    p_safe = np.where(labels(alone), 0.1, 0.9)
    by_group, by_policy = quality_on_rows(p_safe, alone), quality_on_rows(p_safe, alone, by="policy")
    assert (by_group.clusters, by_policy.clusters) == (1, 6)
    assert math.isnan(by_group.baselines["trees without words"]), "there are no others to learn from"
    assert math.isnan(by_group.leads["trees without words"][0])
    assert by_policy.baselines["trees without words"] > 0.9
    assert not math.isnan(by_policy.intervals["auroc"][0])


def test_scores_that_know_nothing_are_at_chance(rows: list[Row]) -> None:
    found = quality_on_rows(np.random.default_rng(0).uniform(size=len(rows)), rows)
    low, high = found.intervals["auroc"]
    assert low < 0.5 < high


def test_what_is_not_scored_is_counted_and_left_out(rows: list[Row]) -> None:
    p_safe = np.where(labels(rows), 0.1, 0.9)
    p_safe[:7] = math.nan
    found = quality_on_rows(p_safe, rows)
    assert (found.n, found.unscored) == (113, 7)
    assert found.figures["auroc"] == 1


def test_nothing_scored_has_no_figures(rows: list[Row]) -> None:
    found = quality_on_rows(np.full(len(rows), math.nan), rows)
    assert (found.n, found.unscored) == (0, 120)
    assert math.isnan(found.figures["auroc"])


def test_intervals_are_the_same_each_time(rows: list[Row]) -> None:
    p_safe = np.random.default_rng(1).uniform(size=len(rows))
    assert quality_on_rows(p_safe, rows).intervals == quality_on_rows(p_safe, rows).intervals


def test_overlap_and_length_see_what_a_write_keeps() -> None:
    said = (Message("user", "I moved to the coast."),)
    kept, lost = MemoryEvent(said, (), ("moved to the coast",)), MemoryEvent(said, (), ())
    for baseline in (lexical_overlap, length_ratio):
        good, bad = baseline([kept, lost])
        assert good > bad


@pytest.mark.parametrize("baseline", [logistic_regression, boosted_trees])
def test_what_is_fitted_learns_from_other_users_only(rows: list[Row], baseline: Baseline) -> None:
    """Labels that turn round from user to user cannot be learnt from others."""
    users = [row.group for row in rows]
    events = [row.event for row in rows]
    found = baseline(events, labels(rows), users)
    assert ((found > 0) & (found < 1)).all()
    assert (found == baseline(events, labels(rows), users)).all()
    alone = baseline(events, labels(rows), ["one"] * len(rows))
    assert np.isnan(alone).all(), "nothing was fitted"


def test_trees_read_no_word(rows: list[Row]) -> None:
    def without_words(event: MemoryEvent) -> MemoryEvent:
        said = tuple(replace(message, content=veiled(message.content)) for message in event.evicted)
        return replace(event, evicted=said, before=(*map(veiled, event.before),), after=(*map(veiled, event.after),))

    def veiled(text: str) -> str:
        return text.translate(ROTATED)

    events, users = [row.event for row in rows], [row.group for row in rows]
    assert [without_words(event) for event in events] != events
    found = boosted_trees(events, labels(rows), users)
    assert (found == boosted_trees([*map(without_words, events)], labels(rows), users)).all()


def memgym_row(i: int, *, safe: bool, name: str, equal: bool) -> MemGymRow:
    return MemGymRow(
        prompt="a",
        label=int(safe),
        trajectory_id=f"t{i % 6}",
        perturbation=name,
        recorded_action="go",
        predicted_action="go" if equal else "stop",
    )


def test_of_memgym_s_rows_the_trivial_baselines_are_told() -> None:
    rng = random.Random(0)
    rows = [
        memgym_row(i, safe=safe, name="drop" if not safe else "keep", equal=safe if rng.random() < 0.8 else not safe)
        for i in range(60)
        for safe in [rng.random() < 0.4]
    ]
    found = quality_on_memgym(np.full(60, 0.5), rows)
    assert found.baselines["perturbation"] == 1
    assert 0.6 < found.baselines["equal actions"] < 0.95
    assert found.baselines["majority"] == found.figures["auroc"] == 0.5
    assert found.clusters == 6


def test_a_perturbation_that_all_rows_share_tells_nothing() -> None:
    rng = random.Random(0)
    rows = [memgym_row(i, safe=rng.random() < 0.4, name="none", equal=True) for i in range(60)]
    assert quality_on_memgym(np.full(60, 0.5), rows).baselines["perturbation"] == 0.5
