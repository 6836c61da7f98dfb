"""AMemGym's self-evolution as a proposer.

Invariants:
1. A candidate is its parent with another write prompt: the last that the parent made of its own in one user's life.
2. Only that user is met, once, and only a train user.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.optimizer.search.arena import Arena
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm import LanguageModelError
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.policy import MemoryPolicy
from mnemotune.policies.prompts import Templates


def thinking(text: str) -> str:
    return f"{text}\nThink."


def rewritten(policy: MemoryPolicy, times: int) -> MemoryPolicy:
    """Return a policy whose write prompt was rewritten so often."""
    prompts = policy.prompts.model_copy(update={"write": (policy.prompts.write or "") + "\nThink." * times})
    return policy.model_copy(update={"prompts": prompts})


def arena_of(bench: Any, model: Any, heard: list[Any], *, sessions: tuple[int, ...] = (1, 1)) -> Arena:
    return Arena(
        bench.kit.splits(train=2, sessions=sessions), bench.kit.evaluator(model), seed=0, block=4, done=heard.append
    )


@pytest.mark.parametrize("periods", [2, 3, 4])
def test_a_candidate_has_the_write_prompt_that_its_parent_came_to_invariants_1_2(bench: Any, periods: int) -> None:
    """It is rewritten after each period but the last, where that would come too late."""
    pupil, heard = bench.kit.pupil(edits=thinking), list[Any]()
    arena = arena_of(bench, pupil, heard, sessions=(1,) * periods)
    found = bench.propose("amemgym", [bench.trial(policy=bench.facts())], model=pupil, arena=arena)
    assert found.policy == rewritten(bench.facts(), periods - 1)
    (episode,) = heard
    changes = "; ".join(["more care"] * (periods - 1))
    told = f"write prompt: rewritten {periods - 1} times in the life of {episode.task}: {changes}"
    assert (found.parent, found.change) == (0, told)
    assert episode.task in {"train0", "train1"}
    assert len(pupil.asked("propose")) == periods - 1


def test_either_user_may_be_met(bench: Any) -> None:
    pupil, heard = bench.kit.pupil(edits=thinking), list[Any]()
    for seed in range(10):
        arena = arena_of(bench, pupil, heard)
        bench.propose("amemgym", [bench.trial(policy=bench.facts())], model=pupil, arena=arena, seed=seed)
    assert {episode.task for episode in heard} == {"train0", "train1"}
    assert not pupil.heard("valid")
    assert not pupil.heard("sealed")


def test_a_life_that_was_played_is_not_played_again_invariant_2(bench: Any) -> None:
    pupil, heard = bench.kit.pupil(edits=thinking), list[Any]()
    arena = arena_of(bench, pupil, heard)
    made = {}
    for seed in range(10):
        found = bench.propose("amemgym", [bench.trial(policy=bench.facts())], model=pupil, arena=arena, seed=seed)
        made[found.change] = found.policy
    assert sorted(episode.task for episode in heard) == ["train0", "train1"]
    assert set(made.values()) == {rewritten(bench.facts(), 1)}


async def test_nor_is_it_after_a_race_of_another_policy_that_was_left_at_its_first_look_invariant_2(bench: Any) -> None:
    pupil, heard = bench.kit.pupil(edits=thinking), list[Any]()
    arena = Arena(bench.kit.splits(train=2), bench.kit.evaluator(pupil), seed=0, block=1, done=heard.append)
    rival = bench.trial(policy=bench.facts(90), train={"train0": 1.0, "train1": 1.0})
    with bench.opened("amemgym", model=pupil, arena=arena) as proposer:
        before = [await proposer.propose([rival], random.Random(seed)) for seed in range(10)]
        await arena.race(bench.kit.policy(0), [rival])
        assert [await proposer.propose([rival], random.Random(seed)) for seed in range(10)] == before
    other = bench.kit.policy(0).key
    assert sorted(episode.task for episode in heard if episode.policy_key != other) == ["train0", "train1"]


def test_rewriting_sees_the_questions_and_answers_and_not_what_was_right(bench: Any) -> None:
    pupil = bench.kit.pupil(edits=thinking)
    bench.propose("amemgym", [bench.trial(policy=bench.facts())], model=pupil)
    (request,) = pupil.asked("propose")
    assert "asks question 0?" in request.messages[-1].content
    assert '"assistant_response"' in request.messages[-1].content
    assert "ground_truth" not in request.messages[-1].content


@pytest.mark.parametrize("reply", ["I would rather not.", "{}", '{"new_prompt": ""}', json.dumps({"new_prompt": 7})])
def test_a_rewriting_of_no_use_leaves_the_prompt_as_it_is(bench: Any, reply: str) -> None:
    found = bench.propose("amemgym", [bench.trial(policy=bench.facts())], model=bench.kit.says(reply))
    assert found.policy == bench.facts()
    assert "rewritten 0 times" in found.change


def test_a_life_that_ends_early_leaves_what_was_rewritten_until_then(bench: Any) -> None:
    """Its last questions cannot be answered; the prompt after its first period is there all the same."""
    counted = iter(range(100))

    def fails(request: Any) -> bool:
        return request.role == "propose" and next(counted) == 1

    pupil = bench.kit.pupil(edits=thinking, fails=fails, error=LanguageModelError("the line is dead"))
    arena = arena_of(bench, pupil, [], sessions=(1, 1, 1))
    found = bench.propose("amemgym", [bench.trial(policy=bench.facts())], model=pupil, arena=arena)
    assert found.policy == rewritten(bench.facts(), 1)


def test_some_parent_must_have_a_write_prompt_that_may_change(bench: Any) -> None:
    facts = bench.trial(1, policy=bench.facts(), train={"train0": -1.0, "train1": -1.0})
    assert not bench.ready("amemgym", [bench.trial()])
    assert bench.ready("amemgym", [bench.trial(), facts])
    assert not bench.ready("amemgym", [bench.trial(), facts], slots=("merge", "reply"))
    lost = bench.kit.trial(1, policy=bench.facts(), summary=None)
    assert not bench.ready("amemgym", [bench.trial(), lost])


def test_a_parent_without_a_write_prompt_gives_way_to_one_that_has_it(bench: Any) -> None:
    trials = [bench.trial(), bench.trial(1, policy=bench.facts(), train={"train0": -1.0, "train1": -1.0})]
    assert {bench.propose("amemgym", trials, seed=seed).parent for seed in range(5)} == {1}


@settings(deadline=None, max_examples=15)
@given(name=st.sampled_from(["awe", "awi"]), seed=st.integers(0, 99))
def test_the_embedded_model_makes_a_policy_with_all_slots_of_it_invariant_1(bench: Any, name: str, seed: int) -> None:
    parent = load_policy(name)
    found = bench.propose("amemgym", [bench.trial(policy=parent)], model=EmbeddedModel(), seed=seed)
    assert found.policy is not None
    text = found.policy.prompts.write
    assert text != parent.prompts.write
    assert Templates.missing_slots(parent.prompt_kinds["write"], text) == []
    prompts = found.policy.prompts.model_copy(update={"write": parent.prompts.write})
    assert found.policy.model_copy(update={"prompts": prompts}) == parent
