"""Figures.

1. AUROC depends on the order of scores alone, and is 1 less that of the labels turned round.
2. ECE is zero where confidence is accuracy.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.env.memrm.evaluation.metrics import (
    accuracy_covered,
    auroc,
    bootstrap_samples,
    coverage,
    expected_calibration_error,
    f1,
    interval,
)

scores_and_labels = st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=2, max_size=40).filter(
    lambda rows: len({label for _, label in rows}) == 2
)


def arrays(rows: list[tuple[int, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([score / 9 for score, _ in rows]), np.array([label for _, label in rows])


@given(scores_and_labels)
def test_auroc_is_the_share_of_pairs_in_order(rows: list[tuple[int, bool]]) -> None:
    p_safe, harmful = arrays(rows)
    pairs = [(bad, good) for bad in p_safe[harmful] for good in p_safe[~harmful]]
    expected = sum(1.0 if bad < good else 0.5 if bad == good else 0.0 for bad, good in pairs) / len(pairs)
    assert auroc(p_safe, harmful) == pytest.approx(expected)
    assert auroc(p_safe**3, harmful) == pytest.approx(expected)
    assert auroc(p_safe, ~harmful) == pytest.approx(1 - expected)


def test_auroc_of_one_class_is_nan() -> None:
    assert math.isnan(auroc(np.array([0.1, 0.9]), np.array([True, True])))


def test_scores_that_are_as_sure_as_they_are_right_are_calibrated() -> None:
    p_safe = np.repeat([0.1, 0.6, 0.9], 1500)
    harmful = np.concatenate([np.arange(1500) % 10 != 0, np.arange(1500) % 10 >= 6, np.arange(1500) % 10 == 0])
    assert expected_calibration_error(p_safe, harmful) < 0.01
    assert expected_calibration_error(np.full(100, 0.99), np.arange(100) % 2 == 0) == pytest.approx(0.49)


@given(scores_and_labels)
def test_ece_lies_between_nothing_and_one_half_where_all_is_right(rows: list[tuple[int, bool]]) -> None:
    p_safe, harmful = arrays(rows)
    assert 0 <= expected_calibration_error(p_safe, harmful) <= 1
    assert expected_calibration_error(np.where(harmful, 0.0, 1.0), harmful) == 0


def test_f1_weighs_hits_against_misses_and_false_alarms() -> None:
    p_safe, harmful = np.array([0.9, 0.9, 0.2, 0.2, 0.2]), np.array([False, True, True, True, False])
    assert f1(p_safe, harmful, of_harmful=True) == pytest.approx(2 * 2 / (3 + 3))
    assert f1(p_safe, harmful, of_harmful=False) == pytest.approx(2 * 1 / (2 + 2))
    assert f1(np.zeros(3), np.ones(3, dtype=bool), of_harmful=False) == 0


def test_coverage_counts_sure_scores_on_both_sides() -> None:
    p_safe, harmful = np.array([0.88, 0.12, 0.5, 0.95]), np.array([False, True, True, True])
    assert coverage(p_safe, harmful, threshold=0.88) == 0.75
    assert accuracy_covered(p_safe, harmful, threshold=0.88) == pytest.approx(2 / 3)
    assert math.isnan(accuracy_covered(p_safe, harmful, threshold=0.99))


def test_a_bootstrap_draws_whole_clusters() -> None:
    clusters = ["a", "a", "b", "c", "c", "c"]
    for sample in bootstrap_samples(clusters)[:50]:
        counts = np.bincount(sample, minlength=6)
        assert counts[0] == counts[1]
        assert counts[3] == counts[4] == counts[5]
        assert counts[0] + counts[2] + counts[3] == 3


def test_samples_without_a_figure_do_not_count() -> None:
    assert interval([math.nan, 1.0, 1.0]) == (1.0, 1.0)
    assert all(math.isnan(end) for end in interval([math.nan]))


def test_one_cluster_says_nothing_of_how_others_differ() -> None:
    assert bootstrap_samples(["a", "a"]) == bootstrap_samples([]) == []
    assert all(math.isnan(end) for end in interval([]))
