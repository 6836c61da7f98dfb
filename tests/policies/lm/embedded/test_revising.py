"""The embedded model asked to rewrite its own memory prompts.

Invariants:

1. What it keeps is the whole present text; what it adds are a few items of a list.
2. It reads the feedback of the message, whatever else is in it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.policies.lm.embedded.revising import MOST_ADDED, MOST_QUESTIONS
from mnemotune.policies.prompts import Templates, render
from mnemotune.policies.replies import read_json_object

if TYPE_CHECKING:
    from .conftest import AskFor

TEXTS = Templates.bundled()
TYPES = "1. Tastes\n2. Work"


def question(text: str, *choices: str, **told: Any) -> dict[str, Any]:
    lines = [f"Question: {text}", *(f"({letter}) {choice}" for letter, choice in zip("ABCD", choices, strict=False))]
    return {"question": ";\n".join(lines) + ";", "retrieved_memories": "- pet: a cat", **told}


def rewritten(ask: AskFor, feedback: Any, *, types: str = TYPES) -> list[str]:
    prompt = render(TEXTS.evolve_info_types, info_types=types, feedback=json.dumps(feedback, indent=2))
    return str(read_json_object(ask(prompt))["new_types"]).split("\n")


def test_it_adds_what_the_questions_ask_about_in_the_lists_own_form(ask: AskFor) -> None:
    feedback = [question("Which vegetables suit my balcony?"), question("How should I train for the marathon?")]
    assert rewritten(ask, feedback) == ["1. Tastes", "2. Work", "3. vegetables, suit, balcony", "4. train, marathon"]
    assert rewritten(ask, feedback, types="- Tastes")[1:] == ["- vegetables, suit, balcony", "- train, marathon"]
    assert rewritten(ask, feedback, types="Everything.")[1:] == ["- vegetables, suit, balcony", "- train, marathon"]


def test_what_is_on_the_list_is_not_added_again(ask: AskFor) -> None:
    assert rewritten(ask, [question("Which vegetable for balconies?")], types="- vegetables on the balcony") == [
        "- vegetables on the balcony"
    ]


def test_told_what_was_right_it_begins_with_what_went_wrong(ask: AskFor) -> None:
    feedback = [
        question("Is my cat happy?", "Give it more toys.", "No.", assistant_response="A", ground_truth="A"),
        question("What about dinner?", "Fry mushrooms.", "Bake salmon.", assistant_response="A", ground_truth="B"),
    ]
    assert rewritten(ask, feedback)[2] == "3. dinner, bake, salmon"


def test_what_the_user_told_of_comes_first(ask: AskFor) -> None:
    told = {"question_answer_history": [question("What now?")], "user_information_updates": {"pet_energy_level": "low"}}
    assert rewritten(ask, told)[2] == "3. pet, energy, level"


def test_a_whole_prompt_keeps_its_slots(ask: AskFor) -> None:
    feedback = json.dumps([question("Which vegetables suit my balcony?")])
    prompt = render(TEXTS.evolve_prompt, name="write", prompt=TEXTS.starting("write_profile"), feedback=feedback)
    text = read_json_object(ask(prompt))["new_prompt"]
    assert "{memories}" in text
    assert "{conversation}" in text
    assert "8. vegetables, suit, balcony" in text


@pytest.mark.parametrize("feedback", [[], {}, [{}], "none", {"question_answer_history": 3}])
def test_without_feedback_it_is_no_such_task(feedback: Any, ask: AskFor) -> None:
    prompt = render(TEXTS.evolve_info_types, info_types=TYPES, feedback=json.dumps(feedback))
    assert "new_types" not in ask(prompt)


@given(words=st.lists(st.text(alphabet="abcdefghij klm?(){}", min_size=3, max_size=40), min_size=1, max_size=9))
def test_whatever_is_asked_it_keeps_the_list_and_adds_a_few_invariant_1(words: list[str], ask: AskFor) -> None:
    lines = rewritten(ask, [question(text) for text in words])
    assert lines[:2] == TYPES.split("\n")
    assert len(lines) - 2 <= min(MOST_ADDED, MOST_QUESTIONS)
