"""Candidates: what a generation proposes.

Invariants, for any study so far:
1. The same trials, config and replies give the same candidates.
2. There is one candidate per slot; it has a policy, or the reason why it has none.
3. A parent is a trial whose race was finished.
4. What the search may not change stays as the parent has it.
5. A candidate's parameters are its policy's.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.optimizer.config import SearchConfig
from mnemotune.optimizer.proposers.candidates import ATTEMPTS, Candidate, propose
from mnemotune.optimizer.proposers.numbers import point_of
from mnemotune.optimizer.study import Evidence, Trial
from mnemotune.policies.lm import BudgetExhausted, LanguageModel, Limits, Metered, Request
from mnemotune.policies.lm.budget import Budget
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.policy import load_policy
from mnemotune.policies.prompts import default_templates

NAN = math.nan
OF_EACH_STAGE = tuple(
    Evidence(stage, f'Stage: {stage}\nQuestion: Which {word}?\nThe user said: "I like {word}."\nMemory held:\n- {word}')
    for stage in ("write", "read", "utilisation")
    for word in ("tea", "rain", "jazz")
)


def proposed(trials: list[Trial], model: Any, *, generation: int = 1, **search: Any) -> list[Candidate]:
    return asyncio.run(propose(trials, generation=generation, search=SearchConfig(**search), model=model))


def seed_trial(kit: Any, **values: Any) -> Trial:
    return kit.trial(0, **{"evidence": OF_EACH_STAGE} | values)


def facts(kit: Any, care: int = 30) -> Any:
    return kit.policy(care, mode="facts", update_every=2, buffer_size=4, store="external", top_k=30)


@pytest.fixture
def trials(kit: Any) -> list[Trial]:
    """A study with every kind of trial."""
    odd = {"train": {}, "summary": {}}
    return [
        seed_trial(kit),
        kit.trial(1, policy=facts(kit), evidence=OF_EACH_STAGE, train={"train0": 0.5, "train1": 0.1}),
        kit.trial(2, policy=None, stage="check", **odd),
        kit.trial(3, policy=kit.policy(31), stage="check", **odd),
        kit.trial(4, policy=kit.policy(32), stage="screen", **odd),
        kit.trial(5, policy=kit.policy(33), summary={}, train={"train0": 0.9}),
        kit.trial(6, policy=kit.policy(34), train={"train0": NAN, "train1": NAN}),
        kit.trial(7, policy=kit.policy(35), stage="validate", accepted=True, evidence=OF_EACH_STAGE),
    ]


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 1000), generation=st.integers(1, 9), count=st.integers(1, 5), real=st.booleans())
def test_the_same_trials_config_and_replies_give_the_same_candidates_invariants_1_2_5(
    kit: Any, seed: int, generation: int, count: int, real: bool
) -> None:
    trials = [seed_trial(kit), kit.trial(1, policy=facts(kit), evidence=OF_EACH_STAGE)]
    search = {"seed": seed, "candidates": count}
    one, same = (
        proposed(list(trials), EmbeddedModel() if real else kit.pupil(), generation=generation, **search)
        for _ in range(2)
    )
    assert one == same
    assert len(one) == count
    for candidate in one:
        assert candidate.change
        assert (candidate.policy is None) == bool(candidate.problem)
        if candidate.policy is not None:
            place = point_of(candidate.policy, SearchConfig().space)
            assert candidate.params == ({} if place is None else place.point)
            assert candidate.distributions == ({} if place is None else place.distributions)


def test_a_prompt_that_the_parent_has_not_is_the_one_of_the_texts_given(kit: Any) -> None:
    texts = default_templates().model_copy(
        update={"write_facts": "Mine: {conversation}", "reply_external": "{memories}"}
    )
    space = {"modes": ["facts"], "stores": ["external"]}
    search = SearchConfig.model_validate({"prompts": False, "candidates": 9, "space": space})
    made = asyncio.run(propose([seed_trial(kit)], generation=1, search=search, model=kit.pupil(), templates=texts))
    jumps = [candidate.policy for candidate in made if candidate.policy and candidate.policy.write.mode == "facts"]
    assert jumps
    for policy in jumps:
        assert (policy.prompts.write, policy.prompts.reply) == ("Mine: {conversation}", "{memories}")
        assert policy.prompts.answer == seed_trial(kit).policy.prompts.answer  # type: ignore[union-attr]


def test_generations_and_seeds_differ(kit: Any) -> None:
    base = [seed_trial(kit)]
    made = [
        proposed(base, kit.pupil(), generation=generation, seed=seed, candidates=4)
        for generation, seed in [(1, 0), (2, 0), (1, 1)]
    ]
    assert made[0] != made[1]
    assert made[0] != made[2]


def test_the_order_in_which_replies_come_changes_nothing_invariant_1(kit: Any) -> None:
    class Slow(LanguageModel):
        name = "slow"

        def __init__(self, delays: list[float]) -> None:
            self.inner, self.delays = kit.pupil(edits=lambda text: f"{text}\nThink {len(text)} times."), delays

        async def complete(self, request: Request) -> Any:
            await asyncio.sleep(self.delays.pop())
            return await self.inner.complete(request)

    trials = [seed_trial(kit), kit.trial(1, policy=facts(kit), evidence=OF_EACH_STAGE)]
    search = {"candidates": 5, "numbers": False}
    one = proposed(trials, Slow([0.0, 0.005, 0.01, 0.015, 0.02] * 5), **search)
    other = proposed(trials, Slow([0.02, 0.015, 0.01, 0.005, 0.0] * 5), **search)
    assert one == other


def test_parents_have_finished_their_race_invariant_3(kit: Any, trials: list[Trial]) -> None:
    parents = {
        candidate.parent for seed in range(30) for candidate in proposed(trials, kit.pupil(), seed=seed, candidates=3)
    }
    assert parents == {0, 1, 7}


def test_parents_are_best_for_some_user_and_the_one_accepted_last_leads(kit: Any) -> None:
    trials = [
        seed_trial(kit, train={"a": 0.9, "b": 0.2, "c": 0.2}),
        kit.trial(1, policy=kit.policy(40), train={"a": 0.1, "b": 0.1, "c": 0.1}),
        kit.trial(2, policy=kit.policy(50), train={"a": 0.3, "b": 0.9, "c": 0.1}),
        kit.trial(3, policy=kit.policy(60), stage="validate", accepted=True, train={"a": 0.5, "b": 0.5, "c": 0.5}),
    ]
    parents = [
        candidate.parent
        for seed in range(60)
        for candidate in proposed(trials, kit.pupil(), seed=seed, candidates=4, prompts=False)
    ]
    share = {number: parents.count(number) / len(parents) for number in range(4)}
    assert share[1] == 0
    assert share[0] == pytest.approx(1 / 6, abs=0.07)
    assert share[2] == pytest.approx(1 / 6, abs=0.07)
    assert share[3] == pytest.approx(4 / 6, abs=0.1)


def test_a_user_whose_episode_failed_under_the_seed_can_still_make_another_a_parent(kit: Any) -> None:
    trials = [
        seed_trial(kit, train={"a": NAN, "b": 0.9}),
        kit.trial(1, policy=kit.policy(40), train={"a": 0.8, "b": 0.1}),
    ]
    parents = {
        candidate.parent
        for seed in range(20)
        for candidate in proposed(trials, kit.pupil(), seed=seed, candidates=3, prompts=False)
    }
    assert parents == {0, 1}


def test_without_prompts_no_prompt_is_edited_and_no_call_is_made_invariant_4(kit: Any, trials: list[Trial]) -> None:
    pupil = kit.pupil()
    for seed in range(15):
        for candidate in proposed(trials, pupil, seed=seed, candidates=3, prompts=False):
            assert candidate.policy is not None
            parent = trials[candidate.parent].policy
            assert parent is not None
            assert candidate.policy.prompts.answer == parent.prompts.answer
            assert "prompt:" not in candidate.change
    assert pupil.requests == []


@pytest.mark.parametrize("slot", ["write", "answer"])
def test_only_the_slots_that_are_named_evolve_invariant_4(kit: Any, slot: str) -> None:
    seed = seed_trial(kit)
    assert seed.policy is not None
    before = seed.policy.prompts.model_dump()
    for candidate in proposed([seed], kit.pupil(), candidates=4, numbers=False, slots=(slot,)):
        assert candidate.policy is not None
        after = candidate.policy.prompts.model_dump()
        assert {name for name in before if before[name] != after[name]} <= {slot}


def test_without_numbers_only_prompts_change_invariant_4(kit: Any, trials: list[Trial]) -> None:
    pupil = kit.pupil(edits=lambda text: f"{text}\nThink.")
    changed = 0
    for seed in range(15):
        for candidate in proposed(trials, pupil, seed=seed, candidates=3, numbers=False):
            assert candidate.policy is not None
            parent = trials[candidate.parent].policy
            assert parent is not None
            assert candidate.policy.model_copy(update={"prompts": parent.prompts}) == parent
            assert "numbers:" not in candidate.change
            changed += candidate.policy != parent
    assert changed > 30


def test_with_both_each_kind_of_move_is_made(kit: Any, trials: list[Trial]) -> None:
    moves = {
        ("numbers:" in candidate.change, "prompt:" in candidate.change)
        for seed in range(15)
        for candidate in proposed(trials, kit.pupil(), seed=seed, candidates=3)
    }
    assert moves == {(True, False), (False, True), (True, True)}


@pytest.mark.parametrize(("stage", "slot"), [("write", "write"), ("read", "merge"), ("utilisation", "answer")])
def test_the_prompt_that_failures_belong_to_is_edited(kit: Any, stage: str, slot: str) -> None:
    evidence = tuple(item for item in OF_EACH_STAGE if item.stage == stage)
    trials = [seed_trial(kit, policy=facts(kit), evidence=evidence)]
    pupil = kit.pupil(edits=lambda text: f"{text}\nThink.")
    (candidate,) = proposed(trials, pupil, candidates=1, numbers=False)
    assert candidate.change == f"{slot} prompt: More care helps."
    before, after = (policy.prompts.model_dump() for policy in (trials[0].policy, candidate.policy))
    assert {name for name in before if before[name] != after[name]} == {slot}
    assert f"Stage: {stage}" in pupil.requests[0].messages[-1].content


def test_stages_that_fail_more_are_worked_on_more(kit: Any) -> None:
    summary = {"accuracy": 0.1, "shares": {"write": 0.8, "read": 0.0, "utilisation": 0.1}, "failures": []}
    trials = [seed_trial(kit, policy=facts(kit), summary=summary)]
    pupil = kit.pupil(edits=lambda text: f"{text}\nThink.")
    slots = [
        candidate.change.split()[0]
        for seed in range(80)
        for candidate in proposed(trials, pupil, seed=seed, candidates=1, numbers=False)
    ]
    assert slots.count("write") > 60
    assert slots.count("answer") > 2
    assert slots.count("merge") == 0


def test_no_more_failures_are_shown_than_the_config_allows_and_all_of_one_stage(kit: Any) -> None:
    pupil = kit.pupil(edits=lambda text: f"{text}\nThink.")
    proposed([seed_trial(kit, policy=facts(kit))], pupil, candidates=4, numbers=False, failures_shown=2)
    for request in pupil.requests:
        shown = request.messages[-1].content
        stages = {stage: shown.count(f"Stage: {stage}") for stage in ("write", "read", "utilisation")}
        assert sorted(stages.values()) == [0, 0, 2]


def test_a_trial_without_failures_keeps_its_prompts_and_costs_no_call(kit: Any) -> None:
    pupil = kit.pupil()
    (candidate,) = proposed([seed_trial(kit, evidence=())], pupil, candidates=1, numbers=False)
    assert pupil.requests == []
    assert candidate.policy == kit.policy()
    assert candidate.change == "no change"


def test_a_prompt_that_is_too_long_is_refused_with_the_reason(kit: Any) -> None:
    pupil = kit.pupil(edits=lambda text: text + "x" * 500)
    (candidate,) = proposed([seed_trial(kit)], pupil, candidates=1, numbers=False, longest_prompt=300)
    assert candidate.policy is None
    length = len(kit.policy().prompts.answer) + 500
    assert candidate.problem == f"prompts.answer: {length} characters are above search.longest_prompt"
    assert candidate.change == "answer prompt: More care helps."


def test_a_prompt_as_long_as_allowed_is_taken(kit: Any) -> None:
    seed = seed_trial(kit)
    assert seed.policy is not None
    allowed = len(seed.policy.prompts.answer or "") + 50
    pupil = kit.pupil(edits=lambda text: text + "x" * 50)
    (candidate,) = proposed([seed], pupil, candidates=1, numbers=False, longest_prompt=allowed)
    assert candidate.policy is not None


def test_a_prompt_that_lost_a_slot_is_refused_naming_it(kit: Any) -> None:
    pupil = kit.pupil(edits=lambda text: text.replace("{choices}", "the choices"))
    (candidate,) = proposed([seed_trial(kit)], pupil, candidates=1, numbers=False)
    assert candidate.policy is None
    assert candidate.problem == "prompts.answer: lacks {choices}"
    assert candidate.parent == 0


def test_a_refused_proposal_is_not_asked_for_again(kit: Any) -> None:
    """Its reason is worth writing down."""
    pupil = kit.pupil(edits=lambda _: "no slots")
    made = proposed([seed_trial(kit)], pupil, candidates=3, numbers=False)
    assert [candidate.policy for candidate in made] == [None] * 3
    assert len(pupil.requests) == 3


def test_a_proposal_that_is_known_already_is_made_anew_a_few_times(kit: Any) -> None:
    pupil = kit.pupil(edits=lambda text: text)
    made = proposed([seed_trial(kit)], pupil, candidates=2, numbers=False)
    assert [candidate.policy for candidate in made] == [kit.policy()] * 2
    assert len(pupil.requests) == 2 * ATTEMPTS


def test_the_same_proposal_in_two_slots_is_made_anew_in_one_of_them(kit: Any) -> None:
    replies = iter(["first", "first", "second", "third"])
    pupil = kit.pupil(propose=lambda _: kit.reply(f"{next(replies)}: {{query}} {{choices}}"))
    made = proposed([seed_trial(kit)], pupil, candidates=2, numbers=False)
    texts = [candidate.policy.prompts.answer for candidate in made if candidate.policy is not None]
    assert texts == ["first: {query} {choices}", "second: {query} {choices}"]
    assert len(pupil.requests) == 3


def test_what_was_only_screened_or_lost_is_known_too(kit: Any) -> None:
    known = kit.policy(55)
    trials = [seed_trial(kit), kit.trial(1, policy=known, stage="screen", train={}, summary={})]
    pupil = kit.pupil()
    (candidate,) = proposed(trials, pupil, candidates=1, numbers=False)
    assert candidate.policy == known
    assert len(pupil.requests) == ATTEMPTS


def test_once_nothing_new_came_numbers_are_among_what_changes(kit: Any) -> None:
    """A proposer that has nothing to say leaves no slot empty."""
    pupil = kit.pupil(edits=lambda text: text)
    for seed in range(15):
        for candidate in proposed([seed_trial(kit, policy=facts(kit))], pupil, seed=seed, candidates=3):
            assert candidate.policy != facts(kit)
            assert "numbers:" in candidate.change


def test_an_unreadable_reply_is_told_in_the_change(kit: Any) -> None:
    pupil = kit.pupil(propose=lambda _: "I would rather not.")
    (candidate,) = proposed([seed_trial(kit)], pupil, candidates=1, numbers=False)
    assert candidate.policy == kit.policy()
    assert candidate.change.startswith("answer prompt: the proposer's reply was of no use")


def test_a_change_of_mode_keeps_the_prompts_that_still_fit(kit: Any) -> None:
    """The answer prompt goes along into every mode; a write prompt is made for one mode."""
    seed = seed_trial(kit, policy=facts(kit))
    assert seed.policy is not None
    own = seed.policy.model_copy(
        update={"prompts": seed.policy.prompts.model_copy(update={"write": "My facts: {conversation}"})}
    )
    modes = set()
    for number in range(40):
        (candidate,) = proposed([seed_trial(kit, policy=own)], kit.pupil(), seed=number, candidates=1, prompts=False)
        policy = candidate.policy
        assert policy is not None
        modes.add(policy.write.mode)
        assert policy.prompts.answer == own.prompts.answer
        if policy.write.mode == "facts":
            assert policy.prompts == own.prompts
        elif policy.write.mode == "profile":
            assert policy.prompts.write == load_policy("awi").prompts.write
        else:
            assert policy.prompts.write is None
    assert modes == {"none", "verbatim", "facts", "profile"}


def test_the_change_names_the_numbers_that_differ(kit: Any) -> None:
    seed = seed_trial(kit, policy=facts(kit))
    place = kit.draw(facts(kit)).point
    for number in range(10):
        (candidate,) = proposed([seed], kit.pupil(), seed=number, candidates=1, prompts=False)
        named = candidate.change.removeprefix("numbers: ").split(", ")
        differ = [f"{name} {value}" for name, value in candidate.params.items() if place.get(name) != value]
        assert sorted(named) == sorted(differ)


def test_a_parent_outside_the_space_leads_back_into_it(kit: Any) -> None:
    outside = kit.policy(30, mode="verbatim", update_every=2, buffer_size=4, store="external", top_k=500)
    trial = seed_trial(kit, policy=outside)
    made = [proposed([trial], kit.pupil(), seed=seed, candidates=1, prompts=False)[0] for seed in range(10)]
    assert all(candidate.params for candidate in made)
    (kept,) = proposed([trial], kit.pupil(), candidates=1, numbers=False)
    assert kept.policy is not None
    assert kept.policy.top_k == 500
    assert kept.params == {}


def test_a_reading_budget_stays_with_its_line(kit: Any) -> None:
    limited = kit.policy(
        30, mode="verbatim", update_every=2, buffer_size=4, store="external", top_k=9, read={"budget_tokens": 64}
    )
    for seed in range(15):
        (candidate,) = proposed([seed_trial(kit, policy=limited)], kit.pupil(), seed=seed, candidates=1)
        assert candidate.policy is not None
        expected = None if candidate.policy.write.mode == "none" else 64
        assert candidate.policy.read.budget_tokens == expected


def test_an_exhausted_budget_ends_the_proposing(kit: Any) -> None:
    model = Metered(kit.pupil(edits=lambda text: text + "!"), budget=Budget(Limits(calls=1)))
    with pytest.raises(BudgetExhausted):
        proposed([seed_trial(kit)], model, candidates=3, numbers=False)
    assert model.ledger.total.calls <= 1


def test_every_proposal_is_billed_as_one(kit: Any, trials: list[Trial]) -> None:
    pupil = kit.pupil()
    proposed(trials, pupil, candidates=4, numbers=False)
    assert pupil.requests
    assert pupil.asked("propose") == pupil.requests
