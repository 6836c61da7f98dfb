"""The sealed test: the finalist, the seed and the baselines on users that the search never saw, once.

Invariants:
1. A policy is run on a user at most once, whatever names it has.
2. A row that is there already is neither run again nor changed.
3. The rows are those of the policies asked for, in their order, up to where the budget ended; then ``problem`` says so.
4. The difference is evolved minus seed, paired by user.
5. A test that is over says so, and is made of plain JSON values.
6. A row that lost users stays open and is run again; what the endpoint refuses counts as wrong.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.data.task import tasks_of
from mnemotune.env import Episode, Evaluation, Summary
from mnemotune.env.dialogue.protocol import upper_bound_calls
from mnemotune.env.statistics import Estimate
from mnemotune.optimizer.search.sealed import EVOLVED, SEED, SealedTest, most_test_calls, open_test
from mnemotune.policies.lm import BudgetExhausted, Limits, Metered, Refused, Request
from mnemotune.policies.lm.budget import Budget

EPISODE_CALLS = 2 + 16 + 8
"""Of them 8 are the same questions in other words."""
CEILING_CALLS = 8


class Opened:
    """A test that was opened, with everything that was heard of it."""

    def __init__(self, kit: Any, pupil: Any = None, *, calls: int | None = None, users: int = 3) -> None:
        self.pupil = pupil or kit.pupil()
        self.scenarios = tasks_of(kit.splits(test=users).test)
        self.evaluator = kit.evaluator(Metered(self.pupil, budget=Budget(Limits(calls=calls))), reworded=True)
        self.episodes: list[Episode] = []
        self.kept: list[tuple[list[str], list[str], Evaluation]] = []
        self.tests: list[SealedTest] = []

    async def open(self, policies: Any, *, before: SealedTest | None = None) -> SealedTest:
        def keep(so_far: SealedTest, names: Sequence[str], evaluation: Evaluation) -> None:
            self.kept.append(([*names], list(so_far.rows), evaluation))
            self.tests.append(so_far)

        return await open_test(
            policies,
            self.scenarios,
            self.evaluator,
            before=before or SealedTest({}),
            done=self.episodes.append,
            keep=keep,
        )


async def test_every_policy_gets_its_row_in_the_order_asked_for_invariants_3_5(kit: Any) -> None:
    opened = Opened(kit)
    policies = {"rag": kit.policy(50), SEED: kit.policy(0), "native": kit.policy(30), EVOLVED: kit.policy(100)}
    test = await opened.open(policies)
    assert list(test.rows) == list(policies)
    assert test.done
    assert test.problem == ""
    for name, policy in policies.items():
        assert test.rows[name].policy == name
        assert test.rows[name].key == policy.key
        assert test.rows[name].groups == 3
    assert test.rows[EVOLVED].memory_score.mean == 1.0
    assert len(opened.episodes) == 12


async def test_the_comparison_asked_for_comes_first_should_the_budget_end(kit: Any) -> None:
    opened = Opened(kit)
    await opened.open({"awe": kit.policy(1), "rag": kit.policy(2), SEED: kit.policy(3), EVOLVED: kit.policy(4)})
    assert [name for names, *_ in opened.kept for name in names] == [EVOLVED, SEED, "awe", "rag"]


async def test_a_row_that_lost_a_user_is_open_and_is_finished_later_invariant_6(kit: Any) -> None:
    policies = {SEED: kit.policy(0), EVOLVED: kit.policy(100)}
    whole = await Opened(kit).open(policies)

    def fails(request: Request) -> bool:
        text = " ".join(message.content for message in request.messages)
        return "Care 100." in text and "sealed1 asks" in text

    before = await Opened(kit, kit.pupil(fails=fails)).open(policies)
    assert list(before.closed) == [SEED]
    stopped = await Opened(kit, calls=10).open(policies, before=before)
    assert stopped.rows[EVOLVED] == before.rows[EVOLVED], "what is known of an open row stays where the budget ends"
    opened = Opened(kit)
    after = await opened.open(policies, before=before)
    assert [names for names, *_ in opened.kept] == [[EVOLVED]]
    assert after.rows[EVOLVED].by_group == whole.rows[EVOLVED].by_group
    assert after.done


async def test_what_is_refused_counts_as_wrong_and_closes_the_row_invariant_6(kit: Any) -> None:
    fails = lambda request: "sealed1 asks" in request.messages[-1].content and request.role == "answer"  # noqa: E731
    test = await Opened(kit, kit.pupil(fails=fails, error=Refused("too long"))).open({EVOLVED: kit.policy(100)})
    assert test.done
    row = test.rows[EVOLVED]
    assert (row.failures, row.lost) == ({"sealed1": "too long"}, {})
    assert row.by_group["sealed1"] < 0 < row.by_group["sealed0"]
    assert sum(row.shares.values()) + row.accuracy == pytest.approx(1)


async def test_equal_policies_are_run_once_invariant_1(kit: Any) -> None:
    opened = Opened(kit)
    test = await opened.open({"native": kit.policy(30), SEED: kit.policy(30), EVOLVED: kit.policy(30)})
    assert len(opened.episodes) == 3
    assert len(opened.pupil.asked("reply")) == 3 * 2
    rows = [replace(row, policy="") for row in test.rows.values()]
    assert rows[0] == rows[1] == rows[2]
    assert test.difference == Estimate(0.0, 0.0, 0.0, 3)


async def test_rows_that_are_there_already_are_not_run_again_invariant_2(kit: Any) -> None:
    whole = await Opened(kit).open({SEED: kit.policy(0), "rag": kit.policy(50), EVOLVED: kit.policy(100)})
    by_hand = Summary(policy="rag", key=kit.policy(50).key)
    before = SealedTest({EVOLVED: whole.rows[EVOLVED], "rag": by_hand})
    opened = Opened(kit)
    test = await opened.open({SEED: kit.policy(0), "rag": kit.policy(50), EVOLVED: kit.policy(100)}, before=before)
    assert [names for names, *_ in opened.kept] == [[SEED]]
    assert len(opened.episodes) == 3
    assert test.rows["rag"] == by_hand
    assert test.rows[EVOLVED] == whole.rows[EVOLVED]
    assert test.difference == whole.difference
    assert list(before.rows) == [EVOLVED, "rag"], "the rows of before were changed"


async def test_a_row_of_the_policy_that_had_the_name_before_is_played_anew_invariant_2(kit: Any) -> None:
    before = await Opened(kit).open({SEED: kit.policy(0), "mine.yaml": kit.policy(50), EVOLVED: kit.policy(100)})
    changed = {SEED: kit.policy(0), "mine.yaml": kit.policy(60), EVOLVED: kit.policy(100)}
    opened = Opened(kit)
    test = await opened.open(changed, before=before)
    assert [names for names, *_ in opened.kept] == [["mine.yaml"]]
    assert test.rows["mine.yaml"].key == kit.policy(60).key
    stopped = await Opened(kit, calls=1).open(changed, before=before)
    assert "mine.yaml" not in stopped.rows, "the former policy's scores are not this one's"


async def test_a_policy_that_has_a_row_under_another_name_is_not_run_again_invariant_1(kit: Any) -> None:
    """A run is killed in its test: the row of one name is there, that of an equal policy is not."""
    opened = Opened(kit)
    before = await opened.open({EVOLVED: kit.policy(30)})
    test = await opened.open({SEED: kit.policy(30), EVOLVED: kit.policy(30)}, before=before)
    assert test.rows[SEED] == replace(before.rows[EVOLVED], policy=SEED)
    assert len(opened.episodes) == 3


async def test_a_test_that_is_over_costs_nothing_more_invariant_2(kit: Any) -> None:
    policies = {SEED: kit.policy(0), EVOLVED: kit.policy(100)}
    before = await Opened(kit).open(policies)
    opened = Opened(kit)
    assert await opened.open(policies, before=before) == before
    assert opened.pupil.requests == []


@pytest.mark.parametrize(
    ("calls", "tested"),
    [
        (0, []),
        (3 * (EPISODE_CALLS + CEILING_CALLS) - 1, []),
        (3 * (EPISODE_CALLS + CEILING_CALLS), [EVOLVED]),
        (3 * (2 * EPISODE_CALLS + CEILING_CALLS) - 1, [EVOLVED]),
        (3 * (2 * EPISODE_CALLS + CEILING_CALLS), [EVOLVED, SEED]),
        (3 * (3 * EPISODE_CALLS + CEILING_CALLS), [EVOLVED, SEED, "native"]),
    ],
)
async def test_a_budget_that_ends_leaves_what_was_tested_and_says_what_is_missing_invariants_3_5(
    kit: Any, calls: int, tested: list[str]
) -> None:
    opened = Opened(kit, calls=calls)
    policies = {"native": kit.policy(30), SEED: kit.policy(0), EVOLVED: kit.policy(100)}
    test = await opened.open(policies)
    missing = [name for name in policies if name not in tested]
    assert sorted(test.rows) == sorted(tested)
    assert test.done == (not missing), "what is missing can still be tested"
    if missing:
        why = f"the budget of {calls:,} calls is spent (raise it with --set search.budget...)"
        assert test.problem == f"{', '.join(missing)} could not be tested: {why}"
    else:
        assert test.problem == ""
    assert len(opened.pupil.requests) <= calls


async def test_an_equal_policy_needs_no_budget_of_its_own_invariant_1(kit: Any) -> None:
    opened = Opened(kit, calls=3 * (EPISODE_CALLS + CEILING_CALLS))
    test = await opened.open({"native": kit.policy(30), SEED: kit.policy(30), EVOLVED: kit.policy(30)})
    assert test.problem == ""
    assert len(test.rows) == 3


async def test_keep_hears_of_all_that_equal_policies_are_called_at_once(kit: Any) -> None:
    opened = Opened(kit)
    test = await opened.open({"native": kit.policy(30), SEED: kit.policy(0), EVOLVED: kit.policy(30)})
    assert [(name, rows) for name, rows, _ in opened.kept] == [
        ([EVOLVED, "native"], [EVOLVED, "native"]),
        ([SEED], [EVOLVED, "native", SEED]),
    ]
    for names, _, evaluation in opened.kept:
        assert all(Summary.of(evaluation, name=name) == test.rows[name] for name in names)
    assert not any(so_far.done for so_far in opened.tests)


async def test_what_keep_was_told_does_not_change_afterwards(kit: Any) -> None:
    opened = Opened(kit)
    await opened.open({SEED: kit.policy(0), EVOLVED: kit.policy(30)})
    assert [list(so_far.rows) for so_far in opened.tests] == [[EVOLVED], [EVOLVED, SEED]]


async def test_the_result_is_plain_json_that_reads_back_the_same_invariant_5(kit: Any) -> None:
    test = await Opened(kit).open({SEED: kit.policy(0), EVOLVED: kit.policy(60)})
    again = SealedTest.from_json(json.loads(json.dumps(test.as_json(), allow_nan=False)))
    assert again == test
    assert again.difference == test.difference


async def test_episodes_that_fail_are_told_in_their_row_and_leave_the_difference_to_the_others_invariant_4(
    kit: Any,
) -> None:
    def fails(request: Request) -> bool:
        text = " ".join(message.content for message in request.messages)
        return "Care 100." in text and "sealed1 asks" in text

    test = await Opened(kit, kit.pupil(fails=fails)).open({SEED: kit.policy(0), EVOLVED: kit.policy(100)})
    assert test.rows[EVOLVED].failures == {"sealed1": "the line is dead"}
    assert sorted(test.rows[EVOLVED].by_group) == ["sealed0", "sealed2"]
    assert not math.isnan(test.difference.mean)
    assert test.problem == "evolved: user sealed1 was lost: the line is dead"
    assert not test.done


def scored(seed: dict[str, float] | None, evolved: dict[str, float] | None) -> dict[str, Summary]:
    given = {SEED: seed, EVOLVED: evolved}
    return {name: Summary(policy=name, by_group=scores) for name, scores in given.items() if scores is not None}


scores = st.dictionaries(st.sampled_from("abcdefg"), st.just(math.nan) | st.floats(-3, 1))


@given(evolved=scores, seed=scores)
def test_the_difference_is_paired_by_group_invariant_4(evolved: dict[str, float], seed: dict[str, float]) -> None:
    gains = [evolved[group] - seed[group] for group in sorted(evolved.keys() & seed.keys())]
    gains = [gain for gain in gains if not math.isnan(gain)]
    gain = SealedTest(scored(seed, evolved)).difference
    assert math.isnan(gain.mean) == (not gains)
    assert math.isnan(gain.low) == math.isnan(gain.high) == (len(gains) < 2)
    if gains:
        assert gain.mean == pytest.approx(sum(gains) / len(gains), abs=1e-6)
    if len(gains) > 1:
        assert gain.low <= gain.mean <= gain.high


@given(evolved=scores, seed=scores, others=scores)
def test_the_difference_in_other_words_is_paired_alike_and_of_those_scores_alone_invariant_4(
    evolved: dict[str, float], seed: dict[str, float], others: dict[str, float]
) -> None:
    rows = {
        name: Summary(policy=name, by_group=others, reworded_by_group=s)
        for name, s in ((EVOLVED, evolved), (SEED, seed))
    }
    test, alike = SealedTest(rows), SealedTest(scored(seed, evolved))
    assert repr(test.difference_from(SEED, reworded=True)) == repr(alike.difference_from(SEED))
    assert repr(test.difference_from(SEED)) == repr(SealedTest(scored(others, others)).difference_from(SEED))
    assert math.isnan(test.difference_from("nobody", reworded=True).mean)


async def test_the_sealed_test_tells_the_difference_in_other_words_too(kit: Any) -> None:
    """The pupil takes as much care in other words."""
    test = await Opened(kit).open({SEED: kit.policy(0), EVOLVED: kit.policy(60)})
    assert all(list(row.reworded_by_group) == list(row.by_group) for row in test.rows.values())
    assert test.difference_from(SEED, reworded=True) == test.difference
    assert test.difference.mean > 0
    again = SealedTest.from_json(json.loads(json.dumps(test.as_json(), allow_nan=False)))
    assert again.difference_from(SEED, reworded=True) == test.difference


async def test_without_other_words_their_difference_is_not_known(kit: Any) -> None:
    opened = Opened(kit)
    opened.evaluator = kit.evaluator(opened.pupil)
    test = await opened.open({SEED: kit.policy(0), EVOLVED: kit.policy(60)})
    assert test.difference.mean > 0
    assert math.isnan(test.difference_from(SEED, reworded=True).mean)


def test_the_difference_looks_at_pairs_not_at_the_spread_between_users() -> None:
    """Users differ widely, the gain is the same for all: a mean over unpaired users could not tell."""
    seed = {f"user{i}": i / 10 for i in range(10)}
    evolved = {user: score + 0.05 for user, score in seed.items()}
    gain = SealedTest(scored(seed, evolved)).difference
    assert (gain.mean, gain.low, gain.high) == pytest.approx((0.05, 0.05, 0.05))


@pytest.mark.parametrize("rows", [{}, scored({"a": 1.0}, None), scored(None, {"a": 1.0})])
def test_without_both_rows_the_difference_is_not_known_invariant_4(rows: dict[str, Summary]) -> None:
    assert math.isnan(SealedTest(rows).difference.mean)


@pytest.mark.parametrize(
    ("rows", "best"),
    [
        ({"native": 0.1, "awi": 0.2}, "awi"),
        ({"awi": 0.2, "oracle": 0.9}, "awi"),
        ({"awi": math.nan, SEED: 0.5, EVOLVED: 0.6}, None),
        ({"oracle": 0.9}, None),
    ],
)
def test_the_best_baseline_is_one_that_could_be_shipped(rows: dict[str, float], best: str | None) -> None:
    shown = {
        name: Summary(policy=name, oracle=name == "oracle", memory_score=Estimate(score, score, score, 2))
        for name, score in rows.items()
    }
    assert SealedTest(shown).best_baseline == best


def test_the_most_that_a_test_can_take_covers_every_policy_and_the_upper_bounds(kit: Any) -> None:
    scenarios = tasks_of(kit.splits(test=2).test)
    native, rag = kit.policy(10), kit.policy(10, mode="verbatim", update_every=2, buffer_size=0, store="context")
    both = most_test_calls(scenarios, [native, rag], kit.track, finalist_writes=1)
    one = most_test_calls(scenarios, [native], kit.track, finalist_writes=1)
    twice = most_test_calls(scenarios, [native, native], kit.track, finalist_writes=1)
    assert both - one == 2 * EPISODE_CALLS
    assert twice == one
    finalist = 2 * (EPISODE_CALLS + 2 * 2)
    looked = most_test_calls(scenarios, [native], kit.track, finalist_writes=1, reworded=False)
    assert one - looked == 2 * 2 * 8, "a look asks nothing in other words"
    assert one == 2 * EPISODE_CALLS + finalist + sum(upper_bound_calls(scenario) for scenario in scenarios)


def test_a_finalist_is_taken_for_the_dearest_of_the_memories_that_it_may_have(kit: Any) -> None:
    scenarios = tasks_of(kit.splits(test=2).test)

    def most(*memories: str) -> int:
        return most_test_calls(scenarios, [], kit.track, finalist_writes=1, memories=memories)

    assert most("builtin") < most("builtin", "episodes") == most("episodes", "builtin") == most("episodes")


@pytest.mark.parametrize("mode", ["none", "verbatim", "facts", "profile"])
@pytest.mark.parametrize("every", [1, 2, 3])
async def test_no_test_takes_more_than_its_most(kit: Any, mode: str, every: int) -> None:
    finalist = (
        kit.policy(mode="none")
        if mode == "none"
        else kit.policy(40, mode=mode, update_every=every, buffer_size=0, store="external", top_k=3)
    )
    opened = Opened(kit, users=2)
    policies = {
        SEED: kit.policy(0),
        "rag": kit.policy(0, mode="verbatim", update_every=2, buffer_size=1, store="context"),
    }
    most = most_test_calls(opened.scenarios, list(policies.values()), kit.track, finalist_writes=every)
    opened = Opened(kit, users=2, calls=most)
    test = await opened.open(policies | {EVOLVED: finalist})
    assert test.problem == ""
    assert len(opened.pupil.requests) <= most
    assert not math.isnan(test.rows[EVOLVED].accuracy)


async def test_a_budget_is_exhausted_by_the_evaluator_not_by_the_test(kit: Any) -> None:
    """Guards the tests above: the meter does refuse."""
    opened = Opened(kit, calls=5)
    with pytest.raises(BudgetExhausted):
        await opened.evaluator.evaluate(kit.policy(), opened.scenarios)
