from __future__ import annotations

from dataclasses import replace

import pytest

from mnemotune.data.research.ablation import Verdict, ablate, conditions, stands_in
from mnemotune.data.research.generator import each_dossier
from mnemotune.data.research.material import installed
from mnemotune.data.research.task import Document, ResearchTask

GOOD = Verdict(all=1.0, none=0.0, long_context=0.3, hack=0.1)


@pytest.fixture(scope="module")
def task() -> ResearchTask:
    return next(each_dossier(installed(), count=1, seed=11))


def test_a_task_that_needs_its_facts_is_accepted() -> None:
    assert GOOD.is_accepted


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"all": 0.4}, "with all facts"),
        ({"none": 0.6}, "without facts"),
        ({"none": 0.5, "all": 0.7}, "the facts add 0.20"),
        ({"long_context": 0.95}, "more than 0.90"),
        ({"all": 0.6, "long_context": 0.7}, "more than the facts"),
        ({"hack": 0.5}, "state no answer"),
    ],
)
def test_a_rejected_task_says_why(broken: dict[str, float], reason: str) -> None:
    verdict = replace(GOOD, **broken)
    assert not verdict.is_accepted
    assert verdict.reason is not None
    assert reason in verdict.reason


def test_an_answer_in_a_document_that_counts_as_supporting_nothing_is_a_leak(task: ResearchTask) -> None:
    leak = Document("leak", " ".join(hop.claims[-1].value for hop in task.hops))
    turns = (*task.turns[:-1], replace(task.turns[-1], documents=(len(task.documents),)))
    verdict = ablate(replace(task, documents=(*task.documents, leak), turns=turns), stands_in, seed=0)
    assert verdict.none == 1.0
    assert not verdict.is_accepted


def test_each_seed_draws_its_own_documents_and_the_same_ones_again(task: ResearchTask) -> None:
    assert conditions(task, seed=1) == conditions(task, seed=1)
    first, second = conditions(task, seed=1), conditions(task, seed=2)
    assert all(first[condition] != second[condition] for condition in first)


def test_the_long_context_has_no_more_than_the_budget(task: ResearchTask) -> None:
    texts = conditions(task, seed=1)["long_context"]
    assert 1_900 <= sum(len(text.encode()) for text in texts) <= 2_000


def test_what_was_accepted_passes_a_second_ablation_with_another_seed() -> None:
    tasks = list(each_dossier(installed(), count=40, seed=21))
    again = [ablate(task, stands_in, seed=1_000).is_accepted for task in tasks]
    assert sum(again) >= 0.9 * len(tasks)
