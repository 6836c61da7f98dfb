"""The clauses of a sentence."""

from __future__ import annotations

import pytest

from mnemotune.policies.lm.embedded.clauses import clauses_of, points_back, starts_order
from mnemotune.policies.lm.embedded.wording import hits_of


def clauses(sentence: str) -> list[str]:
    return [" ".join(hit.words for hit in clause.hits) for clause in clauses_of(hits_of(sentence))]


def test_a_clause_ends_where_another_order_begins() -> None:
    assert clauses("Add no dates, but keep details and be brief") == [
        "add no dates ,",
        "but keep details",
        "and be brief",
    ]


def test_a_clause_goes_on_through_a_list() -> None:
    assert clauses("Do not note dates, names and details") == ["do not note dates , names and details"]


@pytest.mark.parametrize("sentence", ["Ignore: other people", "Do not, under any circumstances, add dates"])
def test_a_clause_that_turns_what_is_yet_to_be_named_goes_on(sentence: str) -> None:
    assert len(clauses(sentence)) == 1


def test_a_condition_is_a_clause_and_the_last_word_of_a_clause_is_none() -> None:
    conditions = [clause.conditional for clause in clauses_of(hits_of("If it changed, note it once."))]
    assert conditions == [True, False]


@pytest.mark.parametrize(
    ("clause", "is_back"),
    [("leave it out", True), ("get rid of it", True), ("keep it", False), ("leave out dates", False)],
)
def test_an_order_can_point_back(clause: str, is_back: bool) -> None:
    assert points_back(hits_of(clause)) == is_back


def test_light_words_may_precede_an_order() -> None:
    assert starts_order(hits_of("please also keep details"))
    assert not starts_order(hits_of("details of cats"))
