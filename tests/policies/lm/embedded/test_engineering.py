"""The model as a prompt engineer.

Invariants:

1. No line of the prompt is lost or changed, so every slot stays.
2. It makes few edits, each once: a prompt that has them all stays as it is.
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
    NEWEST,
    OWN_ONLY,
    OWN_WORDS,
    REPLACE,
    SEPARATE,
    EngineeringTask,
    find_engineering_task,
    improve_prompt,
)
from mnemotune.policies.prompts import REQUIRED_SLOTS, default_templates, missing_slots

if TYPE_CHECKING:
    from .conftest import AskFor, EngineeringPrompt

KINDS = ("write_profile", "write_facts", "merge", "answer", "reply_context")
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


def improved(prompt: str, *failures: str) -> str:
    text: str = json.loads(improve_prompt(EngineeringTask(prompt, failures)))["improved_prompt"]
    return text


def is_kept(prompt: str, edited: str) -> bool:
    """Tell whether all lines of a prompt are there, in order."""
    lines = iter(edited.split("\n"))
    return all(line in lines for line in prompt.split("\n"))


# Finding


def test_a_prompt_and_failures_are_found_in_their_sections(engineering_prompt: EngineeringPrompt) -> None:
    text = engineering_prompt("Note {conversation}.\n\nBe kind.", ["one", "two\nlines"])
    assert find_engineering_task(text) == EngineeringTask("Note {conversation}.\n\nBe kind.", ("one", "two\nlines"))


def test_failures_that_are_no_list_are_one_failure(engineering_prompt: EngineeringPrompt) -> None:
    task = find_engineering_task(engineering_prompt("Note.", "It failed."))
    assert task == EngineeringTask("Note.", ("It failed.",))
    assert find_engineering_task(engineering_prompt("Note.", '{"a": 1}')) == EngineeringTask("Note.", ("{'a': 1}",))


def test_a_text_without_both_sections_is_no_such_task() -> None:
    assert find_engineering_task("[[ ## current_prompt ## ]]\nNote.") is None
    assert find_engineering_task("Please improve my prompt.") is None


def test_a_prompt_that_says_respond_with_is_read_to_its_end(engineering_prompt: EngineeringPrompt) -> None:
    prompt = "Note what matters.\nRespond with JSON.\n\nConversation:\n{conversation}"
    task = find_engineering_task(engineering_prompt(prompt, [CUT_SHORT]))
    assert task is not None
    assert task.prompt == prompt


# Edits


def test_the_reply_is_an_analysis_and_the_prompt(ask_for_json: AskFor, engineering_prompt: EngineeringPrompt) -> None:
    prompt = default_templates().write_facts
    reply = ask_for_json(engineering_prompt(prompt, [CUT_SHORT]))
    assert list(reply) == ["analysis", "improved_prompt"]
    assert reply["analysis"].startswith("Added: ")
    assert reply["improved_prompt"] != prompt


def test_a_note_that_was_cut_short_asks_for_full_statements() -> None:
    assert IN_FULL in improved(default_templates().write_facts, CUT_SHORT)
    assert IN_FULL not in improved(default_templates().write_facts, NOTHING_HELD)


def test_a_note_about_somebody_else_asks_for_the_users_own_doings() -> None:
    assert OWN_ONLY in improved(default_templates().write_facts, CUT_SHORT)
    about_the_user = CUT_SHORT.replace("- neighbour: The neighbour has roses.\n", "")
    assert OWN_ONLY not in improved(default_templates().write_facts, about_the_user)


def test_an_empty_memory_says_nothing_about_other_people() -> None:
    assert OWN_ONLY not in improved(default_templates().write_facts, NOTHING_HELD)


def test_what_was_not_noted_becomes_a_kind_that_others_have_as_well() -> None:
    edited = improved(default_templates().starting("write_profile"), NOTHING_HELD)
    lines = edited.split("\n")
    bullets = [line for line in lines if line.startswith("- ")]
    assert 1 <= len(bullets) <= MOST_EDITS
    assert any("knee" in bullet for bullet in bullets)
    assert lines[lines.index(bullets[0]) - 1].startswith("7. ")


def test_a_kind_that_is_asked_for_is_not_asked_for_again() -> None:
    prompt = default_templates().starting("write_profile")
    once = improved(prompt, NOTHING_HELD)
    kinds = [line for line in once.split("\n") if line.startswith("- ")]
    twice = improved(once, NOTHING_HELD)
    assert all(twice.count(kind.split(":")[0] + ":") == 1 for kind in kinds)


def test_words_of_no_known_kind_become_one_in_the_users_words() -> None:
    said = "My zorple flarns quibbly gromps."
    strange = f'Stage: write\nQuestion: Which gromp?\nThe user said: "{said}"\nMemory held:\nnothing'
    edited = improved(default_templates().starting("write_profile"), strange)
    (bullet,) = (line for line in edited.split("\n") if line.startswith("- "))
    assert bullet.startswith("- gromps")
    assert "zorple" in bullet


def test_a_label_that_holds_something_else_asks_for_labels_of_their_own() -> None:
    displaced = (
        'Stage: read\nQuestion: Which seeds?\nThe user said: "I watch birds from my kitchen window."\n'
        "Memory held:\n- bird: I paint what I see."
    )
    assert SEPARATE in improved(default_templates().starting("write_profile"), displaced)
    kept = displaced.replace("I paint what I see.", "I watch birds from my kitchen window.")
    assert SEPARATE not in improved(default_templates().starting("write_profile"), kept)
    assert SEPARATE not in improved(default_templates().write_facts, displaced), "facts have no labels"


def test_a_merge_prompt_learns_to_replace_and_a_question_to_rely_on_the_newest_and_the_users_own_words() -> None:
    assert REPLACE in improved(default_templates().merge, CUT_SHORT)
    edited = improved(default_templates().answer, CUT_SHORT)
    assert NEWEST in edited
    assert OWN_WORDS in edited
    assert edited.index(NEWEST) < edited.index("{choices}")


def test_without_failures_there_is_nothing_to_add() -> None:
    prompt = default_templates().write_facts
    reply = json.loads(improve_prompt(EngineeringTask(prompt, ())))
    assert reply == {"analysis": "Nothing to add.", "improved_prompt": prompt}


@pytest.mark.parametrize("kind", KINDS)
def test_the_bundled_prompts_keep_their_slots_and_lines(kind: str) -> None:
    prompt = getattr(default_templates(), kind)
    edited = improved(prompt, CUT_SHORT, NOTHING_HELD)
    assert missing_slots(kind, edited) == []
    assert is_kept(prompt, edited)
    assert len(edited.split("\n")) <= len(prompt.split("\n")) + MOST_EDITS


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_failures_again_add_nothing_new_in_the_end(kind: str) -> None:
    prompt = getattr(default_templates(), kind)
    for _ in range(5):
        before, prompt = prompt, improved(prompt, CUT_SHORT, NOTHING_HELD)
    assert prompt == before
    assert all(prompt.count(edit) <= 1 for edit in (IN_FULL, OWN_ONLY, REPLACE, NEWEST, OWN_WORDS))


PIECES = st.sampled_from(
    ["\n", "\n\n", "- a cat\n", "1. boats\n", " ", ".", "Note this", "{", "}", *IN_FULL.split(". ")]
)


@settings(deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    pieces=st.lists(PIECES | st.text(max_size=5), max_size=12),
    failures=st.lists(st.sampled_from([CUT_SHORT, NOTHING_HELD]) | st.text(max_size=40), max_size=6),
    data=st.data(),
)
def test_no_line_and_no_slot_of_any_prompt_is_lost(
    kind: str, pieces: list[str], failures: list[str], data: st.DataObject
) -> None:
    slots = [f"{{{slot}}}" for slot in REQUIRED_SLOTS[kind]]
    prompt = "".join(data.draw(st.permutations([*pieces, *slots])))
    edited = improved(prompt, *failures)
    assert is_kept(prompt, edited)
    assert missing_slots(kind, edited) == []
    assert len(edited.split("\n")) <= len(prompt.split("\n")) + MOST_EDITS
