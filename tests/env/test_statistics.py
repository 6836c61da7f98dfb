"""Intervals over users: each user counts once, and an unscored one not at all.

Invariants:

1. The order of users does not matter.
2. Adding a constant to every score moves the interval; multiplying stretches it.
3. A NaN among the scores changes nothing.
4. The mean lies in the middle of its interval, and between the lowest and the highest score.
5. A paired difference is the opposite of the other way round.
6. A paired test is Student's, one-sided: p is below a level exactly when the interval of twice that level is above 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from mnemotune.env.statistics import (
    Estimate,
    estimate,
    estimate_repeated,
    nan_mean,
    paired_difference,
    paired_test,
)

NAN = math.nan

scores = st.floats(-1.0, 2.0).map(lambda value: round(value, 6))
users = st.lists(scores, min_size=2, max_size=12)
pairs_of_scores = st.lists(st.tuples(scores, scores), min_size=2, max_size=12)


def close(value: float) -> Any:
    """Stand for ``value`` up to rounding, and for NaN where it is NaN."""
    return pytest.approx(value, rel=1e-9, abs=1e-9, nan_ok=True)


def same(a: Estimate, b: Estimate) -> bool:
    return (a.mean, a.low, a.high, a.users) == (close(b.mean), close(b.low), close(b.high), b.users)


def two_of(pairs: list[tuple[float, float]]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the scores of two policies by user."""
    return {str(i): first for i, (first, _) in enumerate(pairs)}, {
        str(i): second for i, (_, second) in enumerate(pairs)
    }


# The interval


def test_an_interval_by_hand() -> None:
    """Mean .4, standard deviation .2, t(.975; 2) = 4.3027, so .4 plus or minus 4.3027 * .2 / sqrt(3)."""
    found = estimate([0.2, 0.4, 0.6])
    assert found.mean == pytest.approx(0.4)
    assert (found.low, found.high) == pytest.approx((0.4 - 0.49683, 0.4 + 0.49683), abs=1e-5)
    assert found.users == 3


@pytest.mark.parametrize(("count", "t"), [(2, 12.7062), (3, 4.3027), (10, 2.2622), (20, 2.0930)])
def test_the_half_width_follows_the_t_table(count: int, t: float) -> None:
    values = [float(i) for i in range(count)]
    found = estimate(values)
    standard_error = math.sqrt(count * (count + 1) / 12 / count)  # the variance of 0..n-1 is n(n+1)/12
    assert (found.high - found.low) / 2 == pytest.approx(t * standard_error, rel=1e-4)


@given(values=users, level=st.sampled_from([0.5, 0.8, 0.95, 0.99]))
@settings(deadline=None)
def test_an_interval_is_that_of_scipys_t_test(values: list[float], level: float) -> None:
    assume(np.std(values) > 1e-6)
    wanted = stats.ttest_1samp(values, 0.0).confidence_interval(level)
    found = estimate(values, level=level)
    assert (found.low, found.high) == (close(float(wanted.low)), close(float(wanted.high)))


def test_the_level_is_95_percent_unless_told() -> None:
    assert estimate([0.1, 0.5, 0.3]) == estimate([0.1, 0.5, 0.3], level=0.95)
    assert estimate([0.1, 0.5, 0.3]) != estimate([0.1, 0.5, 0.3], level=0.9)


def test_95_percent_of_the_intervals_hold_the_truth() -> None:
    draws = np.random.default_rng(5).normal(0.3, 0.2, size=(1000, 5))
    held = np.mean([found.low <= 0.3 <= found.high for found in map(estimate, draws.tolist())])
    assert held == pytest.approx(0.95, abs=0.02)


def test_equal_scores_leave_no_doubt() -> None:
    found = estimate([0.25, 0.25, 0.25])
    assert (found.mean, found.low, found.high) == (0.25, 0.25, 0.25)


def test_without_users_nothing_is_known() -> None:
    found = estimate([])
    assert [math.isnan(value) for value in (found.mean, found.low, found.high)] == [True] * 3
    assert found.users == 0


def test_one_user_has_a_mean_and_no_interval() -> None:
    found = estimate([0.3])
    assert (found.mean, found.users) == (0.3, 1)
    assert math.isnan(found.low)
    assert math.isnan(found.high)


@pytest.mark.parametrize(("values", "left"), [([NAN, NAN], []), ([NAN, 0.3], [0.3]), ([0.1, NAN, 0.5], [0.1, 0.5])])
def test_unscored_users_are_left_out(values: list[float], left: list[float]) -> None:
    assert same(estimate(values), estimate(left))
    assert estimate(values).users == len(left)


@given(values=users, shift=scores)
@settings(deadline=None)
def test_a_shift_moves_the_interval(values: list[float], shift: float) -> None:
    before, after = estimate(values), estimate([value + shift for value in values])
    assert same(after, Estimate(before.mean + shift, before.low + shift, before.high + shift, before.users))


@given(values=users, factor=st.floats(0.1, 10.0))
@settings(deadline=None)
def test_a_factor_stretches_the_interval(values: list[float], factor: float) -> None:
    before, after = estimate(values), estimate([value * factor for value in values])
    assert same(after, Estimate(before.mean * factor, before.low * factor, before.high * factor, before.users))


@given(values=users)
@settings(deadline=None)
def test_turned_scores_turn_the_interval(values: list[float]) -> None:
    before, after = estimate(values), estimate([-value for value in values])
    assert same(after, Estimate(-before.mean, -before.high, -before.low, before.users))


@given(values=users, data=st.data())
@settings(deadline=None)
def test_the_order_of_users_does_not_matter(values: list[float], data: st.DataObject) -> None:
    assert same(estimate(data.draw(st.permutations(values))), estimate(values))


@given(values=users, place=st.integers(0, 12))
@settings(deadline=None)
def test_a_nan_among_the_scores_changes_nothing(values: list[float], place: int) -> None:
    assert same(estimate([*values[:place], NAN, *values[place:]]), estimate(values))


@given(values=users)
@settings(deadline=None)
def test_the_mean_lies_in_the_middle_of_its_interval(values: list[float]) -> None:
    found = estimate(values)
    assert found.low <= found.mean <= found.high
    assert (found.low + found.high) / 2 == close(found.mean)
    assert min(values) - 1e-9 <= found.mean <= max(values) + 1e-9


@given(values=users)
@settings(deadline=None)
def test_more_of_the_same_users_narrow_the_interval(values: list[float]) -> None:
    assume(np.std(values) > 1e-6)
    once, twice = estimate(values), estimate([*values, *values])
    assert twice.high - twice.low < once.high - once.low


@given(values=users)
@settings(deadline=None)
def test_a_higher_level_widens_the_interval(values: list[float]) -> None:
    assume(np.std(values) > 1e-6)
    narrow, wide = estimate(values, level=0.8), estimate(values, level=0.99)
    assert wide.low < narrow.low <= narrow.high < wide.high


# Paired differences


def test_a_paired_difference_by_hand() -> None:
    """Differences .1, .2, .3: mean .2, standard deviation .1, half width 4.3027 * .1 / sqrt(3)."""
    found = paired_difference({"ann": 0.5, "ben": 0.6, "cem": 0.7}, {"cem": 0.4, "ann": 0.4, "ben": 0.4})
    assert found.mean == pytest.approx(0.2)
    assert (found.low, found.high) == pytest.approx((0.2 - 0.24841, 0.2 + 0.24841), abs=1e-5)
    assert found.users == 3


def test_pairing_takes_out_what_users_differ_by_anyway() -> None:
    easy_and_hard = {"ann": 0.9, "ben": 0.5, "cem": 0.1}
    better = {user: score + 0.05 for user, score in easy_and_hard.items()}
    found = paired_difference(better, easy_and_hard)
    assert (found.low, found.high) == pytest.approx((0.05, 0.05))


def test_only_users_with_both_scores_count() -> None:
    a = {"ann": 0.5, "ben": 0.6, "cem": NAN, "dan": 0.1, "eve": 0.9}
    b = {"ann": 0.4, "ben": 0.4, "cem": 0.9, "dan": NAN, "fay": 0.0}
    assert same(paired_difference(a, b), estimate([0.1, 0.2]))
    assert paired_difference(a, b).users == 2


@pytest.mark.parametrize(("a", "b"), [({}, {}), ({"ann": 0.5}, {"ben": 0.5}), ({"ann": NAN}, {"ann": 0.5})])
def test_without_a_pair_no_difference_is_known(a: dict[str, float], b: dict[str, float]) -> None:
    found = paired_difference(a, b)
    assert math.isnan(found.mean)
    assert found.users == 0


def test_a_difference_takes_its_level() -> None:
    a, b = {"ann": 0.5, "ben": 0.9}, {"ann": 0.4, "ben": 0.1}
    assert same(paired_difference(a, b, level=0.8), estimate([0.1, 0.8], level=0.8))


@given(pairs=pairs_of_scores)
@settings(deadline=None)
def test_a_difference_is_the_opposite_of_the_other_way_round(pairs: list[tuple[float, float]]) -> None:
    a, b = two_of(pairs)
    there, back = paired_difference(a, b), paired_difference(b, a)
    assert same(there, Estimate(-back.mean, -back.high, -back.low, back.users))


@given(values=users)
@settings(deadline=None)
def test_nobody_differs_from_themselves(values: list[float]) -> None:
    scored = {str(i): value for i, value in enumerate(values)}
    assert paired_difference(scored, scored) == Estimate(0.0, 0.0, 0.0, len(values))


# Paired tests


def test_a_paired_test_by_hand() -> None:
    """Differences .1, .2, .3: mean .2, standard deviation .1, so t = 2 sqrt(3) = 3.4641 with 2 degrees: p = .0371."""
    effect, p = paired_test({"ann": 0.5, "ben": 0.6, "cem": 0.7}, {"cem": 0.4, "ann": 0.4, "ben": 0.4})
    assert effect == pytest.approx(2.0)
    assert p == pytest.approx(0.03709, abs=1e-5)


@given(pairs=pairs_of_scores)
@settings(deadline=None)
def test_a_paired_test_is_scipys_invariant_6(pairs: list[tuple[float, float]]) -> None:
    a, b = two_of(pairs)
    gains = [first - second for first, second in pairs]
    assume(np.std(gains) > 1e-6)
    effect, p = paired_test(a, b)
    wanted = stats.ttest_rel([*a.values()], [*b.values()], alternative="greater")
    assert p == pytest.approx(float(wanted.pvalue), abs=1e-7)
    assert effect == pytest.approx(np.mean(gains) / np.std(gains, ddof=1), abs=1e-7)


@given(pairs=pairs_of_scores, level=st.sampled_from([0.001, 0.025, 0.1, 0.2]))
@settings(deadline=None)
def test_p_is_below_a_level_exactly_when_the_interval_is_above_zero_invariant_6(
    pairs: list[tuple[float, float]], level: float
) -> None:
    a, b = two_of(pairs)
    low, p = paired_difference(a, b, level=1 - 2 * level).low, paired_test(a, b)[1]
    assume(abs(low) > 1e-9)
    assert (p < level) == (low > 0)


@given(pairs=pairs_of_scores)
@settings(deadline=None)
def test_the_other_way_round_the_effect_turns_and_p_is_the_rest(pairs: list[tuple[float, float]]) -> None:
    a, b = two_of(pairs)
    assume(np.std([first - second for first, second in pairs]) > 1e-6)
    (effect, p), (turned, rest) = paired_test(a, b), paired_test(b, a)
    assert effect == close(-turned)
    assert p + rest == close(1.0)


@given(pairs=pairs_of_scores, data=st.data())
@settings(deadline=None)
def test_a_test_depends_on_the_users_with_both_scores_alone(
    pairs: list[tuple[float, float]], data: st.DataObject
) -> None:
    a, b = two_of(pairs)
    shuffled = {user: a[user] for user in data.draw(st.permutations(sorted(a)))}
    effect, p = paired_test(shuffled | {"x": 0.5, "y": NAN, "z": 0.9}, b | {"y": 0.1, "z": NAN})
    assert (effect, p) == tuple(map(close, paired_test(a, b)))


@pytest.mark.parametrize(("gain", "p"), [(0.1, 0.0), (0.0, 1.0), (-0.1, 1.0)])
def test_where_all_differences_are_equal_there_is_no_doubt_and_no_effect(gain: float, p: float) -> None:
    others = {"ann": 0.1, "ben": 0.4, "cem": 0.7}
    effect, found = paired_test({user: score + gain for user, score in others.items()}, others)
    assert math.isnan(effect)
    assert found == p


@pytest.mark.parametrize(
    ("a", "b"), [({}, {}), ({"ann": 0.5}, {"ann": 0.1}), ({"ann": 0.5, "ben": NAN}, {"ann": 0.1, "ben": 0.2})]
)
def test_fewer_than_two_pairs_are_no_test(a: dict[str, float], b: dict[str, float]) -> None:
    assert [math.isnan(value) for value in paired_test(a, b)] == [True, True]


def test_where_nothing_differs_p_is_below_a_level_as_often_as_the_level_says() -> None:
    draws = np.random.default_rng(3).normal(0.0, 0.3, size=(3000, 6)).tolist()
    nobody = dict.fromkeys("abcdef", 0.0)
    found = np.array([paired_test(dict(zip("abcdef", gains, strict=True)), nobody)[1] for gains in draws])
    for level in (0.01, 0.05, 0.2):
        assert np.mean(found < level) == pytest.approx(level, abs=3 * math.sqrt(level * (1 - level) / 3000))


# Means


@pytest.mark.parametrize(
    ("values", "mean"),
    [([], NAN), ([NAN], NAN), ([NAN, NAN], NAN), ([0.5], 0.5), ([0.5, NAN], 0.5), ([NAN, 0.0, 1.0, 0.5], 0.5)],
)
def test_a_mean_is_over_what_is_scored(values: list[float], mean: float) -> None:
    assert nan_mean(values) == pytest.approx(mean, nan_ok=True)


@given(values=st.lists(scores | st.just(NAN), max_size=12))
@settings(deadline=None)
def test_a_mean_is_numpys(values: list[float]) -> None:
    wanted = float(np.nanmean(values)) if any(not math.isnan(value) for value in values) else NAN
    assert nan_mean(values) == close(wanted)


# Values that were found several times


def half_width(found: Estimate) -> float:
    return found.high - found.mean


def test_an_interval_of_repeated_values_by_hand() -> None:
    """Users' means .2 and .6, runs' means .3 and .5: variances .04 and .01, so t(.975; 1.4706) * sqrt(.05)."""
    found = estimate_repeated([{"ann": 0.1, "bob": 0.5}, {"ann": 0.3, "bob": 0.7}])
    assert found.mean == pytest.approx(0.4)
    freedom = 0.05**2 / (0.04**2 + 0.01**2)
    assert half_width(found) == pytest.approx(float(stats.t.ppf(0.975, freedom)) * math.sqrt(0.05))
    assert found.users == 2


@given(st.lists(scores, min_size=2, max_size=9))
def test_of_a_single_run_the_interval_is_over_users(values: list[float]) -> None:
    found = estimate_repeated([{str(i): value for i, value in enumerate(values)}])
    assert same(found, estimate(values))


@given(st.lists(scores, min_size=2, max_size=9))
def test_of_a_single_user_the_interval_is_over_runs(values: list[float]) -> None:
    found = estimate_repeated([{"ann": value} for value in values])
    over_runs = estimate(values)
    assert (found.mean, found.low, found.high) == (close(over_runs.mean), close(over_runs.low), close(over_runs.high))


@given(st.lists(scores, min_size=2, max_size=9), st.integers(2, 5))
def test_the_same_run_again_and_again_says_no_more_than_once(values: list[float], times: int) -> None:
    run = {str(i): value for i, value in enumerate(values)}
    assert same(estimate_repeated([run] * times), estimate(values))


def test_runs_that_differ_widen_the_interval() -> None:
    run = {"ann": 0.1, "bob": 0.5, "cid": 0.6}
    apart = [{user: value + shift for user, value in run.items()} for shift in (-1.0, -0.5, 0.5, 1.0)]
    assert half_width(estimate_repeated(apart)) > half_width(estimate_repeated([run] * 4))


def test_what_is_not_known_counts_neither_for_its_user_nor_for_its_run() -> None:
    known = estimate_repeated([{"ann": 0.2, "bob": 0.4}, {"ann": 0.4, "bob": 0.6}])
    assert same(estimate_repeated([{"ann": 0.2, "bob": 0.4, "cid": NAN}, {"ann": 0.4, "bob": 0.6}, {}]), known)
    assert math.isnan(estimate_repeated([{"ann": NAN}]).mean)
    assert math.isnan(estimate_repeated([]).low)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(400):
        users, runs, noise = rng.normal(size=12), rng.normal(size=(5, 1)), rng.normal(size=(5, 12))
        found = estimate_repeated([{str(i): value for i, value in enumerate(run)} for run in users + runs + noise])
        hits += found.low < 0 < found.high
    assert hits >= 0.92 * 400
