"""The window, the newest messages that fit, stands beside every policy, and says what memory is worth."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Cli = Callable[..., Any]


def test_an_evaluation_is_told_over_the_window_paired_by_user(cli: Cli, people: Path) -> None:
    done = cli("evaluate", "awi", "--data", people, "--context-tokens", "300", "--json").succeeded()
    told = done.json
    window = cli("evaluate", "window", "--data", people, "--context-tokens", "300", "--json").succeeded().json
    assert told["context_tokens"] == 300
    assert told["window"]["by_group"] == window["by_group"]
    gains = [score - window["by_group"][user] for user, score in told["by_group"].items()]
    assert abs(told["over_window"]["memory_score"] - sum(gains) / len(gains)) < 1e-5
    low, high = told["over_window"]["interval"]
    assert low < told["over_window"]["memory_score"] < high
    assert "awi - window: " in done.err


def test_its_row_is_in_the_table(cli: Cli, people: Path) -> None:
    out = cli("evaluate", "awi", "--data", people, "--users", "user-1-000", "--context-tokens", "300").succeeded().out
    assert [line.split()[0] for line in out.splitlines() if line.strip().startswith(("awi", "window"))] == [
        "awi",
        "window",
    ]
    assert "300 context tokens" in out


def test_it_can_be_left_out(cli: Cli, people: Path) -> None:
    done = cli("evaluate", "awi", "--data", people, "--users", "user-1-000", "--no-window", "--json").succeeded()
    assert "window" not in done.json
    assert "over_window" not in done.json


def test_a_policy_that_is_the_window_has_no_second_row(cli: Cli, people: Path) -> None:
    done = cli("evaluate", "native", "--data", people, "--users", "user-1-000", "--json").succeeded()
    assert "window" not in done.json


def test_it_is_paid_for_beside_the_policy(cli: Cli, people: Path, server: Any, tmp_path: Path) -> None:
    (tmp_path / "endpoint.yaml").write_text(f"endpoint: {{base_url: {server.url}}}\n", encoding="utf-8")
    command = ["evaluate", "awi", "--data", people, "--users", "user-1-000", "--json"]
    command += ["--config", tmp_path / "endpoint.yaml"]
    done = cli(*command, "--model", "openai:tiny").succeeded()
    calls = sum(spend["calls"] for row in (done.json, done.json["window"]) for spend in row["spend"].values())
    assert calls == len(server.asked)
    assert f"{calls:,} calls" in done.err
    assert "upper_bound" not in done.json["window"]["spend"], "bounds are found once"


def test_recorded_talks_are_replayed_to_it_too(cli: Cli, people: Path, tmp_path: Path) -> None:
    one = ["--data", people, "--users", "user-1-000", "--context-tokens", "300"]
    cli("evaluate", "rag", *one, "--no-window", "--out", tmp_path / "rag").succeeded()
    told = cli("evaluate", "awi", *one, "--off-policy", tmp_path / "rag", "--json").succeeded().json
    assert told["window"]["per_turn"] is None


def test_an_estimate_says_what_each_preset_shows_where_nothing_bounds_it(cli: Cli, tiny: Path) -> None:
    bounded = cli("estimate", tiny, "--set", "context_tokens=50", "--json").succeeded().json
    told = cli("estimate", tiny, "--json").succeeded().json
    assert told["context_use"] == bounded["context_use"]
    assert told["context_use"].keys() >= {"window", "rag", "awe", "awi", "seed"}
    assert all(0 <= use["mean"] <= use["most"] for use in told["context_use"].values())
    assert told["context_use"]["window"]["most"] > 50
    assert told["context_use_model"] == "embedded"


def test_people_are_told_it_too_and_that_their_model_may_write_more(cli: Cli, tiny: Path, server: Any) -> None:
    given = ["--set", "model=openai:m", "--set", f"endpoint.base_url={server.url}", "--set", "context_tokens=700"]
    out = cli("estimate", tiny, *given).succeeded().out
    assert "What memory shows before a reply or an answer where nothing bounds it" in out
    assert "context_tokens bounds it at 700" in out
    assert "--ask asks it" in out
    assert server.asked == []


def test_the_model_at_hand_can_be_asked(cli: Cli, tiny: Path, server: Any) -> None:
    given = ["--set", "model=openai:m", "--set", f"endpoint.base_url={server.url}"]
    told = cli("estimate", tiny, *given, "--ask", "--json").succeeded().json
    assert told["context_use_model"] == "openai:m"
    assert server.asked
    assert told["context_use"]["window"]["most"] > 0
