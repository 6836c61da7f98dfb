"""How evaluations are written down in tables."""

from __future__ import annotations

import io
import math
from dataclasses import replace

import pytest
from rich.console import Console

from mnemotune.env import Summary
from mnemotune.env.cost import TurnCost
from mnemotune.env.statistics import Estimate
from mnemotune.optimizer.views.table import COLUMNS, cells, count, number, people, score_table, with_interval

ROW = Summary(
    policy="awi",
    memory_score=Estimate(0.4567, 0.4, 0.5134, 9),
    accuracy=0.61,
    shares={"write": 0.2, "read": 0.05, "utilisation": 0.14},
    per_turn=TurnCost(1.5, 1500.0, 60.5),
)


def shown(rows: dict[str, Summary], *, width: int = 120) -> str:
    file = io.StringIO()
    Console(file=file, width=width).print(score_table(rows, title="Some scores"))
    return file.getvalue()


def test_a_row_has_a_cell_for_each_column() -> None:
    told = dict(zip(COLUMNS, cells("awi", ROW), strict=True))
    assert told == {
        "policy": "awi",
        "memory score": "0.457 [0.400, 0.513]",
        "accuracy": "0.610",
        "write": "0.200",
        "read": "0.050",
        "util.": "0.140",
        "calls/turn": "1.50",
        "tokens/turn": "1,560",
    }


def test_a_row_without_scores_has_dashes() -> None:
    assert cells("awi", Summary(policy="awi"))[1:6] == ["-"] * 5


def test_the_table_shows_its_title_every_column_and_every_policy_in_the_given_order() -> None:
    told = shown({"native": ROW, "seed": ROW, "evolved": ROW})
    lines = [line.split() for line in told.splitlines() if line.strip()]
    assert "Some scores" in told
    assert all(part in told for column in COLUMNS for part in column.split("/"))
    assert [line[0] for line in lines if line[0] in {"native", "seed", "evolved"}] == ["native", "seed", "evolved"]


def test_the_table_of_usual_names_fits_a_terminal_of_80_columns_uncut() -> None:
    told = shown({"evolved": replace(ROW, per_turn=TurnCost(2.6, 21_500, 60))}, width=80)
    for cell in ("evolved", "0.457 [0.400, 0.513]", "0.610", "0.200", "0.050", "0.140", "2.60", "21,560"):
        assert cell in told
    assert "…" not in told


def test_a_name_in_square_brackets_is_shown_as_it_is() -> None:
    assert "[red]mine" in shown({"[red]mine": ROW})


@pytest.mark.parametrize(
    ("score", "text"),
    [
        (Estimate(0.5, 0.25, 0.75, 9), "0.500 [0.250, 0.750]"),
        (Estimate(-0.0214, -0.1, 0.05, 9), "-0.021 [-0.100, 0.050]"),
        (Estimate(0.5, math.nan, math.nan, 1), "0.500"),
        (Estimate(math.nan, math.nan, math.nan, 0), "-"),
    ],
)
def test_a_score_is_written_with_its_interval_where_it_has_one(score: Estimate, text: str) -> None:
    assert with_interval(score) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (math.nan, "-"),
        (0.0, "0.000"),
        (-0.0, "0.000"),
        (-0.0004, "0.000"),
        (0.9996, "1.000"),
        (1, "1.000"),
    ],
)
def test_a_score_has_three_decimals_and_no_negative_zero(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (999, "999"), (1000, "1.0k"), (56_789, "56.8k"), (1_000_000, "1.0M"), (15_414_230, "15.4M")],
)
def test_large_counts_are_short(value: int, text: str) -> None:
    assert count(value) == text


@pytest.mark.parametrize("value", [999_949, 999_950, 999_999])
def test_a_count_never_says_a_thousand_thousands(value: int) -> None:
    assert count(value) in {"999.9k", "1.0M"}


@pytest.mark.parametrize(("groups", "text"), [(0, "0 users"), (1, "1 user"), (2, "2 users")])
def test_groups_are_counted_in_english(groups: int, text: str) -> None:
    assert people(groups, "user") == text


def test_where_nobody_replied_a_turn_has_no_cost() -> None:
    assert cells("mine", replace(ROW, per_turn=None))[-2:] == ["-", "-"]
