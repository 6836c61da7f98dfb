"""The loop: propose, check, screen, race, validate, write down.

Invariants, for any run:
1. Every trial says what was changed and why it was accepted or dropped.
2. A trial is accepted exactly when all validation users were asked and it is surely better there than the seed policy,
   at its look's level, likely better than the best so far, and surely worse on no slice; the seed's is where the search
   starts. Only what leads on all train users, and clearly so over the best, is looked at, now and then; the leader is
   looked at last.
3. Trials are numbered in the order of their generations, and no generation has more than its candidates.
4. Scores of train users are scores of train users, scores of validation users are theirs; no test user is ever seen.
5. No call is made beyond the budget, and what the trials say was spent adds up to what was spent.
6. A run that was stopped anywhere and goes on gives the trials of one that was never stopped.
7. A candidate that is broken, known already, or dropped by the screen costs no episode.
8. A race that was lost early keeps no summary and no evidence.

``Rig.check`` checks 1 to 5 and 8 on any run; more of 2 is in ``test_loop_looks.py``, 6 and the budget's end are in
``test_loop_resume.py``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from mnemotune.optimizer.config import SearchConfig
from mnemotune.optimizer.proposers.known import STRATEGIES, USERS_MESSAGES
from mnemotune.optimizer.proposers.numbers import distributions
from mnemotune.optimizer.search.screen import Verdict
from mnemotune.optimizer.study import Evidence, Trial
from mnemotune.policies.lm import LanguageModelError, Limits, Refused, Request
from mnemotune.policies.lm.ledger import merged
from mnemotune.policies.policy import MemoryPolicy
from mnemotune.policies.prompts import Templates
from mnemotune.policies.space import Space

pytestmark = pytest.mark.usefixtures("early_looks")

MakeRig = Callable[..., Any]


def searching(**search: Any) -> SearchConfig:
    return SearchConfig(**{"generations": 2, "candidates": 2, "numbers": False} | search)


def spent_by(trials: Sequence[Trial]) -> dict[str, int]:
    return {role: spend.calls for role, spend in merged([trial.ledger for trial in trials]).by_role.items()}


def made_by(pupil: Any) -> dict[str, int]:
    roles = [request.role for request in pupil.requests]
    return {role: roles.count(role) for role in set(roles)}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "moves",
    [
        {"numbers": False},
        {"prompts": False, "numbers": True},
        {"numbers": True},
        {"numbers": True, "racing": False},
        {"acceptance": "train"},
        {"numbers": True, "veto": False, "proposers": ("amemgym", "random", "merge")},
    ],
    ids=repr,
)
@pytest.mark.parametrize("careless", [False, True])
@pytest.mark.exhaustive("seed")
async def test_the_invariants_hold_for_every_kind_of_search_invariants_1_to_5_and_8(
    kit: Any, make_rig: MakeRig, seed: int, moves: dict[str, Any], careless: bool
) -> None:
    search = searching(seed=seed, generations=3, candidates=3, race_block=2, **moves)
    rig = make_rig(pupil=kit.pupil(careless=careless), search=search)
    assert await rig.run(kit.policy(20)) == "all 3 generations are done"
    assert len(rig.study.trials) == 1 + search.planned
    await rig.look_last()
    rig.check()
    assert spent_by(rig.study.trials) == made_by(rig.pupil)


async def test_the_seed_is_raced_and_validated_and_accepted(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(search=searching(generations=1))
    await rig.run(kit.policy(20))
    seed = rig.study.trials[0]
    assert (seed.decided_at, seed.accepted, seed.parent, seed.generation) == ("seed", True, None, 0)
    assert seed.policy == kit.policy(20)
    assert sorted(seed.train) == ["train0", "train1", "train2", "train3"]
    assert sorted(seed.validation) == ["valid0", "valid1", "valid2", "valid3"]
    point = kit.point(kit.policy(20))
    assert seed.params == point
    assert seed.distributions == distributions(point, Space())
    assert seed.evidence
    assert seed.summary.accuracy > 0


async def test_a_seed_outside_the_space_is_raced_without_a_place_in_it(kit: Any, make_rig: MakeRig) -> None:
    space = {"modes": ("verbatim",), "stores": ("external",), "update_every": (1, 2), "buffer_size": (0, 4)}
    rig = make_rig(search=searching(numbers=True, prompts=False, space=space))
    await rig.run(kit.policy(20))
    rig.check()
    assert rig.study.trials[0].params == {}
    assert all(t.policy.write.mode == "verbatim" for t in rig.study.trials[1:])


async def test_a_clearly_better_candidate_is_accepted_and_becomes_the_best(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(pupil=kit.pupil(edits=lambda text: text.replace("Care 0.", "Care 100.")))
    await rig.run(kit.policy(0))
    rig.check()
    first = rig.study.trials[1]
    assert (first.decided_at, first.accepted) == ("validate", True)
    assert rig.study.best is first
    assert set(first.validation.values()) == {1.0}
    assert all(not trial.accepted for trial in rig.study.trials[2:])


async def test_a_worse_candidate_is_dropped_in_the_race_and_costs_no_validation(kit: Any, make_rig: MakeRig) -> None:
    pupil = kit.pupil(edits=lambda text: text.replace("Care 90.", "Care 0."))
    rig = make_rig(pupil=pupil, search=searching(generations=1, candidates=1), splits=kit.splits(train=8))
    await rig.run(kit.policy(90))
    rig.check()
    trial = rig.study.trials[1]
    assert trial.decided_at == "race"
    assert "its parent, trial 0" in trial.reason
    assert trial.reason.startswith("left after 4 train users and 1 of 2 periods: ")
    assert (trial.train, trial.summary, trial.evidence) == ({}, None, ())
    assert [len(scores) for scores in trial.series.values()] == [1] * 4


async def test_a_candidate_must_beat_the_best_too_before_it_is_validated(kit: Any, make_rig: MakeRig) -> None:
    """It comes from the seed, which is best for one user, and beats it; but another was accepted meanwhile."""
    counted = count()
    pupil = kit.pupil(propose=lambda _: kit.reply(f"Care 60. Try {next(counted)}.\n{{memories}}"))
    rig = make_rig(pupil=pupil, search=searching(generations=2, candidates=12))
    evidence = (Evidence("utilisation", "Question: who?"),)
    users = ("train0", "train1", "train2", "train3")
    seed_scores, best_scores = (0.9, -1.0, -1.0, -1.0), (0.8, 1.0, 1.0, 1.0)
    rig.study.append(kit.trial(0, train=dict(zip(users, seed_scores, strict=True)), evidence=evidence))
    rig.study.append(
        kit.trial(
            1,
            policy=kit.policy(99),
            decided_at="validate",
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
        assert (trial.decided_at, trial.accepted, trial.validation) == ("race", False, {})
        assert "trial 0" in trial.reason
        assert "but not above trial 1" in trial.reason


def watch_races(rig: Any) -> dict[MemoryPolicy, list[int]]:
    """Return the numbers of the rivals in each race, by policy, as they are run."""
    seen, heat = {}, rig.arena.heat

    async def watched(policies: Sequence[MemoryPolicy], rivals: Sequence[Sequence[Trial]]) -> Any:
        for policy, against in zip(policies, rivals, strict=True):
            assert policy not in seen, "raced twice"
            seen[policy] = [rival.number for rival in against]
        return await heat(policies, rivals)

    rig.arena.heat = watched
    return seen


@pytest.mark.parametrize("block", [3, 6])
async def test_a_candidate_meets_its_parent_and_the_leader_in_one_race_on_the_same_users(
    kit: Any, make_rig: MakeRig, block: int
) -> None:
    """It beats the seed, from which it comes, and is far from the leader, which nobody has accepted."""
    counted = count()
    pupil = kit.pupil(propose=lambda _: kit.reply(f"Care 60. Try {next(counted)}.\n{{memories}}"))
    search = searching(seed=2, generations=1, candidates=12, race_block=block)
    rig, evidence = (
        make_rig(pupil=pupil, search=search, splits=kit.splits(6)),
        (Evidence("utilisation", "Question: who?"),),
    )
    for number, scores in enumerate([(0.9, 0.9, -1.0, -1.0, -1.0, -1.0), (0.8, 0.8, 1.5, 1.5, 1.5, 1.5)]):
        train = {f"train{i}": score for i, score in enumerate(scores)}
        policy = kit.policy(90 + number)
        rig.study.append(kit.trial(number, generation=0, policy=policy, train=train, evidence=evidence))
    races = watch_races(rig)
    await rig.run(kit.policy(90))
    trials = [trial for trial in rig.study.trials[2:] if trial.series]
    assert {trial.parent for trial in trials} == {0, 1}
    for trial in trials:
        assert races[trial.policy] == ([0, 1] if trial.parent == 0 else [1])
        assert (trial.decided_at, trial.led, trial.validation) == ("race", False, {})
        if trial.parent == 0:
            lost = "left after 3 train users" if block == 3 else "above its parent, but not above trial 1"
            over_leader = r"-\d\.\d+ \[.*\] over trial 1, " if block == 3 else ""
            assert re.fullmatch(rf"{lost}: {over_leader}\+\d\.\d+ \[.*\] over its parent, trial 0", trial.reason)
    assert len(rig.episodes) == sum(len(trial.train) for trial in trials)


async def test_a_leader_that_was_not_accepted_is_a_rival_before_the_best_is(kit: Any, make_rig: MakeRig) -> None:
    """The best was accepted on its looks; another has the best mean on train users since."""
    rig = make_rig(search=searching(generations=1, candidates=8))
    for number, score in enumerate((0.1, 0.2, 0.4)):
        train = {f"train{i}": score + i / 100 for i in range(4)}
        values = {"policy": kit.policy(number), "train": train, "accepted": number < 2, "generation": 0}
        rig.study.append(kit.trial(number, evidence=(Evidence("utilisation", "Question: who?"),), **values))
    races = watch_races(rig)
    await rig.run(kit.policy(0))
    assert rig.study.best.number == 1
    assert races
    assert all(2 in rivals for rivals in races.values())


async def test_a_candidate_that_is_known_already_costs_no_episode_invariant_7(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(pupil=kit.pupil(edits=lambda text: text))
    await rig.run(kit.policy(20))
    rig.check()
    assert len(rig.study.trials) == 5
    for trial in rig.study.trials[1:]:
        assert (trial.decided_at, trial.reason) == ("check", "the same policy as trial 0")
        assert trial.policy == kit.policy(20)
        assert trial.train == {}
    assert set(spent_by(rig.study.trials[1:])) == {"propose"}


async def test_an_equal_candidate_of_the_same_generation_is_raced_once_invariant_7(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(search=searching(generations=1, candidates=3))
    await rig.run(kit.policy(20))
    rig.check()
    first, second, third = rig.study.trials[1:]
    assert first.policy == second.policy == third.policy == kit.policy(45)
    assert first.train
    assert [trial.reason for trial in (second, third)] == ["the same policy as trial 1"] * 2
    assert len(rig.episodes) == 8 + len(first.train) + len(first.validation)


async def test_a_broken_candidate_costs_no_episode_and_says_what_is_broken_invariant_7(
    kit: Any, make_rig: MakeRig
) -> None:
    rig = make_rig(pupil=kit.pupil(edits=lambda text: text.replace("{memories}", "")))
    await rig.run(kit.policy(20))
    rig.check()
    assert len(rig.study.trials) == 5
    for trial in rig.study.trials[1:]:
        assert (trial.decided_at, trial.policy, trial.reason) == ("check", None, "prompts.reply: lacks {memories}")
    assert set(spent_by(rig.study.trials[1:])) == {"propose"}


async def test_proposing_is_billed_to_the_candidate_that_it_was_for(kit: Any, make_rig: MakeRig) -> None:
    """What was made before it for the same place, and was known already, included."""
    pupil = kit.pupil(edits=lambda text: f"{text}\nThink.")
    rig = make_rig(pupil=pupil, search=searching(generations=1, candidates=3, proposers=("reflective",)))
    await rig.run(kit.policy(20))
    first, second, third = rig.study.trials[1:]
    assert first.policy == second.policy == third.policy
    assert [trial.ledger.by_role["propose"].calls for trial in (first, second, third)] == [1, 3, 3]
    assert spent_by(rig.study.trials) == made_by(pupil)


async def test_what_was_played_to_propose_is_billed_to_that_proposers_candidates(kit: Any, make_rig: MakeRig) -> None:
    """Numbers are drawn for nothing; gepa and amemgym play users before they propose, gepa in a thread of its own."""
    proposers = ("tpe", "reflective", "amemgym", "gepa")
    pupil = kit.pupil(lucky=True, edits=lambda text: f"{text}\nThink {len(text)} times.")
    rig = make_rig(pupil=pupil, search=searching(numbers=True, generations=4, candidates=4, proposers=proposers))
    await rig.run(kit.policy(20, mode="profile", update_every=2, buffer_size=0, store="context"))
    took: dict[str, list[int]] = {name: [] for name in proposers}
    for trial in rig.study.trials[1:]:
        roles = trial.ledger.by_role.items()
        took[trial.proposer].append(sum(spend.calls for role, spend in roles if role != "upper_bound") - trial.calls)
    assert min(took["tpe"]) == 0
    assert min(took["reflective"]) == 1
    assert min(took["amemgym"]) > 16, "a user's life"
    assert max(took["gepa"]) > 3 * 16, "three of them"
    assert spent_by(rig.study.trials) == made_by(pupil)


async def test_what_a_race_and_a_look_took_is_told_apart_from_the_rest(kit: Any, make_rig: MakeRig) -> None:
    """Proposals are made again by a run that goes on, and upper bounds are found again."""
    rig = make_rig(search=searching(numbers=True, generations=3))
    await rig.run(kit.policy(20))
    for trial in rig.study.trials[1:]:
        roles = {role: spend.calls for role, spend in trial.ledger.by_role.items()}
        assert trial.calls == sum(calls for role, calls in roles.items() if role not in {"propose", "upper_bound"})
        assert bool(trial.calls) is bool(trial.series)


async def test_once_the_named_strategies_are_tried_nothing_is_left_to_propose(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(search=searching(proposers=("known",), numbers=True, generations=9, candidates=1))
    ended = "none of the proposers (known) has anything to make a candidate from"
    assert await rig.run(kit.policy(20)) == ended
    rig.check()
    changes = [trial.change for trial in rig.study.trials[1:]]
    assert sorted(changes) == sorted(f"the strategy {name}" for name in (*STRATEGIES, *USERS_MESSAGES))


async def test_a_search_whose_proposers_can_make_nothing_of_its_seed_ends_and_says_so(
    kit: Any, make_rig: MakeRig, storage: str
) -> None:
    """The seed policy writes nothing, so that it has no write prompt to rewrite."""
    rig = make_rig(search=searching(proposers=("amemgym",), generations=3), storage=storage)
    ended = "none of the proposers (amemgym) has anything to make a candidate from"
    assert await rig.run(kit.policy(20)) == ended
    assert [trial.decided_at for trial in rig.study.trials] == ["seed"]
    again = make_rig(search=searching(proposers=("amemgym",), generations=9), storage=storage)
    assert await again.run(kit.policy(20)) == ended
    assert again.pupil.requests == []


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
    drop: float = 0.5

    def __post_init__(self) -> None:
        self.shown: list[list[int]] = []

    async def screen(
        self, candidates: Sequence[MemoryPolicy], trials: Sequence[Trial], *, generation: int
    ) -> list[Verdict]:
        cares = [int("".join(filter(str.isdigit, (c.prompts.reply or "").split(".")[0]))) for c in candidates]
        self.shown.append(cares)
        return [Verdict(keep=care <= self.most, reason=f"care {care} looks bad") for care in cares]


async def test_what_the_screen_drops_costs_no_episode_and_keeps_the_screens_reason_invariant_7(
    kit: Any, make_rig: MakeRig
) -> None:
    screen = ScriptedScreen(most=0)
    rig = make_rig(screen=screen, search=searching(generations=1, candidates=1))
    await rig.run(kit.policy(20))
    rig.check()
    trial = rig.study.trials[1]
    assert (trial.decided_at, trial.accepted, trial.reason) == ("screen", False, "care 45 looks bad")
    assert trial.policy == kit.policy(45)
    assert set(spent_by([trial])) == {"propose"}
    assert screen.shown == [[45]]


async def test_each_candidate_gets_its_own_verdict_whatever_stands_between_invariant_7(
    kit: Any, make_rig: MakeRig
) -> None:
    """The screen sees no broken candidates, and its verdicts still find the right ones."""
    prompts = ["Care 90.\n{memories}", "broken", "Care 30.\n{memories}", "broken too"]
    replies = iter(prompts)
    screen = ScriptedScreen(most=50)
    rig = make_rig(
        screen=screen,
        pupil=kit.pupil(propose=lambda _: kit.reply(next(replies))),
        search=searching(generations=1, candidates=4),
    )
    await rig.run(kit.policy(20))
    rig.check()
    assert [trial.decided_at for trial in rig.study.trials[1:]] in (
        ["screen", "check", "race", "check"],
        ["screen", "check", "validate", "check"],
    )
    assert screen.shown == [[90, 30]]


async def test_the_screen_sees_each_new_candidate_once_and_none_that_was_tried_before_invariant_7(
    kit: Any, make_rig: MakeRig
) -> None:
    """A known candidate would take the place of one that the screen could drop."""
    cares = iter([90, 90, 30, 90, 30, 40])
    screen = ScriptedScreen(most=50)
    rig = make_rig(
        screen=screen,
        pupil=kit.pupil(propose=lambda _: kit.reply(f"Care {next(cares)}.\n{{memories}}")),
        search=searching(generations=2, candidates=3),
    )
    await rig.run(kit.policy(20))
    rig.check()
    assert screen.shown == [[90, 30], [40]]


async def test_the_screen_accepts_nothing_by_itself(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(pupil=kit.pupil(careless=True), screen=ScriptedScreen(most=100))
    await rig.run(kit.policy(0))
    assert not any(trial.accepted for trial in rig.study.trials[1:])


async def test_every_trial_is_told_once_it_is_written(kit: Any, make_rig: MakeRig) -> None:
    heard: list[tuple[Trial, Trial]] = []
    rig = make_rig(tell=lambda trial: heard.append((trial, rig.study.trials[-1])))
    await rig.run(kit.policy(20))
    assert [trial.number for trial, _ in heard] == [0, 1, 2, 3, 4]
    assert all(trial is written for trial, written in heard)


@pytest.mark.parametrize(("error", "score"), [(Refused("too long"), -1.0), (LanguageModelError("reset"), math.nan)])
async def test_only_users_lost_to_transport_are_left_out_of_a_race(
    kit: Any, make_rig: MakeRig, error: LanguageModelError, score: float
) -> None:
    """What the endpoint refuses a policy counts as wrong."""

    def fails(request: Request) -> bool:
        text = " ".join(message.content for message in request.messages)
        return "Care 100." in text and "train0 asks" in text

    pupil = kit.pupil(fails=fails, error=error, edits=lambda text: text.replace("Care 0.", "Care 100."))
    rig = make_rig(pupil=pupil, search=searching(generations=1, candidates=1, acceptance="train"))
    await rig.run(kit.policy(0))
    rig.check()
    trial = rig.study.trials[1]
    assert trial.train["train0"] == pytest.approx(score, nan_ok=True)


async def test_a_seed_that_fails_everywhere_ends_the_run_with_the_reason(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(pupil=kit.pupil(fails=lambda _: True))
    with pytest.raises(LanguageModelError, match="the line is dead"):
        await rig.run(kit.policy(20))
    assert rig.study.trials == ()


async def test_a_seed_that_fails_for_some_users_is_a_start(kit: Any, make_rig: MakeRig) -> None:
    pupil = kit.pupil(fails=lambda request: any("train1 asks" in message.content for message in request.messages))
    rig = make_rig(pupil=pupil, search=searching(numbers=True, generations=3))
    assert await rig.run(kit.policy(20)) == "all 3 generations are done"
    rig.check()
    assert math.isnan(rig.study.trials[0].train["train1"])


async def test_a_proposer_that_never_answers_leaves_the_numbers_to_evolve(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(
        pupil=kit.pupil(fails=lambda request: request.role == "propose"),
        search=searching(numbers=True, generations=3, proposers=("reflective", "tpe")),
    )
    assert await rig.run(kit.policy(20)) == "all 3 generations are done"
    rig.check()
    assert any(trial.decided_at in {"race", "validate"} for trial in rig.study.trials)
    texts, own = Templates.bundled(), kit.policy(20).prompts.reply
    known = {None: {None}, "external": {texts.reply_external}, "context": {own, texts.reply_context}}
    policies = [trial.policy for trial in rig.study.trials if trial.policy is not None]
    assert all(policy.prompts.reply in known[policy.store] for policy in policies)
    assert sum(policy.prompts.reply == own for policy in policies) > 1


async def test_a_policy_that_writes_evolves_its_write_prompt_too(kit: Any, make_rig: MakeRig) -> None:
    """A memory of user messages that are never evicted before the questions: what is not written is a write failure."""
    start = kit.policy(100, mode="profile", update_every=2, buffer_size=0, store="context")
    forgetful = kit.pupil(edits=lambda text: f"Note every pet.\n{text}")
    write = forgetful._write_
    forgetful._write_ = lambda request: write(request) if "Note every pet" in request.messages[-1].content else "{}"
    rig = make_rig(pupil=forgetful, search=searching(generations=1, candidates=1))
    await rig.run(start)
    rig.check()
    trial = rig.study.trials[1]
    assert trial.change.startswith("write prompt:")
    assert trial.accepted
    assert trial.policy.prompts.write == "Note every pet.\n" + Templates.bundled().starting("write_profile")


async def test_a_trial_counts_the_periods_that_its_race_and_its_look_ran(kit: Any, make_rig: MakeRig) -> None:
    """Each life has two periods."""
    rig = make_rig(search=searching(generations=3))
    await rig.run(kit.policy(20))
    looked = [trial for trial in rig.study.trials if trial.validation]
    assert len(looked) > 1
    for trial in rig.study.trials:
        raced = sum(map(len, trial.series.values()))
        assert trial.periods == raced + 2 * len(trial.validation)


@pytest.mark.parametrize(("times", "size"), [(20, 16), (4.2, 5), (3.2, 4), (0.8, 3)])
async def test_a_broad_start_is_as_large_as_the_budget_has_room_for(
    kit: Any, make_rig: MakeRig, times: float, size: int
) -> None:
    """Where there is no room for more than a usual generation, there is none."""
    search = searching(numbers=True, prompts=False, generations=1, candidates=3)
    alone = make_rig(search=searching(generations=0))
    await alone.run(kit.policy(20))
    took = alone.study.trials[0].ledger.total.calls
    rig = make_rig(search=search, limits=Limits(calls=int(took * (1 + times))))
    await rig.run(kit.policy(20))
    rig.check()
    made = rig.study.trials[1:]
    assert len(made) == size or (size == 3 and len(made) < 3)
    broad = {trial.proposer for trial in made} <= {"known", "spread"} and len(made) > 3
    assert broad == (size > 3)
