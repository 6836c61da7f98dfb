"""The model as a prompt engineer.

Invariants:

1. No line of a prompt is lost or changed, so every slot stays.
2. It makes few edits, each once: prompts that have them all stay as they are.
3. It changes one number at most, to another value within its bounds.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.policies.lm.embedded.engineering import (
    IN_FULL,
    MOST_EDITS,
    MOST_FAILURES,
    NEWEST,
    OWN_ONLY,
    OWN_WORDS,
    PLAINLY,
    REPLACE,
    SEPARATE,
    STARTING_SIZE,
    Edit,
    EngineeringTask,
    find_engineering_task,
    improve,
)
from mnemotune.policies.lm.embedded.strengths import strengths_of
from mnemotune.policies.prompts import Templates

if TYPE_CHECKING:
    from .conftest import AskFor, EngineeringPrompt

EDITS = (IN_FULL, OWN_ONLY, SEPARATE, REPLACE, NEWEST, OWN_WORDS)
KINDS = ("write_profile", "write_facts", "merge", "reply_context", "reply_external")
CUT_SHORT = (
    "Stage: write\n"
    "Question: Which plants suit my balcony?\n"
    'The user said: "I grow heirloom tomatoes on a shady balcony in the old town. Any ideas?"\n'
    "Memory held:\n"
    "- tomato: I grow heirloom tomatoes on a\n"
    "- neighbour: The neighbour has roses.\n"
    "Chosen answer: Roses.\n"
    "Right answer: Ferns."
)
NOTHING_HELD = (
    "Stage: write\n"
    "Question: What should my knee exercise look like?\n"
    'The user said: "My knee hurts whenever I climb stairs quickly."\n'
    "Memory held:\n"
    "nothing"
)
HELD = (
    "Stage: utilisation\n"
    "Question: What should my knee exercise look like?\n"
    'The user said: "My knee hurts whenever I climb stairs quickly."\n'
    "Memory held:\n"
    "- knee: My knee hurts whenever I climb stairs quickly."
)


def improved(prompt: str, *failures: str) -> str:
    reply = json.loads(improve(EngineeringTask({"prompt": prompt}, {}, failures)))
    assert reply["improved_prompts"].keys() <= {"prompt"}
    text: str = reply["improved_prompts"].get("prompt", prompt)
    return text


def changed(numbers: dict[str, str], *failures: str) -> dict[str, int | str]:
    found: dict[str, int | str] = json.loads(improve(EngineeringTask({}, numbers, failures)))["improved_numbers"]
    return found


def has(edit: Edit, prompt: str) -> bool:
    """Tell whether a prompt has an edit in one of its wordings."""
    return any(wording in prompt for wording in edit.wordings)


def is_kept(prompt: str, edited: str) -> bool:
    """Tell whether all lines of a prompt are there, in order."""
    lines = iter(edited.split("\n"))
    return all(line in lines for line in prompt.split("\n"))


# Finding


def test_prompts_numbers_and_failures_are_found_in_their_sections(engineering_prompt: EngineeringPrompt) -> None:
    prompts = {"write": "Note {conversation}.\n\nBe kind.", "reply": 'Say "{memories}".'}
    numbers = {"top_k": "30 (2 to 60): memories", "roles": "both (user or both): whose"}
    task = find_engineering_task(engineering_prompt(prompts, ["one", "two\nlines"], numbers))
    assert task == EngineeringTask(prompts, numbers, ("one", "two\nlines"))


def test_failures_that_are_no_list_are_one_failure(engineering_prompt: EngineeringPrompt) -> None:
    prompts = {"write": "Note."}
    task = find_engineering_task(engineering_prompt(prompts, "It failed."))
    assert task == EngineeringTask(prompts, {}, ("It failed.",))
    task = find_engineering_task(engineering_prompt(prompts, '{"a": 1}'))
    assert task == EngineeringTask(prompts, {}, ('{"a": 1}',))


@pytest.mark.parametrize("text", ["Note.", "[1, 2]", "7", "", "{", "null"])
def test_what_is_no_mapping_holds_no_prompts_and_no_numbers(text: str) -> None:
    asked = f"[[ ## current_prompts ## ]]\n{text}\n\n[[ ## current_numbers ## ]]\n{text}\n\n[[ ## failures ## ]]\n[]"
    assert find_engineering_task(asked) == EngineeringTask({}, {}, ())


def test_numbers_may_be_missing() -> None:
    asked = '[[ ## current_prompts ## ]]\n{"merge": "Note."}\n\n[[ ## failures ## ]]\n["x"]'
    assert find_engineering_task(asked) == EngineeringTask({"merge": "Note."}, {}, ("x",))


def test_a_text_without_both_sections_is_no_such_task() -> None:
    assert find_engineering_task('[[ ## current_prompts ## ]]\n{"write": "Note."}') is None
    assert find_engineering_task('[[ ## failures ## ]]\n["It failed."]') is None
    assert find_engineering_task("Please improve my prompt.") is None


def test_a_prompt_that_says_respond_with_is_read_to_its_end(engineering_prompt: EngineeringPrompt) -> None:
    prompts = {"write": "Note what matters.\nRespond with a JSON object.\n\nConversation:\n{conversation}"}
    task = find_engineering_task(engineering_prompt(prompts, [CUT_SHORT]))
    assert task is not None
    assert task.prompts == prompts


# Prompts


def test_the_reply_is_an_analysis_the_prompts_and_the_numbers(
    ask_for_json: AskFor, engineering_prompt: EngineeringPrompt
) -> None:
    prompts = {
        "write": Templates.bundled().write_facts,
        "reply": f"{NEWEST.wordings[0]}\n{OWN_WORDS.wordings[0]}\nMemories: {{memories}}",
    }
    reply = ask_for_json(engineering_prompt(prompts, [CUT_SHORT], {"update_every": "8 (2 to 16)"}))
    assert list(reply) == ["analysis", "improved_prompts", "improved_numbers"]
    assert reply["analysis"].startswith("Added: ")
    assert list(reply["improved_prompts"]) == ["write"], "what stays as it is is not told"
    assert reply["improved_prompts"]["write"] != prompts["write"]
    assert reply["improved_numbers"] == {"update_every": 4}


def test_a_note_that_was_cut_short_asks_for_full_statements() -> None:
    assert has(IN_FULL, improved(Templates.bundled().write_facts, CUT_SHORT))
    assert not has(IN_FULL, improved(Templates.bundled().write_facts, NOTHING_HELD))


def test_a_note_about_somebody_else_asks_for_the_users_own_doings() -> None:
    assert has(OWN_ONLY, improved(Templates.bundled().write_facts, CUT_SHORT))
    about_the_user = CUT_SHORT.replace("- neighbour: The neighbour has roses.\n", "")
    assert not has(OWN_ONLY, improved(Templates.bundled().write_facts, about_the_user))


def test_an_empty_memory_says_nothing_about_other_people() -> None:
    assert not has(OWN_ONLY, improved(Templates.bundled().write_facts, NOTHING_HELD))


def test_what_was_not_noted_becomes_a_kind_that_others_have_as_well() -> None:
    edited = improved(Templates.bundled().starting("write_profile"), NOTHING_HELD)
    lines = edited.split("\n")
    bullets = [line for line in lines if line.startswith("- ")]
    assert 1 <= len(bullets) <= MOST_EDITS
    assert any("knee" in bullet for bullet in bullets)
    assert lines[lines.index(bullets[0]) - 1].startswith("7. ")


def test_a_kind_that_is_asked_for_is_not_asked_for_again() -> None:
    prompt = Templates.bundled().starting("write_profile")
    once = improved(prompt, NOTHING_HELD)
    kinds = [line for line in once.split("\n") if line.startswith("- ")]
    twice = improved(once, NOTHING_HELD)
    assert kinds
    assert all(twice.count(kind.split(":")[0] + ":") == 1 for kind in kinds)


def test_words_of_no_known_kind_become_one_in_the_users_words() -> None:
    said = "My zorple flarns quibbly gromps."
    strange = f'Stage: write\nQuestion: Which gromp?\nThe user said: "{said}"\nMemory held:\nnothing'
    edited = improved(Templates.bundled().starting("write_profile"), strange)
    (bullet,) = (line for line in edited.split("\n") if line.startswith("- "))
    assert bullet.startswith("- gromps")
    assert "zorple" in bullet


def test_a_label_that_holds_something_else_asks_for_labels_of_their_own() -> None:
    displaced = (
        'Stage: read\nQuestion: Which seeds?\nThe user said: "I watch birds from my kitchen window."\n'
        "Memory held:\n- bird: I paint what I see."
    )
    assert has(SEPARATE, improved(Templates.bundled().starting("write_profile"), displaced))
    kept = displaced.replace("I paint what I see.", "I watch birds from my kitchen window.")
    assert not has(SEPARATE, improved(Templates.bundled().starting("write_profile"), kept))
    assert not has(SEPARATE, improved(Templates.bundled().write_facts, displaced)), "facts have no labels"


def test_a_merge_prompt_learns_to_replace_and_a_reply_prompt_to_rely_on_the_newest_and_the_users_own_words() -> None:
    assert has(REPLACE, improved(Templates.bundled().merge, CUT_SHORT))
    edited = improved(Templates.bundled().reply_context, HELD)
    instructions = edited[: edited.index("{memories}")]
    assert has(NEWEST, instructions)
    assert has(OWN_WORDS, instructions)


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.ability)
def test_each_wording_of_an_edit_has_its_effect(edit: Edit) -> None:
    assert len(set(edit.wordings)) >= 3
    for wording in edit.wordings:
        assert strengths_of(wording)[edit.ability] >= PLAINLY, wording


def test_an_edit_is_worded_after_the_failures_so_that_the_next_one_is_worded_otherwise() -> None:
    failures = (CUT_SHORT.replace("Ferns", right) for right in ("Ferns", "Moss", "Ivy", "Hostas", "Mint"))
    edited = {improved(Templates.bundled().write_facts, failure) for failure in failures}
    assert len(edited) > 1
    assert all(has(IN_FULL, prompt) for prompt in edited)


def test_what_a_prompt_asks_for_in_other_words_is_not_asked_for_again() -> None:
    prompt = Templates.bundled().write_facts
    asks = prompt.replace("Return JSON", "Be as detailed as possible.\nReturn JSON")
    assert not has(IN_FULL, improved(asks, CUT_SHORT))
    denies = prompt.replace("Return JSON", "Do not be detailed.\nReturn JSON")
    assert has(IN_FULL, improved(denies, CUT_SHORT))


def test_without_failures_there_is_nothing_to_add() -> None:
    prompts = {"write": Templates.bundled().write_facts}
    reply = json.loads(improve(EngineeringTask(prompts, {"top_k": "2 (2 to 60)"}, ())))
    assert reply == {"analysis": "Nothing to add.", "improved_prompts": {}, "improved_numbers": {}}


@pytest.mark.parametrize("kind", KINDS)
def test_the_bundled_prompts_keep_their_slots_and_lines_invariants_1_2(kind: str) -> None:
    prompt = getattr(Templates.bundled(), kind)
    edited = improved(prompt, CUT_SHORT, NOTHING_HELD)
    assert Templates.missing_slots(kind, edited) == []
    assert is_kept(prompt, edited)
    assert len(edited.split("\n")) <= len(prompt.split("\n")) + MOST_EDITS


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_failures_again_add_nothing_new_in_the_end_invariant_2(kind: str) -> None:
    prompt = getattr(Templates.bundled(), kind)
    for _ in range(5):
        before, prompt = prompt, improved(prompt, CUT_SHORT, NOTHING_HELD)
    assert prompt == before
    assert all(sum(map(prompt.count, edit.wordings)) <= 1 for edit in EDITS)


def test_the_edits_of_all_prompts_together_are_few_invariant_2() -> None:
    prompts = {kind: getattr(Templates.bundled(), kind) for kind in KINDS}
    edited = json.loads(improve(EngineeringTask(prompts, {}, (CUT_SHORT, NOTHING_HELD))))["improved_prompts"]
    assert edited
    assert sum(len(text.split("\n")) - len(prompts[kind].split("\n")) for kind, text in edited.items()) == MOST_EDITS


def test_only_the_first_failures_are_read() -> None:
    failures = [NOTHING_HELD] * MOST_FAILURES
    prompt = Templates.bundled().write_facts
    assert improved(prompt, *failures, CUT_SHORT) == improved(prompt, *failures)


PIECES = st.sampled_from(["\n", "\n\n", "- a cat\n", "1. boats\n", " ", ".", "Note this", "{", "}", *IN_FULL.wordings])


@settings(deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    pieces=st.lists(PIECES | st.text(max_size=5), max_size=12),
    failures=st.lists(st.sampled_from([CUT_SHORT, NOTHING_HELD]) | st.text(max_size=40), max_size=6),
    data=st.data(),
)
def test_no_line_and_no_slot_of_any_prompt_is_lost_invariants_1_2(
    kind: str, pieces: list[str], failures: list[str], data: st.DataObject
) -> None:
    slots = [f"{{{slot}}}" for slot in Templates.slots()[kind].required]
    prompt = "".join(data.draw(st.permutations([*pieces, *slots])))
    edited = improved(prompt, *failures)
    assert is_kept(prompt, edited)
    assert Templates.missing_slots(kind, edited) == []
    assert len(edited.split("\n")) <= len(prompt.split("\n")) + MOST_EDITS


# Numbers


@pytest.mark.parametrize(
    ("numbers", "failure", "change"),
    [
        ({"top_k": "30 (2 to 60): memories"}, HELD, {"top_k": 45}),
        ({"top_k": "30 (2 to 40): memories"}, HELD, {"top_k": 40}),
        ({"top_k": "30 (2 to 60): memories"}, NOTHING_HELD, {}),
        ({"buffer_size": "4 (0 to 32)"}, NOTHING_HELD, {"buffer_size": 8}),
        ({"buffer_size": "0 (0 to 32)"}, NOTHING_HELD, {"buffer_size": STARTING_SIZE}),
        ({"buffer_size": "4 (0 to 32)"}, HELD, {}),
        ({"update_every": "8 (2 to 16)"}, NOTHING_HELD, {"update_every": 4}),
        ({"update_every": "2 (2 to 16)"}, NOTHING_HELD, {}),
        ({"roles": "both (user or both): whose"}, CUT_SHORT, {"roles": "user"}),
        ({"roles": "user (user or both): whose"}, CUT_SHORT, {}),
        ({"roles": "both (user or both): whose"}, HELD, {}),
    ],
)
def test_a_number_follows_what_memory_held(numbers: dict[str, str], failure: str, change: dict[str, int | str]) -> None:
    """What was held was brought back too rarely; what was not held was written too late, or with others' doings."""
    assert changed(numbers, failure) == change


def test_the_number_that_most_failures_speak_for_is_changed_invariant_3() -> None:
    numbers = {"top_k": "10 (2 to 60)", "buffer_size": "4 (0 to 32)", "order": "time (time or relevance)"}
    assert changed(numbers, HELD, HELD, NOTHING_HELD) == {"top_k": 15}
    assert changed(numbers, HELD, NOTHING_HELD, NOTHING_HELD) == {"buffer_size": 8}


@pytest.mark.parametrize("told", ["", "many", "7", "7 (low to high)", "-3 (0 to 5)", f"{'9' * 5000} (0 to 5)"])
def test_a_number_that_cannot_be_read_stays_as_it_is(told: str) -> None:
    assert changed({"top_k": told, "roles": told, "update_every": told}, HELD, NOTHING_HELD, CUT_SHORT) == {}


@given(
    values=st.dictionaries(
        st.sampled_from(["top_k", "buffer_size", "update_every"]),
        st.tuples(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99)).map(sorted),
    ),
    failures=st.lists(st.sampled_from([CUT_SHORT, NOTHING_HELD, HELD]), max_size=5),
)
def test_a_changed_number_is_another_one_within_its_bounds_invariant_3(
    values: dict[str, list[int]], failures: list[str]
) -> None:
    numbers = {name: f"{value} ({low} to {high}): what it is" for name, (low, value, high) in values.items()}
    found = changed(numbers, *failures)
    assert len(found) <= 1
    for name, new in found.items():
        low, value, high = values[name]
        assert isinstance(new, int)
        assert low <= new <= high
        assert new != value
