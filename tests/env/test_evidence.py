"""Evidence recall: what memory shows counts, not what a model makes of it.

Invariants:

1. A message that told a fact is evidence as long as all of it is shown.
2. More that is shown never takes evidence away.
3. What is entailed stays so whatever else is shown, and what has none of a fact's words never entails it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toy
from mnemotune.data.task import Check, Fact
from mnemotune.env import Evaluator
from mnemotune.env.evidence import entails, evidence, recall, stands_in, telling
from mnemotune.policies import load_policy
from mnemotune.policies.lm import Message
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.memory import Context, Item
from mnemotune.policies.prompts import Templates
from staged import evaluator

if TYPE_CHECKING:
    from .conftest import MakeCast, MakeModel, MakeScenario

TOLD = "It rained again on Sunday. I swapped my old bicycle for a red cargo bike. What should I cook tonight?"
BIKE = Fact("bike@0", "bike", "bike", "bike_type: cargo_bike", 0, sources=(TOLD,))
CHECK = Check("0.0", "0", 0, needs=(BIKE.id,), chance=0.0)
texts = st.lists(st.sampled_from([TOLD, "red cargo bike", "I swapped my bicycle", "rain", ""]), max_size=5)


class Bicycles:
    """A task with one fact and one check."""

    id = group = "ann"
    stages = 1
    facts = {BIKE.id: BIKE}
    checks = {CHECK.id: CHECK}


def shown(*items: str, said: str = "", **given: Any) -> bool:
    messages = (Message("user", said),) if said else ()
    template = "{memories}" if items else None
    context = Context(tuple(Item(str(n), text) for n, text in enumerate(items)), messages, template)
    return evidence(Bicycles(), CHECK, context, **given)[BIKE.id]


def test_the_sentence_that_tells_a_fact_is_the_one_nearest_to_its_words() -> None:
    assert telling(BIKE.text, TOLD) == "I swapped my old bicycle for a red cargo bike."
    assert telling("hobby: chess", TOLD) == TOLD


@pytest.mark.parametrize(
    ("item", "is_evidence"),
    [
        (f"user: {TOLD}", True),
        ("I swapped my old bicycle for a red cargo bike.", True),
        ("The user swapped an old bicycle for a cargo bike that is red", True),
        ("bike type: cargo bike", True),
        ("It rained again on Sunday. What should I cook tonight?", False),
        ("The user has an old bicycle", False),
        ("", False),
    ],
)
def test_a_memory_with_most_words_of_what_was_told_is_evidence_invariant_1(item: str, *, is_evidence: bool) -> None:
    assert shown(item) is is_evidence


def test_a_message_of_the_buffer_is_evidence_too_invariant_1() -> None:
    assert shown(said=TOLD)


def test_words_that_stand_in_several_memories_are_no_evidence() -> None:
    assert not shown("I swapped my old bicycle", "a red cargo", "a bike")


def test_a_track_that_reads_the_words_by_itself_is_believed() -> None:
    assert shown("velo", states=lambda fact, text: fact is BIKE and "velo" in text)
    assert not shown("velo", states=lambda fact, text: None)


@given(texts=texts, more=texts)
def test_more_that_is_shown_takes_no_evidence_away_invariant_2(texts: list[str], more: list[str]) -> None:
    assert shown(*texts) <= shown(*texts, *more)


def test_recall_is_the_share_of_the_facts_and_unknown_without_any() -> None:
    assert recall({"a": True, "b": False}) == 0.5
    assert math.isnan(recall({}))


def test_a_text_without_content_words_stands_where_its_words_stand_together() -> None:
    assert stands_in("Yes, we did that!", ["ann: Yes, we did that. And then?"])
    assert not stands_in("Yes, we did that!", ["We did. Yes, that!"])
    assert not stands_in("I am", ["I amble"])
    assert not stands_in(" ", ["Yes"])


@pytest.mark.parametrize(
    ("told", "note", "other"),
    [
        ("Я живу в Лиссабоне.", "user: Я живу в Лиссабоне.", "user: Мой брат любит рыбу."),
        ("我住在里斯本的河边。", "user: 我住在里斯本的河边。", "user: 我的弟弟喜欢吃鱼。"),
        ("Gloria wohnt in Österreich.", "Gloria wohnt in ÖSTERREICH", "Gloria wohnt in Sterreich"),
    ],
)
def test_words_of_other_scripts_count_as_words(told: str, note: str, other: str) -> None:
    assert stands_in(told, [note])
    assert not stands_in(told, [other])


async def test_a_memory_of_everything_shows_all_evidence_and_one_of_nothing_none(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    lives = [make_scenario(user=name) for name in ("ann", "ben")]
    recalls = {}
    for tokens in (None, 1):
        cast = replace(make_cast(make_model()), context_tokens=tokens)
        evaluation = await evaluator(cast).evaluate(load_policy("native"), lives)
        recalls[tokens] = [group.evidence for group in evaluation.groups]
    assert recalls == {None: [1.0, 1.0], 1: [0.0, 0.0]}


async def test_other_tracks_tell_evidence_as_well(make_cast: MakeCast) -> None:
    track = toy.LettersTrack(Templates.bundled())
    letters = track.load("letters:1:2")
    evaluation = await Evaluator(track, make_cast(EmbeddedModel())).evaluate(load_policy("native"), letters)
    assert [group.evidence for group in evaluation.groups] == [1.0] * len(evaluation.groups)


@pytest.mark.parametrize(
    ("lines", "entailed"),
    [
        ([TOLD], True),
        (["I swapped my old bicycle for a red cargo bike"], True),
        (["type of bike: cargo"], True),
        (["It rained again.", "Dinner tonight"], False),
        ([], False),
        (["The user rides a bike"], None),
    ],
)
def test_words_show_what_is_entailed_and_a_model_reads_the_rest(lines: list[str], entailed: bool | None) -> None:
    assert entails(BIKE, lines) is entailed


def test_a_fact_without_content_words_is_not_ruled_out() -> None:
    fact = replace(BIKE, text="Yes, that!", sources=("Yes, that!",))
    assert entails(fact, ["It rained again."]) is None
    assert entails(fact, ["Yes, that!"])


def test_nothing_is_ruled_out_where_it_is_not_known_how_a_fact_was_told() -> None:
    assert entails(replace(BIKE, sources=()), ["It rained again."]) is None


@given(texts, texts)
def test_more_lines_never_take_an_entailment_away_invariant_3(some: list[str], others: list[str]) -> None:
    if entails(BIKE, some):
        assert entails(BIKE, [*others, *some])
    if entails(BIKE, [*others, *some]) is False:
        assert entails(BIKE, some) is False
