"""Searches that are kept in a file: what is added, what is refused, and the table of all."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer

from mnemotune.experiments import searches
from mnemotune.optimizer.search.ablation import Finished, compare_variants
from mnemotune.optimizer.views.comparison import write_comparison

Found = Mapping[str, Sequence[Finished]]


def search(seed: int, score: float, *, run: str = "out/x", seconds: float = 9.0, user: str = "ann") -> Finished:
    scores = {user: score, "bob": math.nan, "cem": score / 2}
    took = {"candidates": 5, "accepted": 1, "periods": 30, "calls": 4000, "seconds": seconds}
    return Finished(seed=seed, run=run, by_group=scores, window=scores, evidence={"ann": 0.25}, **took)


def results(folder: Path, found: Found, *, ablation: str = "experiments/parts.yaml") -> Path:
    write_comparison(compare_variants(found), folder, about={"ablation": ablation})
    return folder / "results.json"


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A file of rows that has one search."""
    file = tmp_path / "rows.jsonl"
    searches.main(file, [results(tmp_path / "begun", {"ours": [search(0, 0.4)]})])
    return file


def refusal(rows: Path, *given: Path) -> str:
    """Return what is said of results that are not added; the rows stay."""
    before = rows.read_bytes() if rows.exists() else None
    with pytest.raises(typer.BadParameter) as error:
        searches.main(rows, list(given))
    assert (rows.read_bytes() if rows.exists() else None) == before
    return str(error.value)


def test_seeds_of_two_ablations_are_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = results(tmp_path / "a", {"ours": [search(3, 0.4)], "tpe": [search(3, 0.3)]})
    second = results(tmp_path / "b", {"ours": [search(1, 0.6)], "tpe": [search(1, 0.5)]}, ablation="parts.yaml")
    rows = tmp_path / "rows.jsonl"
    searches.main(rows, [first])
    searches.main(rows, [second])
    whole = {"ours": [search(1, 0.6), search(3, 0.4)], "tpe": [search(1, 0.5), search(3, 0.3)]}
    write_comparison(compare_variants(whole), tmp_path / "whole", about={})
    assert (tmp_path / "whole" / "table.md").read_text(encoding="utf-8") in capsys.readouterr().out
    assert rows.with_suffix(".svg").read_bytes() == (tmp_path / "whole" / "plot.svg").read_bytes()
    kept = [json.loads(line) for line in rows.open(encoding="utf-8")]
    assert [(row["variant"], row["search"]["seed"]) for row in kept] == [
        ("ours", 1),
        ("ours", 3),
        ("tpe", 1),
        ("tpe", 3),
    ]


def test_what_is_kept_is_what_was_told_without_the_folders_place(rows: Path) -> None:
    (row,) = searches.added([], searches.rows_kept(rows))
    assert row.search.as_json() == search(0, 0.4, run="").as_json()
    assert "out/x" not in rows.read_text(encoding="utf-8")


def test_the_same_search_again_changes_nothing_however_long_it_took(tmp_path: Path, rows: Path) -> None:
    before = rows.read_bytes()
    searches.main(rows, [results(tmp_path / "b", {"ours": [search(0, 0.4, run="elsewhere", seconds=99.0)]})])
    searches.main(rows)
    assert rows.read_bytes() == before


def test_a_search_that_came_out_otherwise_is_refused(tmp_path: Path, rows: Path) -> None:
    said = refusal(rows, results(tmp_path / "b", {"ours": [search(0, 0.5)]}))
    assert said.endswith("b/results.json: ours, seed 0: this search is there already, and came out otherwise")


def test_other_users_are_refused(tmp_path: Path, rows: Path) -> None:
    said = refusal(rows, results(tmp_path / "b", {"ours": [search(1, 0.5, user="dan")]}))
    assert said.endswith("b/results.json: ours, seed 1: has other sealed users than ours, seed 0")


def test_another_ablations_searches_are_refused(tmp_path: Path, rows: Path) -> None:
    said = refusal(rows, results(tmp_path / "b", {"ours": [search(1, 0.5)]}, ablation="written.yaml"))
    assert said.endswith("ours, seed 1: is of written.yaml, the others of parts.yaml")


def _without(values: dict[str, Any], *path: str) -> dict[str, Any]:
    first, *rest = path
    return values | {first: _without(values[first], *rest)} if rest else {k: v for k, v in values.items() if k != first}


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        (lambda row: 7, "row 1: row: "),
        (lambda row: _without(row, "variant"), "row 1: variant: "),
        (lambda row: _without(row, "search", "evidence"), "row 1: search.evidence: "),
        (lambda row: row | {"search": row["search"] | {"calls": 1}}, "row 1: this search is there already"),
    ],
    ids=["no-row", "no-variant", "no-evidence", "twice"],
)
def test_a_damaged_row_is_named(rows: Path, damaged: Any, said: str) -> None:
    line = rows.read_text(encoding="utf-8")
    rows.write_text(line + json.dumps(damaged(json.loads(line))) + "\n", encoding="utf-8")
    assert f"rows.jsonl: {said}" in refusal(rows)


def test_a_row_that_is_there_twice_counts_once(rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    searches.main(rows)
    once = capsys.readouterr().out
    rows.write_text(rows.read_text(encoding="utf-8") * 2, encoding="utf-8")
    searches.main(rows)
    assert capsys.readouterr().out == once


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"ablation": "x", "variants": [{"name": "ours", "searches": [{}]}]}']
)
def test_a_file_that_is_no_ablations_is_named(tmp_path: Path, text: str) -> None:
    bad = tmp_path / "results.json"
    bad.write_text(text, encoding="utf-8")
    assert "results.json: is no results.json of `mnemotune ablate`" in refusal(tmp_path / "rows.jsonl", bad)


def test_results_of_an_earlier_version_are_named_with_the_field_that_is_missing(tmp_path: Path) -> None:
    file = results(tmp_path / "a", {"ours": [search(0, 0.4)]})
    values = json.loads(file.read_text(encoding="utf-8"))
    del values["variants"][0]["searches"][0]["evidence"]
    file.write_text(json.dumps(values), encoding="utf-8")
    assert "results.json: ours, seed 0: search.evidence: " in refusal(tmp_path / "rows.jsonl", file)


def test_without_any_search_the_command_says_what_to_name(tmp_path: Path) -> None:
    assert "name a results.json" in refusal(tmp_path / "rows.jsonl")
    empty = tmp_path / "results.json"
    empty.write_text('{"ablation": "parts.yaml", "variants": [{"name": "ours", "searches": []}]}', encoding="utf-8")
    assert "name a results.json" in refusal(tmp_path / "rows.jsonl", empty)


def test_a_file_of_rows_is_called_jsonl(tmp_path: Path) -> None:
    assert "NAME.jsonl" in refusal(tmp_path / "rows.json")
