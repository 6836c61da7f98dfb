"""What a sentence most likely asks for: 1. probabilities are of all classes and sum to 1, whatever the text;
2. what is saved is loaded as it was; 3. places to be filled, and where lines break, do not matter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.policies.lm.embedded.classifier import CLASSES, NOTHING, POLES, Classifier, bundled, chances_of, features
from mnemotune.policies.lm.embedded.meaning import ABILITIES
from mnemotune.policies.lm.embedded.strengths import FELT, LIKELY, strengths_by, strengths_of


def certain(kind: str) -> dict[str, float]:
    return {name: float(name == kind) for name in CLASSES}


@given(st.text(max_size=60))
def test_each_class_has_a_probability_invariant_1(text: str) -> None:
    chances = chances_of(text)
    assert tuple(chances) == CLASSES
    assert sum(chances.values()) == pytest.approx(1)
    assert all(0 <= chance <= 1 for chance in chances.values())


def test_every_ability_has_a_pole() -> None:
    assert {ability for ability, _ in POLES.values()} == set(ABILITIES)


def test_what_is_saved_is_loaded_as_it_was_invariant_2() -> None:
    shipped = bundled()
    loaded = Classifier.load(shipped.save())
    assert (loaded.rows, loaded.sentences) == (shipped.rows, shipped.sentences)
    for name in ("weights", "scale", "bias"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(shipped, name))


def test_places_to_be_filled_and_line_breaks_are_no_words_invariant_3() -> None:
    assert features("Keep {number} of\nthem [all].") == features("Keep of them.")


def test_what_stands_behind_a_negation_is_told_apart() -> None:
    assert "\u00acdate" in features("Never add the date.")
    assert "\u00acdate" in features("Don't add the date.")
    assert "\u00acdate" not in features("Add the date, never mind the rest.")


def test_not_only_is_no_negation() -> None:
    assert "\u00acgist" not in features("Note not only the gist but details.")


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("Our users see this in a narrow sidebar, so anything past a handful of words is wasted.", "brief"),
        ("Squirrel away every scrap that comes by, trifles included.", "full"),
        ("A reader in ten years should be able to place it on a calendar.", "dated"),
        ("Take down what Anna says and what Ben says alike.", "both speakers"),
        ("Between two clashing entries, side with the latecomer.", "newest"),
        ("Our archive needs fine-grained keywords thought up on the spot.", "own labels"),
    ],
)
def test_what_the_grammar_does_not_know_is_read_by_its_words(sentence: str, kind: str) -> None:
    ability, pole = POLES[kind]
    assert pole * strengths_by(None, sentence)[ability] < FELT
    assert pole * strengths_of(sentence)[ability] >= FELT


def test_a_sentence_about_something_else_asks_for_nothing() -> None:
    assert chances_of("You are the friendly voice of a bakery in Lyon.")[NOTHING] > LIKELY


# Together with the grammar


def test_for_or_against_is_the_grammar_s_in_a_sentence_of_words_of_instructions_alone() -> None:
    sentence = "Never leave out the date."
    alone = strengths_by(None, sentence)
    assert alone["dated"] > 0
    assert strengths_by(lambda _: certain("not dated"), sentence)["dated"] == alone["dated"]
    assert not any(strengths_by(lambda _: certain(NOTHING), sentence).values())


def test_other_words_can_make_another_meaning_likelier_than_the_grammar_s() -> None:
    sentence = "Our lawyers and the regulators in Bonn want the date of everything."
    assert strengths_by(None, sentence)["dated"] > 0
    assert not any(strengths_by(lambda _: certain(NOTHING), sentence).values())
    assert strengths_by(lambda _: certain("not dated"), sentence)["dated"] < 0
    assert strengths_by(lambda _: certain("full"), sentence)["length"] > 0


def test_an_opposite_is_worth_less_than_a_pole() -> None:
    sentence = "Whatever the weather in Bergen may be."
    asked, turned = (strengths_by(lambda _, k=kind: certain(k), sentence)["dated"] for kind in ("dated", "not dated"))
    assert -asked < turned < 0


def test_few_words_are_read_by_what_is_sure_alone() -> None:
    assert strengths_by(lambda _: certain("full"), "Bergen and Lyon.")["length"] > 0
    unsure = certain("full") | {"full": 0.7, NOTHING: 0.3}
    assert not any(strengths_by(lambda _: unsure, "Bergen and Lyon.").values())


@pytest.mark.parametrize("sentence", ['{"summary": "the whole new summary of it all"}', ""])
def test_forms_of_replies_are_no_sentence_to_be_read(sentence: str) -> None:
    assert not any(strengths_by(lambda _: certain("full"), sentence).values())
