"""``mnemotune ranks``: what scripts and people rely on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Cli = Callable[..., Any]


def test_policies_are_ranked_both_ways(cli: Cli, people: Path, tmp_path: Path) -> None:
    told = cli("ranks", "native", "awi", "--data", people, "--out", tmp_path / "out", "--json").succeeded().json
    assert told["replayed"] == "native's talks"
    assert told["groups"] == 8
    assert {one["policy"] for one in told["policies"]} == {"native", "awi"}, "native is the window"
    assert [one["on_rank"] for one in told["policies"]] == sorted(one["on_rank"] for one in told["policies"])
    (native,) = [one for one in told["policies"] if one["policy"] == "native"]
    assert native["difference"] == {"memory_score": 0.0, "interval": [0.0, 0.0]}, "its own talks are replayed"
    assert json.loads((tmp_path / "out" / "ranks.json").read_text(encoding="utf-8")) == told


def test_recorded_talks_can_be_given(cli: Cli, people: Path, tmp_path: Path, plain: Any) -> None:
    cli("evaluate", "rag", "--data", people, "--users", "user-1-000,user-1-001", "--out", tmp_path / "rag").succeeded()
    printed = cli("ranks", "native", "rag", "--data", people, "--off-policy", tmp_path / "rag").succeeded().out
    assert "off-policy" in printed
    assert "rag replayed" in plain(printed)


def test_both_sides_are_ranked_on_the_users_whose_talks_are_recorded(cli: Cli, people: Path, tmp_path: Path) -> None:
    cli("evaluate", "rag", "--data", people, "--users", "user-1-000,user-1-001", "--out", tmp_path / "rag").succeeded()
    told = cli("ranks", "rag", "awi", "--data", people, "--off-policy", tmp_path / "rag", "--json").succeeded().json
    (rag,) = [one for one in told["policies"] if one["policy"] == "rag"]
    assert rag["on_policy"] == rag["off_policy"], "its own talks are replayed"
    assert told["groups"] == 2
    assert told["remark"].startswith("6 users left out, whose talks are not recorded or were lost")


def test_users_have_the_readers_that_they_had_when_their_talks_were_recorded(
    cli: Cli, people: Path, tmp_path: Path
) -> None:
    given = ("--data", people, "--users", "user-1-001,user-1-002", "--no-window")
    evaluated = cli("evaluate", "rag", *given, "--out", tmp_path / "rag", "--json").succeeded().json
    off = ("--data", people, "--off-policy", tmp_path / "rag", "--no-window", "--json")
    told = cli("ranks", "rag", "native", *off).succeeded().json
    (rag,) = [one for one in told["policies"] if one["policy"] == "rag"]
    assert rag["on_policy"]["memory_score"] == evaluated["memory_score"]


def test_talks_of_other_users_rank_nothing(cli: Cli, people: Path, tmp_path: Path) -> None:
    cli("evaluate", "rag", "--data", "generated:1@77", "--out", tmp_path / "rag").succeeded()
    told = cli("ranks", "native", "rag", "--data", people, "--off-policy", tmp_path / "rag").refused()
    assert "has whole talks of none of these users" in told


def test_the_window_is_ranked_beside_them(cli: Cli, people: Path) -> None:
    told = cli("ranks", "awe", "awi", "--data", people, "--context-tokens", "300", "--json").succeeded().json
    assert [one["policy"] for one in told["policies"] if one["policy"] == "window"] == ["window"]
    assert len(told["policies"]) == 3


def test_one_policy_cannot_be_ranked(cli: Cli, people: Path) -> None:
    assert "two or more different policies" in cli("ranks", "native", "native", "--data", people).refused()
