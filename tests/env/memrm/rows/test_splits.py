"""Splits by group, by policy and by topic.

Invariants: 1. a row of ``train`` has nothing held out in it; 2. the names' order does not matter.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mnemotune.env.memrm.rows.row import FactLabel, Row, RowError, read_rows, write_rows
from mnemotune.env.memrm.rows.splits import RowSplits, hold_out, language_model_of


def row_of(group: str = "u", policy: str = "p", *keys: str) -> Row:
    facts = [FactLabel(key=key, topic=key.split("_")[0], lost=False) for key in keys]
    return Row(group=group, task=group, policy=policy, stage=0, write=0, evicted=[], before=[], after=[], facts=facts)


@pytest.mark.parametrize(
    ("row", "split"),
    [
        (row_of(), "train"),
        (row_of("u", "p", "pet_name"), "train"),
        (row_of("v"), "groups"),
        (row_of("u", "q", "pet_name"), "policies"),
        (row_of("u", "p", "car_type", "car_use"), "topics"),
        (row_of("u", "p", "car_type", "pet_name"), "mixed"),
        (row_of("v", "q"), "mixed"),
        (row_of("v", "p", "car_type"), "mixed"),
    ],
)
def test_a_row_belongs_to_the_split_of_the_one_thing_that_is_held_out(row: Row, split: str) -> None:
    assert RowSplits(seed=0, groups=["v"], policies=["q"], topics=["car"]).of(row) == split


def test_a_fifth_of_groups_and_policies_and_a_tenth_of_topics_is_held_out_whatever_their_order() -> None:
    names = [f"n{i}" for i in range(50)]
    one = hold_out(groups=names, policies=names, topics=names, seed=4)
    other = hold_out(groups=names[::-1], policies=names[::-1], topics=names[::-1] + names, seed=4)
    assert one == other
    assert (len(one.groups), len(one.policies), len(one.topics)) == (10, 10, 5)
    assert hold_out(groups=names, policies=names, topics=names, seed=5) != one


def test_rows_that_are_written_are_read_back(tmp_path: Path) -> None:
    rows = [row_of("u", "p", "pet_name"), row_of("v")]
    write_rows(tmp_path / "rows.jsonl", rows)
    assert list(read_rows(tmp_path / "rows.jsonl")) == rows


def test_rows_that_cannot_be_written_to_the_end_leave_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write_rows(path, [row_of()])
    before = path.read_bytes()

    def broken() -> object:
        yield row_of("v")
        raise RowError("stop")

    with pytest.raises(RowError):
        write_rows(path, broken())  # type: ignore[arg-type]
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["rows.jsonl"]


@pytest.mark.parametrize(
    ("card", "model"),
    [
        ('{"settings": {"model": "openai:m"}}', "openai:m"),
        ('{"settings": {}}', None),
        ('{"settings": {"model": 3}}', None),
        ("[]", None),
        ("no JSON", None),
        (None, None),
    ],
)
def test_the_language_model_of_rows_is_the_one_that_their_card_names(
    card: str | None, model: str | None, tmp_path: Path
) -> None:
    if card is not None:
        (tmp_path / "rows.jsonl.card.json").write_text(card, encoding="utf-8")
    assert language_model_of(tmp_path / "rows.jsonl") == model


def test_rows_that_name_a_user_a_period_and_an_info_are_read_as_well(tmp_path: Path) -> None:
    fact = '{"info": "pet_name", "lost": true}'
    row = f'{{"user":"ann","policy":"p","period":2,"write":0,"evicted":[],"before":[],"after":[],"facts":[{fact}]}}'
    (tmp_path / "rows.jsonl").write_text(row, encoding="utf-8")
    [read] = read_rows(tmp_path / "rows.jsonl")
    assert (read.group, read.task, read.stage) == ("ann", "ann", 2)
    assert read.facts == [FactLabel(key="pet_name", topic="pet", lost=True)]
