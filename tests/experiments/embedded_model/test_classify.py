"""The classifier of instructions is fitted to sentences that nobody's fair measure is made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from mnemotune.experiments.embedded_model.classify import digest, fit, is_right, sentences, writers
from mnemotune.experiments.embedded_model.classify import tested as listed_by_tests
from mnemotune.policies.lm.embedded.classifier import CLASSES, bundled

TESTS = Path(__file__).parents[2] / "policies/lm/embedded"


def plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .!?\"'")


def test_no_sentence_is_both_learned_and_held_back() -> None:
    kinds = yaml.safe_load((TESTS / "instructions_held_back.yaml").read_text(encoding="utf-8"))
    held_back = {plain(str(text)) for texts in kinds.values() for text in texts}
    assert len(held_back) > 800
    assert not held_back & {plain(text) for _, text in sentences()}


def test_the_classifier_that_ships_is_fitted_to_these_sentences() -> None:
    assert bundled().sentences == digest(sentences()), "fit it again: see experiments/embedded_model/classify.py"


def test_each_sentence_has_a_known_class_and_no_writer_repeats_another() -> None:
    everybody = writers()
    texts = [plain(text) for labelled in everybody.values() for _, text in labelled]
    assert len(texts) > 15_000
    assert len(set(texts)) == len(texts)
    assert {kind for labelled in everybody.values() for kind, _ in labelled} == set(CLASSES)


def test_orders_in_frames_are_turned_as_their_frames_say() -> None:
    kinds = {text: kind for kind, text in listed_by_tests()}
    assert kinds["Please keep every detail."] == "full"
    assert kinds["Never ever keep every detail."] == "not full"
    assert kinds["Never ever omit the date."] == "dated"
    assert kinds["Please omit the date."] == "not dated"


@pytest.fixture(scope="module")
def few() -> list[tuple[str, str]]:
    """A fifth of what ten writers wrote."""
    return [each for name in (f"writer_{n:02d}" for n in range(1, 11)) for each in writers()[name][::5]]


def test_the_same_sentences_give_the_same_classifier_and_others_another(few: list[tuple[str, str]]) -> None:
    one, two, other = fit(few), fit(few), fit(few[:-1])
    np.testing.assert_array_equal(one.weights, two.weights)
    assert one.sentences == two.sentences != other.sentences


def test_a_classifier_reads_writers_that_it_was_not_fitted_to(few: list[tuple[str, str]]) -> None:
    fitted = fit(few)
    theirs = writers()["writer_13"]
    alone, both = (sum(is_right(*each, way) for each in theirs) for way in (None, fitted.chances))
    assert both > alone + len(theirs) / 40
