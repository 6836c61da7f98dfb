"""Generated tasks: what they promise, whatever the seed."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from mnemotune.data.codeqa.generator import CodeGenerator, Shape
from mnemotune.data.codeqa.literals import holds_literal, same_literal
from mnemotune.data.codeqa.task import CodeTask, problems, tokens_of
from mnemotune.data.codeqa.tree import SourceTree, standard_library
from mnemotune.data.task import TaskError

SEEDS = (0, 1, 2)


@pytest.fixture(scope="module")
def tasks(tree: SourceTree) -> list[CodeTask]:
    return [task for seed in SEEDS for task in map(CodeGenerator(tree, seed).task, range(5))]


@pytest.fixture(scope="module")
def library() -> CodeGenerator:
    return CodeGenerator(standard_library(), 3)


@pytest.fixture(scope="module")
def library_tasks(library: CodeGenerator) -> list[CodeTask]:
    return list(map(library.task, range(20)))


def test_the_same_numbers_make_the_same_task_and_another_seed_another(tree: SourceTree) -> None:
    assert CodeGenerator(tree, 1).task(2) == CodeGenerator(tree, 1).task(2)
    assert CodeGenerator(tree, 1).task(2).observations != CodeGenerator(tree, 2).task(2).observations


def test_tasks_are_dealt_to_all_groups_before_a_group_gets_a_second(tree: SourceTree) -> None:
    generator = CodeGenerator(tree, 0)
    groups = [generator.task(index).group for index in range(8)]
    assert sorted(groups[:4]) == ["pack_0", "pack_1", "pack_2", "pack_3"]
    assert groups[4:] == groups[:4]


def test_the_standard_library_has_groups_enough_for_intervals(library: CodeGenerator) -> None:
    assert len(library.groups) >= 30


def test_every_question_can_be_answered_from_what_was_read_until_then(tasks: list[CodeTask]) -> None:
    for task in tasks:
        for check in task.checks.values():
            read = [text for batch in task.observations[: check.stage + 1] for text in batch]
            assert any(holds_literal(text, task.answer(check)) for text in read)
            assert all(set(task.facts[fact].sources) <= set(read) for fact in check.needs)


def test_no_distractor_has_the_right_value_at_any_time(tasks: list[CodeTask], library_tasks: list[CodeTask]) -> None:
    for task in (*tasks, *library_tasks):
        for check in task.checks.values():
            assert not any(same_literal(value, task.answer(check)) for value in task.distractors[check.question])
    assert any(values for task in library_tasks for values in task.distractors.values())


def test_distractors_are_read_too(tasks: list[CodeTask]) -> None:
    for task in tasks:
        read = "\n".join(text for batch in task.observations for text in batch)
        assert all(value in read for values in task.distractors.values() for value in values)


def test_a_diff_overwrites_a_fact(tasks: list[CodeTask]) -> None:
    for task in tasks:
        assert len(task.external) == 2
        for new in (task.facts[name] for name in task.external):
            (old,) = (fact for fact in task.facts.values() if fact.key == new.key and fact.since < new.since)
            assert old.until == new.since
            assert not same_literal(task.values[old.id], task.values[new.id])
            (diff,) = new.sources
            assert diff in task.observations[new.since]
            removed, added = (re.findall(rf"^\{sign}(?!\{sign}).*", diff, re.MULTILINE) for sign in "-+")
            assert (len(removed), len(added)) == (1, 1)
            assert task.values[old.id] in removed[0]
            assert removed[0][1:].replace(task.values[old.id], task.values[new.id]) == added[0][1:]


def test_the_same_question_has_another_answer_after_an_edit(tasks: list[CodeTask]) -> None:
    for task in tasks:
        answers: dict[str, list[str]] = {}
        for check in task.checks.values():
            answers.setdefault(check.question, []).append(task.answer(check))
        assert sum(len(set(each)) == 2 for each in answers.values()) == 2


def test_observations_are_short_and_their_size_is_recorded(library_tasks: list[CodeTask]) -> None:
    for task in library_tasks:
        texts = [text for batch in task.observations for text in batch]
        assert max(map(tokens_of, texts)) <= 200
        assert task.tokens == sum(map(tokens_of, texts))
        assert 10_000 <= task.tokens <= 11_000
        assert len(texts) == len(set(texts))


def test_filler_reaches_the_size_that_is_wanted() -> None:
    task = CodeGenerator(standard_library(), 0, Shape(tokens=100_000)).task(0)
    assert 100_000 <= task.tokens <= 101_000


def test_a_small_tree_is_read_whole_and_the_real_size_is_recorded(tree: SourceTree) -> None:
    task = CodeGenerator(tree, 0, Shape(tokens=1_000_000)).task(0)
    assert task.tokens < 50_000
    places = [text.splitlines()[0] for batch in task.observations for text in batch if text.startswith("# ")]
    assert len(places) == sum(len(file.excerpts) for file in tree.files.values())


def test_what_was_read_last_tells_nothing_that_is_asked(library_tasks: list[CodeTask]) -> None:
    for task in library_tasks:
        for batch in task.observations:
            told = {text for fact in task.facts.values() for text in fact.sources}
            newest, size = set[str](), 0
            for text in reversed(batch):
                size += tokens_of(text)
                newest |= {text} if size <= 1_000 else set()
            assert not told & newest


def test_the_chance_of_a_blind_guess_is_small(library_tasks: list[CodeTask]) -> None:
    assert max(check.chance for task in library_tasks for check in task.checks.values()) <= 0.05


def test_a_task_that_breaks_its_promise_is_refused(tasks: list[CodeTask]) -> None:
    task = tasks[0]
    check = next(iter(task.checks.values()))
    right = task.answer(check)
    wrong = [
        ("is not in what is read", replace(task, observations=((),) * task.stages)),
        ("is the value of a distractor", replace(task, distractors={**task.distractors, check.question: (right,)})),
        ("is in the question", replace(task, checks={check.id: replace(check, text=f"Is it {right}?")})),
    ]
    for problem, broken in wrong:
        sized = replace(broken, tokens=sum(tokens_of(text) for batch in broken.observations for text in batch))
        first = next(problems(sized))
        assert first.startswith(f"checks.{check.id}: the answer {right}")
        assert problem in first


def test_a_tree_with_too_few_questions_is_refused_with_the_reasons(tree: SourceTree) -> None:
    with pytest.raises(TaskError, match="no package or module has 50 questions"):
        _ = CodeGenerator(tree, 0, Shape(questions=50)).groups


@pytest.mark.slow
@pytest.mark.exhaustive("seed")
@pytest.mark.parametrize("seed", range(7, 15))
def test_tasks_of_the_standard_library_keep_their_promises(seed: int) -> None:
    generator = CodeGenerator(standard_library(), seed)
    for index in range(100):
        assert list(problems(generator.task(index))) == []
