"""What a budget changes in a config: where the search looks, and what is compared."""

from __future__ import annotations

import pytest

from mnemotune.optimizer.config import Config, ConfigError, dump_config, load_config, parse_config
from mnemotune.policies.files import load_policy
from mnemotune.policies.space import limits_under

LEAST = "data: base\nsplits: {train: 2, validation: 2, test: 2}\nseed_policy: awi\n"


def parse(*overrides: str) -> Config:
    return parse_config(LEAST, where="mine.yaml", overrides=overrides)


def test_the_budget_bounds_the_search() -> None:
    limits = parse("context_tokens=500").search.space.limits
    assert {key: limits[key] for key in limits_under(500)} == limits_under(500)
    assert "buffer_share" not in parse().search.space.limits


def test_what_the_config_says_comes_first() -> None:
    limits = parse("context_tokens=500", "search.space.top_k=[3, 5]").search.space.limits
    assert limits["top_k"] == (3, 5)
    assert limits["buffer_size"] == limits_under(500)["buffer_size"]


def test_the_resolved_config_is_read_back_equal() -> None:
    config = parse("context_tokens=500", "search.space.top_k=[3, 5]")
    assert parse_config(dump_config(config), where="again") == config


def test_what_divides_a_budget_is_not_searched_without_one() -> None:
    with pytest.raises(ConfigError, match=r"search\.space\.buffer_share: has no effect without context_tokens"):
        parse("search.space.buffer_share=[20, 80]")


def test_the_window_is_compared_whether_it_is_named_or_not() -> None:
    assert list(parse("baselines=[]").compared) == ["window"]
    assert list(parse("baselines=[rag, window]").compared) == ["window", "rag"]


@pytest.mark.parametrize("name", ["quickstart.yaml", "search.yaml"])
def test_the_shipped_configs_have_a_budget_and_the_window(name: str) -> None:
    config = load_config(name)
    assert config.context_tokens == 1000
    assert config.baselines == ("window", "rag", "awe", "awi")


@pytest.mark.parametrize("tokens", ["'500'", "500.0"])
def test_a_budget_bounds_the_search_however_the_number_is_written(tokens: str) -> None:
    assert parse(f"context_tokens={tokens}") == parse("context_tokens=500")


@pytest.mark.parametrize("tokens", [1, 60, 300])
def test_the_named_strategies_lie_within_the_space_of_every_budget(tokens: int) -> None:
    config = parse(f"context_tokens={tokens}")
    assert all(config.search.space.point_of(load_policy(name)) for name in ("window", "rag", "awe", "awi"))
