"""Kindred words.

Invariants:

1. No word or phrase is in many groups: it would tell nothing.
2. Nothing in it comes from the bundled scenarios: no group is a state, no phrase a value.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from mnemotune.data.dialogue.library import load_library
from mnemotune.data.resources import resource
from mnemotune.policies.lm.embedded.lexicon import KIN_SIGN, LONGEST_PHRASE, examples, family, kin
from mnemotune.policies.lm.embedded.quantities import DEGREES, LEVELS
from mnemotune.policies.text import stem, words_in_order


def read(name: str) -> Mapping[str, Sequence[str]]:
    groups: Mapping[str, Sequence[str]] = json.loads(
        resource("policies", "lm", "embedded", name).read_text(encoding="utf-8")
    )
    return groups


GROUPS = read("lexicon.json")
PHRASES = [(group, phrase) for group, phrases in GROUPS.items() for phrase in phrases]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("on a shoestring", "cheap"),
        ("our flat", "an apartment"),
        ("a web portal", "an app"),
        ("a novice", "beginner"),
        ("my kids", "our children"),
        ("weekly", "every week"),
    ],
)
def test_kindred_words_share_a_group(one: str, other: str) -> None:
    assert kin(one) & kin(other)


@pytest.mark.parametrize(("one", "other"), [("cheap", "luxurious"), ("daily", "rarely"), ("beginner", "expert")])
def test_alternatives_share_a_family_and_no_group(one: str, other: str) -> None:
    assert not kin(one) & kin(other)
    assert {family(group) for group in kin(one)} & {family(group) for group in kin(other)}


def test_the_longest_phrase_counts() -> None:
    assert kin("expensive")
    assert kin("not too expensive")
    assert kin("not too expensive").isdisjoint(kin("expensive"))


def test_the_groups_of_a_text_have_a_sign_that_no_stem_has() -> None:
    assert kin("cheap")
    assert all(group.startswith(KIN_SIGN) for group in kin("cheap"))
    assert kin("") == kin("xyzzy") == frozenset()


def test_a_familys_examples_are_one_plain_word_of_each_group() -> None:
    words = examples("budget")
    assert len(words) == len(set(words)) >= 3
    assert all(" " not in word for word in words)
    assert examples("no such family") == ()


def test_phrases_are_short_lower_case_and_written_once_in_a_group() -> None:
    assert len(GROUPS) > 300
    for group, phrase in PHRASES:
        assert phrase == phrase.lower().strip(), group
        assert 1 <= len(words_in_order(phrase)) <= LONGEST_PHRASE, (group, phrase)
    assert max(Counter(PHRASES).values()) == 1


def test_little_some_and_much_of_what_is_counted_are_groups() -> None:
    named = {*DEGREES, *(group for groups in LEVELS.values() for group in groups)}
    assert named <= GROUPS.keys()


def test_no_phrase_is_in_more_than_two_groups() -> None:
    held: dict[tuple[str, ...], set[str]] = {}
    for group, phrase in PHRASES:
        held.setdefault(tuple(stem(word) for word in words_in_order(phrase)), set()).add(group)
    assert [phrase for phrase, groups in held.items() if len(groups) > 2] == []


def test_words_that_count_as_they_are_written_belong_to_groups_that_there_are() -> None:
    exact = read("lexicon_exact.json")
    assert exact.keys() <= GROUPS.keys()
    assert {len(phrase.split()) for phrases in exact.values() for phrase in phrases} == {1}


def test_no_phrase_is_the_name_of_a_bundled_value() -> None:
    values = {value for t in load_library().values() for v in t.variables.values() for value in v.values}
    assert [phrase for _, phrase in PHRASES if phrase.replace(" ", "_") in values] == []
    assert GROUPS.keys().isdisjoint(values)
