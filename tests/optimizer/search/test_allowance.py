"""The allowance: how a run's budget is divided between the search, its last look and the sealed test.

Invariants, for any config whose budget is accepted:
1. The sealed test's share is at least the most that it can take, whatever the search finds.
2. The search and the test together never go beyond the whole budget, in calls, tokens, dollars or seconds.
3. A budget that is refused is refused with the smallest one that would not be.
4. The last look's share is at least the most that it can take, whatever leads.
"""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.data import Splits, load_scenarios
from mnemotune.data.task import tasks_of
from mnemotune.env.dialogue.protocol import upper_bound_calls
from mnemotune.optimizer.config import BudgetLimits, Config, ConfigError, SplitSizes
from mnemotune.optimizer.proposers.numbers import NumberSampler, apply_point
from mnemotune.optimizer.search.allowance import Allowance, splits_of
from mnemotune.optimizer.search.run import evolve
from mnemotune.optimizer.search.sealed import EVOLVED, SEED, SealedTest, open_test
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm import Limits, Metered
from mnemotune.policies.lm.budget import Budget
from mnemotune.policies.text import sentences


def config_with(kit: Any, *, seed_policy: Any = None, baselines: Any = ("native", "rag"), **search: Any) -> Config:
    return Config.model_validate(
        {
            "data": "generated:9@1",
            "splits": {"train": 4, "validation": 4, "test": 3},
            "seed_policy": (seed_policy or kit.policy(20)).model_dump(),
            "baselines": baselines,
            "search": search,
        }
    )


def allow(kit: Any, splits: Splits | None = None, **search: Any) -> Allowance:
    return Allowance.of(config_with(kit, **search), splits or kit.splits(), kit.track)


def smallest(kit: Any, splits: Splits | None = None, **search: Any) -> int:
    """Return the smallest sensible budget, as it is told to whoever gives one call."""
    with pytest.raises(ConfigError) as told:
        allow(kit, splits, budget={"calls": 1}, **search)
    (figure,) = re.findall(r"smallest sensible budget is ([\d,]+)", str(told.value))
    return int(figure.replace(",", ""))


@settings(deadline=None, max_examples=25)
@given(
    train=st.integers(1, 6),
    validation=st.integers(2, 5),
    test=st.integers(2, 5),
    seed_policy=st.sampled_from(["native", "rag", "awe", "awi"]),
    lowest=st.integers(1, 5),
)
def test_the_smallest_sensible_budget_that_is_told_works_and_one_less_does_not_invariant_3(
    kit: Any, train: int, validation: int, test: int, seed_policy: str, lowest: int
) -> None:
    splits = kit.splits(train, validation, test)
    search = {"seed_policy": load_policy(seed_policy), "space": {"update_every": (lowest, 16)}}
    figure = smallest(kit, splits, **search)
    allowance = allow(kit, splits, budget={"calls": figure}, **search)
    assert allowance.reserve > 0
    with pytest.raises(ConfigError, match=f"{figure - 1:,} is too small"):
        allow(kit, splits, budget={"calls": figure - 1}, **search)


def test_the_refusal_names_the_key_and_says_what_to_do(kit: Any) -> None:
    with pytest.raises(ConfigError, match=r"^search\.budget\.calls: 10 is too small.*fewer users in `splits`"):
        allow(kit, budget={"calls": 10})


@pytest.mark.usefixtures("early_looks")
async def test_the_smallest_sensible_budget_is_enough_for_the_seed_one_candidate_and_the_test_invariants_1_3(
    kit: Any, make_rig: Any
) -> None:
    pupil = kit.pupil(edits=lambda text: text.replace("Care 0.", "Care 100."))
    seed = kit.policy(0)
    allowance = allow(kit, seed_policy=seed, budget={"calls": smallest(kit, seed_policy=seed)})
    rig = make_rig(pupil=pupil, limits=allowance.search)
    ended = await rig.run(seed)
    assert "calls is spent" in ended or "done" in ended
    assert rig.study.trials[1].accepted
    left = Budget(allowance.whole, earlier=rig.budget.consumed)
    test = await open_whole_test(kit, rig.study.best.policy, seed, left)
    assert test.problem == ""
    assert test.difference.mean > 0


async def open_whole_test(
    kit: Any, finalist: Any, seed: Any, budget: Budget, *, splits: Splits | None = None
) -> SealedTest:
    """Open the sealed test of a config with the baselines native and rag."""
    model = Metered(kit.pupil(), budget=budget)
    policies = {"native": load_policy("native"), "rag": load_policy("rag"), SEED: seed, EVOLVED: finalist}
    test = await open_test(
        policies,
        tasks_of((splits or kit.splits()).test),
        kit.evaluator(model, reworded=True),
        before=SealedTest({}),
        done=lambda _: None,
        keep=lambda *_: None,
    )
    assert budget.limits.calls is None or budget.calls <= budget.limits.calls
    return test


@pytest.mark.parametrize("number", range(8))
async def test_the_reserve_is_enough_for_whatever_the_search_draws_invariant_1(kit: Any, number: int) -> None:
    config = config_with(kit, space={"update_every": (1 + number % 3, 16), "buffer_size": (0, 2)})
    allowance = Allowance.of(config, kit.splits(), kit.track)
    draw = NumberSampler(config.search.space, [], seed=number).jump()
    finalist = apply_point(draw, config.search.space, {})
    test = await open_whole_test(kit, finalist, config.seed_policy, Budget(Limits(calls=allowance.reserve)))
    assert test.problem == ""


async def test_the_reserve_is_enough_for_a_seed_outside_the_space_whose_prompts_evolved_invariant_1(kit: Any) -> None:
    """A candidate that changes prompts alone keeps the seed's numbers, which may write more than the space allows."""
    numbers = {"mode": "profile", "update_every": 1, "buffer_size": 0, "store": "context"}
    seed, finalist = kit.policy(20, **numbers), kit.policy(70, **numbers)
    splits = kit.splits(sessions=(6, 6))
    config = config_with(kit, seed_policy=seed, space={"update_every": (12, 16)})
    allowance = Allowance.of(config, splits, kit.track)
    test = await open_whole_test(kit, finalist, seed, Budget(Limits(calls=allowance.reserve)), splits=splits)
    assert test.problem == ""


def test_the_reserve_counts_the_upper_bounds_of_the_test_users_once(kit: Any) -> None:
    few, more = (allow(kit, kit.splits(test=test)).reserve for test in (2, 3))
    (scenario,) = tasks_of(kit.splits(test=1).test)
    policies = {kit.policy(20), load_policy("native"), load_policy("rag")}
    episodes = sum(kit.track.most_calls(scenario, policy) for policy in policies)
    finalist = kit.policy(20, mode="facts", update_every=1, buffer_size=0, store="external", top_k=1)
    reworded = len(scenario.checks) * (len(policies) + 1)
    assert more - few == episodes + kit.track.most_calls(scenario, finalist) + reworded + upper_bound_calls(scenario)


limits = st.builds(
    BudgetLimits,
    calls=st.none() | st.integers(1, 10**7),
    tokens=st.none() | st.integers(1, 10**10),
    usd=st.none() | st.floats(0.01, 1e5),
    seconds=st.none() | st.floats(0.1, 1e6),
)


@settings(deadline=None)
@given(budget=limits)
def test_the_search_has_a_part_of_the_whole_and_the_test_keeps_its_reserve_invariant_2(
    kit: Any, budget: BudgetLimits
) -> None:
    try:
        allowance = allow(kit, budget=budget)
    except ConfigError:
        assert budget.calls is not None
        return
    assert asdict(allowance.whole) == budget.model_dump()
    for name, whole in asdict(allowance.whole).items():
        searched = getattr(allowance.search, name)
        assert (whole is None) == (searched is None)
        if whole is not None:
            kept = allowance.reserve if name == "calls" else whole / 2
            assert 0 <= searched <= whole - kept


@pytest.mark.parametrize("number", range(8))
async def test_what_is_put_aside_for_the_last_look_is_enough_for_whatever_leads_invariant_4(
    kit: Any, number: int
) -> None:
    """A resumed run finds the upper bounds of the validation users anew."""
    config = config_with(kit, space={"update_every": (1 + number % 3, 16), "buffer_size": (0, 2)})
    allowance = Allowance.of(config, kit.splits(), kit.track)
    draw = NumberSampler(config.search.space, [], seed=number).jump()
    leader = apply_point(draw, config.search.space, {})
    model = Metered(kit.pupil(), budget=Budget(Limits(calls=allowance.look)))
    evaluation = await kit.evaluator(model).evaluate(leader, tasks_of(kit.splits().validation))
    assert evaluation.failures == {}


@settings(deadline=None)
@given(budget=limits)
def test_the_races_leave_the_last_look_its_part_of_the_search_invariant_4(kit: Any, budget: BudgetLimits) -> None:
    try:
        allowance = allow(kit, budget=budget)
    except ConfigError:
        assert budget.calls is not None
        return
    for name, searched in asdict(allowance.search).items():
        raced = getattr(allowance.races, name)
        assert (raced is None) == (searched is None)
        if searched is not None:
            kept = allowance.look if name == "calls" else 0.19 * searched
            assert 0 <= raced <= searched - kept


def test_where_train_users_decide_nothing_is_put_aside_for_a_last_look(kit: Any) -> None:
    assert allow(kit).look > 0
    assert allow(kit, acceptance="train").look == 0


def test_where_train_users_decide_validation_users_are_not_paid_for(kit: Any) -> None:
    """With the seed policy and one candidate, each train user is met twice."""
    less = allow(kit, acceptance="train")
    train, seed = tasks_of(kit.splits().train), kit.policy(20)
    start = sum(kit.track.most_calls(user, seed) + upper_bound_calls(user) for user in train)
    assert less.start == start < allow(kit).start
    assert smallest(kit, acceptance="train") == less.reserve + 2 * start
    assert smallest(kit, acceptance="train", off_policy=True) == less.reserve + 3 * start


@pytest.mark.parametrize("objective", ["score-per-token", "score-per-dollar", "score-per-call"])
async def test_what_is_put_aside_is_enough_for_an_objectives_pick_and_then_the_leader_invariant_4(
    kit: Any, objective: str
) -> None:
    allowance = allow(kit, objective=objective)
    users = tasks_of(kit.splits().validation)
    assert allowance.look == 2 * allow(kit).look - sum(map(upper_bound_calls, users))
    model = Metered(kit.pupil(), budget=Budget(Limits(calls=allowance.look)))
    evaluator = kit.evaluator(model)
    for care in (55, 60):
        dear = kit.policy(care, mode="facts", update_every=1, buffer_size=0, store="external", top_k=1)
        assert (await evaluator.evaluate(dear, users)).failures == {}
    assert allow(kit, objective=objective, acceptance="train").look == 0


def test_without_a_limit_nothing_is_limited(kit: Any) -> None:
    allowance = allow(kit)
    assert allowance.races == allowance.search == allowance.whole == Limits()


def test_half_of_every_other_limit_is_kept_for_the_sealed_test(kit: Any) -> None:
    reserve = allow(kit).reserve
    allowance = allow(kit, budget={"calls": 4 * reserve, "tokens": 1000, "seconds": 100})
    assert allowance.search == Limits(calls=3 * reserve, tokens=500, seconds=50)


@pytest.mark.parametrize("part", ["model", "user_model", "proposer_model"])
def test_a_budget_in_dollars_needs_the_price_of_every_model(kit: Any, part: str) -> None:
    priced = {"small": {"input": 1, "output": 2, "date": "2026-10-01"}}
    config = config_with(kit, budget={"usd": 2.0}).model_dump() | {
        "model": "openai:small",
        "endpoint": {"prices": priced},
    }
    Allowance.of(Config.model_validate(config), kit.splits(), kit.track)
    with pytest.raises(ConfigError, match=r"search\.budget\.usd: set endpoint\.prices for large"):
        Allowance.of(Config.model_validate(config | {part: "openai:large"}), kit.splits(), kit.track)


def test_a_budget_that_ends_before_the_seed_is_judged_says_so(tmp_path: Path) -> None:
    """Only calls can be checked before a run; the other limits must end it as plainly."""
    config = Config.model_validate(
        {
            "data": "generated:6@7",
            "splits": {"train": 2, "validation": 2, "test": 2},
            "seed_policy": "awi",
            "baselines": (),
            "search": {"generations": 1, "candidates": 1, "budget": {"tokens": 20_000}},
        }
    )
    with pytest.raises(ConfigError, match=r"search\.budget"):
        evolve(config, tmp_path / "runs" / "one", listeners=[])


# Who is tested


def test_sealed_users_say_nothing_that_the_search_has_heard(kit: Any) -> None:
    splits = splits_of(config_with(kit).model_copy(update={"data": "generated:11@1"}))

    def told(groups: Any) -> set[str]:
        tasks = [task.opened for task in tasks_of(groups)]
        return {s.query for user in tasks for period in user.periods for s in period.sessions} | {
            question.query for user in tasks for question in user.qas
        }

    heard = {sentence for text in told([*splits.train, *splits.validation]) for sentence in sentences(text)}
    assert len(heard) > 100
    assert {sentence for text in told(splits.test) for sentence in sentences(text)} & heard == set()
    assert {group.id for group in splits.test}.isdisjoint(group.id for group in [*splits.train, *splits.validation])


def test_users_whose_words_are_given_are_tested_in_these(kit: Any) -> None:
    config = config_with(kit).model_copy(update={"data": "base", "splits": SplitSizes(train=2, validation=2, test=2)})
    by_id = {user.id: user for user in load_scenarios("base")}
    assert all(task.opened == by_id[task.id] for task in tasks_of(splits_of(config).test))
