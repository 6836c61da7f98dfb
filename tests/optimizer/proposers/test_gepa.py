"""The gepa library as a proposer.

Invariants:
1. A candidate is the seed policy with other prompts, and was better than what it was made from on a minibatch of train
   users; no user is met twice by a policy, its race included, unless that race was lost early.
2. The same study gives the same candidates, also where gepa starts anew from it, as in a resumed run.
3. However it ends, no thread is left, and no call is made afterwards.
"""

from __future__ import annotations

import asyncio
import random
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.optimizer.config import SearchConfig
from mnemotune.optimizer.proposers.gepa import MINIBATCH, PATIENCE
from mnemotune.optimizer.proposers.proposer import Candidate, Proposer
from mnemotune.optimizer.study import Trial
from mnemotune.policies.lm import BudgetExhausted, Limits, Metered, Request
from mnemotune.policies.lm.budget import Budget
from mnemotune.policies.policy import MemoryPolicy


def thinking(text: str) -> str:
    return f"{text}\nThink {len(text)} times."


def by_chance(request: Request) -> str:
    """Write another prompt for each request."""
    return f"Think {zlib.crc32(request.messages[-1].content.encode()) % 1000} times.\n{{memories}}"


@dataclass
class Course:
    """A search in which every candidate is raced against its parent, as in the loop."""

    bench: Any
    pupil: Any
    seed: MemoryPolicy | None = None
    users: int = 4
    trials: list[Trial] = field(default_factory=list)
    met: list[tuple[str, str]] = field(default_factory=list)
    """Every policy and user, in the order of their episodes."""

    def __post_init__(self) -> None:
        self.arena = self.bench.arena(
            self.pupil, users=self.users, done=lambda episode: self.met.append((episode.policy_key, episode.task))
        )

    async def step(self, proposer: Proposer, *, judged: bool) -> Candidate:
        if not self.trials:
            self.trials.append(await self.judge(Candidate(0, "the seed", self.seed or self.bench.kit.policy(0))))
        found = await proposer.propose(self.trials, random.Random(0))
        if judged:
            self.trials.append(await self.judge(found))
        return found

    async def judge(self, found: Candidate) -> Trial:
        number, raced = len(self.trials), {"train": {}, "series": {}, "summary": None, "evidence": ()}
        if found.policy is not None:
            race = await self.arena.race(found.policy, [self.trials[found.parent]] if self.trials else [])
            raced = {"train": race.scores, "series": race.series, "summary": race.summary, "evidence": race.evidence}
        values = {"proposer": "gepa" if number else "", "parent": found.parent, "policy": found.policy, **raced}
        trial: Trial = self.bench.kit.trial(number, **values)
        return trial

    def run(self, steps: int, *, judged: bool = True, **search: Any) -> list[Candidate]:
        """Propose so often; the last candidate may be left without its race."""

        async def made() -> list[Candidate]:
            with self.bench.opened("gepa", model=self.pupil, arena=self.arena, **search) as proposer:
                return [await self.step(proposer, judged=judged or n < steps - 1) for n in range(steps)]

        return asyncio.run(made())


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "gepa"]


# Candidates


def test_candidate_comes_after_candidate_each_made_from_the_best_so_far_invariant_1(bench: Any) -> None:
    course = Course(bench, bench.kit.pupil())
    made = course.run(4)
    assert [bench.kit.care(found.policy) for found in made] == [25, 50, 75, 100]
    assert [found.parent for found in made] == [0, 1, 2, 3]
    assert {found.change for found in made} == {"gepa: reply prompt changed"}
    assert threads() == []


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 99), users=st.integers(2, 4))
def test_a_candidate_is_the_seed_with_other_prompts_that_were_better_on_a_minibatch_invariant_1(
    bench: Any, seed: int, users: int
) -> None:
    """Here answers are a matter of luck, so that what was better on a minibatch is often no better in its race."""
    course = Course(bench, bench.kit.pupil(lucky=True, edits=thinking), users=users)
    made = course.run(4, seed=seed)
    assert max(Counter(course.met).values()) == 1
    first = course.trials[0].policy
    for found, trial in zip(made, course.trials[1:], strict=True):
        assert (found.policy is None) == bool(found.problem)
        parent = course.trials[found.parent]
        assert parent.finished_race
        if found.policy is not None:
            assert first is not None
            assert found.policy.model_copy(update={"prompts": first.prompts}) == first
            assert any(score > parent.train[user] for user, score in trial.train.items())


def test_a_minibatch_is_some_of_the_train_users_and_is_part_of_the_race(bench: Any) -> None:
    """What its first users have shown is not asked again."""
    course = Course(bench, bench.kit.pupil(), users=4)
    (found,) = course.run(1, judged=False)
    users = {user for key, user in course.met if key == found.policy.key}
    assert len(course.met) == 4 + MINIBATCH
    assert len(users) == MINIBATCH
    assert users < course.trials[0].train.keys()
    asyncio.run(course.judge(found))
    assert len(course.met) == 4 + 4


async def after_a_race(bench: Any, users: int, **race: Any) -> Candidate:
    """Return what gepa proposes after its first candidate, which asks for 25 cares, has raced so."""
    pupil, all_users = bench.kit.pupil(), [f"train{i}" for i in range(4)]
    trials = [bench.trial(policy=bench.kit.policy(0), train=dict.fromkeys(all_users, -0.9))]
    with bench.opened("gepa", model=pupil, arena=bench.arena(pupil, users=4)) as proposer:
        first = await proposer.propose(trials, random.Random(0))
        score = race.pop("score")
        trials.append(bench.trial(1, policy=first.policy, train=dict.fromkeys(all_users[:users], score), **race))
        found: Candidate = await proposer.propose(trials, random.Random(0))
        return found


async def test_what_won_its_race_is_what_gepa_goes_on_from(bench: Any) -> None:
    found = await after_a_race(bench, 4, score=-0.5)
    assert (found.parent, bench.kit.care(found.policy)) == (1, 50)


async def test_what_lost_its_race_is_not_gone_on_from(bench: Any) -> None:
    """What it was made from is reflected on again, to no avail: the pupil has nothing else to say."""
    found = await after_a_race(bench, 4, score=-1.0)
    assert (found.parent, found.policy) == (0, None)


async def test_what_is_made_of_a_prompt_whose_race_was_lost_early_counts_as_made_of_that_ones_parent(
    bench: Any,
) -> None:
    """gepa goes on from it, since its first users did well; the search can compare only with a whole race."""
    found = await after_a_race(bench, 2, score=1.0, summary=None)
    assert (found.parent, bench.kit.care(found.policy)) == (0, 50)


@pytest.mark.parametrize("slots", [("write", "merge", "reply"), ("merge", "reply")])
def test_each_prompt_that_may_change_has_its_turn(bench: Any, slots: tuple[str, ...]) -> None:
    pupil = bench.kit.pupil(edits=lambda text: text)
    Course(bench, pupil, seed=bench.facts()).run(1, slots=slots)
    asked = [list(bench.kit.shown(pupil, "current_prompts", number)) for number in range(PATIENCE)]
    assert asked == [[slots[number % len(slots)]] for number in range(PATIENCE)]


def test_the_prompt_engineer_sees_failures_of_the_minibatch_alone(bench: Any) -> None:
    pupil = bench.kit.pupil()
    Course(bench, pupil).run(1, failures_shown=2)
    for request in pupil.asked("propose"):
        assert 1 <= request.messages[-1].content.count("Stage: ") <= 2
    assert list(bench.kit.shown(pupil, "current_prompts")) == ["reply"]
    assert bench.kit.shown(pupil, "current_numbers") == {}


def test_there_must_be_prompts_that_may_change_and_two_users(bench: Any) -> None:
    assert bench.ready("gepa", [bench.trial()])
    assert not bench.ready("gepa", [bench.trial()], slots=("write", "merge"))
    assert not bench.ready("gepa", [bench.trial(train={"train0": 0.5})])


# Nothing better


@pytest.mark.parametrize(
    ("edits", "told"),
    [
        (lambda text: text, ""),
        (lambda text: text.replace("{memories}", ""), "; the last that was refused: prompts.reply: lacks {memories}"),
    ],
)
def test_where_nothing_is_better_a_proposal_comes_to_nothing_and_the_next_one_goes_on(
    bench: Any, edits: Callable[[str], str], told: str
) -> None:
    course = Course(bench, bench.kit.pupil(edits=edits))
    first, second = course.run(2)
    assert first == second == Candidate(0, "gepa: no prompt changed", None, first.problem)
    assert first.problem == f"nothing new was better on its minibatch in {PATIENCE} attempts{told}"
    assert len(course.pupil.asked("propose")) == 2 * PATIENCE


def test_patience_starts_anew_with_each_candidate(bench: Any) -> None:
    """Once all care is taken, nothing can be better."""
    asked = {}
    for steps in (4, 5):
        course = Course(bench, bench.kit.pupil())
        last = course.run(steps)[-1]
        assert (last.policy is None) == (steps == 5)
        asked[steps] = len(course.pupil.asked("propose"))
    assert asked[5] - asked[4] == PATIENCE


def test_a_prompt_that_is_refused_is_not_played_and_never_better_even_below_zero(bench: Any) -> None:
    """Memory scores may be negative: 0 would be better than the seed's."""
    course = Course(bench, bench.kit.pupil(edits=lambda _: "no slots"))
    (found,) = course.run(1)
    assert found.policy is None
    assert max(course.trials[0].train.values()) < 0
    assert {key for key, _ in course.met} == {course.trials[0].policy.key}  # type: ignore[union-attr]


def test_a_user_whose_episode_failed_says_nothing_for_or_against_a_prompt(bench: Any) -> None:
    def fails(request: Request) -> bool:
        return request.role == "answer" and "train1" in request.messages[-1].content

    course = Course(bench, bench.kit.pupil(fails=fails))
    assert [bench.kit.care(found.policy) for found in course.run(2)] == [25, 50]


# Going on


def test_what_was_left_at_its_first_look_is_not_proposed_again_invariant_2(bench: Any) -> None:
    """No user's life was played to its end; gepa hears of the periods that there are."""
    begun = Course(bench, bench.kit.pupil())
    (first,) = begun.run(1, judged=False)
    begins = dict.fromkeys(begun.trials[0].train, (0.9,))
    left = bench.trial(1, policy=first.policy, train={}, series=begins, summary=None)
    (found,) = Course(bench, bench.kit.pupil(), trials=[*begun.trials, left]).run(1, judged=False)
    assert [bench.kit.care(candidate.policy) for candidate in (first, found)] == [25, 50]


def test_a_resumed_study_goes_on_as_one_that_never_stopped_invariant_2(bench: Any) -> None:
    """By luck alone its candidates lose their races, some of them early."""

    def course(trials: Sequence[Trial] = ()) -> Course:
        pupil = bench.kit.pupil(lucky=True, propose=lambda request: bench.kit.reply(by_chance(request)))
        return Course(bench, pupil, seed=bench.kit.policy(30), users=6, trials=list(trials))

    whole = course()
    made = whole.run(6, seed=0)
    kinds = [(trial.policy is not None, trial.finished_race) for trial in whole.trials[1:6]]
    assert (True, False) in kinds
    for done in range(6):
        assert course(whole.trials[: done + 1]).run(1, judged=False, seed=0) == made[done : done + 1]


def test_a_whole_run_that_was_stopped_anywhere_ends_like_one_that_was_not_invariant_2(
    kit: Any, make_rig: Callable[..., Any], make_storage: Callable[[], str]
) -> None:
    def rig(storage: str, generations: int) -> Any:
        search = SearchConfig(generations=generations, candidates=2, proposers=("gepa",))
        made = make_rig(storage=storage, search=search, pupil=kit.pupil(), splits=kit.splits(train=5))
        asyncio.run(made.run(kit.policy(0)))
        return made

    whole = rig(make_storage(), 5)
    storage = make_storage()
    for generations in range(1, 6):
        stopped = rig(storage, generations)
    assert [kit.told(trial, spend=False) for trial in stopped.study.trials] == [
        kit.told(trial, spend=False) for trial in whole.study.trials
    ]
    assert [trial.generation for trial in whole.study.trials] == [0, 1, 2, 3, 4, 5]
    assert {trial.proposer for trial in whole.study.trials[1:]} == {"gepa"}


# The end


def calls_of_two_proposals(bench: Any) -> int:
    course = Course(bench, bench.kit.pupil())
    course.run(2)
    return len(course.pupil.requests)


def test_a_budget_that_ends_anywhere_comes_out_and_ends_the_thread_invariant_3(bench: Any) -> None:
    """Within the seed's race, a minibatch, a reflection or a candidate's race."""
    last_roles = set()
    for calls in range(0, calls_of_two_proposals(bench), 3):
        pupil = bench.kit.pupil()
        course = Course(bench, Metered(pupil, budget=Budget(Limits(calls=calls))))
        with pytest.raises(BudgetExhausted, match=f"the budget of {calls} calls is spent"):
            course.run(2)
        assert len(pupil.requests) <= calls
        assert threads() == []
        last_roles |= {request.role for request in pupil.requests[-1:]}
    assert {"answer", "propose"} <= last_roles


async def test_once_the_budget_is_spent_every_proposal_says_so(bench: Any) -> None:
    model = Metered(bench.kit.pupil(), budget=Budget(Limits(calls=3)))
    with bench.opened("gepa", model=model) as proposer:
        for _ in range(3):
            with pytest.raises(BudgetExhausted):
                await proposer.propose([bench.trial()], random.Random(0))


class Stuck:
    """A model whose call of a number is never answered."""

    name = "stuck"

    def __init__(self, pupil: Any, *, at: int) -> None:
        self.pupil, self.at, self.reached = pupil, at, asyncio.Event()

    async def complete(self, request: Request) -> Any:
        if len(self.pupil.requests) == self.at:
            self.reached.set()
            await asyncio.Event().wait()
        return await self.pupil.complete(request)


@pytest.mark.parametrize("at", [0, 1, 5, 12])
async def test_closing_ends_it_whatever_it_waits_for_invariant_3(bench: Any, at: int) -> None:
    stuck = Stuck(bench.kit.pupil(), at=at)
    with bench.opened("gepa", model=stuck) as proposer:
        proposal = asyncio.create_task(proposer.propose([bench.trial()], random.Random(0)))
        await stuck.reached.wait()
        assert threads() == ["gepa"]
    assert threads() == []
    with pytest.raises(RuntimeError, match="gepa was stopped"):
        await proposal
    assert len(stuck.pupil.requests) == at


async def test_closing_ends_it_after_a_candidate_and_before_the_first(bench: Any) -> None:
    pupil = bench.kit.pupil()
    with bench.opened("gepa", model=pupil):
        assert threads() == []
    with bench.opened("gepa", model=pupil) as proposer:
        await proposer.propose([bench.trial()], random.Random(0))
        assert threads() == ["gepa"]
    assert threads() == []


async def test_a_proposal_that_nobody_waits_for_any_more_ends_with_the_search(bench: Any) -> None:
    """Another proposer has ended the search meanwhile."""
    stuck = Stuck(bench.kit.pupil(), at=3)
    with bench.opened("gepa", model=stuck) as proposer:
        proposal = asyncio.create_task(proposer.propose([bench.trial()], random.Random(0)))
        await stuck.reached.wait()
        proposal.cancel()
        with pytest.raises(asyncio.CancelledError):
            await proposal
    assert threads() == []
    assert len(stuck.pupil.requests) == 3


@pytest.mark.parametrize("slots", [("reply",), ("write", "reply")])
async def test_an_error_of_the_arena_is_heard(bench: Any, slots: Sequence[str]) -> None:
    class Broken:
        async def play(self, policy: MemoryPolicy, users: Sequence[str]) -> Any:
            raise ZeroDivisionError("the arena is broken")

    with (
        bench.opened("gepa", arena=Broken(), slots=slots) as proposer,
        pytest.raises(ZeroDivisionError, match="the arena is broken"),
    ):
        await proposer.propose([bench.trial()], random.Random(0))
    assert threads() == []
