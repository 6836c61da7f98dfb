"""Numbers and structure: points of the conditional space.

Invariants, for any space, any history and any seed:
1. Every point is inside the space and is a valid policy.
2. A parameter is there exactly where it has an effect.
3. A point and its policy say the same: one is made from the other without loss.
4. A step near a point changes at most ``free`` parameters, and what depends on them.
5. The same history, seed and questions give the same points.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, IntDistribution

from mnemotune.env import Summary
from mnemotune.env.statistics import nan_mean
from mnemotune.optimizer.config import SearchConfig
from mnemotune.optimizer.proposers.numbers import (
    STARTUP_TRIALS,
    NumberSampler,
    apply_point,
    distributions,
    standing,
)
from mnemotune.optimizer.study import Trial
from mnemotune.policies.files import load_policy
from mnemotune.policies.knob import Point
from mnemotune.policies.policy import MemoryPolicy
from mnemotune.policies.space import Space

MODES, STORES = ("none", "verbatim", "facts", "profile"), ("context", "external")
SPACE = Space()

seeds = st.integers(0, 2**31 - 1)


def bounds(low: int, high: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(low, high), st.integers(low, high)).map(lambda pair: (min(pair), max(1, *pair)))


def some_of(values: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), min_size=1, unique=True).map(tuple)


spaces = st.fixed_dictionaries(
    {
        "modes": some_of(MODES),
        "stores": some_of(STORES),
        "update_every": bounds(1, 64),
        "buffer_size": bounds(0, 64),
        "top_k": bounds(1, 90),
    }
).map(Space.within)


def names_at(point: Mapping[str, Any]) -> set[str]:
    """Return the parameters that have an effect at a point, as the design's section 3 says."""
    if point["mode"] == "none":
        return {"mode", "none.window"} | ({"none.buffer_size"} if point["none.window"] == "last" else set())
    written = {"mode", "update_every", "buffer_size", "roles", "store"}
    return written | ({"top_k", "order", "diversity", "recency"} if point["store"] == "external" else set())


def inside(policy: MemoryPolicy, space: Space) -> bool:
    """Tell whether a policy's own fields are within the space."""
    limits = space.limits

    def within(name: str, value: int | None) -> bool:
        low, high = limits[name]
        return value is None or low <= value <= high

    buffered = within("buffer_size", policy.buffer_size)
    if policy.write.mode == "none":
        return "none" in limits["modes"] and buffered
    return (
        policy.write.mode in limits["modes"]
        and policy.store in limits["stores"]
        and buffered
        and within("update_every", policy.update_every)
        and within("top_k", policy.top_k)
    )


def trial_at(draw: Point, number: int, score: float, space: Space = SPACE) -> Trial:
    return Trial(
        number=number,
        generation=number,
        policy=apply_point(draw, space, {}),
        parent=None,
        change="",
        decided_at="race",
        accepted=False,
        reason="",
        train={"a": score, "b": score},
        series=dict.fromkeys("ab", () if math.isnan(score) else (score, score)),
        summary=Summary(policy=""),
        params=draw,
        distributions=distributions(draw, space),
    )


def history(space: Space, count: int, *, seed: int, score: Any = None) -> list[Trial]:
    """Make trials at points that the sampler drew, with scores by ``score(point)`` or at random, later ones unknown."""
    rng = random.Random(seed)
    sampler = NumberSampler(space, [], seed=seed)
    trials = []
    for number in range(count):
        draw = sampler.jump()
        unknown = number > 0 and rng.random() < 1 / 3
        value = score(draw) if score is not None else math.nan if unknown else rng.random()
        trials.append(trial_at(draw, number, value, space))
    return trials


@settings(deadline=None, max_examples=60)
@given(space=spaces, seed=seeds, before=st.sampled_from([0, 1, STARTUP_TRIALS + 4]))
def test_every_point_is_a_valid_policy_inside_the_space_invariants_1_to_3(space: Space, seed: int, before: int) -> None:
    sampler = NumberSampler(space, history(space, before, seed=seed), seed=seed)
    for _ in range(4):
        draw = sampler.jump()
        policy = apply_point(draw, space, {})
        assert inside(policy, space)
        assert set(draw) == set(distributions(draw, space)) == names_at(draw)
        assert space.point_of(policy) == draw


@settings(deadline=None, max_examples=60)
@given(space=spaces, seed=seeds, free=st.integers(1, 4), before=st.sampled_from([0, 1, STARTUP_TRIALS + 4]))
def test_a_step_changes_at_most_so_many_parameters_and_what_depends_on_them_invariants_1_2_4(
    space: Space, seed: int, free: int, before: int
) -> None:
    rng = random.Random(seed)
    sampler = NumberSampler(space, history(space, before, seed=seed), seed=seed)
    here = sampler.jump()
    for _ in range(4):
        there = sampler.tweak(here, free=free, rng=rng)
        assert inside(apply_point(there, space, {}), space)
        assert set(there) == names_at(there)
        kept = here.keys() & there.keys()
        changed = {name for name in kept if here[name] != there[name]}
        assert len(changed) <= free
        if here.keys() != there.keys():
            assert changed & {"mode", "store", "none.window"}, "a parameter came or went without a cause"
        here = there


def test_steps_reach_every_parameter() -> None:
    """Guards invariant 4 against a sampler that never changes anything."""
    sampler, rng = NumberSampler(SPACE, [], seed=0), random.Random(0)
    here = SPACE.point_of(load_policy("awe"))
    assert here is not None
    changed: Counter[str] = Counter()
    for _ in range(120):
        there = sampler.tweak(here, free=1, rng=rng)
        changed.update(name for name, value in here.items() if there.get(name, value) != value)
    assert set(changed) == set(here)


@settings(deadline=None, max_examples=20)
@given(seed=seeds, before=st.sampled_from([0, STARTUP_TRIALS + 4]))
def test_the_same_history_and_seed_give_the_same_points_invariant_5(seed: int, before: int) -> None:
    def drawn(start: int) -> list[Point]:
        trials = history(SPACE, before, seed=1)
        sampler, rng = NumberSampler(SPACE, trials, seed=start), random.Random(3)
        first = sampler.jump()
        return [first, sampler.tweak(first, free=2, rng=rng), sampler.jump()]

    assert drawn(seed) == drawn(seed)


def test_another_seed_gives_other_points() -> None:
    points = {repr(NumberSampler(SPACE, [], seed=seed).jump()) for seed in range(20)}
    assert len(points) > 10


@settings(deadline=None, max_examples=10)
@given(seed=seeds)
def test_the_order_in_which_a_stored_trial_lists_its_parameters_changes_nothing_invariant_5(seed: int) -> None:
    """A storage may list them in another order; a resumed run must go on as if it had never stopped."""
    trials = history(SPACE, 14, seed=seed)
    turned = [
        replace(
            trial,
            params=dict(reversed(trial.params.items())),
            distributions=dict(reversed(trial.distributions.items())),
        )
        for trial in trials
    ]
    one, other = (NumberSampler(SPACE, given_trials, seed=seed) for given_trials in (trials, turned))
    assert [one.jump() for _ in range(3)] == [other.jump() for _ in range(3)]


def test_the_sampler_learns_where_scores_are_high() -> None:
    """A third of the blind draws that write are of facts; a taught sampler draws them far more often."""
    blind = [NumberSampler(SPACE, [], seed=seed).jump()["mode"] for seed in range(40)]
    taught_by = history(SPACE, 40, seed=0, score=lambda point: float(point["mode"] == "facts"))
    taught = [NumberSampler(SPACE, taught_by, seed=seed).jump()["mode"] for seed in range(40)]
    assert blind.count("facts") < 20
    assert taught.count("facts") > 28


def test_trials_that_were_not_raced_teach_nothing() -> None:
    taught_by = history(SPACE, 20, seed=0, score=lambda point: float(point["mode"] == "facts"))
    seed, *later = taught_by
    unraced = [replace(trial, decided_at="screen", train={}, series={}, summary=None) for trial in later]
    with_them, without = (NumberSampler(SPACE, trials, seed=5) for trials in ([seed, *unraced], [seed]))
    assert [with_them.jump() for _ in range(5)] == [without.jump() for _ in range(5)]


def test_a_race_that_was_left_early_teaches_how_it_began() -> None:
    taught_by = history(SPACE, 40, seed=0, score=lambda point: float(point["mode"] == "facts"))
    early = [replace(t, train={}, series={"a": t.series["a"][:1]}, summary=None) for t in taught_by[1:]]
    taught = [NumberSampler(SPACE, [taught_by[0], *early], seed=n).jump()["mode"] for n in range(40)]
    assert taught.count("facts") > 28


def raced(**series: tuple[float, ...]) -> Trial:
    """Make a trial with these scores by user and period."""
    trial = trial_at(NumberSampler(SPACE, [], seed=0).jump(), 0, 0.0)
    return replace(trial, series=series, train={user: nan_mean(scores) for user, scores in series.items()})


eighths = st.integers(-8, 8).map(lambda value: value / 8)


@given(
    seed=st.lists(st.tuples(eighths, eighths), min_size=4, max_size=4),
    trial=st.lists(st.tuples(eighths, eighths), min_size=4, max_size=4),
)
def test_after_a_whole_race_a_trial_stands_at_its_score(seed: list[Any], trial: list[Any]) -> None:
    of_seed, of_trial = (raced(**dict(zip("abcd", scores, strict=True))) for scores in (seed, trial))
    assert standing(of_trial, of_seed) == pytest.approx(of_trial.score)


def test_a_race_that_was_left_early_stands_where_it_would_be_if_it_went_on_so() -> None:
    seed = raced(a=(0.0, 1.0), b=(0.0, 0.0), c=())
    assert seed.score == 0.25
    assert standing(raced(a=(0.5,)), seed) == 0.75
    assert standing(raced(a=(0.5,), b=(0.25, 0.25)), seed) == 0.25 + (0.5 + 0.25) / 2
    assert standing(raced(a=(0.5,), c=(1.0,)), seed) == 0.75, "the seed's episode failed there"
    assert math.isnan(standing(raced(), seed))


@pytest.mark.parametrize("name", ["awe", "awi", "awi_oracle", "native", "rag", "window"])
def test_every_steady_preset_is_a_point_and_comes_back_from_it_invariant_3(name: str) -> None:
    policy = load_policy(name)
    place = SPACE.point_of(policy)
    assert place is not None
    assert set(place) == names_at(place)
    assert apply_point(place, SPACE, policy.prompts.model_dump(exclude_none=True)) == policy


numbers = st.fixed_dictionaries(
    {
        "write": st.fixed_dictionaries({"mode": st.sampled_from(MODES), "roles": st.sampled_from(["user", "both"])}),
        "update_every": st.none() | st.integers(1, 20),
        "buffer_size": st.none() | st.integers(0, 40),
        "store": st.none() | st.sampled_from(STORES),
        "top_k": st.none() | st.integers(1, 70),
        "read": st.fixed_dictionaries({"order": st.sampled_from(["time", "relevance"])}),
    }
)


def policy_with(values: dict[str, Any]) -> MemoryPolicy | None:
    """Make the policy with these numbers, those left out that have no effect."""
    mode, written = values["write"]["mode"], values["write"]["mode"] != "none"
    external = written and values["store"] == "external"
    if written and None in (values["update_every"], values["buffer_size"], values["store"]):
        return None
    if not written and (values["buffer_size"] is None) != (values["update_every"] is None):
        return None
    if external and values["top_k"] is None:
        return None
    return MemoryPolicy.model_validate(
        {
            "write": values["write"] if written else {"mode": mode},
            "update_every": values["update_every"],
            "buffer_size": values["buffer_size"],
            "store": values["store"] if written else None,
            "top_k": values["top_k"] if external else None,
            "read": values["read"] if external else {},
        }
    )


@settings(deadline=None)
@given(values=numbers)
def test_a_policy_stands_in_the_space_exactly_when_its_numbers_do(values: dict[str, Any]) -> None:
    policy = policy_with(values)
    if policy is not None and (policy.write.mode != "none" or policy.update_every in (None, 2)):
        assert (SPACE.point_of(policy) is not None) == inside(policy, SPACE)


@settings(deadline=None)
@given(values=numbers)
def test_whatever_has_a_place_is_the_policy_at_that_place_invariant_3(values: dict[str, Any]) -> None:
    policy = policy_with(values)
    place = None if policy is None else SPACE.point_of(policy)
    if policy is not None and place is not None:
        assert apply_point(place, SPACE, policy.prompts.model_dump(exclude_none=True)) == policy


@pytest.mark.parametrize(
    ("space", "name"),
    [
        ({"modes": ("none", "facts")}, "awi"),
        ({"stores": ("context",)}, "rag"),
        ({"update_every": (3, 16)}, "awe"),
        ({"buffer_size": (0, 3)}, "awe"),
        ({"buffer_size": (5, 9)}, "awi"),
        ({"top_k": (2, 29)}, "rag"),
    ],
)
def test_a_policy_outside_the_space_has_no_place(space: dict[str, Any], name: str) -> None:
    assert Space.within(space).point_of(load_policy(name)) is None
    assert SPACE.point_of(load_policy(name)) is not None


def test_parameters_carry_the_bounds_of_the_space() -> None:
    place = SPACE.point_of(load_policy("awe"))
    assert place is not None
    assert distributions(place, SPACE) == {
        "mode": CategoricalDistribution(MODES),
        "update_every": IntDistribution(2, 16, log=True),
        "buffer_size": IntDistribution(0, 32),
        "roles": CategoricalDistribution(("user", "both")),
        "store": CategoricalDistribution(STORES),
        "top_k": IntDistribution(2, 60, log=True),
        "order": CategoricalDistribution(("time", "relevance")),
        "diversity": IntDistribution(0, 100),
        "recency": IntDistribution(0, 100),
    }


@pytest.mark.parametrize("narrower", [{"update_every": (4, 8)}, {"modes": ("facts", "profile")}])
def test_a_study_goes_on_in_a_space_that_was_narrowed(narrower: dict[str, Any]) -> None:
    """``mnemotune evolve --resume --set search.space...`` meets trials from the wider space."""
    space = Space.within(narrower)
    sampler = NumberSampler(space, history(SPACE, 12, seed=0), seed=0)
    for _ in range(5):
        assert inside(apply_point(sampler.jump(), space, {}), space)


def test_the_configs_default_space_is_the_designs() -> None:
    assert SearchConfig().space == Space.within({"modes": MODES, "stores": STORES})
