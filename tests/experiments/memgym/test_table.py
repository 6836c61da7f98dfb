"""MemGym's strategies are scored as they were published, and once more with a buffer that the budget holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mnemotune.data.chunks import MOST_CHUNK_TOKENS
from mnemotune.experiments.memgym.table import SOURCES, STRATEGIES, config_of, fitted, main, policies_at
from mnemotune.policies.files import load_policy


@pytest.mark.parametrize("tokens", [250, 500, 1000, 4000])
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_fitted_strategy_keeps_no_more_than_its_budget_holds(name: str, tokens: int) -> None:
    policy = fitted(load_policy(name), tokens)
    assert policy.write.mode == load_policy(name).write.mode
    if policy.write.mode == "none":
        assert policy.mask * MOST_CHUNK_TOKENS <= max(tokens, MOST_CHUNK_TOKENS)
    else:
        assert policy.buffer_size * MOST_CHUNK_TOKENS <= max(tokens / 2, MOST_CHUNK_TOKENS)
    if policy.write.mode == "summary":
        assert policy.write.tokens <= tokens / 2


def test_equal_strategies_are_scored_once() -> None:
    every = policies_at(500)
    assert len({policy.key for name, policy in every.items() if name.endswith("fitted")}) == sum(
        name.endswith("fitted") for name in every
    )
    assert set(STRATEGIES) < set(every)


@pytest.mark.parametrize("name", SOURCES)
def test_each_track_has_a_budget(name: str) -> None:
    track, config = config_of(name, SOURCES[name])
    assert track.name == name
    assert config.context_tokens


def test_the_table_has_a_row_for_each_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(tmp_path / "out.json", ["tools=generated:2@4"])
    shown = capsys.readouterr().out
    figures = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert all(f"| {name} |" in shown for name in policies_at(500))
    assert figures["tools"]["window"]["memory_score"] == 0
