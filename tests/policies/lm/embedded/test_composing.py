"""The embedded model as an author of made-up lives.

Invariants:

1. It knows which piece is wanted from the form of the reply alone, and composes it from what the prompt says.
2. What it writes, its own ordinary reading understands.
3. No prompt makes it raise, and no prompt of another kind makes it compose.
"""

from __future__ import annotations

import json
import re
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.env.dialogue.generation.checks import giveaways
from mnemotune.env.dialogue.generation.texts import GenerationTexts
from mnemotune.policies.lm import Message
from mnemotune.policies.lm.embedded.composing import compose
from mnemotune.policies.lm.embedded.phrases import PHRASES
from mnemotune.policies.lm.embedded.reading import Reading
from mnemotune.policies.prompts import Templates, render
from mnemotune.policies.text import stems

if TYPE_CHECKING:
    from .conftest import AskFor

TEXTS = GenerationTexts.bundled()
PROFILE = "name: Ann Lee\noccupation: baker\nhobbies_and_interests: chess, rose growing"


def prompt(kind: str, **slots: Any) -> str:
    texts = {name: value if isinstance(value, str) else json.dumps(value, indent=2) for name, value in slots.items()}
    return render(getattr(TEXTS, kind), **texts)


def test_questions_are_about_what_the_profile_names(ask_for_json: AskFor) -> None:
    asked = prompt("questions", profile=PROFILE, questions="5", states="3", choices="6", language="English")
    questions = ask_for_json(asked)["questions"]
    assert len(questions) == 5
    assert any("chess" in one["question"] for one in questions)
    assert any("baker work" in one["question"] for one in questions)
    for one in questions:
        assert len({info["info_type"] for info in one["required_info"]}) == 3
        assert all(len(set(info["info_choices"])) == 6 for info in one["required_info"])


@pytest.mark.parametrize("facet", PHRASES.facets)
def test_what_it_says_of_a_value_it_understands_itself(facet: str, ask_for_json: AskFor) -> None:
    """2. For each value of each facet: a message, and an answer that hints at it among those that hint at others."""
    info, values = f"chess_{facet}", [*PHRASES.facets[facet].values, *(f"variant_{facet}{n}" for n in range(5, 11))]
    for value in values:
        (query,) = ask_for_json(prompt("first_queries", state={info: value}, most="3"))["queries"]
        schema = f"{json.dumps(info)}: {json.dumps(values)}"
        assert ask_for_json(prompt("check_query", query=query["query"], schema=schema)) == {info: value}
    variants = "\n".join(f"{n}: {json.dumps({info: value})}" for n, value in enumerate(values, 1))
    answers = [one["answer"] for one in ask_for_json(prompt("answers", question="How?", variants=variants))["answers"]]
    choices = "\n".join(f"{n}: {answer}" for n, answer in enumerate(answers, 1))
    for n, value in enumerate(values, 1):
        assert giveaways(answers[n - 1], [value]) == []
        asked = prompt("check_answer", question="How?", state={info: value}, choices=choices)
        assert ask_for_json(asked) == {"answer": n}


def test_no_word_belongs_to_two_values() -> None:
    words = {value: set(stems(value)) for facet in PHRASES.facets.values() for value in facet.values}
    assert [pair for pair in combinations(words, 2) if words[pair[0]] & words[pair[1]]] == []
    said = {word for facet in PHRASES.facets.values() for line in (*facet.say, *facet.advice) for word in stems(line)}
    assert [value for value in words if words[value] & said] == []


def test_values_that_somebody_else_thought_of_are_hinted_at_too(ask_for_json: AskFor) -> None:
    values = ("5_hours_weekly", "beginner", "runs")
    variants = "\n".join(f"{n}: {json.dumps({'how_much': value})}" for n, value in enumerate(values, 1))
    answers = ask_for_json(prompt("answers", question="How?", variants=variants))["answers"]
    for value, one in zip(values, answers, strict=True):
        assert giveaways(one["answer"], [value]) == []
        assert set(stems(value)) <= set(stems(one["answer"]))


def test_the_states_that_changed_least_change_next(ask_for_json: AskFor) -> None:
    state = {f"chess_{facet}": PHRASES.facets[facet].values[0] for facet in PHRASES.facets}
    counts = {info: n for n, info in enumerate(state)}
    schema = {f"chess_{facet}": PHRASES.facets[facet].values for facet in PHRASES.facets}
    asked = prompt("update", state=state, schema=schema, counts=counts, changes="3", most="9", history=[], profile="")
    updated = ask_for_json(asked)["updated"]
    assert list(updated) == list(state)[:3]
    assert all(updated[info] != state[info] for info in updated)


def test_a_persona_gives_a_name_and_a_description(ask_for_json: AskFor) -> None:
    told = "age: 41\npersona: Rosa Diaz drives a bus. She sings.\nprofessional persona: Calm at the wheel."
    assert ask_for_json(prompt("profile", persona=told)) == {
        "name": "Rosa Diaz",
        "profile": "Rosa Diaz drives a bus. Calm at the wheel.",
    }


def test_after_a_reply_that_could_not_be_used_it_composes_again_in_other_words() -> None:
    state = {f"chess_{facet}": values.values[0] for facet, values in list(PHRASES.facets.items())[:3]}
    first = Message("user", prompt("first_queries", state=state, most="3"))
    reading = Reading()
    said = compose([first], reading)
    assert said is not None
    again = {compose([first, Message("assistant", said), Message("user", f"Mend it: {n}")], reading) for n in range(5)}
    assert None not in again
    assert len(again | {said}) > 2


@pytest.mark.parametrize("kind", Templates.slots())
def test_prompts_of_other_kinds_are_not_taken_for_its_own(kind: str) -> None:
    """3."""
    text = getattr(Templates.bundled(), kind)
    assert compose([Message("user", text)], Reading()) is None
    assert compose([Message("system", TEXTS.questions), Message("user", text)], Reading()) is None


@pytest.mark.parametrize("kind", GenerationTexts.slots())
@given(
    filling=st.sampled_from(
        ["", "{}", "[]", "[1]", '{"a": []}', '{"a": ["x"]}', '{"a": {}}', "[{}]", "\ud800", "9" * 9]
    ),
    cut=st.integers(0, 900),
)
def test_no_prompt_makes_it_raise(kind: str, filling: str, cut: int) -> None:
    """3. Whatever is in the slots, and wherever the prompt ends."""
    text = re.sub(r"\{[a-z_]+\}", lambda _: filling, getattr(TEXTS, kind))
    for asked in (text, text[cut:], text[: len(text) - cut]):
        compose([Message("user", asked)], Reading())
