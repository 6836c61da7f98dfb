"""Searches side by side: what is paired with what, and how it is told."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mnemotune.env.statistics import estimate_repeated
from mnemotune.optimizer.search.ablation import Finished, compare_variants
from mnemotune.optimizer.views.comparison import comparison_table, markdown, write_comparison


def search(seed: int = 0, by_group: dict[str, float] | None = None, **values: Any) -> Finished:
    scores = {"ann": 0.2, "bob": 0.4} if by_group is None else by_group
    given = {"window": dict.fromkeys(scores, 0.1), "evidence": dict.fromkeys(scores, 0.5)}
    given |= {"candidates": 8, "accepted": 1, "periods": 90, "calls": 4000, "seconds": 10.0}
    return Finished(**{"seed": seed, "run": f"out/{seed}", "by_group": scores} | given | values)


def raised(by: float, seed: int) -> Finished:
    return search(seed, {"ann": 0.2 + by, "bob": 0.4 + by})


def test_a_difference_is_paired_by_user_and_seed() -> None:
    base = [search(0, {"ann": 0.9, "bob": 0.1}), search(1, {"ann": 0.0, "bob": 0.6})]
    better = [search(1, {"bob": 0.7, "ann": 0.1}), search(0, {"ann": 1.0, "bob": 0.2})]
    _, variant = compare_variants({"base": base, "better": better})
    assert variant.score.difference is not None
    assert (variant.score.difference.low, variant.score.difference.high) == pytest.approx((0.1, 0.1))


def test_how_far_a_variant_is_over_the_window_is_paired_by_user_and_seed() -> None:
    searches = [search(0, {"ann": 0.9, "bob": 0.1}, window={"bob": 0.0, "ann": 0.8}), search(1, {"ann": 0.3})]
    (variant,) = compare_variants({"base": searches})
    assert variant.over_window.mean == pytest.approx((0.15 + 0.1) / 2)


def test_evidence_recall_is_compared_as_scores_are() -> None:
    base = [search(0, evidence={"ann": 0.2, "bob": 0.4}), search(1, evidence={"ann": 0.3, "bob": 0.5})]
    better = [search(1, evidence={"bob": 0.6, "ann": 0.4}), search(0, evidence={"ann": 0.3, "bob": 0.5})]
    first, variant = compare_variants({"base": base, "better": better})
    assert (first.evidence.estimate.mean, first.evidence.difference) == (pytest.approx(0.35), None)
    assert variant.evidence.difference is not None
    assert (variant.evidence.difference.low, variant.evidence.difference.high) == pytest.approx((0.1, 0.1))
    assert first.both.estimate.mean == pytest.approx((0.3 + 0.35) / 2)
    assert variant.both.difference is not None
    assert variant.both.difference.mean == pytest.approx(0.05)


def test_evidence_recall_that_is_not_known_is_a_dash_and_null() -> None:
    (first,) = compare_variants({"base": [search(evidence={})]})
    assert markdown([first]).splitlines()[2].split(" | ")[4] == "-"
    assert first.as_json()["evidence"] == {"evidence_recall": None, "interval": [None, None], "difference": None}
    assert first.as_json()["both"] == {"mean_of_both": None, "interval": [None, None], "difference": None}


def test_the_first_variant_has_no_difference() -> None:
    (first,) = compare_variants({"base": [search()]})
    assert first.score.difference is None
    assert first.score.estimate == estimate_repeated([{"ann": 0.2, "bob": 0.4}])


def test_seeds_that_only_one_of_two_has_are_left_out_of_their_difference() -> None:
    _, variant = compare_variants({"base": [search(0)], "more": [raised(0.1, 0), raised(0.5, 1)]})
    assert variant.score.difference is not None
    assert variant.score.difference.mean == pytest.approx(0.1)
    assert variant.score.estimate.mean == pytest.approx(0.6)


def test_a_user_without_a_score_and_a_search_without_a_test_are_left_out() -> None:
    found = {"base": [search(0), search(1)], "other": [search(0, {"ann": math.nan, "bob": 0.5}), search(1, {})]}
    _, variant = compare_variants(found)
    assert variant.score.difference is not None
    assert variant.score.difference.mean == pytest.approx(0.1)
    told = variant.as_json()
    assert told["difference"]["interval"] == [None, None]
    assert [one["memory_score"] for one in told["searches"]] == [0.5, None]


def test_what_a_variant_took_is_the_mean_over_its_searches() -> None:
    (variant,) = compare_variants({"base": [search(calls=10, accepted=0), search(1, calls=20)]})
    assert (variant.mean("calls"), variant.mean("accepted")) == (15, 0.5)


def test_the_table_has_a_line_for_each_variant() -> None:
    head, rule, first, second = markdown(compare_variants({"base": [search()], "more": [raised(0.1, 0)]})).splitlines()
    assert head.split(" | ")[1:4] == ["memory score", "over window", "difference"]
    told = ["evidence recall", "difference in evidence", "mean of both", "difference in both"]
    assert head.split(" | ")[4:8] == told
    assert head.endswith("| candidates | accepted | periods | calls | seconds |")
    assert rule.count("---") == 13
    assert first.startswith("| base | 0.300 [-0.971, 1.571] | 0.200 [-1.071, 1.471] |  | 0.500 [0.500, 0.500] |  | 0.4")
    assert first.endswith("| 8 | 1.0 | 90 | 4.0k | 10 |")
    assert second.startswith("| more | 0.400 [-0.871, 1.671] | 0.300 [-0.971, 1.571] | 0.100 [0.100, 0.100] |")


def test_results_are_strict_json_beside_table_and_plot(tmp_path: Path) -> None:
    variants = compare_variants({"base": [search()], "none": [search(0, {})]})
    told = write_comparison(variants, tmp_path / "out", about={"model": "embedded"})
    text = (tmp_path / "out" / "results.json").read_text(encoding="utf-8")
    assert json.loads(text, parse_constant=lambda name: pytest.fail(name)) == told
    assert told["model"] == "embedded"
    assert math.isclose(told["variants"][0]["memory_score"], 0.3)
    assert (tmp_path / "out" / "table.md").read_text(encoding="utf-8") == markdown(variants)
    assert (tmp_path / "out" / "plot.svg").read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize("name", ["no prompts at all", "mnemotune", "x" * 40])
def test_the_terminals_table_fits_80_columns_with_names_and_intervals_uncut(name: str) -> None:
    named = {"everything as it is": [search()], name: [raised(-0.1, 0)]}
    file = io.StringIO()
    Console(file=file, width=80).print(comparison_table(compare_variants(named), title="Sealed tests"))
    shown = " ".join(file.getvalue().split())
    assert "\u2026" not in shown
    names = "".join(line.split(" ")[1] for line in file.getvalue().splitlines() if line.strip())
    assert name.split()[0] in names
    for words in ("everything", "-0.100 [-0.100, -0.100]", "+0.100", "0.500", "4.0k"):
        assert words in shown
