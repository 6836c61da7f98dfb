"""How a language model is asked to improve prompts and numbers in the light of failures, and what is made of its reply.

Invariants of an edit, for any reply:
1. Only prompts and numbers that were asked for are in it, and only those that are new.
2. Its reason is one short line; a reply of no use is an empty edit that says so.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.optimizer.proposers.reflective import Edit, improve
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm import BudgetExhausted, EndpointDown, Limits, Metered, Request
from mnemotune.policies.lm.budget import Budget
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.embedded.engineering import EngineeringTask, find_engineering_task
from mnemotune.policies.policy import MemoryPolicy, prompt_kinds
from mnemotune.policies.prompts import Templates
from mnemotune.policies.space import Space

PROMPT = "Choose well.\n{memories}"
FAILURE = 'Stage: utilisation\nQuestion: Where to eat?\nThe user said: "I eat {no} meat."'
MODES = ("none", "verbatim", "facts", "profile")
STAGES = ("write", "read", "utilisation")
USED = sorted(
    {
        kind
        for mode in MODES
        for store in ((None,) if mode == "none" else ("context", "external"))
        for kind in prompt_kinds(mode, store).values()  # type: ignore[arg-type]
    }
)
POLICY = MemoryPolicy.model_validate(
    {
        "write": {"mode": "facts", "roles": "both"},
        "update_every": 8,
        "buffer_size": 4,
        "store": "external",
        "top_k": 30,
        "prompts": {"reply": PROMPT},
    }
)
MEANINGS = {knob.name: knob.meaning for knob, _ in Space().searched if knob.mends}
NUMBERS = tuple(MEANINGS)

texts = st.text(max_size=60)


def edit(
    model: Any,
    policy: MemoryPolicy = POLICY,
    *,
    slots: Sequence[str] = ("reply",),
    numbers: Sequence[str] = (),
    failures: Sequence[str] = (FAILURE,),
) -> Edit:
    asked = improve(policy, slots=slots, numbers=numbers, space=Space(), failures=failures, model=model)
    return asyncio.run(asked)


# What is asked


def test_the_request_shows_prompts_numbers_and_failures_is_billed_as_a_proposal_and_asked_once(kit: Any) -> None:
    pupil = kit.says(kit.reply(PROMPT + "!"))
    failures = [FAILURE, "Stage: utilisation\nQuestion: And {braces}?"]
    edit(pupil, slots=("merge", "reply"), numbers=NUMBERS, failures=failures)
    (request,) = pupil.requests
    assert request.role == "propose"
    assert [message.role for message in request.messages] == ["system", "user"]
    assert kit.shown(pupil, "current_prompts") == {"merge": POLICY.prompts.merge, "reply": PROMPT}
    assert kit.shown(pupil, "failures") == failures
    assert kit.shown(pupil, "current_numbers") == {
        "update_every": f"8 (2 to 16): {MEANINGS['update_every']}",
        "buffer_size": f"4 (0 to 32): {MEANINGS['buffer_size']}",
        "roles": f"both (user or both): {MEANINGS['roles']}",
        "top_k": f"30 (2 to 60): {MEANINGS['top_k']}",
        "order": f"time (time or relevance): {MEANINGS['order']}",
        "diversity": f"0 (0 to 100): {MEANINGS['diversity']}",
        "recency": f"0 (0 to 100): {MEANINGS['recency']}",
    }


def test_the_request_depends_on_the_failures_the_prompts_and_the_numbers_alone(kit: Any) -> None:
    """A resumed run finds its replies in the cache only when it asks the very same."""
    one, same, different, fewer = (kit.says(kit.reply(PROMPT)) for _ in range(4))
    edit(one)
    edit(same)
    edit(different, POLICY.model_copy(update={"prompts": POLICY.prompts.model_copy(update={"reply": PROMPT + "?"})}))
    edit(fewer, failures=())
    assert one.requests == same.requests
    assert one.requests != different.requests
    assert one.requests != fewer.requests


@pytest.mark.parametrize("name", ["native", "rag", "awe", "awi"])
def test_the_request_names_the_slots_that_must_stay(kit: Any, name: str) -> None:
    policy, pupil = load_policy(name), kit.says("{}")
    edit(pupil, policy, slots=tuple(policy.prompt_kinds))
    purposes = kit.shown(pupil, "purposes")
    assert purposes.keys() == policy.prompt_kinds.keys()
    for slot, kind in policy.prompt_kinds.items():
        assert all(f"{{{needed}}}" in purposes[slot] for needed in Templates.slots()[kind].required)


# What is made of the reply


def test_the_models_reply_becomes_the_edit(kit: Any) -> None:
    reply = kit.reply({"reply": "Better.\n{memories}\n"}, "It was  too\nshort.", top_k=12, roles="user")
    found = edit(kit.says(reply), numbers=NUMBERS)
    assert found == Edit({"reply": "Better.\n{memories}"}, {"top_k": 12, "roles": "user"}, "It was too short.")


def test_a_reply_in_a_code_fence_is_read_too(kit: Any) -> None:
    found = edit(kit.says(f"Sure!\n```json\n{kit.reply('Better. {memories}')}\n```\nDone."))
    assert found.prompts == {"reply": "Better. {memories}"}


def test_what_was_not_asked_for_is_left_out_invariant_1(kit: Any) -> None:
    reply = kit.reply({"reply": "Better. {memories}", "write": "{conversation}", "soup": "x"}, top_k=2, mode=1)
    assert edit(kit.says(reply)) == Edit({"reply": "Better. {memories}"}, {}, "More care helps.")
    assert edit(kit.says(reply), slots=(), numbers=("top_k",)) == Edit({}, {"top_k": 2}, "More care helps.")


@pytest.mark.parametrize("prompt", [PROMPT, f"  {PROMPT}\n", "", " \n"])
def test_nothing_new_is_no_edit_invariant_1(kit: Any, prompt: str) -> None:
    found = edit(kit.says(kit.reply(prompt, top_k=30, order="time")), numbers=NUMBERS)
    assert found == Edit({}, {}, "More care helps.")


@pytest.mark.parametrize(
    "reply",
    ["", "I would rather not.", "{", "[]", "null", "{}", '{"analysis": "x"}', '{"improved_prompts": {}}', "\x00", "7"],
)
def test_an_unreadable_reply_changes_nothing_and_says_so_invariant_2(kit: Any, reply: str) -> None:
    found = edit(kit.says(reply))
    assert (found.prompts, found.numbers) == ({}, {})
    assert "of no use" in found.reason


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
named = st.dictionaries(st.sampled_from(["reply", "merge", "soup", *NUMBERS]), json_values, max_size=4)
replies = (
    texts
    | json_values.map(json.dumps)
    | st.builds(
        lambda *parts: json.dumps(dict(zip(("analysis", "improved_prompts", "improved_numbers"), parts, strict=True))),
        json_values | texts,
        json_values | named | st.dictionaries(st.sampled_from(["reply", "merge", "soup"]), texts),
        json_values | named,
    )
)


@settings(deadline=None, max_examples=100)
@given(reply=replies)
def test_no_reply_whatsoever_is_a_crash_invariants_1_2(kit: Any, reply: str) -> None:
    found = edit(kit.says(reply), slots=("reply",), numbers=("top_k", "roles"))
    assert found.prompts.keys() <= {"reply"}
    assert found.numbers.keys() <= {"top_k", "roles"}
    assert all(text and text == text.strip() for text in found.prompts.values())
    assert all(isinstance(value, int | str) for value in found.numbers.values())
    assert "\n" not in found.reason
    assert len(found.reason) <= 300


@settings(deadline=None, max_examples=40)
@given(prompt=texts, failures=st.lists(texts, max_size=3))
def test_no_prompt_and_no_failure_whatsoever_is_a_crash(kit: Any, prompt: str, failures: list[str]) -> None:
    policy = POLICY.model_copy(update={"prompts": POLICY.prompts.model_copy(update={"reply": prompt})})
    pupil = kit.says(kit.reply("New. {memories}"))
    found = edit(pupil, policy, failures=failures)
    assert found == Edit({"reply": "New. {memories}"}, {}, "More care helps.")


@pytest.mark.parametrize("error", [TimeoutError(), RuntimeError(""), ValueError("two\nlines"), KeyError("x")])
def test_a_model_that_breaks_is_a_proposal_of_no_use_invariant_2(kit: Any, error: Exception) -> None:
    def broken(_: Request) -> str:
        raise error

    found = edit(kit.says(broken))
    assert (found.prompts, found.numbers) == ({}, {})
    assert "of no use" in found.reason
    assert "\n" not in found.reason


def test_an_exhausted_budget_passes_through(kit: Any) -> None:
    pupil = kit.says(kit.reply("x"))
    with pytest.raises(BudgetExhausted, match="the budget of 0 calls is spent"):
        edit(Metered(pupil, budget=Budget(Limits(calls=0))))
    assert pupil.requests == []


def test_an_endpoint_that_is_down_passes_through_with_its_reason(kit: Any) -> None:
    """Failures of the system raise; the message says what to do."""
    with pytest.raises(EndpointDown, match="start the server"):
        edit(kit.pupil(fails=lambda _: True, error=EndpointDown("start the server")))


def test_a_call_that_failed_for_good_is_a_proposal_of_no_use_invariant_2(kit: Any) -> None:
    found = edit(kit.pupil(fails=lambda _: True))
    assert found.prompts == {}
    assert "the line is dead" in found.reason


async def test_proposals_made_side_by_side_keep_to_their_own_models(kit: Any) -> None:
    models = [kit.says(kit.reply(f"Prompt {i}. {{memories}}")) for i in range(6)]
    shared: dict[str, Any] = {"slots": ["reply"], "numbers": [], "space": Space(), "failures": [FAILURE]}
    found = await asyncio.gather(*(improve(POLICY, model=model, **shared) for model in models))
    assert [e.prompts["reply"] for e in found] == [f"Prompt {i}. {{memories}}" for i in range(6)]


# With the embedded model


def real_failures(*stages: str) -> list[str]:
    """Return failures as ``gather_evidence`` tells them, with texts as users write them."""
    said = [
        "I moved to a small flat near the harbour, and my landlord does not allow pets.",
        "These days I mostly cook vegetarian food; braces {like these} stay.",
        "My knee hurts when I run, so I swim on Tuesdays instead.",
    ]
    return [
        f'Stage: {stage}\nQuestion: What should I do about matter {i}?\nThe user said: "{text}"\n'
        f"Memory held:\n- {text[:24]}\n- The neighbour paints {{memories}}\nChosen answer: one\nRight answer: two"
        for stage in stages
        for i, text in enumerate(said)
    ]


@settings(deadline=None, max_examples=40)
@given(reply=texts, failures=st.lists(texts, max_size=3))
def test_the_embedded_model_understands_what_is_sent(kit: Any, reply: str, failures: list[str]) -> None:
    policy = POLICY.model_copy(update={"prompts": POLICY.prompts.model_copy(update={"reply": reply})})
    pupil = kit.says("{}")
    edit(pupil, policy, slots=("write", "reply"), numbers=NUMBERS, failures=failures)
    prompts = {"write": POLICY.prompts.write, "reply": reply}
    task = find_engineering_task(pupil.requests[0].messages[-1].content)
    assert task == EngineeringTask(prompts, kit.shown(pupil, "current_numbers"), tuple(failures))  # type: ignore[arg-type]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", ["rag", "awe", "awi"])
def test_the_embedded_model_as_proposer_keeps_every_slot(name: str, stage: str) -> None:
    """Edits build on edits, as they do in a long evolution."""
    policy, changed = load_policy(name), 0
    for _ in range(4):
        slots = tuple(policy.prompt_kinds)
        found = edit(EmbeddedModel(), policy, slots=slots, failures=real_failures(stage))
        assert "of no use" not in found.reason
        for slot, text in found.prompts.items():
            assert not Templates.missing_slots(policy.prompt_kinds[slot], text)
            assert len(text) > len(policy.prompts.model_dump()[slot])
        prompts = policy.prompts.model_copy(update=dict(found.prompts))
        policy, changed = policy.model_copy(update={"prompts": prompts}), changed + len(found.prompts)
    assert changed


def test_the_embedded_model_as_proposer_changes_a_number_too() -> None:
    found = edit(EmbeddedModel(), numbers=NUMBERS, failures=real_failures("read"))
    assert found.numbers
    assert all(name in found.reason for name in found.numbers)
