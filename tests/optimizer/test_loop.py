"""The loop: propose, check, screen, race, validate, write down.

Invariants, for any run:
1. Every trial says what was changed and why it was accepted or dropped.
2. A trial is accepted exactly when it was validated and its paired interval over the best trial so far, on the
   validation users, lies above zero; the seed's is where the search starts.
3. Trials are numbered in the order of their generations, and no generation has more than its candidates.
4. Scores of train users are scores of train users, scores of validation users are theirs; no test user is ever seen.
5. No call is made beyond the budget, and what the trials say was spent adds up to what was spent.
6. A run that was stopped anywhere and goes on gives the trials of one that was never stopped.
7. A candidate that is broken, known already, or dropped by the screen costs no episode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from mnemotune.optimizer.arena import compare
from mnemotune.optimizer.config import SearchConfig, SpaceConfig
from mnemotune.optimizer.screen import Verdict
from mnemotune.optimizer.study import Evidence, Study, Trial
from mnemotune.policies.lm import EndpointDown, LanguageModelError, Limits, Request
from mnemotune.policies.lm.base import merged
from mnemotune.policies.policy import MemoryPolicy
from mnemotune.policies.prompts import default_templates

MakeRig = Callable[..., Any]
EPISODE_ROLES = ("reply", "user", "write", "answer", "probe", "upper_bound")


class StoppedError(Exception):
    """The power is gone."""


def searching(**search: Any) -> SearchConfig:
    return SearchConfig(**{"generations": 2, "candidates": 2, "numbers": False} | search)


def check_invariants(rig: Any) -> None:
    """Check what holds for every run: invariants 1 to 5."""
    trials: Sequence[Trial] = rig.study.trials
    train = {scenario.id for scenario in rig.splits.train}
    validation = {scenario.id for scenario in rig.splits.validation}
    best = None
    for number, trial in enumerate(trials):
        assert trial.number == number
        assert trial.change
        assert trial.reason
        assert trial.stage == "seed" if number == 0 else trial.stage != "seed"
        assert trial.train.keys() <= train
        assert not trial.finished_race or trial.train.keys() == train
        assert trial.validation.keys() <= validation
        assert bool(trial.validation) == (trial.stage in {"seed", "validate"})
        if best is None:
            assert trial.accepted
        else:
            assert trial.parent is not None
            assert trials[trial.parent].generation < trial.generation
            assert trials[trial.parent].finished_race
            gain = compare(trial.validation, best.validation)
            assert trial.accepted == (gain.low > 0)
        best = trial if trial.accepted else best
    generations = [trial.generation for trial in trials]
    assert generations == sorted(generations)
    assert all(generations.count(g) <= rig.search.candidates for g in set(generations) - {0})
    assert not rig.pupil.heard("sealed")
    assert rig.limits.calls is None or len(rig.pupil.requests) <= rig.limits.calls


def spent_by(trials: Sequence[Trial]) -> dict[str, int]:
    return {role: spend.calls for role, spend in merged([trial.ledger for trial in trials]).by_role.items()}


def made_by(pupil: Any) -> dict[str, int]:
    roles = [request.role for request in pupil.requests]
    return {role: roles.count(role) for role in set(roles)}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("moves", [{"numbers": False}, {"prompts": False, "numbers": True}, {"numbers": True}])
@pytest.mark.parametrize("careless", [False, True])
async def test_the_invariants_hold_for_every_kind_of_search_invariants_1_to_5(
    kit: Any, make_rig: MakeRig, seed: int, moves: dict[str, bool], careless: bool
) -> None:
    search = searching(seed=seed, generations=3, candidates=3, race_block=2, **moves)
    rig = make_rig(pupil=kit.pupil(careless=careless), search=search)
    assert await rig.run(kit.policy(20)) == "all 3 generations are done"
    assert len(rig.study.trials) == 10
    check_invariants(rig)
    assert spent_by(rig.study.trials) == made_by(rig.pupil)


async def test_the_seed_is_raced_and_validated_and_accepted(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(search=searching(generations=1))
    await rig.run(kit.policy(20))
    seed = rig.study.trials[0]
    assert (seed.stage, seed.accepted, seed.parent, seed.generation) == ("seed", True, None, 0)
    assert seed.policy == kit.policy(20)
    assert sorted(seed.train) == ["train0", "train1", "train2", "train3"]
    assert sorted(seed.validation) == ["valid0", "valid1", "valid2", "valid3"]
    assert seed.params == kit.draw(kit.policy(20)).point
    assert seed.distributions == kit.draw(kit.policy(20)).distributions
    assert seed.evidence
    assert seed.summary["accuracy"] > 0


async def test_a_seed_outside_the_space_is_raced_without_a_place_in_it(kit: Any, make_rig: MakeRig) -> None:
    space = SpaceConfig(modes=("verbatim",), stores=("external",), update_every=(1, 2), buffer_size=(0, 4))
    rig = make_rig(search=searching(numbers=True, prompts=False, space=space))
    await rig.run(kit.policy(20))
    check_invariants(rig)
    assert rig.study.trials[0].params == {}
    assert all(t.policy.write.mode == "verbatim" for t in rig.study.trials[1:])


async def test_a_clearly_better_candidate_is_accepted_and_becomes_the_best(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(pupil=kit.pupil(edits=lambda text: text.replace("Care 0.", "Care 100.")))
    await rig.run(kit.policy(0))
    check_invariants(rig)
    first = rig.study.trials[1]
    assert (first.stage, first.accepted) == ("validate", True)
    assert rig.study.best is first
    assert set(first.validation.values()) == {1.0}
    assert all(not trial.accepted for trial in rig.study.trials[2:])


async def test_steady_small_gains_add_up(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(search=searching(generations=8, candidates=1), splits=kit.splits(train=6, validation=12))
    await rig.run(kit.policy(0))
    check_invariants(rig)
    cares = [kit.care(trial.policy) for trial in rig.study.trials if trial.accepted]
    assert cares == sorted(set(cares))
    assert len(cares) > 2
    assert kit.care(rig.study.best.policy) == 100


async def test_where_all_candidates_score_the_same_nothing_is_accepted_or_even_validated(
    kit: Any, make_rig: MakeRig
) -> None:
    counted = count()
    pupil = kit.pupil(careless=True, propose=lambda _: kit.reply(f"Try {next(counted)}.\n{{query}}\n{{choices}}"))
    rig = make_rig(pupil=pupil, search=searching(generations=4))
    await rig.run(kit.policy(0))
    check_invariants(rig)
    raced = [trial for trial in rig.study.trials[1:] if trial.stage == "race"]
    assert len(raced) == 8
    assert all(trial.score == rig.study.trials[0].score for trial in raced)
    assert rig.study.best.number == 0
    assert not any(trial.validation for trial in rig.study.trials[1:])


async def test_of_candidates_that_differ_by_luck_alone_hardly_one_is_accepted(kit: Any, make_rig: MakeRig) -> None:
    """An interval of 95% may err for one lucky candidate in forty; the race may only make that rarer."""
    candidates = accepted = 0
    for seed in range(8):
        pupil = kit.pupil(lucky=True, edits=lambda text: f"{text}\nThink {len(text)} times.")
        search = searching(seed=seed, generations=4, candidates=2)
        rig = make_rig(pupil=pupil, search=search, splits=kit.splits(train=3, validation=6))
        await rig.run(kit.policy(0))
        check_invariants(rig)
        candidates += sum(trial.stage != "check" for trial in rig.study.trials[1:])
        accepted += sum(trial.accepted for trial in rig.study.trials[1:])
    assert candidates > 20
    assert accepted <= 2


async def test_a_worse_candidate_is_dropped_in_the_race_and_costs_no_validation(kit: Any, make_rig: MakeRig) -> None:
    pupil = kit.pupil(edits=lambda text: text.replace("Care 90.", "Care 0."))
    rig = make_rig(pupil=pupil, search=searching(generations=1, candidates=1), splits=kit.splits(train=8))
    await rig.run(kit.policy(90))
    check_invariants(rig)
    trial = rig.study.trials[1]
    assert trial.stage == "race"
    assert "its parent, trial 0" in trial.reason
    assert "lost" in trial.reason
    assert len(trial.train) == 4
    assert trial.summary == {}
    assert trial.evidence == ()


async def test_a_candidate_must_beat_the_best_too_before_it_is_validated(kit: Any, make_rig: MakeRig) -> None:
    """It comes from the seed, which is best for one user, and beats it; but another was accepted meanwhile."""
    counted = count()
    pupil = kit.pupil(propose=lambda _: kit.reply(f"Care 60. Try {next(counted)}.\n{{query}}\n{{choices}}"))
    rig = make_rig(pupil=pupil, search=searching(generations=2, candidates=12))
    evidence = (Evidence("utilisation", "Question: who?"),)
    users = ("train0", "train1", "train2", "train3")
    seed_scores, best_scores = (0.9, -1.0, -1.0, -1.0), (0.8, 1.0, 1.0, 1.0)
    rig.study.append(kit.trial(0, train=dict(zip(users, seed_scores, strict=True)), evidence=evidence))
    rig.study.append(
        kit.trial(
            1,
            policy=kit.policy(99),
            stage="validate",
            accepted=True,
            train=dict(zip(users, best_scores, strict=True)),
            evidence=evidence,
        )
    )
    await rig.run(kit.policy())
    of_seed = [trial for trial in rig.study.trials[2:] if trial.parent == 0]
    assert of_seed
    for trial in of_seed:
        assert -0.5 < trial.score < 0.95
        assert (trial.stage, trial.accepted, trial.validation) == ("race", False, {})
        assert "trial 0" in trial.reason
        assert "but not than trial 1" in trial.reason


async def test_validation_compares_with_the_best_not_with_the_seed(kit: Any, make_rig: MakeRig) -> None:
    """The candidate is far above the seed, but not above what was accepted meanwhile."""
    rig = make_rig(search=searching(generations=2, candidates=1))
    train, validation = (tuple(f"{kind}{i}" for i in range(4)) for kind in ("train", "valid"))
    evidence = (Evidence("utilisation", "Question: who?"),)
    for number, score, best in [(0, -1.0, -1.0), (1, -0.5, 1.0)]:
        rig.study.append(
            kit.trial(
                number,
                policy=kit.policy(50 + number),
                stage="validate" if number else "seed",
                accepted=True,
                train=dict.fromkeys(train, score),
                validation=dict.fromkeys(validation, best),
                evidence=evidence,
            )
        )
    await rig.run(kit.policy(50))
    check_invariants(rig)
    trial = rig.study.trials[2]
    assert compare(trial.validation, rig.study.trials[0].validation).low > 0
    assert (trial.stage, trial.accepted) == ("validate", False)
    assert "trial 1" in trial.reason


async def test_a_candidate_that_is_known_already_costs_no_episode_invariant_7(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(pupil=kit.pupil(edits=lambda text: text))
    await rig.run(kit.policy(20))
    check_invariants(rig)
    assert len(rig.study.trials) == 5
    for trial in rig.study.trials[1:]:
        assert (trial.stage, trial.reason) == ("check", "the same policy as trial 0")
        assert trial.policy == kit.policy(20)
        assert trial.train == {}
    assert set(spent_by(rig.study.trials[1:])) == {"propose"}


async def test_an_equal_candidate_of_the_same_generation_is_raced_once_invariant_7(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(search=searching(generations=1, candidates=3))
    await rig.run(kit.policy(20))
    check_invariants(rig)
    first, second, third = rig.study.trials[1:]
    assert first.policy == second.policy == third.policy == kit.policy(45)
    assert first.train
    assert [trial.reason for trial in (second, third)] == ["the same policy as trial 1"] * 2
    assert len(rig.episodes) == 8 + len(first.train) + len(first.validation)


async def test_a_broken_candidate_costs_no_episode_and_says_what_is_broken_invariant_7(
    kit: Any, make_rig: MakeRig
) -> None:
    rig = make_rig(pupil=kit.pupil(edits=lambda text: text.replace("{choices}", "")))
    await rig.run(kit.policy(20))
    check_invariants(rig)
    assert len(rig.study.trials) == 5
    for trial in rig.study.trials[1:]:
        assert (trial.stage, trial.policy, trial.reason) == ("check", None, "prompts.answer: lacks {choices}")
    assert set(spent_by(rig.study.trials[1:])) == {"propose"}


async def test_proposing_is_billed_to_the_first_trial_of_its_generation(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(pupil=kit.pupil(edits=lambda text: f"{text}\nThink."), search=searching(candidates=3))
    await rig.run(kit.policy(20))
    billed = [trial.ledger.by_role.get("propose") for trial in rig.study.trials]
    assert [number for number, spend in enumerate(billed) if spend is not None] == [1, 4]


async def test_an_upper_bound_is_found_once_for_all_trials(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(search=searching(generations=3))
    await rig.run(kit.policy(20))
    users = len(rig.splits.train) + len(rig.splits.validation)
    assert len(rig.pupil.asked("upper_bound")) == users * 4 * 2
    assert len(set(rig.pupil.asked("upper_bound"))) == users * 4 * 2


@dataclass
class ScriptedScreen:
    """Drops what asks for more care than allowed, and remembers what it was shown."""

    most: int

    def __post_init__(self) -> None:
        self.shown: list[list[int]] = []

    async def screen(self, candidates: Sequence[MemoryPolicy]) -> list[Verdict]:
        cares = [int("".join(filter(str.isdigit, (c.prompts.answer or "").split(".")[0]))) for c in candidates]
        self.shown.append(cares)
        return [Verdict(keep=care <= self.most, reason=f"care {care} looks bad") for care in cares]


async def test_what_the_screen_drops_costs_no_episode_and_keeps_the_screens_reason_invariant_7(
    kit: Any, make_rig: MakeRig
) -> None:
    screen = ScriptedScreen(most=0)
    rig = make_rig(screen=screen, search=searching(generations=1, candidates=1))
    await rig.run(kit.policy(20))
    check_invariants(rig)
    trial = rig.study.trials[1]
    assert (trial.stage, trial.accepted, trial.reason) == ("screen", False, "care 45 looks bad")
    assert trial.policy == kit.policy(45)
    assert set(spent_by([trial])) == {"propose"}
    assert screen.shown == [[45]]


async def test_each_candidate_gets_its_own_verdict_whatever_stands_between_invariant_7(
    kit: Any, make_rig: MakeRig
) -> None:
    """The screen sees no broken candidates, and its verdicts still find the right ones."""
    prompts = ["Care 90.\n{query}\n{choices}", "broken", "Care 30.\n{query}\n{choices}", "broken too"]
    replies = iter(prompts)
    screen = ScriptedScreen(most=50)
    rig = make_rig(
        screen=screen,
        pupil=kit.pupil(propose=lambda _: kit.reply(next(replies))),
        search=searching(generations=1, candidates=4),
    )
    await rig.run(kit.policy(20))
    check_invariants(rig)
    assert [trial.stage for trial in rig.study.trials[1:]] in (
        ["screen", "check", "race", "check"],
        ["screen", "check", "validate", "check"],
    )
    assert screen.shown == [[90, 30]]


async def test_the_screen_accepts_nothing_by_itself(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(pupil=kit.pupil(careless=True), screen=ScriptedScreen(most=100))
    await rig.run(kit.policy(0))
    assert not any(trial.accepted for trial in rig.study.trials[1:])


@pytest.mark.parametrize("calls", [0, 1, 60, 104, 207, 208, 209, 212, 300, 356, 400, 503, 504, 10_000])
async def test_a_budget_ends_the_run_with_its_reason_and_is_never_overshot_invariant_5(
    kit: Any, make_rig: MakeRig, calls: int
) -> None:
    """The seed takes 208 calls: 8 users with 2 replies, 16 questions and probes, and 8 calls for the upper bound."""
    whole = make_rig(search=searching(generations=2, candidates=1))
    await whole.run(kit.policy(20))
    needed = len(whole.pupil.requests)
    rig = make_rig(search=searching(generations=2, candidates=1), limits=Limits(calls=calls))
    ended = await rig.run(kit.policy(20))
    check_invariants(rig)
    assert len(rig.pupil.requests) <= calls
    if calls >= needed:
        assert ended == "all 2 generations are done"
    else:
        assert ended == f"the search's share of the budget is used up (the budget of {calls:,} calls is spent)"
        assert len(rig.study.trials) < 3
        assert bool(rig.study.trials) == (calls >= 208)
    assert sum(spent_by(rig.study.trials).values()) <= len(rig.pupil.requests)
    expected = [kit.told(trial) for trial in whole.study.trials[: len(rig.study.trials)]]
    assert [kit.told(trial) for trial in rig.study.trials] == expected


async def test_a_budget_of_tokens_ends_the_run_too_invariant_5(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(limits=Limits(tokens=5000))
    ended = await rig.run(kit.policy(20))
    assert "budget of 5,000 tokens" in ended
    assert sum(10 for _ in rig.pupil.requests) <= 5000
    check_invariants(rig)


async def test_a_budget_that_ended_a_run_can_be_raised_and_the_run_goes_on_invariant_6(
    kit: Any, make_rig: MakeRig
) -> None:
    whole = make_rig(search=searching(generations=3))
    await whole.run(kit.policy(20))
    rig = make_rig(search=searching(generations=3), limits=Limits(calls=300))
    await rig.run(kit.policy(20))
    assert 0 < len(rig.study.trials) < len(whole.study.trials)
    again = make_rig(search=searching(generations=3), storage=rig.storage)
    assert await again.run(kit.policy(20)) == "all 3 generations are done"
    assert [kit.told(t, spend=False) for t in again.study.trials] == [
        kit.told(t, spend=False) for t in whole.study.trials
    ]


@pytest.mark.parametrize("moves", [{"numbers": False}, {"numbers": True}], ids=["prompts", "both"])
async def test_a_run_stopped_after_any_trial_goes_on_as_if_it_had_never_stopped_invariant_6(
    kit: Any, make_rig: MakeRig, moves: dict[str, bool]
) -> None:
    """Spend differs, as proposals are made again; everything else does not."""
    search = searching(generations=3, candidates=3, seed=2, **moves)
    whole = make_rig(search=search)
    await whole.run(kit.policy(20))
    expected = [kit.told(trial, spend=False) for trial in whole.study.trials]
    assert len(expected) == 10

    def stop(trial: Trial) -> None:
        raise StoppedError

    storage = make_rig().storage
    for stopped in range(1, 11):
        rig = make_rig(search=search, storage=storage, tell=stop)
        with pytest.raises(StoppedError):
            await rig.run(kit.policy(20))
        assert [kit.told(trial, spend=False) for trial in rig.study.trials] == expected[:stopped]
    last = make_rig(search=search, storage=storage)
    assert await last.run(kit.policy(20)) == "all 3 generations are done"
    assert [kit.told(trial, spend=False) for trial in Study(storage, name="evolution").trials] == expected
    assert last.pupil.requests == []


@pytest.mark.parametrize("calls", [5, 150, 209, 230, 340, 420])
async def test_a_run_whose_endpoint_went_down_anywhere_goes_on_when_it_is_up_again_invariant_6(
    kit: Any, make_rig: MakeRig, calls: int
) -> None:
    search = searching(generations=3)
    whole = make_rig(search=search)
    await whole.run(kit.policy(20))
    left = iter(range(calls))
    pupil = kit.pupil(fails=lambda _: next(left, None) is None, error=EndpointDown("start the server"))
    rig = make_rig(search=search, pupil=pupil)
    with pytest.raises(EndpointDown, match="start the server"):
        await rig.run(kit.policy(20))
    check_invariants(rig)
    assert len(rig.study.trials) < len(whole.study.trials)
    again = make_rig(search=search, storage=rig.storage)
    assert await again.run(kit.policy(20)) == "all 3 generations are done"
    assert [kit.told(t, spend=False) for t in again.study.trials] == [
        kit.told(t, spend=False) for t in whole.study.trials
    ]


async def test_the_same_run_twice_gives_the_same_study_spend_included_invariant_6(kit: Any, make_rig: MakeRig) -> None:
    search = searching(numbers=True, seed=3)
    one, same = make_rig(search=search), make_rig(search=search)
    await one.run(kit.policy(20))
    await same.run(kit.policy(20))
    assert [kit.told(trial) for trial in one.study.trials] == [kit.told(trial) for trial in same.study.trials]


async def test_a_finished_study_that_is_given_more_generations_goes_on_invariant_6(kit: Any, make_rig: MakeRig) -> None:
    whole = make_rig(search=searching(generations=3))
    await whole.run(kit.policy(20))
    rig = make_rig(search=searching(generations=1))
    await rig.run(kit.policy(20))
    again = make_rig(search=searching(generations=3), storage=rig.storage)
    await again.run(kit.policy(20))
    assert [kit.told(t, spend=False) for t in again.study.trials] == [
        kit.told(t, spend=False) for t in whole.study.trials
    ]


async def test_every_trial_is_told_once_it_is_written(kit: Any, make_rig: MakeRig) -> None:
    heard: list[tuple[Trial, Trial]] = []
    rig = make_rig(tell=lambda trial: heard.append((trial, rig.study.trials[-1])))
    await rig.run(kit.policy(20))
    assert [trial.number for trial, _ in heard] == [0, 1, 2, 3, 4]
    assert all(trial is written for trial, written in heard)


async def test_a_candidate_whose_episodes_fail_is_dropped_with_an_example_of_why(kit: Any, make_rig: MakeRig) -> None:
    """It would win on the users that are left."""

    def fails(request: Request) -> bool:
        text = " ".join(message.content for message in request.messages)
        return "Care 100." in text and "train0 asks" in text

    pupil = kit.pupil(fails=fails, edits=lambda text: text.replace("Care 0.", "Care 100."))
    rig = make_rig(pupil=pupil, search=searching(generations=1, candidates=1))
    await rig.run(kit.policy(0))
    check_invariants(rig)
    trial = rig.study.trials[1]
    assert math.isnan(trial.train["train0"])
    assert (trial.stage, trial.accepted) == ("race", False)
    assert "failed" in trial.reason
    assert "the line is dead" in trial.reason


async def test_a_candidate_whose_validation_episodes_fail_is_not_accepted_on_those_that_are_left(
    kit: Any, make_rig: MakeRig
) -> None:
    """A policy may break on the users that are hard for it; leaving them out would hide just that."""

    def fails(request: Request) -> bool:
        text = " ".join(message.content for message in request.messages)
        return "Care 100." in text and ("valid0 asks" in text or "valid1 asks" in text)

    pupil = kit.pupil(fails=fails, edits=lambda text: text.replace("Care 0.", "Care 100."))
    rig = make_rig(pupil=pupil, search=searching(generations=1, candidates=1))
    await rig.run(kit.policy(0))
    trial = rig.study.trials[1]
    assert trial.stage == "validate"
    assert not trial.accepted
    assert "failed" in trial.reason


async def test_a_seed_that_fails_everywhere_ends_the_run_with_the_reason(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(pupil=kit.pupil(fails=lambda _: True))
    with pytest.raises(LanguageModelError, match="the line is dead"):
        await rig.run(kit.policy(20))
    assert rig.study.trials == ()


async def test_a_seed_that_fails_for_some_users_is_a_start(kit: Any, make_rig: MakeRig) -> None:
    pupil = kit.pupil(fails=lambda request: any("train1 asks" in message.content for message in request.messages))
    rig = make_rig(pupil=pupil, search=searching(numbers=True, generations=3))
    assert await rig.run(kit.policy(20)) == "all 3 generations are done"
    check_invariants(rig)
    assert math.isnan(rig.study.trials[0].train["train1"])


async def test_a_proposer_that_never_answers_leaves_the_numbers_to_evolve(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(
        pupil=kit.pupil(fails=lambda request: request.role == "propose"), search=searching(numbers=True, generations=3)
    )
    assert await rig.run(kit.policy(20)) == "all 3 generations are done"
    check_invariants(rig)
    assert any(trial.stage in {"race", "validate"} for trial in rig.study.trials)
    answers = {trial.policy.prompts.answer for trial in rig.study.trials if trial.policy is not None}
    assert answers == {kit.policy(20).prompts.answer}


async def test_a_policy_that_writes_evolves_its_write_prompt_too(kit: Any, make_rig: MakeRig) -> None:
    """A memory of user messages that are never evicted before the questions: what is not written is a write failure."""
    start = MemoryPolicy.model_validate(
        {
            "write": {"mode": "profile"},
            "update_every": 2,
            "buffer_size": 0,
            "store": "context",
            "prompts": {"answer": kit.policy(100).prompts.answer},
        }
    )
    forgetful = kit.pupil(edits=lambda text: f"Note every pet.\n{text}")
    write = forgetful._write_
    forgetful._write_ = lambda request: write(request) if "Note every pet" in request.messages[-1].content else "{}"
    rig = make_rig(pupil=forgetful, search=searching(generations=1, candidates=1))
    await rig.run(start)
    check_invariants(rig)
    trial = rig.study.trials[1]
    assert trial.change.startswith("write prompt:")
    assert trial.accepted
    assert trial.policy.prompts.write == "Note every pet.\n" + default_templates().starting("write_profile")
