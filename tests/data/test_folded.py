"""Values that take little memory until they are used.

Invariants:

1. What is taken out equals what was put in, after any number of processes.
2. Only what is used is open, and only so much of it.
"""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.data.dialogue.load import load_folded, load_scenarios
from mnemotune.data.dialogue.scenario import Scenario
from mnemotune.data.folded import Folded, FoldedMap, FoldedTask, MadeLater, fold, unfold

TEXTS = st.lists(st.text(max_size=8), max_size=6)


@given(TEXTS)
def test_a_folded_sequence_equals_the_sequence_invariant_1(texts: list[str]) -> None:
    folded = copy.deepcopy(Folded.of(texts))
    assert folded == texts
    assert [*folded] == texts
    assert len(folded) == len(texts)
    assert folded[1:] == tuple(texts[1:])
    assert (folded == [*texts, "more"]) is False
    assert hash(folded) == hash(tuple(texts))


@given(st.lists(TEXTS, max_size=4))
def test_sequences_that_are_folded_together_are_taken_out_one_by_one_invariant_1(several: list[list[str]]) -> None:
    assert Folded.each_of(several) == several


def test_sequences_that_repeat_each_other_are_smaller_together() -> None:
    lines = [f"a line that is number {number * 7919}" for number in range(200)]
    together, apart = Folded.each_of([lines, lines, lines]), Folded.of(lines)
    assert len(together[0].folded) < 2 * len(apart.folded)


def test_a_mapping_opens_what_is_taken_and_shares_what_is_picked_invariant_1() -> None:
    folded = FoldedMap({"ann": [1, 2], "bob": [3]})
    assert folded == {"ann": [1, 2], "bob": [3]}
    assert folded.only(["bob", "cid"]) == {"bob": [3]}
    assert ("ann" in folded, "cid" in folded) == (True, False)
    del folded["ann"]
    assert [*folded] == ["bob"]
    with pytest.raises(KeyError):
        folded["ann"]


def test_a_folded_task_has_the_facts_and_checks_of_the_task_in_a_tenth_of_its_memory_invariant_1() -> None:
    tasks, whole = load_folded("small"), load_scenarios("small")
    for folded, task in zip(tasks, whole, strict=True):
        assert (folded.id, folded.group, folded.stages) == (task.id, task.group, task.stages)
        assert (folded.facts, folded.checks, folded.opened) == (task.facts, task.checks, task)
        assert copy.deepcopy(folded) == folded
        assert 4 * len(folded.folded) < len(pickle.dumps(task))


def test_a_task_is_made_once_when_it_is_opened_first_and_is_then_as_any_other_invariant_1() -> None:
    (task,) = load_scenarios("small")[:1]
    made: list[str] = []

    def make() -> Scenario:
        made.append(task.id)
        return task

    later = FoldedTask(task.id, task.group, task.stages, MadeLater(make))
    assert (later.id, made) == (task.id, [])
    assert (later.opened, later.opened, made) == (task, task, [task.id])
    assert later == copy.deepcopy(later) == FoldedTask.of(task)
    assert later.checks == task.checks


def test_what_is_used_again_is_the_same_object_while_it_is_open_invariant_2() -> None:
    task = FoldedTask.of(load_scenarios("small")[0])
    assert task.opened is copy.deepcopy(task).opened


def test_what_was_used_long_ago_is_closed_and_the_last_value_stays_open_however_large_invariant_2(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mnemotune.data.folded.MOST_OPEN_BYTES", 3 * len(fold(["first"])))
    first = unfold(fold(["first"]))
    assert unfold(fold(["first"])) is first
    for text in ("other", "third", "forth"):
        unfold(fold([text]))
    assert unfold(fold(["first"])) is not first
    large = fold([str(number) for number in range(1000)])
    assert unfold(large) is unfold(large)
