"""Searches that are kept in a file: what is added, what is refused, and the table of all."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import typer

from mnemotune.experiments import searches
from mnemotune.optimizer.search.ablation import Finished, compare_variants
from mnemotune.optimizer.views.comparison import write_comparison


def search(seed: int, score: float, *, run: str = "out/x", seconds: float = 9.0) -> Finished:
    scores = {"ann": score, "bob": math.nan, "cem": score / 2}
    took = {"candidates": 5, "accepted": 1, "periods": 30, "calls": 4000, "seconds": seconds}
    return Finished(seed=seed, run=run, by_group=scores, window=scores, evidence={"ann": 0.25}, **took)


def results(folder: Path, found: searches.Searches) -> Path:
    write_comparison(compare_variants(found), folder, about={})
    return folder / "results.json"


def test_seeds_of_two_ablations_are_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = results(tmp_path / "a", {"ours": [search(3, 0.4)], "tpe": [search(3, 0.3)]})
    second = results(tmp_path / "b", {"ours": [search(1, 0.6)], "tpe": [search(1, 0.5)]})
    rows = tmp_path / "rows.jsonl"
    searches.main(rows, [first])
    searches.main(rows, [second])
    whole = {"ours": [search(1, 0.6), search(3, 0.4)], "tpe": [search(1, 0.5), search(3, 0.3)]}
    write_comparison(compare_variants(whole), tmp_path / "whole", about={})
    assert (tmp_path / "whole" / "table.md").read_text(encoding="utf-8") in capsys.readouterr().out
    assert rows.with_suffix(".svg").read_bytes() == (tmp_path / "whole" / "plot.svg").read_bytes()
    assert [(json.loads(line)["variant"], json.loads(line)["seed"]) for line in rows.open(encoding="utf-8")] == [
        ("ours", 1),
        ("ours", 3),
        ("tpe", 1),
        ("tpe", 3),
    ]


def test_what_is_kept_is_what_was_told_without_the_folders_place(tmp_path: Path) -> None:
    told = results(tmp_path / "a", {"ours": [search(0, 0.4)]})
    rows = tmp_path / "rows.jsonl"
    searches.main(rows, [told])
    assert str(searches.kept(rows)) == str({"ours": [search(0, 0.4, run="")]})
    assert "out/x" not in rows.read_text(encoding="utf-8")


def test_the_same_search_again_changes_nothing_however_long_it_took(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    searches.main(rows, [results(tmp_path / "a", {"ours": [search(0, 0.4)]})])
    before = rows.read_bytes()
    searches.main(rows, [results(tmp_path / "b", {"ours": [search(0, 0.4, run="elsewhere", seconds=99.0)]})])
    searches.main(rows)
    assert rows.read_bytes() == before


def test_a_search_that_came_out_otherwise_is_refused_and_the_rows_stay(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    searches.main(rows, [results(tmp_path / "a", {"ours": [search(0, 0.4)]})])
    before = rows.read_bytes()
    other = results(tmp_path / "b", {"ours": [search(0, 0.5)]})
    with pytest.raises(typer.BadParameter, match=r"b/results\.json: ours, seed 0: the rows say something else"):
        searches.main(rows, [other])
    assert rows.read_bytes() == before


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"variants": [{"name": "ours", "searches": [{"seed": "x"}]}]}'])
def test_a_file_that_is_no_ablations_is_named(tmp_path: Path, text: str) -> None:
    bad = tmp_path / "results.json"
    bad.write_text(text, encoding="utf-8")
    with pytest.raises(typer.BadParameter, match=r"results\.json"):
        searches.main(tmp_path / "rows.jsonl", [bad])
    assert not (tmp_path / "rows.jsonl").exists()


def test_without_any_search_the_command_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match=r"name a results\.json"):
        searches.main(tmp_path / "rows.jsonl")
