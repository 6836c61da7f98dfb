"""Words, sentences, and the vectors made of them.

Invariants of every embedder (``EmbedderConformance``):

1. One row per text, aligned with the texts, of length 1, or 0 for a text without words.
2. A text's row does not depend on what else is asked for, nor on when.
3. No text raises.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.policies.lm.conformance import EmbedderConformance, Make
from mnemotune.policies.lm.lexical import DIMENSIONS, LexicalEmbedder
from mnemotune.policies.text import STOP_WORDS, sentences, spaced, stem, stems, words_in_order

# Words


def test_words_are_stemmed_and_stop_words_are_left_out_in_order() -> None:
    assert stems("The running dogs were happily chasing the CATS.") == ("run", "dog", "happili", "chase", "cat")
    assert stems("I am not at all sure about it") == ()


def test_snake_case_and_hyphens_are_words() -> None:
    assert stems("under_200_dollars") == ("200", "dollar")
    assert stems("head-to-head") == ("head", "head")


def test_words_of_any_script_are_words_and_a_chinese_character_is_one() -> None:
    assert stems("Sauté, ÖSTERREICH, d\u2019été") == ("sauté", "österreich", "d'été")
    assert stems("Я живу в Лиссабоне") == ("я", "живу", "в", "лиссабоне")
    assert stems("我住上海 iPhone") == ("我", "住", "上", "海", "iphon")


def test_a_vowel_sign_or_an_accent_belongs_to_the_letter_before_it() -> None:
    assert stems("मेरा बेटा डॉक्टर है") == ("मेरा", "बेटा", "डॉक्टर", "है")
    assert stems("บ้านสวย שָׁלוֹם") == ("บ้านสวย", "שָׁלוֹם")
    assert stems("cafe\u0301 de\u0301ja\u0300-vu") == stems("café déjà-vu") == ("café", "déjà", "vu")
    assert stems("می\u200cخواهم") == stems("میخواهم")  # noqa: RUF001 - Persian
    assert stems("1\ufe0f\u20e3 \u2708\ufe0f trip") == ("1", "trip")


@given(st.text(st.characters(max_codepoint=127)))
def test_english_words_are_what_they_are_without_other_scripts(text: str) -> None:
    plain = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text.lower().replace("_", " "))
    assert words_in_order(text) == re.findall(r"[a-z0-9]+(?:'[a-z]+)?", plain)


def test_curly_apostrophes_are_apostrophes_and_thousands_are_one_number() -> None:
    assert stems("I don\u2019t have 12,500 dollars") == stems("I don't have 12500 dollars") == ("12500", "dollar")


def test_stop_words_are_words_as_they_are_split() -> None:
    assert [word for word in STOP_WORDS if stems(word)] == []
    assert "" not in STOP_WORDS


def test_equal_words_have_equal_stems() -> None:
    assert stem("connected") == stem("connection") == stem("connecting")


# Sentences


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("I swim. Do you? Yes!", ("I swim.", "Do you?", "Yes!")),
        ("One line\nanother line\n\n- a third", ("One line", "another line", "- a third")),
        ('He said "Stop." Then he left.', ('He said "Stop.', "Then he left.")),
        ("It costs 3.50 dollars, e.g. for tea.", ("It costs 3.50 dollars, e.g. for tea.",)),
        ("No end", ("No end",)),
        ("Wait... what? (Really.) Yes.", ("Wait... what?", "(Really.", "Yes.")),
        ("  \n \n", ()),
        ("", ()),
    ],
)
def test_texts_are_split_at_sentence_ends_and_line_breaks(text: str, pieces: tuple[str, ...]) -> None:
    assert sentences(text) == pieces


@settings(deadline=None)
@given(text=st.text(st.characters()))
def test_no_sentence_is_empty_or_made_up(text: str) -> None:
    for piece in sentences(text):
        assert piece
        assert piece == piece.strip()
        assert piece in text
    assert set(stems(text)) == {word for piece in sentences(text) for word in stems(piece)}


# Vectors


class TestLexicalEmbedder(EmbedderConformance):
    @pytest.fixture(params=[DIMENSIONS, 1024])
    def make(self, request: pytest.FixtureRequest) -> Make:
        return lambda: LexicalEmbedder(dimensions=request.param)


def test_lexical_vectors_have_the_dimensions_asked_for() -> None:
    assert asyncio.run(LexicalEmbedder(dimensions=64).embed(["a cat"])).vectors.shape == (1, 64)
    assert asyncio.run(LexicalEmbedder().embed([])).vectors.shape == (0, DIMENSIONS)
    assert LexicalEmbedder().name == "lexical"


def test_texts_of_the_same_words_in_other_forms_and_orders_are_the_same_lexically() -> None:
    texts = ["Dogs chase the cat", "cats, chasing a dog!", "I am"]
    first, second, empty = asyncio.run(LexicalEmbedder().embed(texts)).vectors
    assert np.array_equal(first, second)
    assert not empty.any()


def test_a_word_said_twice_counts_more_but_not_double() -> None:
    once, twice, cat = asyncio.run(LexicalEmbedder().embed(["cat dog", "cat cat dog", "cat"])).vectors
    assert once @ cat == pytest.approx(0.5**0.5, abs=1e-5)
    said = 1 + np.log(2)
    assert twice @ cat == pytest.approx(said / np.hypot(said, 1), abs=1e-5)


@pytest.mark.parametrize("text", ["It isn't here.", "在 Berlin 的地下室", "あ\u3099か", "지하실에 있다", "ใต้ดิน"])
def test_a_text_that_is_spaced_has_its_words_between_spaces(text: str) -> None:
    assert spaced(text).replace(".", "").lower().split() == words_in_order(text)


PRINT_VECTOR = """
import asyncio
from mnemotune.policies.lm.lexical import LexicalEmbedder

print(asyncio.run(LexicalEmbedder().embed(["My cat sleeps in 3 boxes."])).vectors.nonzero()[1].tolist())
"""


def test_lexical_vectors_are_the_same_in_every_process() -> None:
    """Python's own hash of a text differs from process to process."""
    seen = {
        subprocess.run(
            [sys.executable, "-c", PRINT_VECTOR],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1
