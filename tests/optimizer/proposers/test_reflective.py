"""The reflective proposer: a language model reads failures and edits the prompt that they belong to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.optimizer.proposers.reflective import PURPOSES, SLOT_OF_STAGE, Edit, edit_prompt, slot_for
from mnemotune.optimizer.study import Evidence
from mnemotune.policies.lm import BudgetExhausted, EndpointDown, Limits, Metered, Request
from mnemotune.policies.lm.budget import Budget
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.policy import prompt_kinds
from mnemotune.policies.prompts import REQUIRED_SLOTS, default_templates, missing_slots

MODES = ("none", "verbatim", "facts", "profile")
PROMPT = "Choose well.\n{query}\n{choices}"
FAILURE = Evidence("utilisation", 'Stage: utilisation\nQuestion: Where to eat?\nThe user said: "I eat {no} meat."')
STORES: dict[str, tuple[Any, ...]] = dict.fromkeys(MODES, ("context", "external")) | {"none": (None,)}
USED = sorted(
    {
        (slot, kind)
        for mode, stores in STORES.items()
        for store in stores
        for slot, kind in prompt_kinds(mode, store).items()  # type: ignore[arg-type]
        if slot != "reply"
    }
)

texts = st.text(max_size=60)


def edit(model: Any, prompt: str = PROMPT, *, slot: str = "answer", kind: str = "answer", evidence: Any = None) -> Any:
    shown = [FAILURE] if evidence is None else evidence
    return asyncio.run(edit_prompt(slot, prompt, kind=kind, evidence=shown, model=model))


def says(kit: Any, reply: str | Callable[[Request], str]) -> Any:
    return kit.pupil(propose=reply if callable(reply) else lambda _: reply)


@pytest.mark.parametrize(
    ("stage", "slots"),
    [
        ("write", {"none": "answer", "verbatim": "answer", "facts": "write", "profile": "write"}),
        ("read", {"none": "answer", "verbatim": "answer", "facts": "merge", "profile": "write"}),
        ("utilisation", dict.fromkeys(MODES, "answer")),
    ],
)
def test_a_failure_belongs_to_the_prompt_of_its_stage_or_to_the_answer(stage: str, slots: dict[Any, str]) -> None:
    assert {mode: slot_for(stage, prompt_kinds(mode, STORES[mode][0])) for mode in MODES} == slots  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stage", SLOT_OF_STAGE)
def test_the_prompt_that_is_edited_is_one_that_the_policy_uses_and_that_has_a_purpose(stage: str, mode: Any) -> None:
    for store in STORES[mode]:
        kinds = prompt_kinds(mode, store)
        assert kinds[slot_for(stage, kinds)] in PURPOSES


def test_the_models_reply_becomes_the_edit(kit: Any) -> None:
    found = edit(says(kit, kit.reply("Better.\n{query}\n{choices}", "It was  too\nshort.")))
    assert found == Edit("answer", "Better.\n{query}\n{choices}", "It was too short.")


def test_a_reply_in_a_code_fence_is_read_too(kit: Any) -> None:
    found = edit(says(kit, f"Sure!\n```json\n{kit.reply('Better. {query} {choices}')}\n```\nDone."))
    assert found is not None
    assert found.text == "Better. {query} {choices}"


def test_the_request_shows_the_prompt_and_the_failures_is_billed_as_a_proposal_and_asked_once(kit: Any) -> None:
    pupil = says(kit, kit.reply(PROMPT + "!"))
    evidence = [FAILURE, Evidence("utilisation", "Stage: utilisation\nQuestion: And {braces}?")]
    edit(pupil, evidence=evidence)
    (request,) = pupil.requests
    assert request.role == "propose"
    shown = request.messages[-1].content
    assert PROMPT in shown
    assert all(json.dumps(item.text)[1:-1] in shown for item in evidence)
    assert "{query}, {choices}" in shown
    assert [message.role for message in request.messages] == ["system", "user"]


def test_the_request_depends_on_the_failures_and_the_prompt_alone(kit: Any) -> None:
    """A resumed run finds its replies in the cache only when it asks the very same."""
    one, other, different = (says(kit, kit.reply(PROMPT)) for _ in range(3))
    edit(one)
    edit(other)
    edit(different, PROMPT + "?")
    assert one.requests == other.requests
    assert one.requests != different.requests


@pytest.mark.parametrize(("slot", "kind"), USED)
def test_the_request_names_the_slots_that_must_stay(kit: Any, slot: str, kind: str) -> None:
    pupil = says(kit, "{}")
    edit(pupil, getattr(default_templates(), kind), slot=slot, kind=kind)
    shown = pupil.requests[0].messages[-1].content
    assert all(f"{{{name}}}" in shown.split("current_prompt")[0] for name in REQUIRED_SLOTS[kind])


@pytest.mark.parametrize("reply", [PROMPT, f"  {PROMPT}\n", "", " \n"])
def test_nothing_to_say_is_no_edit(kit: Any, reply: str) -> None:
    assert edit(says(kit, kit.reply(reply))) is None


@pytest.mark.parametrize(
    "reply",
    ["", "I would rather not.", "{", "[]", "null", "{}", '{"analysis": "x"}', '{"improved_prompt": "x"}', "\x00", "7"],
)
def test_an_unreadable_reply_changes_nothing_and_says_so(kit: Any, reply: str) -> None:
    found = edit(says(kit, reply))
    assert found is not None
    assert found.text == PROMPT
    assert "of no use" in found.reason


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
replies = (
    texts
    | json_values.map(json.dumps)
    | st.builds(lambda a, b: json.dumps({"analysis": a, "improved_prompt": b}), json_values, json_values)
)


@settings(deadline=None, max_examples=60)
@given(reply=replies)
def test_no_reply_whatsoever_is_a_crash(kit: Any, reply: str) -> None:
    found = edit(says(kit, reply))
    assert found is None or (found.slot == "answer" and found.text.strip() and found.text == found.text.strip())
    assert found is None or ("\n" not in found.reason and len(found.reason) <= 300)


@settings(deadline=None, max_examples=40)
@given(prompt=texts, failures=st.lists(texts, max_size=3))
def test_no_prompt_and_no_failure_whatsoever_is_a_crash(kit: Any, prompt: str, failures: list[str]) -> None:
    evidence = [Evidence("write", failure) for failure in failures]
    found = edit(says(kit, kit.reply("New. {query} {choices}")), prompt, evidence=evidence)
    assert found == Edit("answer", "New. {query} {choices}", "More care helps.")


@pytest.mark.parametrize("error", [TimeoutError(), RuntimeError(""), ValueError("two\nlines"), KeyError("x")])
def test_a_model_that_breaks_is_a_proposal_of_no_use(kit: Any, error: Exception) -> None:
    def broken(_: Request) -> str:
        raise error

    found = edit(says(kit, broken))
    assert found is not None
    assert found.text == PROMPT
    assert "\n" not in found.reason


def test_an_exhausted_budget_passes_through(kit: Any) -> None:
    pupil = says(kit, kit.reply("x"))
    with pytest.raises(BudgetExhausted, match="the budget of 0 calls is spent"):
        edit(Metered(pupil, budget=Budget(Limits(calls=0))))
    assert pupil.requests == []


def test_an_endpoint_that_is_down_passes_through_with_its_reason(kit: Any) -> None:
    """Failures of the system raise; the message says what to do."""
    with pytest.raises(EndpointDown, match="start the server"):
        edit(kit.pupil(fails=lambda _: True, error=EndpointDown("start the server")))


def test_a_call_that_failed_for_good_is_a_proposal_of_no_use(kit: Any) -> None:
    found = edit(kit.pupil(fails=lambda _: True))
    assert found is not None
    assert found.text == PROMPT
    assert "the line is dead" in found.reason


async def test_proposals_made_side_by_side_keep_to_their_own_models(kit: Any) -> None:
    models = [says(kit, kit.reply(f"Prompt {i}. {{query}} {{choices}}")) for i in range(6)]
    found = await asyncio.gather(
        *(edit_prompt("answer", PROMPT, kind="answer", evidence=[FAILURE], model=model) for model in models)
    )
    assert [e.text for e in found if e is not None] == [f"Prompt {i}. {{query}} {{choices}}" for i in range(6)]


def real_failures(stage: str) -> list[Evidence]:
    """Return failures as ``gather_evidence`` tells them, with texts as users write them."""
    said = [
        "I moved to a small flat near the harbour, and my landlord does not allow pets.",
        "These days I mostly cook vegetarian food; braces {like these} stay.",
        "My knee hurts when I run, so I swim on Tuesdays instead.",
    ]
    return [
        Evidence(
            stage,  # type: ignore[arg-type]
            f'Stage: {stage}\nQuestion: What should I do about matter {i}?\nThe user said: "{text}"\n'
            f"Memory held:\n- {text[:24]}\n- The neighbour paints {{memories}}\nChosen answer: one\nRight answer: two",
        )
        for i, text in enumerate(said)
    ]


@pytest.mark.parametrize(("slot", "kind"), USED)
@pytest.mark.parametrize("stage", SLOT_OF_STAGE)
def test_the_embedded_model_as_proposer_keeps_every_slot(slot: str, kind: str, stage: str) -> None:
    """Edits build on edits, as they do in a long evolution."""
    first = getattr(default_templates(), kind)
    prompt, changed = first, 0
    for _ in range(4):
        found = edit(EmbeddedModel(), prompt, slot=slot, kind=kind, evidence=real_failures(stage))
        if found is None:
            break
        assert "of no use" not in found.reason
        assert not missing_slots(kind, found.text)
        prompt, changed = found.text, changed + 1
    assert changed
    assert len(prompt) > len(first)


@settings(deadline=None, max_examples=40)
@given(before=texts, after=texts, failures=st.lists(texts, max_size=3))
def test_the_embedded_model_keeps_the_slots_of_any_prompt(before: str, after: str, failures: list[str]) -> None:
    prompt = f"{before}\n{{memories}} {after} {{conversation}}\n{before}"
    evidence = [Evidence("write", text) for text in failures] or real_failures("write")
    found = edit(EmbeddedModel(), prompt, slot="write", kind="write_profile", evidence=evidence)
    assert found is None or not missing_slots("write_profile", found.text)
