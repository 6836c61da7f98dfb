"""How the embedded model reads.

Invariants:

1. The shares of attention are never negative and sum to 1.
2. Competition is what makes it forget: more talk about the same leaves less attention for each.
3. The order of sets does not matter: every process reads alike.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.policies.lm import Message
from mnemotune.policies.lm.embedded.quantities import Quantity
from mnemotune.policies.lm.embedded.reading import Reading, ReadText, attend, read_messages, votes, weigh
from mnemotune.policies.lm.embedded.sentences import NOBODY, OWN, Sentence, Words, words_of

STEMS = st.frozensets(st.sampled_from("abcdefgh"), max_size=5)
GROUPS = st.frozensets(st.sampled_from(["\u2248x", "\u2248y"]), max_size=2)
WORDS = st.builds(Words, STEMS, GROUPS)
SENTENCES = st.builds(Sentence, text=st.just(""), said=WORDS, voice=st.floats(0, 1))
PARAMETERS = st.builds(
    Reading,
    sharpness=st.floats(0, 30),
    voice=st.floats(0, 5),
    forgetting=st.floats(0, 3),
    habit=st.floats(-3, 3),
    kinship=st.floats(0, 1),
)
EVEN = Reading(sharpness=12.0, voice=2.0, forgetting=0.0)
"""A reader for whom place does not matter."""


def said(text: str, *, voice: float = OWN) -> Sentence:
    return Sentence(text, words_of(text), voice)


def shares(context: list[Sentence], cue: str, reading: Reading = EVEN) -> list[float]:
    return list(attend(ReadText(context), words_of(cue).all, reading))


# Attention


@settings(deadline=None)
@given(context=st.lists(SENTENCES, max_size=10), cue=STEMS | GROUPS, reading=PARAMETERS)
def test_the_shares_of_attention_are_never_negative_and_sum_to_one(
    context: list[Sentence], cue: frozenset[str], reading: Reading
) -> None:
    attention = attend(ReadText(context), cue, reading)
    assert len(attention) == len(context)
    assert all(share >= 0 for share in attention)
    assert sum(attention) == pytest.approx(1 if context else 0)


def test_attention_goes_to_what_is_like_the_question_and_to_the_users_own_words() -> None:
    like, unlike = shares([said("The cat wants food."), said("Taxes are due.")], "cat food")
    assert like > unlike
    own, other = shares([said("I own a cat."), said("I own a cat.", voice=NOBODY)], "cat food")
    assert own > other


def test_what_is_said_in_other_words_is_found_as_well() -> None:
    kindred, unlike = shares([said("We live in a flat."), said("We live in a dream.")], "apartment")
    assert kindred > unlike


def test_what_was_said_last_is_read_best() -> None:
    attention = shares([said("The cat wants food.")] * 60, "cat food", Reading())
    assert attention == sorted(attention)
    assert attention[-1] > 2 * attention[0]


def test_what_is_most_alike_sets_the_measure_for_all_others() -> None:
    """A question that shares little with all that was said is answered from what shares most."""
    near, far = "The cat wants food.", "The cat sleeps."
    sharp = shares([said(near), said(far)], "cat food")
    vague = shares([said(near), said(far)], "cat food of all the colours and the sounds on the shelf")
    assert vague == pytest.approx(sharp)


def test_without_any_preference_all_count_alike() -> None:
    context = [said("The cat wants food."), said("Taxes are due.", voice=NOBODY), said("cat")]
    assert shares(context, "cat", Reading(0.0, 1.0, 0.0, 0.0)) == pytest.approx([1 / 3] * 3)


def test_more_talk_about_the_same_leaves_less_attention_for_each() -> None:
    talk = [said(f"The cat wants food {i}.") for i in range(20)]
    first = [shares(talk[:length], "cat food")[0] for length in (1, 2, 5, 20)]
    assert first == pytest.approx([1, 1 / 2, 1 / 5, 1 / 20])


def test_dates_tell_the_order_of_listed_memories() -> None:
    listed = "- I own a cat. (2021-05-04)\n- I live here.\n- I own a dog. (2020-01-01)"
    context = read_messages([Message("system", listed)])
    assert [sentence.text for sentence in context.sentences] == ["I own a cat.", "I live here.", "I own a dog."]
    assert list(context.order) == [2, 1, 0]


# What speaks for an option


@settings(deadline=None)
@given(
    context=st.lists(SENTENCES, max_size=8),
    cue=STEMS,
    options=st.lists(WORDS, min_size=1, max_size=5),
    reading=PARAMETERS,
)
def test_what_speaks_for_an_option_is_never_negative_and_needs_a_shared_word(
    context: list[Sentence], cue: frozenset[str], options: list[Words], reading: Reading
) -> None:
    scores = weigh(ReadText(context), cue, options, reading)
    assert len(scores) == len(options)
    for score, option in zip(scores, options, strict=True):
        assert score >= 0
        assert score == 0 or any(option.all & sentence.words for sentence in context)


@settings(deadline=None)
@given(context=st.lists(SENTENCES, min_size=1, max_size=8), options=st.lists(WORDS, min_size=2, max_size=5))
def test_no_sentence_speaks_louder_than_one(context: list[Sentence], options: list[Words]) -> None:
    spoken = votes(ReadText(context), options, EVEN)
    assert spoken.shape == (len(context), len(options))
    assert np.all((spoken >= 0) & (spoken < 1))


def test_what_tells_the_options_apart_counts_and_the_rarer_the_more() -> None:
    options = [words_of("old cat"), words_of("young cat"), words_of("dog")]
    old, young, dog = weigh(ReadText([said("old cat")]), frozenset(), options, EVEN)
    assert old > young > dog == 0
    old, young, dog = weigh(ReadText([said("A cat, a dog.")]), frozenset(), options, EVEN)
    assert old == pytest.approx(young)
    assert dog > old


def test_a_kindred_word_speaks_for_an_option_but_not_as_loud_as_the_word() -> None:
    options = [words_of("apartment"), words_of("farm")]
    ((kindred, _),) = votes(ReadText([said("We live in a flat.")]), options, EVEN)
    ((same, _),) = votes(ReadText([said("We live in an apartment.")]), options, EVEN)
    assert same > kindred > 0
    ((deaf, _),) = votes(ReadText([said("We live in a flat.")]), options, replace(EVEN, kinship=0.0))
    assert deaf == 0


def test_a_number_speaks_for_the_range_that_it_is_in() -> None:
    options = [words_of(name) for name in ("plot_500_1500_sqft", "plot_over_1500_sqft", "plot_under_500_sqft")]
    assert options[0].quantities == (Quantity(500, 1500, "square feet"),)
    for text, right in (("about 1,000 square feet", 0), ("nearly 2,000 square feet", 1), ("200 square feet", 2)):
        scores = weigh(ReadText([said(f"My plot has {text}.")]), frozenset(), options, EVEN)
        assert scores.index(max(scores)) == right


def test_each_process_reads_alike() -> None:
    """Sets have another order in every process, and sums of floats must not depend on it."""
    program = (
        "from mnemotune.policies.lm import Message\n"
        "from mnemotune.policies.lm.embedded.reading import Reading, read_messages, weigh\n"
        "from mnemotune.policies.lm.embedded.sentences import words_of\n"
        "talk = ' '.join(f'I own a {w}, a dog, an old cat.' for w in 'boat yak fox tent oak'.split())\n"
        "options = [words_of(t) for t in ('an old cat and a boat', 'a dog near a tent', 'a yak, an oak, a fox')]\n"
        "context = read_messages([Message('user', talk)])\n"
        "print(weigh(context, words_of(talk).all, options, Reading()))\n"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(told) == 1
