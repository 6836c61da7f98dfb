"""What a Gaussian process expects of points.

Invariants, for any points, values and noise:
1. Where a point was tried without noise, its value is expected, and nothing is in doubt.
2. The order in which points were tried makes no difference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import norm

from mnemotune.optimizer.proposers.gaussian_process import GaussianProcess

DIMENSIONS = 3
places = arrays(float, (6, DIMENSIONS), elements=st.integers(0, 8).map(lambda n: n / 8), unique=False)
values = arrays(float, 6, elements=st.integers(-8, 8).map(lambda n: n / 8))
SURE, NOISY = np.zeros(6), np.full(6, 0.05)


def different(tried: Any) -> bool:
    return len({tuple(place) for place in tried}) == len(tried)


@settings(deadline=None)
@given(tried=places.filter(different), found=values)
def test_what_was_found_without_noise_is_expected_invariant_1(tried: Any, found: Any) -> None:
    mean, deviation = GaussianProcess(tried, found, SURE).expect(tried)
    assert mean == pytest.approx(found, abs=1e-3)
    assert deviation == pytest.approx(0, abs=1e-3)


@settings(deadline=None)
@given(tried=places.filter(different), found=values, asked=places, order=st.permutations(range(6)))
def test_the_order_of_points_makes_no_difference_invariant_2(
    tried: Any, found: Any, asked: Any, order: list[int]
) -> None:
    one = GaussianProcess(tried, found, NOISY)
    other = GaussianProcess(tried[order], found[order], NOISY[order])
    assert one.expect(asked)[0] == pytest.approx(other.expect(asked)[0], abs=1e-6)
    assert one.most_promising(asked) == other.most_promising(asked)


@settings(deadline=None)
@given(tried=places.filter(different), found=values, asked=places)
def test_the_most_promising_place_has_the_highest_expected_improvement(tried: Any, found: Any, asked: Any) -> None:
    process = GaussianProcess(tried, found, NOISY)
    best, (mean, deviation) = process.expect(tried)[0].max(), process.expect(asked)
    grid = norm.ppf((np.arange(4000) + 0.5) / 4000)
    gains = np.maximum(mean[:, None] + deviation[:, None] * grid - best, 0).mean(axis=1)
    assert gains[process.most_promising(asked)] == pytest.approx(gains.max(), rel=0.02, abs=1e-5)


def test_a_noisy_value_counts_for_less() -> None:
    tried, found = np.eye(6)[:, :DIMENSIONS] + np.linspace(0, 0.5, 6)[:, None], np.array([1.0, 0, 0, 0, 0, 0])
    expected = [
        GaussianProcess(tried, found, np.array([noise, *SURE[1:]])).expect(tried[:1]) for noise in (0.0, 0.02, 0.2)
    ]
    means, deviations = ([float(one[part][0]) for one in expected] for part in (0, 1))
    assert means == sorted(means, reverse=True)
    assert deviations[0] < deviations[1]


def test_of_two_places_that_promise_the_same_the_first_is_taken() -> None:
    tried = np.array([[0.0, 0.0], [1.0, 1.0], [0.5, 0.5], [0.2, 0.2], [0.8, 0.8], [0.4, 0.4]])
    process = GaussianProcess(tried, tried.sum(axis=1), NOISY)
    asked = np.array([[0.0, 0.1], [0.9, 0.7], [0.7, 0.9]])
    assert process.most_promising(asked) == process.most_promising(asked[[0, 2, 1]]) == 1


def test_a_trend_is_followed_beyond_what_was_tried() -> None:
    tried = np.array([[x, 0.5] for x in (0.0, 0.1, 0.2, 0.3, 0.4)])
    mean, deviation = GaussianProcess(tried, tried[:, 0], SURE[:5]).expect(np.array([[1.0, 0.5], [0.4, 0.5]]))
    assert mean[0] > 0.6
    assert deviation[0] > deviation[1]


def test_equal_values_promise_little_anywhere_and_break_nothing() -> None:
    tried = np.eye(6)[:, :DIMENSIONS]
    process = GaussianProcess(tried, np.full(6, 0.3), SURE)
    mean, deviation = process.expect(tried)
    assert mean == pytest.approx(0.3)
    assert np.all(deviation < 1e-3)
    assert process.most_promising(tried) in range(6)
