"""What every proposer keeps to, and what proposals are made of.

Invariants, for every proposer, any study so far, whatever a model replies:
1. The same trials, random state and replies give the same candidate.
2. A candidate says what was changed; it has a policy, or the reason why it has none.
3. Its parent is a trial whose race was finished.
4. What the search may not change stays as the parent has it, and numbers stay inside the space.
5. No policy is an oracle, lacks a slot, or has a new prompt that is too long.
6. An exhausted budget and an endpoint that is down come through.
"""

from __future__ import annotations

import asyncio
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from mnemotune.optimizer.config import SearchConfig
from mnemotune.optimizer.proposer_kinds import PROPOSERS
from mnemotune.optimizer.proposers.mix import open_proposers
from mnemotune.optimizer.proposers.proposer import (
    Candidate,
    Means,
    candidate,
    inherit,
    pick_parent,
    policy_of,
)
from mnemotune.optimizer.study import Trial, leader, raced, users_won
from mnemotune.policies.lm import BudgetExhausted, EndpointDown, Limits, Metered
from mnemotune.policies.lm.budget import Budget
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.policy import MemoryPolicy, prompt_kinds
from mnemotune.policies.prompts import Templates

NAN = math.nan
NAMES = ("known", "spread", "reflective", "merge", "gp", "tpe", "random", "amemgym", "gepa")
ASKING = ("reflective", "amemgym", "gepa")
LIMITS: tuple[dict[str, Any], ...] = (
    {},
    {"prompts": False},
    {"numbers": False},
    {"slots": ("reply",)},
    {"slots": ("write",)},
    {"longest_prompt": 60},
)
ALLOWED = [
    pytest.param(name, limits, id=f"{name} {limits or 'free'}")
    for name in NAMES
    for limits in LIMITS
    if "numbers" not in limits or PROPOSERS.get(name).prompts
    if "prompts" not in limits or PROPOSERS.get(name).numbers
    if (name, limits.get("slots")) != ("amemgym", ("reply",))
]
SHAPES: tuple[dict[str, Any], ...] = (
    {},
    {"mode": "none"},
    {"mode": "none", "buffer_size": 6, "update_every": 2},
    {"mode": "verbatim", "update_every": 2, "buffer_size": 4, "store": "external", "top_k": 20},
    {"mode": "verbatim", "update_every": 4, "buffer_size": 2, "store": "context"},
    {"mode": "facts", "update_every": 2, "buffer_size": 4, "store": "external", "top_k": 30},
    {"mode": "facts", "update_every": 6, "buffer_size": 0, "store": "external", "top_k": 5},
    {"mode": "profile", "update_every": 2, "buffer_size": 0, "store": "context"},
)
KINDS_OF_TRIAL: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"accepted": True, "decided_at": "validate"},
    {"policy": None, "decided_at": "check", "train": {}, "summary": None, "evidence": ()},
    {"decided_at": "screen", "train": {}, "summary": None, "evidence": ()},
    {"train": {"train0": 0.9}, "summary": None, "evidence": ()},
    {"train": {"train0": NAN, "train1": NAN}, "evidence": ()},
)

scores = st.sampled_from([-0.5, 0.0, 0.25, 0.5, 0.75, 1.0, NAN])
later_trials = st.lists(
    st.tuples(st.sampled_from(KINDS_OF_TRIAL), st.sampled_from(SHAPES), scores, scores, st.integers(0, 9)), max_size=5
)


def eager(prompt: str) -> str:
    """Ask for all the care there is, and for a thought."""
    return re.sub(r"Care \d+", "Care 100", prompt) + "\nThink."


def study_of(bench: Any, shape: dict[str, Any], later: Sequence[Any]) -> list[Trial]:
    """Make a study from what was drawn, each trial with a policy of its own."""
    trials = [bench.trial(policy=bench.kit.policy(10, **shape))]
    for number, (kind, of_trial, first, second, shown) in enumerate(later, start=1):
        policy = bench.kit.policy(10 + 5 * number, **of_trial)
        evidence = trials[0].evidence[:shown]
        values = {"policy": policy, "train": {"train0": first, "train1": second}, "evidence": evidence}
        trials.append(bench.trial(number, **values | kind))
    return trials


def new_prompts(found: Candidate, parent: MemoryPolicy) -> dict[str, str]:
    """Return the prompts that a candidate has of its own; those of another kind than the parent's are no edits."""
    assert found.policy is not None
    before, after = parent.prompts.model_dump(), found.policy.prompts.model_dump()
    same_kind = parent.prompt_kinds.items() & found.policy.prompt_kinds.items()
    return {slot: after[slot] for slot, _ in same_kind if after[slot] != before[slot]}


def check(found: Candidate, trials: Sequence[Trial], search: SearchConfig) -> None:
    """Check invariants 2 to 5."""
    assert found.change
    assert (found.policy is None) == bool(found.problem)
    parent = trials[found.parent]
    assert parent.number == found.parent
    assert parent.finished_race
    if found.policy is None:
        return
    base, new = policy_of(parent), new_prompts(found, policy_of(parent))
    assert new.keys() <= (set(search.slots) if search.prompts else set())
    assert all(len(text) <= search.longest_prompt for text in new.values())
    with_old_prompts = found.policy.model_copy(update={"prompts": base.prompts})
    assert with_old_prompts == base or search.numbers
    assert with_old_prompts == base or search.space.point_of(found.policy) is not None
    assert found.policy.evolution is None
    assert not found.policy.oracle
    texts = found.policy.prompts.model_dump()
    assert all(Templates.missing_slots(kind, texts[slot]) == [] for slot, kind in found.policy.prompt_kinds.items())


# Every proposer


@pytest.mark.exhaustive("limits")
@pytest.mark.parametrize(("name", "limits"), ALLOWED)
@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.filter_too_much])
@given(shape=st.sampled_from(SHAPES), later=later_trials, seed=st.integers(0, 99), real=st.booleans())
def test_every_proposer_keeps_the_invariants_on_any_study_invariants_1_to_5(
    bench: Any, name: str, limits: dict[str, Any], shape: dict[str, Any], later: list[Any], seed: int, real: bool
) -> None:
    trials = study_of(bench, shape, later)
    parts = {"seed": seed, **limits}
    assume(bench.ready(name, trials, **limits))
    one, same = (
        bench.propose(name, list(trials), **parts, model=EmbeddedModel() if real else bench.kit.pupil(edits=eager))
        for _ in range(2)
    )
    assert one == same
    check(one, trials, SearchConfig(proposers=(name,), **limits))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_every_proposer_makes_new_policies_of_a_study_with_every_kind_of_trial(bench: Any, name: str) -> None:
    """Guards the invariants against proposers that never propose."""
    trials = bench.study()
    known = {trial.policy for trial in trials}
    made = [bench.propose(name, trials, seed=seed, model=bench.kit.pupil(edits=eager)) for seed in range(6)]
    assert any(found.policy is not None and found.policy not in known for found in made)
    for found in made:
        check(found, trials, SearchConfig())


@pytest.mark.parametrize("name", ["known", "spread", "reflective", "merge", "gp", "tpe", "random", "amemgym"])
def test_another_random_state_gives_another_candidate(bench: Any, name: str) -> None:
    made = [bench.propose(name, bench.study(), seed=seed) for seed in range(10)]
    assert len({repr(found) for found in made}) > 1


@pytest.mark.parametrize("name", ["known", "spread", "merge", "gp", "tpe", "random"])
def test_crossing_and_drawing_cost_no_call(bench: Any, name: str) -> None:
    pupil = bench.kit.pupil()
    for seed in range(10):
        bench.propose(name, bench.study(), seed=seed, model=pupil)
    assert pupil.requests == []


ORACLE, LONG = "prompts: ask for the names of the states, unfairly", "characters are above search.longest_prompt"
REFUSED: list[tuple[str, Callable[[str], str], str]] = [
    ("reflective", lambda text: text.replace("{conversation}", "the talk"), "prompts.write: lacks {conversation}"),
    ("reflective", lambda text: f"{text}\n{{schema_names}}", ORACLE),
    ("reflective", lambda text: text + "x" * 6000, LONG),
    ("amemgym", lambda text: f"{text}\n{{schema_list}}", ORACLE),
    ("amemgym", lambda text: text + "x" * 6000, LONG),
    ("gepa", lambda text: text.replace("{conversation}", "the talk"), "prompts.write: lacks {conversation}"),
    ("gepa", lambda text: f"{text}\n{{schema_names}}", ORACLE),
    ("gepa", lambda text: text + "x" * 6000, LONG),
]


@pytest.mark.parametrize(("name", "edits", "problem"), REFUSED)
def test_a_prompt_that_is_broken_unfair_or_too_long_is_refused_with_the_reason_invariant_5(
    bench: Any, name: str, edits: Any, problem: str
) -> None:
    trials = [bench.trial(policy=bench.facts())]
    found = bench.propose(name, trials, model=bench.kit.pupil(edits=edits), slots=("write",))
    assert found.policy is None
    assert problem in found.problem
    check(found, trials, SearchConfig())


@pytest.mark.parametrize(
    "reply", ["", "I would rather not.", "{", "[]", '{"improved_prompts": 7}', '{"new_prompt": 7}']
)
@pytest.mark.parametrize("name", ASKING)
def test_a_reply_of_no_use_leaves_the_policy_as_it_is(bench: Any, name: str, reply: str) -> None:
    trials = [bench.trial(policy=bench.facts())]
    found = bench.propose(name, trials, model=bench.kit.pupil(propose=lambda _: reply), numbers=False)
    assert found.policy in {None, bench.facts()}
    check(found, trials, SearchConfig(numbers=False))


@pytest.mark.parametrize("calls", [0, 1, 7])
@pytest.mark.parametrize("name", ASKING)
def test_an_exhausted_budget_comes_through_invariant_6(bench: Any, name: str, calls: int) -> None:
    """Replies that change nothing keep a proposer asking."""
    pupil = bench.kit.pupil(edits=lambda text: text)
    model = Metered(pupil, budget=Budget(Limits(calls=calls)))

    async def propose_on() -> None:
        with bench.opened(name, model=model) as proposer:
            for seed in range(20):
                await proposer.propose(bench.study(), random.Random(seed))

    with pytest.raises(BudgetExhausted, match=f"the budget of {calls} calls is spent"):
        asyncio.run(propose_on())
    assert len(pupil.requests) <= calls


@pytest.mark.parametrize("name", ASKING)
def test_an_endpoint_that_is_down_comes_through_invariant_6(bench: Any, name: str) -> None:
    pupil = bench.kit.pupil(fails=lambda _: True, error=EndpointDown("start the server"))
    with pytest.raises(EndpointDown, match="start the server"):
        bench.propose(name, [bench.trial(policy=bench.facts())], model=pupil)


def test_only_the_proposers_that_are_named_and_have_something_to_change_are_opened(bench: Any) -> None:
    pupil = bench.kit.pupil()

    def opened(**search: Any) -> list[str]:
        with open_proposers(Means(SearchConfig(**search), Templates.bundled(), pupil, bench.arena(pupil))) as proposers:
            return list(proposers)

    assert opened() == list(SearchConfig().proposers)
    assert opened(proposers=NAMES) == list(NAMES)
    assert opened(proposers=NAMES, numbers=False) == ["reflective", "merge", "amemgym", "gepa"]
    drawing = ["gp", "tpe", "random"]
    assert opened(proposers=NAMES, prompts=False) == ["known", "spread", "reflective", "merge", *drawing]


# What proposals are made of


def test_parents_have_finished_their_race_invariant_3(bench: Any) -> None:
    trials = bench.study()
    assert [trial.number for trial in raced(trials)] == [0, 1, 6, 7]
    assert {pick_parent(trials, random.Random(seed)).number for seed in range(60)} == {0, 1, 7}


def test_the_leader_is_the_raced_trial_with_the_best_mean_accepted_or_not_and_of_equals_the_first(bench: Any) -> None:
    assert leader(bench.study()).number == 0, "7 has the same scores, 5 more but for one user, 6 none"
    better = bench.trial(8, policy=bench.kit.policy(60), train={"train0": 0.2, "train1": 0.6})
    assert leader([*bench.study(), better]).number == 8


def test_a_trial_does_not_lead_because_a_hard_user_s_episode_failed(bench: Any) -> None:
    first = bench.trial(0, train={"train0": 0.6, "train1": 0.1})
    second = bench.trial(1, policy=bench.kit.policy(60), train={"train0": 0.58, "train1": math.nan})
    assert second.score > first.score
    assert leader([first, second]).number == 0
    assert leader([bench.trial(0, train={"train0": math.nan}), second]).number == 1, "what has no score does not lead"


def winners(trials: Sequence[Trial]) -> dict[int, int]:
    return {number: len(users) for number, users in users_won(raced(trials)).items()}


def test_a_trial_that_lacks_most_users_that_anyone_has_a_score_for_does_not_lead(bench: Any) -> None:
    def trial(number: int, known: int) -> Any:
        return bench.trial(number, train={f"train{i}": 0.1 * number if i < known else math.nan for i in range(8)})

    trials = [trial(0, 8), trial(1, 4), trial(2, 2), trial(3, 1)]
    assert leader(trials).number == 1, "each has half of the users of the one before"
    assert leader([*trials, trial(4, 8)]).number == 4


def test_parents_are_best_for_some_user_and_the_leader_counts_for_all(bench: Any) -> None:
    kit = bench.kit
    trials = [
        bench.trial(train={"a": 0.9, "b": 0.2, "c": 0.2}),
        kit.trial(1, policy=kit.policy(40), train={"a": 0.1, "b": 0.1, "c": 0.1}),
        kit.trial(2, policy=kit.policy(50), train={"a": 0.3, "b": 0.9, "c": 0.1}),
        kit.trial(3, policy=kit.policy(60), decided_at="validate", accepted=True, train={"a": 0.5, "b": 0.5, "c": 0.5}),
    ]
    assert winners(trials) == {0: 1, 2: 1, 3: 1}
    rng = random.Random(0)
    parents = Counter(pick_parent(trials, rng).number for _ in range(600))
    assert set(parents) == {0, 2, 3}
    assert parents[0] / 600 == pytest.approx(1 / 6, abs=0.05)
    assert parents[2] / 600 == pytest.approx(1 / 6, abs=0.05)


def test_a_tie_counts_for_all(bench: Any) -> None:
    trials = [bench.trial(), bench.trial(1, policy=bench.kit.policy(40))]
    assert winners(trials) == {0: 2, 1: 2}


def test_a_user_whose_episode_failed_under_the_seed_can_still_make_another_a_parent(bench: Any) -> None:
    trials = [
        bench.trial(train={"a": NAN, "b": 0.9}),
        bench.trial(1, policy=bench.kit.policy(40), train={"a": 0.8, "b": 0.1}),
    ]
    assert winners(trials) == {0: 1, 1: 1}


def test_a_user_for_whom_every_episode_failed_makes_nobody_a_parent(bench: Any) -> None:
    assert winners([bench.trial(train={"a": NAN, "b": 0.9})]) == {0: 1}


def test_a_trial_without_a_policy_is_no_parent(bench: Any) -> None:
    with pytest.raises(ValueError, match="trial 2 has no policy"):
        policy_of(bench.study()[2])


def test_prompts_of_the_same_kind_are_inherited_and_others_start_anew(bench: Any) -> None:
    own = bench.facts(prompts={"write": "My facts: {conversation}", "reply": "Mine: {memories}"})
    texts = Templates.bundled()
    assert inherit(own, own.prompt_kinds, texts) == {
        slot: text for slot, text in own.prompts.model_dump().items() if text is not None
    }
    assert inherit(own, prompt_kinds("profile", "context"), texts) == {
        "write": texts.starting("write_profile"),
        "reply": texts.reply_context,
    }


def test_a_prompt_as_long_as_allowed_is_taken_and_a_longer_one_is_not(bench: Any) -> None:
    parent = bench.trial()
    values = policy_of(parent).model_dump()
    values["prompts"]["reply"] = "{memories}" + "x" * 90
    taken = candidate(parent, "reply prompt", values, longest_prompt=100)
    assert taken.policy == MemoryPolicy.model_validate(values)
    refused = candidate(parent, "reply prompt", values, longest_prompt=99)
    problem = "prompts.reply: 100 characters are above search.longest_prompt"
    assert refused == Candidate(0, "reply prompt", None, problem)


def test_a_long_prompt_that_the_parent_has_is_no_reason_to_refuse(bench: Any) -> None:
    parent = bench.trial(policy=bench.facts(prompts={"write": "{conversation}" + "x" * 7000}))
    values = policy_of(parent).model_dump() | {"top_k": 3}
    found = candidate(parent, "numbers: top_k 3", values, longest_prompt=6000)
    assert found.policy == MemoryPolicy.model_validate(values)


def test_a_candidate_stays_with_its_parent_s_memory(bench: Any) -> None:
    parent = bench.trial(policy=bench.facts(backend="notebook"))
    values = bench.facts().model_dump(exclude_none=True) | {"buffer_size": 6}
    found = candidate(parent, "numbers", values, longest_prompt=6000)
    assert (found.policy.backend, found.policy.buffer_size) == ("notebook", 6)


def test_values_that_are_no_policy_are_refused_naming_each_field(bench: Any) -> None:
    parent = bench.trial(policy=bench.facts())
    values = policy_of(parent).model_dump() | {"top_k": 0, "update_every": "often"}
    found = candidate(parent, "numbers", values, longest_prompt=6000)
    assert found.policy is None
    assert "top_k: " in found.problem
    assert "update_every: " in found.problem
