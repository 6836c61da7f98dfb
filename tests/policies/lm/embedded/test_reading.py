"""How the embedded model reads.

Invariants:

1. The shares of attention are positive and sum to 1.
2. Competition is what makes it forget: more talk about the same leaves less attention for each.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.policies.lm import Message
from mnemotune.policies.lm.embedded.reading import (
    Context,
    Reading,
    Sentence,
    about_self,
    attend,
    overlap,
    rarity,
    read_messages,
    read_state_lines,
    weigh,
)
from mnemotune.policies.text import stems

WORDS = st.frozensets(st.sampled_from("abcdefgh"), max_size=5)
SENTENCES = st.builds(Sentence, text=st.just(""), words=WORDS, own=st.booleans())
PARAMETERS = st.builds(Reading, sharpness=st.floats(0, 30), recency=st.floats(0, 5), own_voice=st.floats(-2, 5))
READING = Reading()


def said(text: str, *, own: bool = True) -> Sentence:
    return Sentence(text, frozenset(stems(text)), own)


# Sentences


def test_messages_are_read_as_sentences_in_order_without_the_time() -> None:
    talk = [
        Message("user", "[Current Time: 2021-01-01 20:00:00]\nI own a cat. My sister is a vet. Which food?"),
        Message("assistant", "I would ask your sister."),
    ]
    assert [(sentence.text, sentence.own) for sentence in read_messages(talk).sentences] == [
        ("I own a cat.", True),
        ("My sister is a vet.", False),
        ("Which food?", False),
        ("I would ask your sister.", False),
    ]


def test_listed_memories_are_the_users_words_unless_marked_as_the_assistants() -> None:
    listed = Message("system", "Memories:\n- user: I own a cat.\n- assistant: I see a cat.\n- home: I live in a flat.")
    assert [(sentence.text, sentence.own) for sentence in read_messages([listed]).sentences] == [
        ("Memories:", False),
        ("I own a cat.", True),
        ("assistant: I see a cat.", False),
        ("home: I live in a flat.", True),
    ]


def test_state_lines_are_statements_of_the_user_by_their_values() -> None:
    given_ = '{\n  "pet_kind": "old_cat",\n  "home": "small flat"\n}\nWhich "food": ["a"]?'
    lines = list(read_state_lines(given_))
    assert [line.words for line in lines] == [frozenset({"old", "cat"}), frozenset({"small", "flat"})]
    assert all(line.own for line in lines)


@pytest.mark.parametrize(
    "text",
    [
        "I own a cat.",
        "We live in a flat.",
        "My budget is 200 dollars.",
        "It's all mine.",
        "My old car broke, so I walk.",
    ],
)
def test_a_statement_in_the_first_person_is_about_the_speaker(text: str) -> None:
    assert about_self(text)


@pytest.mark.parametrize(
    "text",
    [
        "My sister swims every day.",
        "A friend of mine owns a boat.",
        "One of my old friends moved to Rome.",
        "He told me about it.",
        "The weather is nice.",
        "Should I buy a boat?",
        "At home my brother always cooks.",
    ],
)
def test_a_statement_about_somebody_else_and_a_question_are_not(text: str) -> None:
    assert not about_self(text)


# Attention


@settings(deadline=None)
@given(context=st.lists(SENTENCES, max_size=10), cue=WORDS, reading=PARAMETERS)
def test_the_shares_of_attention_are_positive_and_sum_to_one(
    context: list[Sentence], cue: frozenset[str], reading: Reading
) -> None:
    shares = attend(Context(context), cue, reading)
    assert len(shares) == len(context)
    assert all(share >= 0 for share in shares)
    assert sum(shares) == pytest.approx(1 if context else 0)


def test_attention_goes_to_what_is_like_the_question_to_the_newest_and_to_the_users_own_words() -> None:
    cue = frozenset(stems("cat food"))
    like, unlike = attend(Context([said("The cat wants food."), said("Taxes are due.")]), cue, Reading(recency=0))
    assert like > unlike
    older, newer = attend(Context([said("I own a cat."), said("I own a cat.")]), cue, READING)
    assert newer > older
    own, other = attend(Context([said("I own a cat."), said("I own a cat.", own=False)]), cue, Reading(recency=0))
    assert own > other


def test_without_sharpness_recency_and_voice_all_count_alike() -> None:
    context = [said("The cat wants food."), said("Taxes are due.", own=False), said("cat")]
    assert attend(Context(context), frozenset({"cat"}), Reading(0.0, 0.0, 0.0)) == pytest.approx([1 / 3] * 3)


def test_more_talk_about_the_same_leaves_less_attention_for_each() -> None:
    cue = frozenset(stems("cat food"))
    talk = [said(f"The cat wants food {i}.") for i in range(20)]
    shares = [attend(Context(talk[:length]), cue, Reading(recency=0))[0] for length in (1, 2, 5, 20)]
    assert shares == pytest.approx([1, 1 / 2, 1 / 5, 1 / 20])


# Likeness


@given(words=WORDS, others=WORDS)
def test_likeness_is_symmetric_between_zero_and_one(words: frozenset[str], others: frozenset[str]) -> None:
    assert overlap(words, others, {}) == overlap(others, words, {})
    assert 0 <= overlap(words, others, {}) <= 1.000001
    assert (overlap(words, others, {}) > 0) == bool(words & others)
    assert not words or overlap(words, words, {}) == pytest.approx(1)


@given(documents=st.lists(WORDS, max_size=8))
def test_rare_words_weigh_more(documents: list[frozenset[str]]) -> None:
    weight = rarity(documents)
    assert weight.keys() == frozenset().union(*documents)
    assert all(0 < value <= 1 for value in weight.values())
    counts = {word: sum(word in words for words in documents) for word in weight}
    for one in counts:
        for other in counts:
            assert (weight[one] > weight[other]) == (counts[one] < counts[other])


@settings(deadline=None)
@given(
    context=st.lists(SENTENCES, max_size=8),
    cue=WORDS,
    options=st.lists(WORDS, min_size=1, max_size=5),
    reading=PARAMETERS,
)
def test_what_speaks_for_an_option_is_never_negative_and_needs_a_shared_word(
    context: list[Sentence], cue: frozenset[str], options: list[frozenset[str]], reading: Reading
) -> None:
    scores = weigh(Context(context), cue, options, reading)
    assert len(scores) == len(options)
    for score, words in zip(scores, options, strict=True):
        assert score >= 0
        assert score == 0 or any(words & sentence.words for sentence in context)


def test_what_tells_the_options_apart_counts_and_the_rarer_the_more() -> None:
    options = [frozenset({"cat", "old"}), frozenset({"cat", "young"}), frozenset({"dog"})]
    old, young, dog = weigh(Context([said("old cat")]), frozenset(), options, READING)
    assert old > young > dog == 0
    old, young, dog = weigh(Context([said("A cat, a dog.")]), frozenset(), options, READING)
    assert old == pytest.approx(young)
    assert dog > 2 * old
