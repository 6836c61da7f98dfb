"""Damages of memories: 1. each changes what it says; 2. nothing else changes; 3. who cannot change anything says so."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.env.memrm.collection.perturbations import DAMAGES, REMOVED, damaged

FOREIGN = ("a line of another task", "one more of another task", "and a third")
MEMORIES = (
    "the total of order_17 is 90",
    "nothing here",
    "see src/rates.py, line 12\nand config.yaml\n",
    "the shelf is B-7",
)
TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30), max_size=12)


def damage(name: str, *memories: str, seed: int = 0) -> tuple[list[str], list[str]] | None:
    return damaged(name, memories, FOREIGN, random.Random(seed))


def test_there_are_six() -> None:
    assert len(DAMAGES) == 6


@pytest.mark.parametrize("name", DAMAGES)
def test_every_damage_changes_a_memory_of_lines_with_values_and_paths(name: str) -> None:
    for seed in range(20):
        after = damage(name, *MEMORIES, seed=seed)
        assert after is not None
        kept, added = after
        assert (kept, added) != ([text.rstrip() for text in MEMORIES], [])


@pytest.mark.parametrize("name", DAMAGES)
@given(memories=TEXTS, seed=st.integers(0, 2**32))
def test_a_damage_is_drawn_by_its_seed_and_keeps_each_memory_in_its_place(
    name: str, memories: list[str], seed: int
) -> None:
    after = damage(name, *memories, seed=seed)
    assert after == damage(name, *memories, seed=seed)
    if after is None:
        return
    kept, added = after
    assert len(kept) == len(memories)
    assert set(added) <= set(FOREIGN)
    assert bool(added) == (name == "add_noise")
    if name.startswith("drop"):
        assert all(text in {"", memory.rstrip()} or text in memory for text, memory in zip(kept, memories, strict=True))
        assert len("".join(kept)) < len("".join(memories))


def test_the_oldest_or_the_newest_half_is_dropped() -> None:
    assert damage("drop_oldest", "a", "b", "c", "d") == (["", "", "c", "d"], [])
    assert damage("drop_newest", "a", "b", "c", "d") == (["a", "b", "", ""], [])
    assert damage("drop_newest", *map(str, range(30))) == ([*map(str, range(20)), *[""] * 10], [])


def test_a_memory_of_many_lines_is_damaged_line_by_line() -> None:
    assert damage("drop_oldest", "a\nb\nc\nd") == (["c\nd"], [])


def test_one_line_in_five_is_dropped() -> None:
    after = damage("drop_some", *map(str, range(20)))
    assert after is not None
    assert after[0].count("") == 4


def test_values_are_removed_from_half_of_the_lines_that_have_some() -> None:
    after = damage("redact_values", "order 17", "no value", "rate_limit", "B-7")
    assert after is not None
    assert after[0][1] == "no value"
    assert sum(REMOVED in text for text in after[0]) == 2


def test_paths_and_names_of_files_are_removed_from_all_lines() -> None:
    after = damage("delete_paths", "in src/a/b.py", "see config.yaml", "a ratio of 3 to 4")
    assert after == ([f"in {REMOVED}", f"see {REMOVED}", "a ratio of 3 to 4"], [])


@pytest.mark.parametrize(("name", "memories"), [("redact_values", ["no value"]), ("delete_paths", ["no path"])])
def test_what_changes_nothing_is_told(name: str, memories: list[str]) -> None:
    assert damage(name, *memories) is None


@pytest.mark.parametrize("name", DAMAGES)
def test_an_empty_memory_cannot_be_damaged(name: str) -> None:
    assert damage(name) is None
    assert damage(name, "") is None


def test_noise_needs_other_tasks() -> None:
    assert damaged("add_noise", MEMORIES, (), random.Random(0)) is None
