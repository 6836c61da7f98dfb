"""Which proposer makes which candidate.

Invariants, for any study so far:
1. The same trials, seed and replies give the same candidates, in whatever order the replies come.
2. There is a candidate for each slot, unless all proposers are waiting or have nothing to make one from.
3. A proposer that works alone makes one candidate of a generation at most; one that is not ready makes none.
4. A policy that the study knows, or that is there twice, is made anew a few times, and by whoever is drawn then.
5. A slot goes to who comes out best of a draw of leads per call; what took no calls does not make anybody cheap.
"""

from __future__ import annotations

import asyncio
import math
import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.optimizer.config import SearchConfig
from mnemotune.optimizer.proposers.mix import ATTEMPTS, open_proposers, pick_proposer, propose
from mnemotune.optimizer.proposers.proposer import Candidate, Means, Proposer
from mnemotune.optimizer.study import Trial
from mnemotune.policies.lm import BudgetExhausted, Limits, Message, Metered, Request
from mnemotune.policies.lm.budget import Budget
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.policy import MemoryPolicy
from mnemotune.policies.prompts import Templates


@dataclass
class Scripted:
    """A proposer that makes what it is told to, and counts how often it is asked."""

    make: Callable[[random.Random], MemoryPolicy | None]
    alone: bool = False
    explores: bool = False
    edits_prompts: bool = False
    able: bool = True
    left: float = math.inf
    asked: int = field(default=0, init=False)

    def ready(self, trials: Sequence[Trial]) -> bool:
        return self.able and self.asked < self.left

    async def propose(self, trials: Sequence[Trial], rng: random.Random) -> Candidate:
        self.asked += 1
        policy = self.make(rng)
        return Candidate(0, "as told", policy, "" if policy else "as told")


def deal(
    proposers: Mapping[str, Proposer], trials: Sequence[Trial], *, generation: int = 1, **of: int
) -> list[Candidate]:
    values = {"count": 3, "seed": 0} | of
    return asyncio.run(propose(proposers, trials, generation=generation, **values))


def proposed(
    bench: Any,
    trials: list[Trial],
    model: Any,
    *,
    generation: int = 1,
    broad: bool = False,
    edited: int = 0,
    **search: Any,
) -> list[Candidate]:
    """Let the proposers of a search make a generation's candidates."""

    async def dealt() -> list[Candidate]:
        config = SearchConfig(**search)
        with open_proposers(Means(config, Templates.bundled(), model, bench.arena(model))) as proposers:
            count, seed = config.candidates, config.seed
            return await propose(
                proposers, trials, generation=generation, count=count, seed=seed, broad=broad, edited=edited
            )

    return asyncio.run(dealt())


def reflected(bench: Any, model: Any, *, candidates: int, trials: list[Trial] | None = None) -> list[Candidate]:
    """Let the reflective proposer alone edit prompts."""
    search = {"proposers": ("reflective",), "numbers": False, "candidates": candidates}
    return proposed(bench, trials or [bench.trial()], model, **search)


def numbered(kit: Any) -> Callable[[random.Random], MemoryPolicy]:
    """Make a new policy each time."""
    counted = iter(range(1000))
    return lambda _: kit.policy(30, prompts={"reply": f"Try {next(counted)}.\n{{memories}}"})


def drawn(kit: Any) -> Callable[[random.Random], MemoryPolicy]:
    return lambda rng: kit.policy(rng.randrange(100_000))


def gepa_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "gepa"]


# A generation


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 1000), generation=st.integers(1, 9), count=st.integers(1, 5), real=st.booleans())
def test_the_same_trials_seed_and_replies_give_the_same_candidates_invariants_1_2(
    bench: Any, seed: int, generation: int, count: int, real: bool
) -> None:
    search = {"seed": seed, "candidates": count, "generation": generation}
    search["proposers"] = ("reflective", "merge", "tpe", "random", "amemgym")
    one, same = (
        proposed(bench, bench.study(), EmbeddedModel() if real else bench.kit.pupil(), **search) for _ in range(2)
    )
    assert one == same
    assert len(one) == count
    assert {candidate.proposer for candidate in one} <= {*search["proposers"]}


def test_generations_and_seeds_differ(bench: Any) -> None:
    made = [
        proposed(bench, bench.study(), bench.kit.pupil(), generation=generation, seed=seed, candidates=4)
        for generation, seed in [(1, 0), (2, 0), (1, 1)]
    ]
    assert made[0] != made[1]
    assert made[0] != made[2]


def test_the_order_in_which_replies_come_changes_nothing_invariant_1(bench: Any) -> None:
    class Slow:
        name = "slow"

        def __init__(self, turns: Sequence[int]) -> None:
            self.inner = bench.kit.pupil(edits=lambda text: f"{text}\nThink {len(text)} times.")
            self.turns = list(turns)

        async def complete(self, request: Request) -> Any:
            for _ in range(self.turns.pop()):
                await asyncio.sleep(0)
            return await self.inner.complete(request)

    trials = [bench.trial(), bench.trial(1, policy=bench.facts())]
    one, other = (
        reflected(bench, Slow(turns), candidates=5, trials=trials) for turns in ([*range(15)], [*range(15)][::-1])
    )
    assert one == other


def test_every_proposer_at_work_gets_its_turn(bench: Any) -> None:
    trials = [*bench.study(), *(bench.trial(n, policy=bench.kit.policy(n)) for n in range(8, 25))]
    names = Counter(
        candidate.proposer
        for generation in range(1, 15)
        for candidate in proposed(bench, trials, bench.kit.pupil(), generation=generation)
    )
    assert set(names) == set(SearchConfig().proposers)


def test_only_those_who_explore_make_a_broad_generation_each_as_long_as_it_has_something_new(kit: Any) -> None:
    few = Scripted(drawn(kit), explores=True, left=2)
    proposers = {"near": Scripted(drawn(kit)), "few": few, "wide": Scripted(drawn(kit), explores=True)}
    broad = [candidate.proposer for candidate in deal(proposers, [kit.trial()], count=5, broad=True)]
    assert broad == ["few", "few", "wide", "wide", "wide"]
    assert {
        candidate.proposer for candidate in deal({**proposers, "few": Scripted(drawn(kit))}, [kit.trial()], count=40)
    } == {*proposers}


def test_known_strategies_and_points_far_apart_are_the_broad_start_of_a_search_as_it_comes(bench: Any) -> None:
    """Each is made in sight of those before it, so that no two are the same."""
    made = proposed(bench, [bench.trial()], bench.kit.pupil(), broad=True, candidates=12)
    names = [candidate.proposer for candidate in made]
    assert names == ["known"] * names.count("known") + ["spread"] * names.count("spread")
    assert 6 <= names.count("known") <= 7
    assert len({candidate.policy for candidate in made}) == 12


def test_the_last_places_of_a_broad_generation_go_to_edits_of_prompts(kit: Any) -> None:
    proposers = {
        "wide": Scripted(drawn(kit), explores=True),
        "near": Scripted(drawn(kit)),
        "edits": Scripted(numbered(kit), edits_prompts=True),
    }
    made = deal(proposers, [kit.trial()], count=5, broad=True, edited=2)
    assert [candidate.proposer for candidate in made] == ["wide", "wide", "wide", "edits", "edits"]
    assert len({candidate.policy for candidate in made}) == 5


def test_a_broad_generation_in_which_nobody_can_edit_prompts_looks_everywhere(kit: Any) -> None:
    idle = Scripted(numbered(kit), edits_prompts=True, able=False)
    proposers = {"wide": Scripted(drawn(kit), explores=True), "idle": idle, "near": Scripted(drawn(kit))}
    made = deal(proposers, [kit.trial()], count=4, broad=True, edited=2)
    assert [candidate.proposer for candidate in made] == ["wide"] * 4


def test_an_editor_that_works_alone_has_one_place_of_a_broad_generation_invariant_3(kit: Any) -> None:
    alone = Scripted(numbered(kit), edits_prompts=True, alone=True)
    made = deal(
        {"wide": Scripted(drawn(kit), explores=True), "alone": alone}, [kit.trial()], count=5, broad=True, edited=2
    )
    assert [candidate.proposer for candidate in made] == ["wide", "wide", "wide", "alone"]


def lost(kit: Any, number: int, proposer: str, *, generation: int = 1) -> Trial:
    """Return a candidate's trial that never led."""
    return replace(kit.trial(number, policy=kit.policy(number)), generation=generation, proposer=proposer, calls=100)


@pytest.mark.parametrize(
    ("first", "generation", "fewer"),
    [("wide", 1, False), ("wide", 2, True), ("near", 1, True)],
    ids=["a broad start's", "later ones", "no broad start's"],
)
def test_edits_that_lost_in_a_broad_start_take_no_places_from_later_ones_invariant_5(
    kit: Any, first: str, generation: int, fewer: bool
) -> None:
    proposers = {
        "wide": Scripted(numbered(kit), explores=True),
        "near": Scripted(numbered(kit)),
        "edits": Scripted(numbered(kit), edits_prompts=True),
    }
    begun = [kit.trial(), lost(kit, 1, first)]
    edits = [lost(kit, number, "edits", generation=generation) for number in range(2, 12)]

    def places(trials: list[Trial]) -> int:
        made = deal(proposers, trials, generation=3, count=200)
        return sum(candidate.proposer == "edits" for candidate in made)

    assert (places([*begun, *edits]) < places(begun) / 2) == fewer


def test_the_reflective_proposer_edits_prompts_where_they_may_change(bench: Any) -> None:
    for prompts, names in ((True, ["spread", "spread", "reflective", "reflective"]), (False, ["spread"] * 4)):
        made = proposed(
            bench,
            [bench.trial()],
            bench.kit.pupil(),
            broad=True,
            edited=2,
            candidates=4,
            proposers=("spread", "reflective"),
            prompts=prompts,
        )
        assert [candidate.proposer for candidate in made] == names
        assert {candidate.parent for candidate in made} == {0}


def test_a_proposal_has_what_it_took_and_what_those_before_it_in_its_place_took(kit: Any) -> None:
    """Of proposals that are made side by side, each has its own."""
    model = Metered(kit.pupil(), budget=Budget(Limits()))

    @dataclass
    class Thinking(Scripted):
        async def propose(self, trials: Sequence[Trial], rng: random.Random) -> Candidate:
            made = await super().propose(trials, rng)
            for _ in range(self.asked):
                await model.complete(Request((Message("user", "And now?"),), "reply"))
            return made

    replies = iter([kit.policy(1), kit.policy(), kit.policy(2), kit.policy(3)])
    made = deal({"thinking": Thinking(lambda _: next(replies))}, [kit.trial()])
    assert [candidate.policy for candidate in made] == [kit.policy(1), kit.policy(3), kit.policy(2)]
    assert [candidate.ledger.total.calls for candidate in made] == [1, 2 + 4, 3], "the n-th takes n calls"
    assert sum(candidate.ledger.total.calls for candidate in made) == model.ledger.total.calls


def test_a_proposer_that_is_not_ready_makes_nothing_invariant_3(kit: Any) -> None:
    idle, busy = Scripted(numbered(kit), able=False), Scripted(numbered(kit))
    made = deal({"idle": idle, "busy": busy}, [kit.trial()], count=5)
    assert [candidate.proposer for candidate in made] == ["busy"] * 5
    assert idle.asked == 0
    assert deal({"idle": idle}, [kit.trial()]) == []


@given(seed=st.integers(0, 1000), count=st.integers(1, 6), alone=st.integers(0, 3), others=st.integers(0, 2))
def test_a_proposer_that_works_alone_makes_one_candidate_invariants_2_3(
    kit: Any, seed: int, count: int, alone: int, others: int
) -> None:
    """It must see what became of that one before it makes another."""
    proposers = {f"alone{i}": Scripted(numbered(kit), alone=True) for i in range(alone)}
    proposers |= {f"other{i}": Scripted(drawn(kit)) for i in range(others)}
    names = Counter(candidate.proposer for candidate in deal(proposers, [kit.trial()], count=count, seed=seed))
    assert sum(names.values()) == (count if others else min(count, alone))
    assert all(times == 1 for name, times in names.items() if name.startswith("alone"))
    assert all(proposers[f"alone{i}"].asked <= 1 for i in range(alone))


# What is known already


def test_a_refused_proposal_is_not_asked_for_again_invariant_4(bench: Any) -> None:
    """Its reason is worth writing down."""
    pupil = bench.kit.pupil(edits=lambda _: "no slots")
    assert [candidate.policy for candidate in reflected(bench, pupil, candidates=3)] == [None] * 3
    assert len(pupil.requests) == 3


def test_a_proposal_that_is_known_already_is_made_anew_a_few_times_invariant_4(bench: Any) -> None:
    pupil = bench.kit.pupil(edits=lambda text: text)
    made = reflected(bench, pupil, candidates=2)
    assert [candidate.policy for candidate in made] == [bench.kit.policy()] * 2
    assert len(pupil.requests) == 2 * ATTEMPTS


def test_the_same_proposal_in_two_slots_is_made_anew_in_one_of_them_invariant_4(bench: Any) -> None:
    replies = iter(["first", "first", "second", "third"])
    pupil = bench.kit.pupil(propose=lambda _: bench.kit.reply(f"{next(replies)}: {{memories}}"))
    made = reflected(bench, pupil, candidates=2)
    texts = [candidate.policy.prompts.reply for candidate in made if candidate.policy is not None]
    assert texts == ["first: {memories}", "second: {memories}"]
    assert len(pupil.requests) == 3


def test_what_was_only_screened_or_lost_is_known_too_invariant_4(bench: Any) -> None:
    known, pupil = bench.kit.policy(55), bench.kit.pupil()
    trials = [bench.trial(), bench.kit.trial(1, policy=known, decided_at="screen", train={}, summary=None)]
    (candidate,) = reflected(bench, pupil, candidates=1, trials=trials)
    assert candidate.policy == known
    assert len(pupil.requests) == ATTEMPTS


def test_a_slot_that_brought_nothing_new_goes_to_whoever_is_drawn_next_invariant_4(kit: Any) -> None:
    """A proposer that has nothing to say leaves no slot empty."""
    dull, lively = Scripted(lambda _: kit.policy()), Scripted(numbered(kit))
    made = [
        candidate.policy
        for seed in range(40)
        for candidate in deal({"dull": dull, "lively": lively}, [kit.trial()], count=1, seed=seed)
    ]
    assert made.count(kit.policy()) < 40 / 4, "an eighth is to be expected"
    assert dull.asked > 20


def test_a_proposer_that_works_alone_is_not_asked_for_the_same_slot_again_invariant_3(kit: Any) -> None:
    dull = Scripted(lambda _: kit.policy(), alone=True)
    (candidate,) = deal({"dull": dull}, [kit.trial()])
    assert (candidate.proposer, candidate.policy, dull.asked) == ("dull", kit.policy(), 1)


# Who gets more


def judged(kit: Any, proposer: str, *, led: int, lost: int, calls: int = 100) -> list[Trial]:
    """Make trials of a proposer; without calls, they are such as were refused or known before."""
    return [kit.trial(n + 1, proposer=proposer, led=n < led, calls=calls) for n in range(led + lost)]


def shares(trials: list[Trial], names: Sequence[str]) -> dict[str, float]:
    rng = random.Random(0)
    picked = Counter(pick_proposer(names, trials, rng) for _ in range(1000))
    return {name: picked[name] / 1000 for name in names}


def test_proposers_of_which_nothing_is_known_get_equal_shares(kit: Any) -> None:
    found = shares([kit.trial()], ["a", "b", "c", "d"])
    assert all(share == pytest.approx(1 / 4, abs=0.05) for share in found.values())


def test_a_proposer_whose_candidates_lead_gets_more_and_an_untried_one_is_not_starved(kit: Any) -> None:
    trials = judged(kit, "good", led=6, lost=4) + judged(kit, "bad", led=0, lost=10)
    found = shares(trials, ["good", "bad", "new"])
    assert found["good"] > found["new"] > found["bad"]
    assert found["new"] > 0.2


def test_a_share_follows_the_posterior(kit: Any) -> None:
    """Of two draws from Beta(2, 1) and Beta(1, 2) the first is the higher in five cases out of six."""
    trials = judged(kit, "a", led=1, lost=0) + judged(kit, "b", led=0, lost=1)
    assert shares(trials, ["a", "b"])["a"] == pytest.approx(5 / 6, abs=0.04)


def test_what_led_on_train_users_counts_whether_it_was_accepted_or_not(kit: Any) -> None:
    """A look refuses much that is better; with ``acceptance: train`` there are none."""
    accepted = [kit.trial(n, proposer="a", calls=100, accepted=True, decided_at="validate") for n in range(1, 9)]
    found = shares(accepted + judged(kit, "b", led=8, lost=0), ["a", "b"])
    assert found["b"] > 0.95


def test_a_lead_that_takes_twice_the_calls_is_worth_half(kit: Any) -> None:
    dear, cheap = judged(kit, "dear", led=40, lost=40, calls=2000), judged(kit, "cheap", led=20, lost=60, calls=1000)
    assert shares(dear + cheap, ["dear", "cheap"])["dear"] == pytest.approx(0.5, abs=0.06)


def test_of_equals_the_one_whose_candidates_take_fewer_calls_gets_more(kit: Any) -> None:
    trials = judged(kit, "dear", led=3, lost=7, calls=900) + judged(kit, "cheap", led=3, lost=7, calls=300)
    assert shares(trials, ["dear", "cheap"])["cheap"] > 0.85


def test_one_that_was_not_tried_is_taken_to_cost_the_usual(kit: Any) -> None:
    """So that its share does not depend on whether calls are counted in tens or in thousands."""
    for calls in (10, 10_000):
        found = shares(judged(kit, "old", led=1, lost=1, calls=calls), ["old", "new"])
        assert found["new"] == pytest.approx(0.5, abs=0.05)


def test_proposals_that_come_to_nothing_for_free_are_failures_and_not_cheap(kit: Any) -> None:
    """Else a proposer that makes nothing but what is known already would take every slot."""
    trials = judged(kit, "good", led=5, lost=15) + judged(kit, "dull", led=0, lost=20, calls=0)
    assert shares(trials, ["good", "dull"])["dull"] < 0.1


@given(factor=st.sampled_from([0.5, 3, 1000]), seed=st.integers(0, 99), data=st.data())
def test_only_the_relation_of_calls_counts(kit: Any, factor: float, seed: int, data: st.DataObject) -> None:
    calls = data.draw(st.lists(st.integers(1, 50).map(lambda value: 2 * value), min_size=4, max_size=4))
    trials = [kit.trial(n, proposer="ab"[n % 2], led=n == 1, calls=taken) for n, taken in enumerate(calls, start=1)]
    scaled = [replace(trial, calls=round(trial.calls * factor)) for trial in trials]
    one, other = (pick_proposer(["a", "b"], found, random.Random(seed)) for found in (trials, scaled))
    assert one == other


# Spending


def test_an_exhausted_budget_ends_the_proposing(bench: Any) -> None:
    pupil = bench.kit.pupil(edits=lambda text: text + "!")
    with pytest.raises(BudgetExhausted):
        reflected(bench, Metered(pupil, budget=Budget(Limits(calls=1))), candidates=3)
    assert len(pupil.requests) <= 1


def test_an_exhausted_budget_of_one_proposer_ends_all_of_them_and_leaves_no_thread(bench: Any) -> None:
    """Where gepa has spent it, gepa's thread has ended too; where another has, ``open_proposers`` ends it."""
    for calls in range(0, 30, 3):
        model = Metered(bench.kit.pupil(), budget=Budget(Limits(calls=calls)))
        with pytest.raises(BudgetExhausted):
            proposed(bench, bench.study(), model, candidates=6, proposers=("gepa", "reflective", "amemgym"))
        assert gepa_threads() == []


def test_every_proposal_is_billed_as_one(bench: Any) -> None:
    pupil = bench.kit.pupil()
    reflected(bench, pupil, candidates=4, trials=bench.study())
    assert pupil.requests
    assert pupil.asked("propose") == pupil.requests
