"""How the loop looks at the validation users, and what it accepts: invariant 2 of the tests of the loop."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from mnemotune.optimizer.config import SearchConfig
from mnemotune.optimizer.looks import Comparison, Look
from mnemotune.optimizer.search.acceptance import ALPHA_AT_THE_END, level
from mnemotune.optimizer.search.loop import GENERATIONS_BETWEEN_LOOKS
from mnemotune.optimizer.study import Evidence
from mnemotune.policies.lm import BudgetExhausted, EndpointDown, Limits, Refused, Request

pytestmark = pytest.mark.usefixtures("early_looks")

MakeRig = Callable[..., Any]


def seen_at(level: float, *, last: bool = False) -> Look:
    """Make a look that found nothing."""
    nothing = Comparison.of({}, {})
    return Look(nothing, nothing, level, last)


def searching(**search: Any) -> SearchConfig:
    return SearchConfig(**{"generations": 2, "candidates": 2, "numbers": False} | search)


async def test_steady_small_gains_add_up(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(search=searching(generations=8, candidates=1), splits=kit.splits(train=6, validation=12))
    await rig.run(kit.policy(0))
    led = [kit.care(trial.policy) for trial in rig.study.trials if trial.led]
    assert led == sorted(set(led))
    assert len(led) > 2
    await rig.look_last()
    rig.check()
    assert kit.care(rig.study.best.policy) == led[-1] == 100


async def test_where_all_candidates_score_the_same_nothing_is_accepted_or_even_validated(
    kit: Any, make_rig: MakeRig
) -> None:
    counted = count()
    pupil = kit.pupil(careless=True, propose=lambda _: kit.reply(f"Try {next(counted)}.\n{{memories}}"))
    rig = make_rig(pupil=pupil, search=searching(generations=4))
    await rig.run(kit.policy(0))
    rig.check()
    raced = [trial for trial in rig.study.trials[1:] if trial.decided_at == "race"]
    assert len(raced) == 8
    assert all(trial.score == rig.study.trials[0].score for trial in raced)
    assert rig.study.best.number == 0
    assert not any(trial.validation for trial in rig.study.trials[1:])


async def test_of_candidates_that_differ_by_luck_alone_hardly_one_is_accepted(kit: Any, make_rig: MakeRig) -> None:
    """At most one search in twenty may accept any; the race may only make that rarer."""
    raced = accepted = 0
    for seed in range(6):
        counted = count()
        reply = lambda _, counted=counted: kit.reply(f"Try {next(counted)}.\n{{memories}}")  # noqa: E731
        search = searching(seed=seed, generations=3, candidates=2, proposers=("reflective",))
        rig = make_rig(pupil=kit.pupil(lucky=True, propose=reply), search=search, splits=kit.splits(3, 6))
        await rig.run(kit.policy(0))
        rig.check()
        raced += sum(trial.decided_at in {"race", "validate"} for trial in rig.study.trials[1:])
        accepted += sum(trial.accepted for trial in rig.study.trials[1:])
    assert raced > 30
    assert accepted <= 1


def spread(values: Sequence[float], kind: str) -> dict[str, float]:
    return {f"{kind}{i}": value for i, value in enumerate(values)}


SEED: dict[str, Any] = {"train": [0.2, 0.2, 0.2, 0.3], "validation": [0.2, 0.3, 0.2, 0.3, 0.2, 0.3]}
NOISY = SEED | {"train": [0.9, 1.4, 0.2, 1.2]}
UNSURE = SEED | {"validation": [0.9, 1.3, 0.2, 0.9, 0.9, 0.5]}
UNLIKE = SEED | {"validation": [0.9, 1.4, 0.5, 1.3, 0.9, 0.6]}
PETS = SEED | {"slices": {"topic pet": spread([1.4, 1.5, 1.4, 1.5, 1.4, 1.5], "valid")}}


@pytest.mark.parametrize(
    ("seed", "best", "search", "found", "found_last"),
    [
        (SEED, None, {}, ("validate", True, r"^better: .* over trial 0 on validation$"), None),
        (
            SEED,
            SEED,
            {},
            ("race", False, "^it leads; the last look was in generation 1: .* over trial 0$"),
            (True, r"^better: .* over trial 1 on validation$"),
        ),
        (NOISY, None, {}, ("race", False, "it leads, but not clearly over trial 0"), (True, "^better: ")),
        (
            SEED,
            SEED | {"validation": [1.4] * 6},
            {},
            ("race", False, "the last look was"),
            (False, "^no better on the first 3 users: .* over trial 1 on validation$"),
        ),
        (
            UNSURE,
            None,
            {},
            ("validate", False, r"not surely better than the seed policy \(p 0\.1\d+, needed 0\.0050\)"),
            (False, r"not surely better than the seed policy \(p 0\.1\d+, needed 0\.0250\)"),
        ),
        (
            SEED,
            UNLIKE,
            {},
            ("race", False, "the last look was"),
            (False, r"^too little \(p 0\.3\d\): .* over trial 1 on validation$"),
        ),
        (
            PETS,
            None,
            {},
            ("validate", False, r"^worse on topic pet, -0\.450 \["),
            (False, r"^worse on topic pet, -0\.450 \["),
        ),
        (PETS, None, {"veto": False}, ("validate", True, "^better: "), None),
        (NOISY, None, {"acceptance": "train"}, ("race", True, "the best mean on train users"), None),
    ],
)
async def test_a_candidate_that_is_perfect_is_judged_by_what_it_is_compared_with_invariant_2(
    kit: Any,
    make_rig: MakeRig,
    seed: dict[str, Any],
    best: dict[str, Any] | None,
    search: dict[str, Any],
    found: tuple[str, bool, str],
    found_last: tuple[bool, str] | None,
) -> None:
    """Its score is 1 for every user; the others' are made up, above 1 too. What leads is looked at last."""
    pupil = kit.pupil(propose=lambda _: kit.reply("Care 100.\n{memories}"))
    rig = make_rig(pupil=pupil, search=searching(candidates=1, **search), splits=kit.splits(validation=6))
    for number, scores in enumerate([seed] if best is None else [seed, best]):
        values = {
            "policy": kit.policy(50 + number),
            "decided_at": "validate" if number else "seed",
            "accepted": True,
            "train": spread(scores["train"], "train"),
            "validation": spread(scores["validation"], "valid"),
            "slices": scores.get("slices", {}),
            "evidence": (Evidence("utilisation", "Question: who?"),),
        }
        rig.study.append(kit.trial(number, **values))
    await rig.run(kit.policy(50))
    trial = next(trial for trial in rig.study.trials if trial.policy == kit.policy(100))
    stage, accepted, why = found
    assert set(trial.train.values()) == {1.0}
    assert (trial.decided_at, trial.accepted, bool(trial.look)) == (stage, accepted, stage == "validate")
    assert re.search(why, trial.reason)
    trials = len(rig.study.trials)
    await rig.look_last()
    assert len(rig.study.trials) == trials + (found_last is not None)
    if found_last is not None:
        last = rig.study.trials[-1]
        assert (last.policy, last.parent, last.train) == (trial.policy, trial.number, trial.train)
        assert (last.decided_at, last.accepted) == ("validate", found_last[0])
        assert re.search(found_last[1], last.reason)


async def test_a_gain_over_the_seed_policy_that_is_one_readers_alone_is_refused(kit: Any, make_rig: MakeRig) -> None:
    """The candidate is perfect; the seed policy is so too with the one user that another reader plays with."""
    pupil = kit.pupil(propose=lambda _: kit.reply("Care 100.\n{memories}"))
    found = {}
    for other in ("keen", "slow"):
        rig = make_rig(pupil=pupil, search=searching(candidates=1), splits=kit.splits(validation=6))
        readers = {f"valid{i}": "keen" for i in range(5)} | {"valid5": other}
        rig.evaluator.cast = replace(rig.evaluator.cast, readers=readers)
        values = {
            "policy": kit.policy(50),
            "decided_at": "seed",
            "accepted": True,
            "train": spread(SEED["train"], "train"),
            "validation": spread([0.0, 0.1, 0.0, 0.1, 0.0, 1.0], "valid"),
            "evidence": (Evidence("utilisation", "Question: who?"),),
        }
        rig.study.append(kit.trial(0, **values))
        await rig.run(kit.policy(50))
        found[other] = next(trial for trial in rig.study.trials if trial.policy == kit.policy(100))
    assert found["keen"].accepted
    assert not found["slow"].accepted
    assert "nothing is left of the gain over the seed policy without the users of keen" in found["slow"].reason
    assert found["slow"].look.sure


async def test_each_look_makes_the_next_dearer_but_the_last(kit: Any, make_rig: MakeRig) -> None:
    """The same gain is sure at the first look, and not after many in vain; the last has a level of its own."""
    pupil = kit.pupil(propose=lambda _: kit.reply("Care 100.\n{memories}"))
    for looks, accepted in ((0, True), (20, False)):
        search = searching(candidates=1, generations=GENERATIONS_BETWEEN_LOOKS + 1)
        rig = make_rig(pupil=pupil, search=search, splits=kit.splits(validation=6))
        evidence = (Evidence("utilisation", "Question: who?"),)
        validation = spread([0.2, 0.7, 0.4, 0.8, 0.1, 0.6], "valid")
        parts = {"train": spread(SEED["train"], "train"), "validation": validation, "evidence": evidence}
        rig.study.append(kit.trial(0, policy=kit.policy(30), **parts))
        for number in range(1, looks + 1):
            policy = kit.policy(60, prompts={"reply": f"Try {number}: {{memories}}"})
            looked = {"policy": policy, "decided_at": "validate", "look": seen_at(0.0001), "generation": 1}
            rig.study.append(kit.trial(number, **looked, **parts))
        other = kit.policy(60, prompts={"reply": "Wait: {memories}"})
        rig.study.append(kit.trial(looks + 1, policy=other, generation=GENERATIONS_BETWEEN_LOOKS, **parts))
        await rig.run(kit.policy(30))
        trial = next(trial for trial in rig.study.trials if trial.policy == kit.policy(100))
        assert trial.look.level == pytest.approx(0.01 / (looks + 1) / (looks + 2))
        assert trial.accepted is accepted
        await rig.look_last()
        last = rig.study.trials[-1]
        assert last.accepted
        assert last.look.level == (trial.look.level if accepted else ALPHA_AT_THE_END)


async def test_the_last_look_is_taken_once(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(pupil=kit.pupil(lucky=True, edits=lambda text: f"{text}\nThink."), search=searching(generations=6))
    await rig.run(kit.policy(30))
    await rig.look_last()
    rig.check()
    trials, asked = rig.study.trials, len(rig.pupil.requests)
    await rig.look_last()
    assert rig.study.trials == trials
    assert len(rig.pupil.requests) == asked


async def test_a_last_look_needs_no_race_and_is_told_what_it_took(kit: Any, make_rig: MakeRig) -> None:
    """The leader's race is known; its calls are not counted twice."""
    rig = make_rig(search=searching(generations=3, candidates=1), splits=kit.splits(validation=6))
    rig.study.append(
        kit.trial(0, policy=kit.policy(0), train=spread([0.5] * 4, "train"), validation=spread([0.1] * 6, "valid"))
    )
    led = kit.trial(1, policy=kit.policy(100), train=spread([0.9] * 4, "train"), calls=77, proposer="merge")
    rig.study.append(led)
    await rig.look_last()
    last = rig.study.trials[-1]
    assert last.accepted
    assert not rig.pupil.heard("train")
    assert last.calls == 0
    assert last.ledger.total.calls == len(rig.pupil.requests) > 0


def led_by(kit: Any, rig: Any, *, policy: Any = None, **leader: Any) -> None:
    """Give a search a seed that is poor on all users, and a leader."""
    seed = {"train": spread([0.1] * 4, "train"), "validation": spread([0.1, 0.0, 0.2, 0.1, 0.0, 0.1], "valid")}
    rig.study.append(kit.trial(0, policy=kit.policy(0), **seed))
    policy = policy or kit.policy(100)
    rig.study.append(kit.trial(1, policy=policy, train=spread([0.9] * 4, "train"), **leader))


IN_VAIN = {"decided_at": "validate", "look": seen_at(0.005)}
TAKEN = {"decided_at": "validate", "kind": "last_look", "proposer": "", "look": seen_at(ALPHA_AT_THE_END, last=True)}


@pytest.mark.parametrize(
    ("leader", "twin", "looks"),
    [
        ({}, None, 1),
        (IN_VAIN, None, 1),
        ({"accepted": True, **IN_VAIN}, None, 0),
        ({}, TAKEN, 0),
        ({}, {"accepted": True, **TAKEN}, 0),
        (IN_VAIN, {**TAKEN, "look": seen_at(0.001, last=True)}, 0),
        ({}, {"decided_at": "check", "train": {}, "series": {}, "summary": None}, 1),
    ],
    ids=["new", "in vain on the way", "accepted", "last", "accepted last", "last, after another", "proposed again"],
)
async def test_the_leader_is_looked_at_last_unless_it_is_accepted_or_was_already(
    kit: Any, make_rig: MakeRig, leader: dict[str, Any], twin: dict[str, Any] | None, looks: int
) -> None:
    """A policy that was looked at in vain on the way gets the last look's level; an equal one counts as the leader."""
    rig = make_rig(splits=kit.splits(validation=6))
    led_by(kit, rig, **leader)
    if twin is not None:
        rig.study.append(kit.trial(2, **{"policy": kit.policy(100), "train": spread([0.9] * 4, "train"), **twin}))
    before = rig.study.trials
    await rig.look_last()
    assert len(rig.study.trials) == len(before) + looks
    assert bool(rig.pupil.requests) is bool(looks)
    if looks:
        last = rig.study.trials[-1]
        assert (last.kind, last.parent, last.generation) == ("last_look", 1, before[-1].generation)
        assert (last.accepted, last.look.level) == (True, ALPHA_AT_THE_END)


async def test_the_seed_policy_is_not_looked_at_again_where_it_leads(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(pupil=kit.pupil(careless=True))
    await rig.run(kit.policy(20))
    trials, asked = rig.study.trials, len(rig.pupil.requests)
    await rig.look_last()
    assert (rig.study.trials, len(rig.pupil.requests)) == (trials, asked)


async def test_where_train_users_decide_there_is_no_last_look(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(search=searching(acceptance="train"), splits=kit.splits(validation=6))
    led_by(kit, rig)
    await rig.look_last()
    assert (len(rig.study.trials), rig.pupil.requests) == (2, [])


async def test_a_last_look_in_vain_accepts_nothing_and_is_not_taken_again_by_a_run_that_goes_on(
    kit: Any, make_rig: MakeRig, storage: str
) -> None:
    rig = make_rig(storage=storage, splits=kit.splits(validation=6))
    led_by(kit, rig, policy=kit.policy(1))
    await rig.look_last()
    assert [trial.accepted for trial in rig.study.trials] == [True, False, False]
    again = make_rig(storage=storage, splits=kit.splits(validation=6))
    await again.look_last()
    assert again.pupil.requests == []
    assert [kit.told(trial) for trial in again.study.trials] == [kit.told(trial) for trial in rig.study.trials]


@pytest.mark.parametrize("calls", [0, 1, 60, 150])
async def test_a_last_look_that_was_stopped_is_taken_whole_when_the_run_goes_on(
    kit: Any, make_rig: MakeRig, storage: str, calls: int
) -> None:
    splits, left = kit.splits(validation=6), iter(range(calls))
    whole = make_rig(splits=splits)
    led_by(kit, whole)
    await whole.look_last()
    pupil = kit.pupil(fails=lambda _: next(left, None) is None, error=EndpointDown("start the server"))
    stopped = make_rig(splits=splits, pupil=pupil, storage=storage)
    led_by(kit, stopped)
    with pytest.raises(EndpointDown):
        await stopped.look_last()
    assert len(stopped.study.trials) == 2
    again = make_rig(splits=splits, storage=storage)
    await again.look_last()
    assert [kit.told(trial) for trial in again.study.trials] == [kit.told(trial) for trial in whole.study.trials]


async def test_a_search_that_goes_on_after_its_last_look_takes_up_its_generation_and_has_one_cheap_look_no_more(
    kit: Any, make_rig: MakeRig, storage: str
) -> None:
    """The last look is no candidate of the generation in which it was taken; a later one is dearer."""
    search = searching(generations=2, candidates=3, numbers=True, proposers=("random",))
    pupil = {"pupil": kit.pupil(lucky=True)}
    whole = make_rig(search=search, **pupil)
    await whole.run(kit.policy(40))

    def stop(trial: Any) -> None:
        if trial.number == 4:
            raise InterruptedError

    rig = make_rig(search=search, tell=stop, storage=storage, **pupil)
    with pytest.raises(InterruptedError):
        await rig.run(kit.policy(40))
    rig.tell = lambda _: None
    await rig.look_last()
    assert [trial.kind == "last_look" for trial in rig.study.trials] == [False] * 5 + [True]
    again = make_rig(search=search, storage=storage, **pupil)
    await again.run(kit.policy(40))
    candidates = [trial for trial in again.study.trials if trial.kind != "last_look"]
    assert [trial.policy for trial in candidates] == [trial.policy for trial in whole.study.trials]
    assert [trial.generation for trial in candidates] == [0, 1, 1, 1, 2, 2, 2]
    assert level(again.study.trials, last=True) < 0.01
    again.check()


@pytest.mark.parametrize("calls", [0, 1, 100])
async def test_a_budget_that_ends_in_the_last_look_leaves_no_trial_invariant_5(
    kit: Any, make_rig: MakeRig, calls: int
) -> None:
    rig = make_rig(limits=Limits(calls=calls))
    rig.study.append(kit.trial(0, train=spread([0.5] * 4, "train"), validation=spread([0.1] * 4, "valid")))
    rig.study.append(kit.trial(1, policy=kit.policy(100), train=spread([0.9] * 4, "train")))
    with pytest.raises(BudgetExhausted):
        await rig.look_last()
    assert len(rig.study.trials) == 2
    assert len(rig.pupil.requests) <= calls


async def test_a_policy_that_is_refused_on_hard_users_is_not_spared_them(kit: Any, make_rig: MakeRig) -> None:
    """Leaving them out would hide just that it breaks on them."""

    def fails(request: Request) -> bool:
        text = " ".join(message.content for message in request.messages)
        return "Care 100." in text and ("valid0 asks" in text or "valid1 asks" in text)

    edits = lambda text: text.replace("Care 0.", "Care 100.")  # noqa: E731
    pupil = kit.pupil(fails=fails, error=Refused("too long"), edits=edits)
    rig = make_rig(pupil=pupil, search=searching(generations=1, candidates=1))
    await rig.run(kit.policy(0))
    trial = rig.study.trials[1]
    assert trial.decided_at == "validate"
    assert trial.validation["valid0"] == -1.0, "all wrong, where chance is a half"
    assert not trial.accepted
