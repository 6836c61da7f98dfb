"""How evaluations are written down in tables."""

from __future__ import annotations

import io
import math
from dataclasses import replace

import pytest
from rich.console import Console

from mnemotune.env import DialogueTrack, Summary
from mnemotune.env.cost import TurnCost
from mnemotune.env.dialogue.protocol import Protocol
from mnemotune.env.statistics import Estimate
from mnemotune.optimizer.views.table import (
    by_reader,
    count,
    counted,
    number,
    over_window,
    print_table,
    readers_of,
    reply_notes,
    score_table,
    signed,
    unscored_note,
    with_interval,
)
from mnemotune.policies.lm import Ledger, Usage

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


def columns_of(rows: dict[str, Summary]) -> dict[str, list[str]]:
    table = score_table(rows, title="Some scores")
    return {str(column.header): [str(cell) for cell in column.cells] for column in table.columns}


def test_a_policy_is_compared_reader_by_reader() -> None:
    readers = {"ann": "keen", "bob": "keen", "cy": "slow", "dee": "slow"}
    mine = replace(ROW, by_group={"ann": 0.5, "bob": 0.7, "cy": 0.2, "dee": 0.2}, readers=readers)
    theirs = replace(ROW, by_group=dict.fromkeys(readers, 0.1), readers=readers)
    assert readers_of({"mine": mine}) == {"keen": 2, "slow": 2}
    gains = by_reader({"mine": mine, "theirs": theirs}, "mine", "theirs")
    assert {reader: round(gain.mean, 6) for reader, gain in gains.items()} == {"keen": 0.5, "slow": 0.1}
    assert {reader: round(score.mean, 6) for reader, score in mine.by_reader.items()} == {"keen": 0.6, "slow": 0.2}
    assert readers_of({"mine": ROW}) == {}
    assert by_reader({"mine": ROW, "theirs": ROW}, "mine", "theirs") == {}


def test_a_row_has_a_cell_for_each_column() -> None:
    assert columns_of({"awi": ROW}) == {
        "policy": ["awi"],
        "memory score": ["0.457 [0.400, 0.513]"],
        "accu-\nracy": ["0.610"],
        "write": ["0.200"],
        "read": ["0.050"],
        "util.": ["0.140"],
        "calls\n/turn": ["1.50"],
        "tok.\n/turn": ["1,560"],
    }


def test_a_row_without_scores_has_dashes() -> None:
    told = columns_of({"awi": Summary(policy="awi")})
    assert [cells for name, cells in told.items() if name != "policy"] == [["-"]] * 5


def test_beside_the_window_every_policy_says_how_far_it_is_over_it_paired_by_group() -> None:
    window = replace(ROW, by_group={"ann": 0.1, "bob": 0.5})
    rows = {"window": window, "awi": replace(ROW, by_group={"bob": 0.6, "ann": 0.4, "cy": 9.0}), "none": ROW}
    assert columns_of(rows)["over\nwindow"] == ["-", "+0.200", "-"]
    assert over_window(rows)["awi"].users == 2


def test_scores_of_reworded_checks_have_a_column_where_there_are_any() -> None:
    assert columns_of({"awi": replace(ROW, reworded_by_group={"ann": 0.25}), "awe": ROW})["re-\nworded"] == [
        "0.250",
        "-",
    ]


def test_evidence_recall_has_a_column_where_it_is_known_and_two_others_are_not() -> None:
    known = replace(ROW, evidence_by_group={"ann": 0.25, "bob": 0.5})
    assert columns_of({"awi": known, "awe": ROW})["evi-\ndence"] == ["0.375", "-"]
    groups = {"ann": 0.2, "bob": 0.4}
    full = replace(known, by_group=groups, reworded_by_group=groups)
    assert "evi-\ndence" not in columns_of({"evolved": full, "window": replace(full)})


def test_stages_without_a_score_are_counted_and_named() -> None:
    track = DialogueTrack(Protocol())
    assert unscored_note({"awi": ROW}, track) == []
    (note,) = unscored_note({"awi": ROW, "awe": replace(ROW, without_headroom={"ann": (0, 2), "ben": (1,)})}, track)
    assert note.startswith("3 periods have no memory score")
    assert note.endswith("memory cannot show. By user, with the periods from 1: ann (1, 3), ben (2)")
    (note,) = unscored_note({"awe": replace(ROW, without_headroom={"ann": (2,)})}, track)
    assert note.startswith("1 period has no memory score")
    many = replace(ROW, without_headroom={f"u{number}": (0,) for number in range(20)})
    (note,) = unscored_note({"awe": many}, track)
    assert note.endswith("u11 (1) and 8 users more")


@pytest.mark.parametrize(
    ("value", "text"), [(0.0684, "+0.068"), (-0.1, "-0.100"), (-0.0001, "+0.000"), (math.nan, "-")]
)
def test_a_difference_has_its_sign(value: float, text: str) -> None:
    assert signed(value) == text


def test_the_table_shows_its_title_every_column_and_every_policy_in_the_given_order() -> None:
    told = shown({"native": ROW, "seed": ROW, "evolved": ROW})
    lines = [line.split() for line in told.splitlines() if line.strip()]
    assert "Some scores" in told
    assert all(part in told for part in ("policy", "memory score", "write", "read", "util.", "calls", "/turn"))
    assert [line[0] for line in lines if line[0] in {"native", "seed", "evolved"}] == ["native", "seed", "evolved"]


def test_the_table_of_usual_names_fits_a_terminal_of_80_columns_uncut() -> None:
    groups = {"ann": 0.2, "bob": 0.4}
    row = replace(ROW, per_turn=TurnCost(2.6, 21_500, 60), by_group=groups, reworded_by_group=groups)
    told = shown({"evolved": row, "window": row}, width=80)
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


@pytest.mark.parametrize(("things", "text"), [(0, "0 users"), (1, "1 user"), (2, "2 users"), (1200, "1,200 users")])
def test_things_are_counted_in_english(things: int, text: str) -> None:
    assert counted(things, "user") == text


def test_where_a_policy_had_no_turn_its_cost_is_a_dash_and_where_none_had_there_is_no_column() -> None:
    told = columns_of({"mine": replace(ROW, per_turn=None), "other": ROW})
    assert (told["calls\n/turn"][0], told["tok.\n/turn"][0]) == ("-", "-")
    assert not {"calls\n/turn", "tok.\n/turn"} & columns_of({"mine": replace(ROW, per_turn=None)}).keys()


def test_notes_say_how_replies_were_asked_for_and_how_many_were_cut() -> None:
    replies = Ledger()
    assert reply_notes(replies) == []
    replies.add("reply", Usage(1, 1))
    assert reply_notes(replies) == []
    for role, kind in (("answer", "json_schema"), ("write", "json_object"), ("probe", "json_schema")):
        replies.add(role, Usage(1, 1, response_format=kind), calls=2)  # type: ignore[arg-type]
    replies.add("reply", Usage(1, 1, cut=True), calls=1_200)
    assert reply_notes(replies) == [
        "replies that are read were asked for by json_schema (answer, probe); json_object (write)",
        "replies were cut at their limit: reply 1,200; raise endpoint.max_tokens",
    ]


def printed(*, width: int, terminal: bool, title: str = "Some scores") -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=terminal, color_system=None)
    print_table(console, score_table({"awi": ROW}, title=title))
    return file.getvalue()


def test_a_table_that_nobody_reads_on_a_terminal_has_all_its_figures_whatever_its_width() -> None:
    out = printed(width=30, terminal=False)
    assert "0.457 [0.400, 0.513]" in out
    assert "1.50 1,560" in out
    assert "\u2026" not in out


def test_a_narrow_terminal_shows_whole_columns_and_says_which_it_has_no_room_for() -> None:
    out = printed(width=55, terminal=True)
    assert "0.457 [0.400, 0.513]" in out
    assert "\u2026" not in out
    assert "The terminal is too narrow for: calls /turn, tok. /turn" in out
    assert "too narrow" not in printed(width=80, terminal=True)


def test_a_title_stands_as_it_is() -> None:
    assert "t/talks [old] [/b]" in printed(width=80, terminal=False, title="t/talks [old] [/b]")
