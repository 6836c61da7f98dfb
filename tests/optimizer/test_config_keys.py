"""Keys of a config that are none."""

from __future__ import annotations

import re

import pytest

from mnemotune.optimizer.config import ConfigError, parse_config

LEAST = "{data: base, splits: {train: 1, validation: 2, test: 2}, seed_policy: awi}"


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("search.generatons=3", "search.generatons: no such field; the nearest is generations"),
        ("search.budget.call=3", "search.budget.call: no such field; the nearest is calls"),
        ("serch.seed=3", "serch: no such field; the nearest is search"),
        ("splits.tran=3", "splits.tran: no such field; the nearest is train"),
        ("colour=red", "colour: no such field"),
    ],
)
def test_a_key_that_is_none_is_told_with_the_nearest_that_is(override: str, told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f": {told}") + "$"):
        parse_config(LEAST, where="here", overrides=[override])
