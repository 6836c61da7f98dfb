"""Score against cost.

1. No policy on the front is beaten by another, and whatever is not on it is beaten by one that is.
2. What an objective picks is on the front, surely better than the seed policy, and keeps half of the leader's gain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.env import Summary
from mnemotune.env.cost import TurnCost
from mnemotune.env.scoring import Diagnosis, StageScore
from mnemotune.env.statistics import paired_test
from mnemotune.optimizer.objectives import OBJECTIVES, Standing, dollars
from mnemotune.optimizer.search.front import NEARLY_ALL, SURE, Placed, cheaper, front, pick, placed
from mnemotune.optimizer.study import users_won
from mnemotune.policies.lm.prices import Prices

USERS = ("ann", "ben", "cem", "dan", "eve")
PRICES = Prices(input=1.0, output=4.0, date=date(2026, 1, 1))
PER_TOKEN = OBJECTIVES.get("score-per-token")
scores = st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.5, math.nan]), min_size=5, max_size=5)
races = st.lists(st.tuples(scores, st.integers(1, 4)), min_size=1, max_size=8)


def raced(kit: Any, number: int, train: Sequence[float], cost: float | None, **values: Any) -> Any:
    """Make a trial that met five users; a turn of its policy costs so many tokens."""
    summary = Summary(policy="", per_turn=None if cost is None else TurnCost(1.0, cost, 0.0))
    given = {"policy": kit.policy(number), "train": dict(zip(USERS, train, strict=True))}
    return kit.trial(number, **given | {"summary": summary} | values)


def flat(kit: Any, number: int, score: float, cost: float, **values: Any) -> Any:
    return raced(kit, number, [score, score + 0.01, score, score + 0.02, score], cost, **values)


@given(found=races)
def test_nothing_on_the_front_is_beaten_and_everything_else_is_invariant_1(kit: Any, found: Any) -> None:
    places = placed([raced(kit, n, train, cost) for n, (train, cost) in enumerate(found)])
    line = front(places)
    assert not any(other.beats(one) for one in line for other in places)
    assert all(any(other.beats(one) for other in line) for one in places if one not in line)
    assert bool(line) == bool(places)
    assert [one.cost for one in line] == sorted(one.cost for one in line)


@given(found=races, accepted=st.sets(st.integers(1, 7)))
def test_what_is_picked_is_on_the_front_sure_and_keeps_half_of_the_gain_invariant_2(
    kit: Any, found: Any, accepted: set[int]
) -> None:
    trials = [raced(kit, n, t, c, accepted=n == 0 or n in accepted) for n, (t, c) in enumerate(found)]
    picked, places = pick(trials, PER_TOKEN, None), placed(trials)
    if picked is not None:
        best = max(one.score for one in places)
        assert picked.score > 0
        assert picked.score >= trials[0].score + (best - trials[0].score) / 2 or math.isnan(trials[0].score)
        assert picked.accepted or paired_test(picked.train, trials[0].train)[1] < SURE
        assert any(one.score == picked.score for one in places if one.trial.number == picked.number)


def test_the_cheapest_of_those_that_are_as_good_wins_per_token(kit: Any) -> None:
    trials = [flat(kit, 0, 0.1, 500), flat(kit, 1, 0.5, 5000), flat(kit, 2, 0.4, 900), flat(kit, 3, 0.45, 4000)]
    picked = pick(trials, PER_TOKEN, None)
    assert picked is not None
    assert picked.number == 2
    assert [one.trial.number for one in front(placed(trials))] == [0, 2, 3, 1]


def test_a_policy_that_costs_next_to_nothing_does_not_win_by_that(kit: Any) -> None:
    trials = [flat(kit, 0, 0.1, 500), flat(kit, 1, 0.5, 5000), flat(kit, 2, 0.12, 0.001), flat(kit, 3, 0.02, 1e-9)]
    picked = pick(trials, PER_TOKEN, None)
    assert picked is not None
    assert picked.number == 1


def test_the_seed_policy_is_never_picked_and_where_nothing_is_sure_nothing_is(kit: Any) -> None:
    unsure = raced(kit, 1, [0.0, 0.9, 0.0, 0.3, 0.1], 100)
    assert pick([flat(kit, 0, 0.1, 500), unsure], PER_TOKEN, None) is None
    assert pick([flat(kit, 0, 0.1, 500)], PER_TOKEN, None) is None


def test_a_cheaper_policy_is_named_where_it_keeps_nearly_all_of_the_gain(kit: Any) -> None:
    seed, best = flat(kit, 0, 0.1, 500), flat(kit, 1, 0.5, 5000)
    near, cheap = flat(kit, 2, 0.1 + 0.4 * NEARLY_ALL + 0.001, 3000), flat(kit, 3, 0.3, 900)
    found = cheaper(placed([seed, best, near, cheap]), best, seed)
    assert found is not None
    assert found.trial.number == 2


@pytest.mark.parametrize("others", [[], [(0.3, 900)], [(0.49, 6000)], [(0.49, 4900)]])
def test_no_cheaper_policy_is_named_where_none_is_or_none_keeps_the_gain(kit: Any, others: list[Any]) -> None:
    seed, best = flat(kit, 0, 0.1, 500), flat(kit, 1, 0.5, 5000)
    trials = [seed, best, *(flat(kit, n, score, cost) for n, (score, cost) in enumerate(others, 2))]
    assert cheaper(placed(trials), best, seed) is None
    assert cheaper(placed(trials), seed, seed) is None, "the seed policy gains nothing over itself"


def test_a_policy_whose_talks_were_replayed_has_no_place(kit: Any) -> None:
    assert placed([kit.trial(), raced(kit, 1, [0.5] * 5, None)]) == []
    assert front([]) == []
    assert users_won([]) == {}


def test_users_are_told_for_whom_a_policy_is_best_and_ties_count_for_all(kit: Any) -> None:
    one = raced(kit, 0, [0.1, 0.5, 0.2, math.nan, math.nan], 10)
    two = raced(kit, 1, [0.3, 0.5, 0.1, 0.0, math.nan], 20)
    assert users_won([one, two]) == {1: ["ann", "ben", "dan"], 0: ["ben", "cem"]}


COMPARED = ("score", "score-and-evidence", "evidence-alone")
"""Objectives that compare candidates, and pick none at the end."""


def test_each_objective_counts_its_own_cost() -> None:
    turn = TurnCost(calls=2.5, input_tokens=1000.0, output_tokens=100.0)
    standing = Standing(0.5, turn, evidence=0.75, prices=PRICES, stored={"bytes": 2000.0})
    worth = {name: OBJECTIVES.get(name).worth(standing) for name in OBJECTIVES.names}
    per = {"token": 0.5 / 1100, "call": 0.5 / 2.5, "dollar": 0.5 / 0.0014}
    per["byte"] = 0.5 / 2000
    by_unit = {f"score-per-{unit}": value for unit, value in per.items()}
    assert worth == pytest.approx(dict.fromkeys(COMPARED, 0.5) | {"evidence": 0.75} | by_unit)
    unpriced = Standing(0.5, turn)
    assert OBJECTIVES.get("score-per-dollar").worth(unpriced) is dollars(turn, None) is None
    assert OBJECTIVES.get("evidence").worth(unpriced) is None
    assert OBJECTIVES.get("score-per-byte").worth(unpriced) is None


def test_candidates_are_compared_by_the_score_and_by_evidence_beside_it_where_the_objective_says_so() -> None:
    stage = StageScore(0.2, 1.0, Diagnosis(0.4, 0.6, 0.0, 0.0, 4), unparsable=0, evidence=0.75)
    measures = {name: OBJECTIVES.get(name).measure(stage) for name in OBJECTIVES.names}
    assert measures.pop("score-and-evidence") == pytest.approx((0.25 + 0.75) / 2)
    assert measures.pop("evidence-alone") == 0.75
    assert set(measures.values()) == {stage.memory_score}
    assert OBJECTIVES.get("score-and-evidence").measure(replace(stage, evidence=math.nan)) == stage.memory_score


def test_the_objective_evidence_picks_what_shows_most_of_what_is_needed(kit: Any) -> None:
    trials = [flat(kit, number, 0.1 + number / 10, 100.0) for number in range(3)]
    shown = [replace(trials[n].summary, evidence_by_group={"ann": share}) for n, share in enumerate((0.5, 0.9, 0.4))]
    known = [replace(trial, summary=summary) for trial, summary in zip(trials, shown, strict=True)]
    assert pick(known, OBJECTIVES.get("evidence"), None) == known[1]


def test_one_place_beats_another_only_by_being_better_in_something(kit: Any) -> None:
    cheap, dear = TurnCost(1.0, 1.0, 0.0), TurnCost(1.0, 2.0, 0.0)
    here = Placed(flat(kit, 0, 0.1, 1), cheap)
    assert not here.beats(Placed(flat(kit, 1, 0.1, 1), cheap))
    assert here.beats(Placed(flat(kit, 1, 0.1, 1), dear))
    assert not here.beats(Placed(flat(kit, 1, 0.2, 1), dear))
