"""What a run will spend, told before it spends anything.

1. What is estimated never exceeds the budget, and grows with it.
2. The sealed test and the seed policy's judgement are estimated as they turn out.
3. What a price list does not know is said to be not known.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from mnemotune.data import Splits
from mnemotune.data.task import tasks_of
from mnemotune.env import Cast, Evaluator
from mnemotune.optimizer.config import Config, ConfigError, parse_config
from mnemotune.optimizer.search import estimate as module
from mnemotune.optimizer.search.allowance import splits_of
from mnemotune.optimizer.search.arena import rungs
from mnemotune.optimizer.search.estimate import CostEstimate, estimate, race
from mnemotune.optimizer.search.rehearsal import NOTHING, Rehearsal, Taken, rehearse, taken_of
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm import CALL_ROLES
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from people import write_people

Make = Callable[..., Config]


@pytest.fixture(scope="module")
def configured(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Make the config of a small run on users whose lives are cut short."""
    people = write_people(tmp_path_factory.mktemp("people"), users=14, periods=3, questions=4)
    text = (
        f"{{data: {people}, splits: {{train: 6, validation: 4, test: 4}}, baselines: [native, awe], seed_policy: awi,"
        " search: {generations: 10, candidates: 4, race_block: 2}}"
    )
    return lambda *overrides: parse_config(text, where="test", overrides=overrides)


@pytest.fixture(scope="module")
def splits(configured: Make) -> Splits:
    return splits_of(configured())


@pytest.fixture(scope="module")
def rehearsal(configured: Make, splits: Splits) -> Rehearsal:
    return asyncio.run(rehearse(configured(), splits, clock=lambda: 0.0))


def asked_twice(taken: Taken) -> Taken:
    """Return what a sealed test takes, which also asks each question in other words."""
    twice = taken.copy()
    twice[CALL_ROLES.index("answer")] *= 2
    return twice


def calls(told: CostEstimate) -> float:
    return float(told.total[:, 0].sum())


def tokens(told: CostEstimate) -> float:
    return float(told.total[:, 1:].sum())


def test_a_rehearsal_plays_seed_policy_baselines_and_every_way_to_write(configured: Make, rehearsal: Rehearsal) -> None:
    assert {configured().seed_policy, load_policy("native"), load_policy("awe")} <= rehearsal.episodes.keys()
    assert {policy.write.mode for policy in rehearsal.broad} == {"none", "verbatim", "facts", "profile"}
    for policy, taken in rehearsal.episodes.items():
        most = rehearsal.track.most_calls(rehearsal.task, policy)
        assert 0.9 * most <= taken[:, 0].sum() <= most
        assert (rehearsal.beginnings[policy] <= taken).all()
        assert taken[CALL_ROLES.index("upper_bound"), 0] == 0


def test_a_call_takes_what_the_rehearsal_took_by_the_calls_that_were_charged(configured: Make, splits: Splits) -> None:
    """A policy that repeats what others asked takes no time, and would make a call look cheap."""
    config = configured("baselines=[awi, native]")
    played = asyncio.run(rehearse(config, splits, clock=iter([10.0, 14.0]).__next__))
    charged, asked = 4.0 / played.seconds, sum(played.episodes.values(), NOTHING)[:, 0].sum()
    assert charged == pytest.approx(round(charged))
    assert 0 < charged < asked


def test_an_embedder_behind_an_endpoint_is_counted_and_priced(
    configured: Make, splits: Splits, rehearsal: Rehearsal
) -> None:
    prices = "endpoint.prices={e: {input: 1000, output: 0, date: 2026-10-01}}"
    config = configured("embedder=openai:e", prices)
    found = estimate(config, splits, asyncio.run(rehearse(config, splits, clock=lambda: 0.0)))
    told = found.as_json()
    assert told["calls"]["embed"] > 0
    assert told["usd"]["embed"] == pytest.approx(told["tokens"]["embed"]["input"] / 1000, rel=1e-3)
    assert told["total"]["usd"] == pytest.approx(told["usd"]["embed"])
    assert found.seconds is None, "it is the endpoint's to say"
    assert "embed" not in estimate(configured(), splits, rehearsal).as_json()["calls"]


def test_those_that_stand_for_candidates_come_in_the_order_of_their_scores(rehearsal: Rehearsal) -> None:
    evaluator = Evaluator(rehearsal.track, Cast(EmbeddedModel(), EmbeddedModel(), LexicalEmbedder()))
    scores = [asyncio.run(evaluator.evaluate(policy, [rehearsal.task])).memory_score.mean for policy in rehearsal.broad]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > scores[-1]


@pytest.mark.parametrize("change", ["search.numbers=false", "search.proposers=[gepa]", "search.proposers=[amemgym]"])
def test_where_prompts_alone_change_the_seed_policy_stands_for_all(
    configured: Make, splits: Splits, change: str
) -> None:
    config = configured(change, "baselines=[]")
    played = asyncio.run(rehearse(config, splits, clock=lambda: 0.0))
    assert played.broad == (config.seed_policy,)


def unrepeated(rehearsal: Rehearsal) -> Rehearsal:
    """Return it as if no policy repeated what another asked."""
    return replace(rehearsal, fresh=np.ones_like(rehearsal.fresh))


def test_what_a_later_policy_repeats_is_not_counted(configured: Make, splits: Splits, rehearsal: Rehearsal) -> None:
    """The user's turns hardly depend on what is remembered; answers do."""
    user, answer = (float(rehearsal.fresh[CALL_ROLES.index(role), 0]) for role in ("user", "answer"))
    assert 0 < user < 0.5 < answer <= 1
    told, more = (estimate(configured(), splits, each) for each in (rehearsal, unrepeated(rehearsal)))
    assert calls(told) < calls(more)


@pytest.mark.parametrize("end", ["search.budget.calls=4000", "search.generations=1"])
def test_a_search_that_ends_with_its_broad_start_has_found_nothing_that_takes_more(
    configured: Make, splits: Splits, rehearsal: Rehearsal, end: str
) -> None:
    """Of a budget in calls, a broad start has all before later candidates have any."""
    rehearsal = unrepeated(rehearsal)
    few, more = (estimate(configured(until), splits, rehearsal) for until in (end, "search.budget.calls=7500"))
    assert few.candidates <= 16 < more.candidates
    test = sum(
        (rehearsal.takes(load_policy(name), tasks_of(splits.test)) for name in ("native", "awe", "awi")), NOTHING
    )
    whole = test + rehearsal.bounds(tasks_of(splits.test)) + rehearsal.mean(rehearsal.broad, tasks_of(splits.test))
    assert few.parts["sealed test"] == pytest.approx(asked_twice(whole))
    assert tokens(more) / calls(more) > tokens(few) / calls(few)


def test_without_a_broad_start_all_that_was_rehearsed_stands_for_later_candidates(
    configured: Make, splits: Splits, rehearsal: Rehearsal
) -> None:
    """Nobody has shown tpe or random draws where more is kept."""
    rehearsal = unrepeated(rehearsal)
    plain = ["search.racing=false", "search.acceptance=train", "search.generations=2", "search.proposers=[random]"]
    told = estimate(configured(*plain), splits, rehearsal)
    candidate = rehearsal.mean(rehearsal.broad, tasks_of(splits.train))
    seed = rehearsal.takes(configured().seed_policy, tasks_of(splits.train)) + rehearsal.bounds(tasks_of(splits.train))
    new = (1 - module.KNOWN_ALREADY) * module.ASKED_ANEW
    assert told.parts["search"] == pytest.approx(seed + 8 * new * candidate)


@pytest.mark.parametrize("settings", [(), ("search.numbers=false",), ("search.generations=1",)])
def test_within_a_budget_for_the_context_what_is_found_reads_as_much_as_the_window_which_fills_it(
    configured: Make, splits: Splits, settings: Sequence[str]
) -> None:
    config = configured("context_tokens=150", *settings)
    rehearsal = unrepeated(asyncio.run(rehearse(config, splits, clock=lambda: 0.0)))
    found = estimate(config, splits, rehearsal).parts["last look"]
    window = rehearsal.takes(config.compared["window"], tasks_of(splits.validation))
    of_found, of_window = (float(taken[:, 1].sum() / taken[:, 0].sum()) for taken in (found, window))
    assert of_found == pytest.approx(module.FOUND.share * of_window, rel=0.02)


def test_a_screen_that_learned_from_another_model_is_not_counted_on(
    configured: Make, splits: Splits, rehearsal: Rehearsal
) -> None:
    prices = "endpoint.prices={m: {input: 1, output: 2, date: 2026-10-01}}"
    plain, screened = (
        estimate(configured("model=openai:m", prices, *settings), splits, rehearsal)
        for settings in ([], ["search.screening={}"])
    )
    assert calls(screened) == calls(plain)
    assert calls(estimate(configured("search.screening={}"), splits, rehearsal)) < calls(plain)


@pytest.mark.parametrize("limit", [4500, 4700, 5000, 10**9])
def test_calls_stay_within_the_budget_and_grow_with_it_invariant_1(
    configured: Make, splits: Splits, rehearsal: Rehearsal, limit: int
) -> None:
    told, less = (estimate(configured(f"search.budget.calls={n}"), splits, rehearsal) for n in (limit, limit - 1000))
    assert calls(less) <= calls(told) <= limit
    assert less.candidates <= told.candidates <= told.planned == 52
    assert told.ended_by == ("generations" if limit == 10**9 else "calls")


@pytest.mark.parametrize(
    ("budget", "what"), [("tokens: 2000000", "tokens"), ("usd: 1.5", "usd"), ("seconds: 600", "seconds")]
)
def test_the_limit_that_ends_a_search_is_named_whatever_it_is_invariant_1(
    configured: Make, splits: Splits, rehearsal: Rehearsal, budget: str, what: str
) -> None:
    """At 60 requests a minute a call takes a second at least."""
    prices = "endpoint.prices={m: {input: 1, output: 2, date: 2026-10-01}}"
    pace = "endpoint.requests_per_minute=60"
    told = estimate(configured("model=openai:m", prices, pace, f"search.budget={{{budget}}}"), splits, rehearsal)
    assert told.ended_by == what
    assert told.candidates < told.planned
    spent = {"tokens": tokens(told), "usd": told.total_usd, "seconds": told.seconds}[what]
    assert spent is not None
    assert spent <= float(budget.split()[1]) * (1 + 1e-12), "but for the rounding of sums"


def test_without_a_limit_generations_end_the_search(configured: Make, splits: Splits, rehearsal: Rehearsal) -> None:
    few, more = (estimate(configured(f"search.generations={n}"), splits, rehearsal) for n in (2, 20))
    assert (few.ended_by, few.candidates, more.candidates) == ("generations", 20, 92)
    assert calls(few) < calls(more)


def test_a_budget_too_small_is_refused_as_the_run_refuses_it(
    configured: Make, splits: Splits, rehearsal: Rehearsal
) -> None:
    with pytest.raises(ConfigError, match="the smallest sensible budget is"):
        estimate(configured("search.budget.calls=100"), splits, rehearsal)


def test_a_race_without_racing_is_whole_and_one_with_it_is_shorter(
    configured: Make, splits: Splits, rehearsal: Rehearsal
) -> None:
    whole = rehearsal.mean(rehearsal.broad, tasks_of(splits.train))
    all_of_it = race(configured("search.racing=false").search, splits, rehearsal, rehearsal.broad)
    assert all_of_it == pytest.approx(whole)
    part = race(configured().search, splits, rehearsal, rehearsal.broad)
    assert 0.2 * whole[:, 0].sum() < part[:, 0].sum() < 0.8 * whole[:, 0].sum()


@pytest.mark.parametrize(("every", "block"), [(4, 4), (6, 2), (16, 4), (3, 8), (7, 3)])
def test_the_steps_of_a_race_grow_and_end_with_everything(every: int, block: int) -> None:
    steps = list(rungs(every, block=block, stages=11))
    assert steps[-1] == (every, None)
    assert [users for users, _ in steps] == sorted(users for users, _ in steps)
    assert [periods for _, periods in steps].count(4) == (block < every)


def test_where_train_users_decide_no_look_is_paid_for(configured: Make, splits: Splits, rehearsal: Rehearsal) -> None:
    told = estimate(configured("search.acceptance=train"), splits, rehearsal)
    assert told.parts["last look"] == pytest.approx(NOTHING)


def test_where_nothing_is_searched_the_seed_policy_is_judged_and_tested_and_nobody_else_looked_at_invariant_2(
    configured: Make, splits: Splits, rehearsal: Rehearsal
) -> None:
    rehearsal = unrepeated(rehearsal)
    config = configured("search.generations=0")
    told, judged = estimate(config, splits, rehearsal), tasks_of([*splits.train, *splits.validation])
    assert told.parts["search"] == pytest.approx(rehearsal.takes(config.seed_policy, judged) + rehearsal.bounds(judged))
    assert told.parts["last look"] == pytest.approx(NOTHING)
    tested = [config.seed_policy, load_policy("native"), load_policy("awe")]
    test = sum(
        (rehearsal.takes(policy, tasks_of(splits.test)) for policy in tested), rehearsal.bounds(tasks_of(splits.test))
    )
    assert told.parts["sealed test"] == pytest.approx(asked_twice(test))


def test_off_policy_nobody_talks_after_the_recording_until_the_sealed_test(
    configured: Make, splits: Splits, rehearsal: Rehearsal
) -> None:
    config, talking = configured("search.off_policy=true"), [CALL_ROLES.index(role) for role in ("reply", "user")]
    told, usual = estimate(config, splits, rehearsal), estimate(configured(), splits, rehearsal)
    recorded = rehearsal.takes(config.seed_policy, tasks_of([*splits.train, *splits.validation]))
    assert told.parts["search"][talking] == pytest.approx(recorded[talking])
    assert told.parts["last look"][talking] == pytest.approx(0)
    assert told.parts["sealed test"] == pytest.approx(usual.parts["sealed test"])
    others = [i for i in range(len(CALL_ROLES)) if i not in talking]
    more = told.parts["search"] - usual.parts["search"]
    assert more[others] == pytest.approx(recorded[others])


def test_an_oracle_or_a_policy_that_rewrites_its_own_prompts_stands_for_no_candidate(
    configured: Make, splits: Splits
) -> None:
    config = configured("baselines=[awi_oracle, awi_complete, awe]")
    played = asyncio.run(rehearse(config, splits, clock=lambda: 0.0))
    never = {load_policy("awi_oracle"), load_policy("awi_complete")}
    assert not never & {*played.broad}
    assert load_policy("awe") in played.broad
    assert never <= played.episodes.keys(), "they are in the sealed test"


def test_a_price_that_is_not_known_makes_the_sum_not_known_invariant_3(
    configured: Make, splits: Splits, rehearsal: Rehearsal
) -> None:
    price = "endpoint.prices={m: {input: 1, output: 2, date: 2026-10-01}}"
    told = estimate(configured("model=openai:m", "user_model=openai:other", price), splits, rehearsal)
    assert told.usd["user"] is None
    reply = told.usd["reply"]
    assert reply is not None
    assert reply > 0
    assert told.total_usd is None
    assert told.as_json()["total"]["usd"] is None
    assert told.seconds is None
    assert estimate(configured(), splits, rehearsal).total_usd == 0.0


def test_json_adds_up(configured: Make, splits: Splits, rehearsal: Rehearsal) -> None:
    told = estimate(configured(), splits, rehearsal).as_json()
    assert sum(told["calls"].values()) == pytest.approx(told["total"]["calls"], abs=5)
    assert sum(told["parts"].values()) == pytest.approx(told["total"]["calls"], abs=5)
    both = sum(way for by_way in told["tokens"].values() for way in by_way.values())
    assert both == pytest.approx(told["total"]["tokens"], abs=10)
    json.dumps(told, allow_nan=False)


@pytest.mark.parametrize("name", ["awi", "native", "awe"])
def test_one_user_tells_what_others_take_invariant_2(splits: Splits, rehearsal: Rehearsal, name: str) -> None:
    policy, models = load_policy(name), (EmbeddedModel(), EmbeddedModel())
    evaluator = Evaluator(rehearsal.track, Cast(*models, LexicalEmbedder()))
    real = taken_of(asyncio.run(evaluator.evaluate(policy, tasks_of(splits.test))).ledger)
    told = rehearsal.takes(policy, tasks_of(splits.test)) + rehearsal.bounds(tasks_of(splits.test))
    assert told[:, 0].sum() == pytest.approx(real[:, 0].sum(), rel=0.05)
    assert told[:, 1:].sum() == pytest.approx(real[:, 1:].sum(), rel=0.2)


def test_the_constants_are_shares() -> None:
    lost = [f"LOST_{when}" for when in ("AT_FIRST", "AT_FIRST_BY_PROMPTS", "ON_THE_WAY", "HALFWAY")]
    for name in (*lost, "KNOWN_ALREADY", "ASKED_ANEW", "ASKED_ANEW_BY_PROMPTS", "LOOK", "LAST_LOOK", "LEADING"):
        assert 0 < getattr(module, name) < 1
