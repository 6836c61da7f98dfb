"""When a candidate is accepted.

Invariants:
1. The levels of all looks sum to less than 5%, however many there are; each look on the way makes the next dearer, and
   nothing but a look does. The last look has a level of its own, once.
2. Where no candidate is better than the seed policy, at most 5% of all searches accept one.
3. A regression is a slice with an interval below zero, at a level that holds for all slices together; failure stages
   are none.
4. A look that is read back from the study says the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.data.dialogue.scenario import check_id
from mnemotune.env import Evaluation
from mnemotune.env.episode import Episode, Mark, StageRecord
from mnemotune.env.scoring import Diagnosis, GroupScore, StageScore
from mnemotune.env.statistics import paired_difference, paired_test
from mnemotune.optimizer.looks import LIKELY
from mnemotune.optimizer.search.acceptance import (
    ALPHA_AT_THE_END,
    ALPHA_ON_THE_WAY,
    FEWEST_USERS,
    PROMISING,
    Comparison,
    level,
    look,
    promising,
    slices_of,
)
from mnemotune.optimizer.study import Trial

NAN = math.nan
USERS = tuple(f"valid{i}" for i in range(8))

scores = st.dictionaries(st.sampled_from(USERS), st.integers(-8, 8).map(lambda value: value / 8) | st.just(NAN))
fates = st.lists(st.sampled_from(["no look", "on the way", "last"]), max_size=30)


def told(values: Sequence[float]) -> dict[str, float]:
    """Give users these scores, in order."""
    return dict(zip(USERS, values, strict=False))


def judged(kit: Any, fates: Sequence[str]) -> list[Trial]:
    """Make a study of trials that were looked at, on the way or last, or not at all."""
    trials = [kit.trial()]
    for number, fate in enumerate(fates, start=1):
        last, trial = fate == "last", replace(trials[0], number=number, accepted=False)
        seen = look({}, {}, seed=trial, best=trial, level=level(trials, last=last), last=last)
        trials.append(trial if fate == "no look" else replace(trial, look=seen))
    return trials


# Readers

READERS = dict(zip(USERS, ["a", "b", "c", "a", "b", "c", "a", "b"], strict=True))


def test_a_gain_that_is_one_readers_alone_is_told(kit: Any) -> None:
    seed = replace(kit.trial(), validation=told([0.1] * 8))
    alone = told([0.5 if READERS[user] == "b" else 0.1 - 0.01 * place for place, user in enumerate(USERS)])
    seen = look(alone, {}, seed=seed, best=seed, level=0.01, readers=READERS)
    assert seen.only_reader == "b"
    assert seen.without_reader["b"] < 0 < seen.without_reader["a"]
    shared = told([0.5 if READERS[user] != "b" else 0.0 for user in USERS])
    assert look(shared, {}, seed=seed, best=seed, level=0.01, readers=READERS).only_reader is None


def test_without_a_family_no_gain_is_one_readers_alone(kit: Any) -> None:
    seed = replace(kit.trial(), validation=told([0.1] * 8))
    seen = look(told([0.5] * 8), {}, seed=seed, best=seed, level=0.01)
    assert seen.without_reader == {}
    assert seen.only_reader is None


# Levels


@given(fates=fates)
def test_the_levels_of_all_looks_sum_to_less_than_five_percent_invariant_1(kit: Any, fates: list[str]) -> None:
    """Also where a search goes on after its last look, and looks last again."""
    paid = [trial.look.level for trial in judged(kit, fates) if trial.look]
    assert all(at > 0 for at in paid)
    assert sum(paid) <= ALPHA_AT_THE_END + ALPHA_ON_THE_WAY < 0.05
    assert paid.count(ALPHA_AT_THE_END) == ("last" in fates)


@given(fates=fates, last=st.booleans())
def test_a_look_makes_the_next_dearer_and_nothing_else_does_invariant_1(kit: Any, fates: list[str], last: bool) -> None:
    trials = judged(kit, fates)
    for number in range(1, len(trials)):
        before, after = (level(trials[:end], last=False) for end in (number, number + 1))
        assert after < before if trials[number].look else after == before
    assert level(trials, last=last) == level([t for t in trials if t.look], last=last)


@pytest.mark.parametrize(("looks", "share"), [(0, 2), (1, 6), (2, 12), (9, 110)])
def test_the_levels_by_hand(kit: Any, looks: int, share: int) -> None:
    trials = judged(kit, ["on the way"] * looks)
    assert level(trials, last=False) == pytest.approx(0.01 / share)
    assert level(trials, last=True) == 0.025
    again = judged(kit, [*["on the way"] * looks, "last"])
    assert level(again, last=True) == level(again, last=False) == pytest.approx(0.01 / ((looks + 2) * (looks + 3)))


def test_an_acceptance_does_not_change_the_level(kit: Any) -> None:
    trials = judged(kit, ["on the way", "no look", "on the way"])
    accepted = [replace(trial, accepted=True) for trial in trials]
    assert level(accepted, last=False) == level(trials, last=False)
    assert level(accepted, last=True) == level(trials, last=True)


def searched(seed: Trial, rng: np.random.Generator, *, gain: float, looks: int = 11) -> list[Trial]:
    """Look at candidates that differ from the seed policy by noise and ``gain``; the last has a level of its own."""

    def drawn(mean: float) -> dict[str, float]:
        return told(rng.normal(mean, 0.2, size=len(USERS)).tolist())

    trials = [replace(seed, validation=drawn(0.5))]
    for number in range(1, looks + 2):
        at = level(trials, last=number > looks)
        seen = look(drawn(0.5 + gain), {}, seed=trials[0], best=trials[0], level=at, last=number > looks)
        accepted = seen.sure and seen.likely
        trials.append(replace(seed, number=number, decided_at="validate", accepted=accepted, look=seen))
        if accepted:
            break
    return trials


def test_where_nothing_is_better_at_most_one_search_in_twenty_accepts_anything_invariant_2(kit: Any) -> None:
    seed, rng = kit.trial(), np.random.default_rng(0)
    searches = [searched(seed, rng, gain=0.0) for _ in range(500)]
    assert sum(trials[-1].accepted for trials in searches) / 500 <= 0.05


def test_where_candidates_are_better_most_searches_accept_one(kit: Any) -> None:
    """Guards invariant 2 against looks that accept nothing; the last look finds what those on the way miss."""
    seed, rng = kit.trial(), np.random.default_rng(1)
    searches = [searched(seed, rng, gain=0.4, looks=looks) for looks in (0, 11) for _ in range(100)]
    accepted = [trials[-1].accepted for trials in searches]
    assert sum(accepted[:100]) > 85
    assert sum(accepted[100:]) > 90


# Before a look


@pytest.mark.parametrize(
    ("values", "others", "worth"),
    [
        ([0.9, 0.8, 0.7, 0.9], [0.5, 0.5, 0.4, 0.6], True),
        ([0.9, 0.1, 0.7, 0.3], [0.5, 0.5, 0.4, 0.6], False),
        ([0.5, 0.5], [0.9, 0.8], False),
        ([0.6, 0.7], [0.5, 0.6], True),
        ([0.6, 0.7], [0.6, 0.7], False),
        ([0.6], [0.5], True),
    ],
)
def test_a_lead_is_worth_a_look_when_luck_hardly_explains_it(
    values: list[float], others: list[float], worth: bool
) -> None:
    """Of one user nothing can be said against it; equal gains are no luck."""
    assert promising(told(values), told(others)) is worth


@pytest.mark.parametrize(
    ("worst", "worth", "likely"), [(-0.05, True, True), (-0.1, False, True), (-0.15, False, True), (-0.2, False, False)]
)
def test_a_look_asks_for_p_below_a_tenth_on_train_users_and_a_fifth_on_validation_users(
    kit: Any, worst: float, worth: bool, likely: bool
) -> None:
    """Of four users three gain; p is 0.08, 0.12, 0.16 and 0.21."""
    before = told([0.5] * 4)
    after = told([0.8, 0.6, 0.5 + worst, 0.7])
    trial = kit.trial(validation=before)
    assert promising(after, before) is worth
    assert look(after, {}, seed=trial, best=trial, level=0.01).likely is likely


@given(values=scores, others=scores)
@settings(deadline=None)
def test_what_is_worth_a_look_depends_on_the_p_alone(values: dict[str, float], others: dict[str, float]) -> None:
    p = paired_test(values, others)[1]
    assert promising(values, others) is (math.isnan(p) or p < PROMISING)


# A look


def test_a_look_compares_with_the_seed_policy_and_with_the_best(kit: Any) -> None:
    seed = kit.trial(validation=told([0.1, 0.2, 0.1, 0.3]))
    best = kit.trial(1, accepted=True, validation=told([0.6, 0.7, 0.5, 0.9]))
    values = told([0.7, 0.7, 0.6, 0.9])
    seen = look(values, {}, seed=seed, best=best, level=0.01)
    assert seen.over_seed == Comparison.of(values, seed.validation)
    assert seen.over_best == Comparison.of(values, best.validation)
    assert seen.over_best.gain == paired_difference(values, best.validation)
    assert (seen.over_best.effect, seen.over_best.p) == paired_test(values, best.validation)
    assert seen.level == 0.01


@given(values=scores, seed=scores, best=scores, at=st.sampled_from([0.025, 0.001]))
@settings(deadline=None)
def test_sure_and_likely_are_what_the_p_values_say(
    kit: Any, values: dict[str, float], seed: dict[str, float], best: dict[str, float], at: float
) -> None:
    """Without two users to compare on, nothing is either."""
    trials = {"seed": kit.trial(validation=seed), "best": kit.trial(1, validation=best)}
    seen = look(values, {}, level=at, **trials)
    assert seen.sure is (paired_test(values, seed)[1] < at)
    assert seen.likely is (paired_test(values, best)[1] < LIKELY)
    assert not seen.likely or seen.over_best.gain.mean > 0


@given(values=scores, best=scores, part=scores)
@settings(deadline=None)
def test_a_look_read_back_from_the_study_is_the_same_invariant_4(
    kit: Any, values: dict[str, float], best: dict[str, float], part: dict[str, float]
) -> None:
    trial = kit.trial(validation=best, slices={"topic pet": best})
    seen = look(values, {"topic pet": part}, seed=trial, best=trial, level=0.025)
    again = Trial.from_optuna(replace(trial, look=seen).as_optuna()).look
    assert repr(again) == repr(seen)
    assert again is not None
    assert (again.sure, again.likely, again.regressions) == (seen.sure, seen.likely, seen.regressions)


# Slices


def with_slices(kit: Any, slices: Any) -> Trial:
    trial: Trial = kit.trial(validation=told([0.5] * 8), slices=slices)
    return trial


def looked(kit: Any, slices: Any, before: Any) -> Any:
    best = with_slices(kit, before)
    return look(best.validation, slices, seed=best, best=best, level=0.025)


def test_the_slices_that_got_surely_worse_are_told_the_worst_first_invariant_3(kit: Any) -> None:
    before = dict.fromkeys(("early periods", "late periods", "topic pet", "topic job"), told([0.9] * 8))
    worse = {"late periods": 0.2, "topic pet": 0.4, "topic job": 0.0}
    after = {name: told([0.9 - worse.get(name, 0) - 0.01 * i for i in range(8)]) for name in before}
    after["early periods"] = told([0.9, 0.7] * 4)
    after["late periods"] = told([0.9, 0.3] * 4)
    found = looked(kit, after, before)
    assert found.regressions == ["topic pet", "topic job"]


def test_a_failure_stage_that_grew_is_no_regression_invariant_3(kit: Any) -> None:
    """What is written and not found was not even written before."""
    before, after = told([0.9] * 8), told([0.1 + 0.01 * i for i in range(8)])
    names = ("write failures", "read failures", "utilisation failures", "topic pet")
    found = looked(kit, dict.fromkeys(names, after), dict.fromkeys(names, before))
    assert found.regressions == ["topic pet"]
    assert all(found.slices[name].high < 0 for name in names)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_the_intervals_of_all_slices_hold_together_invariant_3(kit: Any, count: int) -> None:
    before, after = told([0.5] * 8), told([0.5 + 0.1 * i for i in range(8)])
    names = [f"topic {i}" for i in range(count)]
    found = looked(kit, dict.fromkeys(names, after), dict.fromkeys(names, before))
    assert [*found.slices] == names
    assert found.slices[names[0]] == paired_difference(after, before, level=1 - 0.05 / count)


def test_where_nothing_differs_hardly_one_look_in_forty_sees_a_regression_invariant_3(kit: Any) -> None:
    rng, names = np.random.default_rng(2), [f"topic {i}" for i in range(10)]
    draws = rng.normal(0.5, 0.2, size=(300, 2, 10, 8)).tolist()
    worse = [looked(kit, *({n: told(v) for n, v in zip(names, d, strict=True)} for d in pair)) for pair in draws]
    assert 0 < sum(bool(found.regressions) for found in worse) / 300 <= 0.04


def test_a_slice_of_few_users_or_one_that_the_best_has_not_is_not_judged(kit: Any) -> None:
    few = told([0.9] * (FEWEST_USERS - 1))
    unknown = told([0.9] * (FEWEST_USERS - 1) + [NAN] * 4)
    enough = told([0.9] * FEWEST_USERS)
    before = {"topic few": few, "topic unknown": told([0.9] * 8), "topic enough": enough}
    after = {"topic few": few, "topic unknown": unknown, "topic enough": enough, "topic new": enough}
    assert [*looked(kit, after, before).slices] == ["topic enough"]


def scored(user: str, *periods: tuple[float, float, float]) -> GroupScore:
    """Make a user's score from accuracy, write and read failures of each period; the rest is utilisation."""
    return GroupScore(
        user,
        tuple(
            StageScore(0.0, 1.0, Diagnosis(right, write, read, 1 - right - write - read, 2), unparsable=0)
            for right, write, read in periods
        ),
    )


def episode(user: str, *periods: tuple[float, ...], failure: str | None = None) -> Episode:
    """Make an episode from the scores of each period's answers."""
    records = [
        StageRecord(marks=tuple(Mark(check_id(p, q), "", score) for q, score in enumerate(answers)))
        for p, answers in enumerate(periods)
    ]
    return Episode(user, "key", tuple(records), failure=failure)


def test_slices_by_hand(kit: Any) -> None:
    """Four periods: the first two, none between, the last two; the second question is about a job before all."""
    life = kit.life("ann", questions=2, sessions=(1,) * 4)
    job = life.qas[1].model_copy(update={"required_info": ["job_title_level", "pet_0"]})
    periods = [
        period.model_copy(update={"state": {**period.state, "job_title_level": period.state["pet_1"]}})
        for period in life.periods
    ]
    schema = {**life.state_schema, "job_title_level": life.state_schema["pet_1"]}
    life = life.model_copy(update={"qas": [life.qas[0], job], "periods": periods, "state_schema": schema})
    evaluation = Evaluation(
        kit.policy(),
        (scored("ann", (0.5, 0.5, 0), (1, 0, 0), (0, 0.5, 0.5), (0.5, 0, 0.5)),),
        (episode("ann", (1, 0), (1, 1), (0, 0), (1, NAN)), episode("bob", failure="the line is dead")),
    )
    assert slices_of(evaluation, [life, kit.life("bob")], stage_noun="period") == {
        "early periods": {"ann": 0.75},
        "middle periods": {"ann": pytest.approx(NAN, nan_ok=True)},
        "late periods": {"ann": 0.25},
        "write failures": {"ann": 0.75},
        "read failures": {"ann": 0.75},
        "utilisation failures": {"ann": 1.0},
        "topic pet": {"ann": 0.75},
        "topic job": {"ann": pytest.approx(1 / 3)},
    }


async def test_the_slices_of_real_episodes_are_parts_of_the_whole(kit: Any) -> None:
    lives = [kit.life(user, sessions=(1,) * 7) for user in ("ann", "bob")]
    evaluation = await kit.evaluator(kit.pupil()).evaluate(kit.policy(50), lives)
    found = slices_of(evaluation, lives, stage_noun="period")
    for user in evaluation.groups:
        early, middle, late = (found[f"{part} periods"][user.group] for part in ("early", "middle", "late"))
        assert (3 * early + middle + 3 * late) / 7 == pytest.approx(user.accuracy)
        assert found["topic pet"][user.group] == pytest.approx(user.accuracy)
        lost = sum(1 - found[f"{stage} failures"][user.group] for stage in ("write", "read", "utilisation"))
        assert lost == pytest.approx(1 - user.accuracy)
        assert 0 < user.accuracy < 1
