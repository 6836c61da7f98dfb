"""How scores of two runs on the same users are compared in the arena.

Invariants:
1. Of two runs on the same users at most one has lost to the other, and none to itself.
2. Whether a race is lost depends on the users that both have a score for, not on their order.
3. A run's first periods are those of the whole run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.data.task import Group, tasks_of
from mnemotune.env import Summary
from mnemotune.env.statistics import paired_difference
from mnemotune.optimizer.search.arena import difference_text, has_lost, joined, mean_scores, raced_stages, series_of
from tasks import quiz

NAN = math.nan
USERS = tuple("abcdefghij")

runs = st.dictionaries(st.sampled_from(USERS), st.integers(-8, 8).map(lambda value: value / 8) | st.just(NAN))
series = st.dictionaries(
    st.sampled_from(USERS), st.lists(st.integers(-8, 8).map(lambda value: value / 8) | st.just(NAN), max_size=5)
)


# Losing


@given(a=runs, b=runs)
def test_at_most_one_of_two_has_lost_invariant_1(a: Mapping[str, float], b: Mapping[str, float]) -> None:
    assert not (has_lost(a, b) and has_lost(b, a))
    assert not has_lost(a, a)


@given(a=runs, b=runs, data=st.data())
def test_a_loss_depends_neither_on_the_order_nor_on_users_without_a_pair_invariant_2(
    a: dict[str, float], b: dict[str, float], data: st.DataObject
) -> None:
    common = sorted(user for user in a.keys() & b.keys() if not math.isnan(a[user]) and not math.isnan(b[user]))
    shuffled = data.draw(st.permutations(common))
    assert has_lost(a, b) == has_lost({u: a[u] for u in common}, {u: b[u] for u in shuffled})


@pytest.mark.parametrize(
    ("rival", "scores", "lost"),
    [
        ([1, 1, 1, 1], [0, 0, 0, 0], True),
        ([1, 1, 1], [0, 0, 0], False),
        ([0, 0, 0, 0], [1, 1, 1, 1], False),
        ([1, 1, 1, 1], [0, 0, 0, NAN], False),
        ([1, 1, 1, 1, NAN], [0, 0, 0, 0, 1], True),
        ([1], [0], False),
        ([], [], False),
        ([0.5] * 8, [0.4, 0.6] * 4, False),
        ([0.9, 0.2, 0.7, 0.4, 0.6, 0.5], [0.7, 0.1, 0.4, 0.5, 0.2, 0.0], True),
    ],
    ids=lambda values: repr(values),
)
def test_a_race_is_lost_when_the_signed_ranks_say_so(rival: list[float], scores: list[float], lost: bool) -> None:
    """Three users are never enough: the smallest possible p-value is 1/8."""
    of = lambda values: dict(zip(USERS, values, strict=False))  # noqa: E731
    assert has_lost(of(rival), of(scores)) is lost


def test_a_race_of_strangers_is_not_lost() -> None:
    assert not has_lost(dict.fromkeys("abcdef", 1.0), dict.fromkeys("ghijkl", 0.0))


# Comparing


@given(a=runs, b=runs)
def test_a_comparison_is_the_mean_of_the_differences_and_turns_its_sign_with_its_sides(
    a: dict[str, float], b: dict[str, float]
) -> None:
    gains = [a[u] - b[u] for u in a.keys() & b.keys() if not math.isnan(a[u] - b[u])]
    one, other = paired_difference(a, b), paired_difference(b, a)
    assert one.users == other.users == len(gains)
    if gains:
        assert one.mean == pytest.approx(sum(gains) / len(gains))
        assert one.mean == pytest.approx(-other.mean)
    if len(gains) > 1:
        assert one.low <= one.mean <= one.high
        assert one.low == pytest.approx(-other.high)


def test_a_difference_is_told_with_its_sign_and_interval() -> None:
    assert difference_text(paired_difference({"a": 1.0, "b": 1.0}, {"a": 0.5, "b": 0.5})) == "+0.500 [+0.500, +0.500]"
    assert difference_text(paired_difference({"a": 0.0, "b": 0.0}, {"a": 0.5, "b": 0.5})) == "-0.500 [-0.500, -0.500]"
    assert difference_text(paired_difference({"a": 0.5}, {"a": 0.7})) == "-0.200", "one user makes no interval"
    assert (
        difference_text(paired_difference({"a": 0.5, "b": 0.5}, {"a": 0.5001, "b": 0.5001}))
        == "+0.000 [+0.000, +0.000]"
    )


# Periods and parts


@given(found=series, periods=st.none() | st.integers(1, 6))
def test_a_mean_is_over_the_first_periods_that_have_a_score_invariant_3(
    found: dict[str, list[float]], periods: int | None
) -> None:
    means = mean_scores(found, periods)
    assert [*means] == [*found]
    for user, scores in found.items():
        known = [score for score in scores[:periods] if not math.isnan(score)]
        assert means[user] == (pytest.approx(sum(known) / len(known)) if known else pytest.approx(NAN, nan_ok=True))


async def test_a_users_series_is_its_memory_score_by_period_invariant_3(kit: Any) -> None:
    (life,) = tasks_of(kit.splits(train=1, sessions=(1,) * 4).train)
    evaluator = kit.evaluator(kit.pupil())
    first = series_of(await evaluator.evaluate(kit.policy(50), [life], stages=2))
    whole = await evaluator.evaluate(kit.policy(50), [life])
    assert series_of(whole) == tuple(whole.stage_means("memory_score"))
    assert len(series_of(whole)) == 4
    assert first == series_of(whole)[:2]


async def test_parts_put_together_are_as_if_evaluated_at_once(kit: Any) -> None:
    users, evaluator = tasks_of(kit.splits(train=5).train), kit.evaluator(kit.pupil())
    whole = await evaluator.evaluate(kit.policy(), users)
    parts = joined([await evaluator.evaluate(kit.policy(), part) for part in (users[:2], users[2:])])
    assert parts.by_group == whole.by_group
    assert [episode.task for episode in parts.episodes] == [user.id for user in users]
    names = [Summary.of(found, name="all") for found in (parts, joined([whole]))]
    assert names[0] == names[1]


def test_a_race_begins_with_whole_tasks_where_most_groups_are_asked_nothing_at_its_first_look() -> None:
    early, late = (quiz(name, stages=9, tells={"a": 0}, asks={"x": (at, ("a",))}) for name, at in (("e", 2), ("l", 3)))
    assert raced_stages([Group("1", (early,)), Group("2", (late,))]) == 9
    assert raced_stages([Group("1", (early,)), Group("2", (late,)), Group("3", (late,))]) == 1
