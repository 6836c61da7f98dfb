from __future__ import annotations

import pickle

import pytest

from mnemotune.data.folded import FoldedTask
from mnemotune.data.research.generator import each_dossier
from mnemotune.data.research.material import installed
from mnemotune.data.research.task import SUBJECT, about, same_value, states


@pytest.mark.parametrize(
    ("given", "value", "same"),
    [
        ("The Orrin Lab.", "orrin lab", True),
        ("Orrin-Lab", "Orrin Lab", True),
        ("Orrin Labs", "Orrin Lab", False),
        ("", "Orrin Lab", False),
        (None, "Orrin Lab", False),
        ("A", "a", True),
        ("++", "--", False),
    ],
)
def test_answers_are_compared_apart_from_case_punctuation_and_articles(
    given: str | None, value: str, same: bool
) -> None:
    assert same_value(given, value) is same


def test_a_value_stands_in_a_text_as_whole_words() -> None:
    assert states("They went to the Orrin lab.", "Orrin Lab")
    assert not states("Orrin labs are many.", "Orrin Lab")


def test_a_question_about_an_unknown_subject_can_be_put() -> None:
    assert about(f"Who leads {SUBJECT}?", "Tann Lab") == "Who leads Tann Lab?"
    assert SUBJECT not in about(f"Who leads {SUBJECT}?", None)


def test_a_fact_is_stated_by_a_line_that_has_the_answer_and_what_it_is_about() -> None:
    task = next(each_dossier(installed(), count=1, seed=8))
    for fact in task.facts.values():
        hop, number = map(int, fact.id.split("."))
        value, subject = task.hops[hop].claims[number].value, task.subject_of(hop)
        assert subject
        assert task.is_stated(fact, f"Something else.\n- note: {fact.text}")
        assert task.is_stated(fact, f"{subject.lower().replace(' ', '_')}: {value}")
        assert not task.is_stated(fact, f"{subject}: somebody\nsomebody: {value}")
        assert not task.is_stated(fact, "")
    assert len({task.subject_of(hop) for hop in range(len(task.hops))}) == len(task.hops)


def test_a_folded_task_has_what_the_task_has_in_half_the_memory() -> None:
    task = next(each_dossier(installed(), count=1, seed=8))
    folded = FoldedTask.of(task)
    assert (folded.facts, folded.checks, folded.stages) == (task.facts, task.checks, task.stages)
    assert 2 * len(folded.folded) < len(pickle.dumps(task))
