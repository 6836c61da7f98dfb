"""Made-up dossiers. Of every dossier, whatever the seed:

1. the same numbers make the same dossier, however many are made;
2. the material's names occur nowhere;
3. no near miss equals a right answer, and the right answers stand in supporting documents alone;
4. a correction overwrites what was said before;
5. about as much is read as is wanted.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.data.chunks import MOST_CHUNK_TOKENS
from mnemotune.data.research.generator import MOST_TOKENS, NEAR_MISSES, Shape, each_dossier
from mnemotune.data.research.material import folder, installed, occurs
from mnemotune.data.research.task import SUBJECT, ResearchTask, states

SEEDS = st.integers(0, 10**6)


def dossier(seed: int, **proportions: int) -> ResearchTask:
    return next(each_dossier(installed(), count=1, seed=seed, shape=Shape(**proportions)))


def test_a_dossier_is_the_same_however_many_are_made() -> None:
    few, many = (list(each_dossier(installed(), count=count, seed=5)) for count in (2, 4))
    assert few == many[:2]
    assert len({task.documents[0].text for task in many}) == len({task.question for task in many}) == 4


def test_another_seed_makes_other_dossiers() -> None:
    assert dossier(1) != dossier(2)


@given(SEEDS)
@settings(max_examples=5, deadline=None)
def test_the_names_of_the_material_occur_nowhere(seed: int) -> None:
    task, texts = dossier(seed), list[str]()
    texts += [text for document in task.documents for text in (document.title, document.text)]
    texts += [task.question, task.answer, *(turn.query for turn in task.turns)]
    texts += [text for hop in task.hops for text in (hop.question, hop.reworded, *(c.text for c in hop.claims))]
    whole = "\n".join(texts)
    used = [installed().names[subject.name] for subject in installed().subjects]
    assert len(used) > 20
    assert not [name for name in used if occurs(name, [whole])]


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_right_answers_stand_in_supporting_documents_alone(seed: int) -> None:
    task = dossier(seed)
    right = [hop.claims[-1].value for hop in task.hops]
    assert len(set(right)) == len(right)
    for document in task.documents:
        if not document.supporting:
            assert not [value for value in right if states(document.text, value) or states(document.title, value)]


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_each_hop_has_near_misses_that_say_the_same_of_nearly_the_same_name(seed: int) -> None:
    task = dossier(seed)
    for hop in task.hops:
        brought = [task.documents[place] for place in task.turns[hop.turn].documents]
        (right,) = [document for document in brought if document.supporting]
        family = set(right.title.split())
        siblings = [document for document in brought if document is not right and family & set(document.title.split())]
        assert len([s for s in siblings if s.title != right.title]) >= NEAR_MISSES


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_no_answer_has_a_word_of_what_it_is_about(seed: int) -> None:
    task = dossier(seed)
    for place, hop in enumerate(task.hops):
        assert not [c.value for c in hop.claims if set(c.value.split()) & set(task.subject_of(place).split())]


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_a_correction_overwrites_what_was_said_before(seed: int) -> None:
    task = dossier(seed)
    ((place, hop),) = [(place, hop) for place, hop in enumerate(task.hops) if len(hop.claims) == 2]
    old, new = hop.claims
    assert old.value != new.value
    assert task.turns[new.turn].hop is None
    assert new.document in task.turns[new.turn].notices
    facts = [fact for fact in task.facts.values() if fact.key == f"hop {place}"]
    assert [(fact.since, fact.until) for fact in facts] == [(old.turn, new.turn), (new.turn, None)]
    asked = {check.stage: task.value_of(check) for check in task.checks.values() if check.question == str(place)}
    assert asked[old.turn] == old.value
    assert asked[new.turn] == asked[task.stages - 1] == new.value
    if place + 1 < len(task.hops):
        assert task.subject_of(place + 1) == new.value


@given(SEEDS, st.integers(2, 8))
@settings(max_examples=20, deadline=None)
def test_every_hop_after_the_first_is_about_the_answer_before(seed: int, hops: int) -> None:
    task = dossier(seed, hops=hops)
    assert len(task.hops) == hops
    assert all(
        (SUBJECT in hop.question) == (SUBJECT in hop.reworded) == bool(place) for place, hop in enumerate(task.hops)
    )
    for hop in task.hops:
        query = task.turns[hop.turn].query
        assert (SUBJECT in query) == (hop is not task.hops[0])
    assert task.hops[-1].claims[-1].value == task.answer


@pytest.mark.parametrize("tokens", [3_000, 10_000, 100_000])
def test_about_as_much_is_read_as_is_wanted(tokens: int) -> None:
    task = dossier(3, tokens=tokens)
    assert tokens * 0.9 <= task.tokens <= tokens * 1.05
    assert max(document.tokens for document in task.documents) <= 1.1 * MOST_TOKENS


def test_memory_observes_pieces_of_at_most_200_tokens_and_each_fact_stands_whole_in_one() -> None:
    for task in each_dossier(installed(), count=5, seed=2):
        pieces = [piece for document in task.documents for piece in document.pieces]
        assert max(len(piece.encode()) for piece in pieces) <= 4 * MOST_CHUNK_TOKENS
        for fact in task.facts.values():
            assert [fact.text in source for source in fact.sources] == [True]
            assert set(fact.sources) <= set(pieces)


def test_thirty_dossiers_come_out_of_a_single_short_document(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text(
        "# Oddkin Manual\n\nThe Oddkin Manual says how a garden is kept over the year.\n"
    )
    tasks = list(islice(each_dossier(folder(tmp_path), count=30, seed=0), 30))
    assert len({task.group for task in tasks}) == 30
    assert not occurs("oddkin manual", [document.text for task in tasks for document in task.documents])
    assert any("how a garden is kept" in document.text for document in tasks[0].documents)
