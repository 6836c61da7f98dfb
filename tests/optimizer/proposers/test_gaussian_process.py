"""What a Gaussian process expects of points.

Invariants, for any points, values and noise:
1. Where a point was tried without noise, its value is expected, and nothing is in doubt.
2. The order in which points were tried makes no difference.
3. An expected improvement is the mean of what is gained, a loss being none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import norm

from mnemotune.optimizer.proposers.sampled import expect, expected_improvement

DIMENSIONS = 3
places = arrays(float, (6, DIMENSIONS), elements=st.integers(0, 8).map(lambda n: n / 8), unique=False)
values = arrays(float, 6, elements=st.integers(-8, 8).map(lambda n: n / 8))
SURE, NOISY = np.zeros(6), np.full(6, 0.05)


def different(tried: Any) -> bool:
    return len({tuple(place) for place in tried}) == len(tried)


@settings(deadline=None)
@given(tried=places.filter(different), found=values)
def test_what_was_found_without_noise_is_expected_invariant_1(tried: Any, found: Any) -> None:
    mean, deviation = expect(tried, tried=tried, values=found, variances=SURE)
    assert mean == pytest.approx(found, abs=1e-3)
    assert deviation == pytest.approx(0, abs=1e-3)


@settings(deadline=None)
@given(tried=places.filter(different), found=values, asked=places, order=st.permutations(range(6)))
def test_the_order_of_points_makes_no_difference_invariant_2(
    tried: Any, found: Any, asked: Any, order: list[int]
) -> None:
    one = expected_improvement(asked, tried=tried, values=found, variances=NOISY)
    other = expected_improvement(asked, tried=tried[order], values=found[order], variances=NOISY)
    assert one == pytest.approx(other, abs=1e-6)


@settings(deadline=None)
@given(tried=places.filter(different), found=values, asked=places)
def test_an_improvement_is_the_mean_of_what_is_gained_invariant_3(tried: Any, found: Any, asked: Any) -> None:
    improvement = expected_improvement(asked, tried=tried, values=found, variances=NOISY)
    best = expect(tried, tried=tried, values=found, variances=NOISY)[0].max()
    mean, deviation = expect(asked, tried=tried, values=found, variances=NOISY)
    grid = norm.ppf((np.arange(4000) + 0.5) / 4000)
    gains = np.maximum(mean[:, None] + deviation[:, None] * grid - best, 0).mean(axis=1)
    assert improvement == pytest.approx(gains, rel=0.02, abs=1e-4)


def test_a_noisy_value_counts_for_less() -> None:
    tried, found = np.eye(6)[:, :DIMENSIONS] + np.linspace(0, 0.5, 6)[:, None], np.array([1.0, 0, 0, 0, 0, 0])
    expected = [
        expect(tried[:1], tried=tried, values=found, variances=np.array([noise, *SURE[1:]]))
        for noise in (0.0, 0.02, 0.2)
    ]
    means, deviations = ([float(one[part][0]) for one in expected] for part in (0, 1))
    assert means == sorted(means, reverse=True)
    assert deviations[0] < deviations[1]


def test_what_was_found_by_luck_is_no_bar_to_improve_on() -> None:
    tried, asked = np.array([[0.1], [0.2], [0.3], [0.4], [0.5], [0.6]]), np.array([[0.55]])
    found, noise = np.array([0.0, 1.0, 0.0, 0.0, 0.1, 0.1]), np.array([0.01, 5.0, 0.01, 0.01, 0.01, 0.01])
    lucky = expected_improvement(asked, tried=tried, values=found, variances=noise)
    sure = expected_improvement(asked, tried=tried, values=found, variances=np.full(6, 0.01))
    assert lucky > sure


def test_a_trend_is_followed_beyond_what_was_tried() -> None:
    tried = np.array([[x, 0.5] for x in (0.0, 0.1, 0.2, 0.3, 0.4)])
    mean, deviation = expect(np.array([[1.0, 0.5], [0.4, 0.5]]), tried=tried, values=tried[:, 0], variances=np.zeros(5))
    assert mean[0] > 0.6
    assert deviation[0] > deviation[1]


def test_equal_values_promise_little_anywhere_and_break_nothing() -> None:
    tried = np.eye(6)[:, :DIMENSIONS]
    mean, deviation = expect(tried, tried=tried, values=np.full(6, 0.3), variances=SURE)
    assert mean == pytest.approx(0.3)
    assert np.all(deviation < 1e-3)
    promised = expected_improvement(tried, tried=tried, values=np.full(6, 0.3), variances=SURE)
    assert np.all((promised >= 0) & (promised < 1e-3))
