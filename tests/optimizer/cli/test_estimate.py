"""``mnemotune estimate``: what scripts and people rely on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Cli = Callable[..., Any]


def test_json_is_one_object_with_the_promised_fields(cli: Cli, tiny: Path) -> None:
    told = cli("estimate", tiny, "--json").succeeded().json
    assert told["model"] == "embedded"
    assert told["ended_by"] in {"generations", "calls"}
    assert told["total"].keys() == {"calls", "tokens", "usd", "seconds"}
    assert told["calls"].keys() == told["tokens"].keys() == told["usd"].keys() >= {"reply", "answer", "probe", "user"}
    assert told["total"]["usd"] == 0
    assert 0 < told["candidates"] <= told["planned_candidates"]


def test_nothing_is_written_and_nobody_is_asked(cli: Cli, tiny: Path, server: Any) -> None:
    done = cli("estimate", tiny, "--set", "model=openai:m", "--set", f"endpoint.base_url={server.url}").succeeded()
    assert server.asked == []
    assert list(Path.cwd().iterdir()) == []
    assert "price of m: not known" in done.out
    assert "not known: that is the endpoint's to say" in done.out
    assert "$" not in done.out


def test_people_are_told_calls_tokens_dollars_and_what_ends_the_search(cli: Cli, tiny: Path) -> None:
    price = "endpoint.prices={m: {input: 1, output: 2, date: 2026-10-01}}"
    done = cli("estimate", tiny, "--set", "model=openai:m", "--set", price).succeeded()
    total = next(line for line in done.out.splitlines() if line.strip().startswith("total"))
    assert "$" in total
    assert "The search ends when" in done.out
    assert "price of m: $1 in and $2 out per million tokens (as of 2026-10-01)" in done.out


def test_a_budget_too_small_is_refused_with_the_smallest_sensible_one(cli: Cli, tiny: Path) -> None:
    refusal = cli("estimate", tiny, "--set", "search.budget.calls=10").refused()
    assert refusal.startswith("search.budget.calls: 10 is too small")


def test_a_missing_config_is_named(cli: Cli) -> None:
    assert "nowhere.yaml" in cli("estimate", "nowhere.yaml").refused()
