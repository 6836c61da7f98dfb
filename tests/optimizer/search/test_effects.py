"""Keys without effect, and variants of an ablation that cannot differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mnemotune.optimizer.config import Config, load_config
from mnemotune.optimizer.proposer_kinds import PROPOSERS, ProposerKind
from mnemotune.optimizer.search.ablation import as_overrides
from mnemotune.optimizer.search.effects import twins


def config(**changes: Any) -> Config:
    return load_config("quickstart.yaml", overrides=as_overrides(changes))


def said(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    return [str(pair) for pair in twins({"one": config(**first), "other": config(**second)})]


NUMBERS = {"search.proposers": ["known", "spread", "gp"]}
UNLIMITED = {"search.budget": {"calls": None}}


@pytest.fixture
def foreign() -> Iterator[str]:
    """The name of a proposer of another package."""
    PROPOSERS.register("guess", ProposerKind(lambda means: None))
    yield "guess"
    PROPOSERS.unregister("guess")


def test_variants_that_are_the_same_config_are_named() -> None:
    assert said({}, {"model": "embedded", "search.racing": True}) == [
        "'other' cannot differ from 'one': both are the same config"
    ]


@pytest.mark.parametrize(
    ("both", "key", "value", "why"),
    [
        (NUMBERS, "search.failures_shown", 2, "neither reflective nor gepa is at work"),
        (NUMBERS, "search.routing", False, "the proposer reflective is not at work"),
        (NUMBERS, "search.prompts", False, "no proposer at work changes prompts"),
        (NUMBERS, "search.slots", ["write"], "no proposer at work changes prompts"),
        (NUMBERS, "proposer_model", "openai:other", "neither reflective nor gepa is at work"),
        ({"search.numbers": False}, "search.space.top_k", [1, 9], "no proposer at work changes numbers"),
        ({"search.numbers": False}, "search.proposers", ["reflective", "merge"], "the same proposers are at work"),
        ({"search.candidates": 20}, "search.broad_start", 5, "the first generation has no broad start"),
        ({"search.racing": False}, "search.race_block", 8, "search.racing is false"),
        ({"search.acceptance": "train"}, "search.veto", False, "search.acceptance is train"),
        ({"search.generations": 0}, "search.candidates", 9, "with search.generations 0 nothing is searched"),
        ({"splits.train": 4, "search.broad_start": 0}, "search.racing", False, "first look takes in all train groups"),
        ({"splits.train": 4}, "search.racing", False, "only a budget that ends within the broad start can tell them"),
        (UNLIMITED | {"splits.train": 4}, "search.racing", False, "first look takes in all train groups"),
        ({"splits.train": 4}, "search.race_block", 99, "first look takes in all train groups"),
        ({"search.generations": 0}, "proposer_model", "openai:other", "with search.generations 0 nothing is searched"),
        (
            UNLIMITED | {"search.numbers": False},
            "search.space.update_every",
            [3, 9],
            "no proposer at work changes numbers",
        ),
        ({}, "generation", {"users": 9}, "it is for `data generate`"),
        ({}, "tracking", "none", "it says where a run is shown"),
        ({}, "workers", {"count": 1}, "the results are the same everywhere"),
    ],
)
def test_a_key_without_effect_is_named_with_why(both: dict[str, Any], key: str, value: Any, why: str) -> None:
    (line,) = said(both, {**both, key: value})
    assert line.startswith("'other' cannot differ from 'one': ")
    assert f"{key}" in line
    assert why in line


@pytest.mark.parametrize(
    "changes",
    [
        {"search.failures_shown": 2},
        {"search.prompts": False},
        {"search.racing": False},
        {"search.broad_start": 0},
        {"search.race_block": 8},
        {"proposer_model": "openai:other"},
        {"search.generations": 0},
        {"context_tokens": 900},
    ],
)
def test_variants_that_can_differ_are_left_alone(changes: dict[str, Any]) -> None:
    assert said({}, changes) == []


@pytest.mark.parametrize(
    ("both", "changes"),
    [
        ({"search.numbers": False}, {"search.space.update_every": [3, 9]}),
        ({"search.generations": 0}, {"search.space.update_every": [3, 9]}),
        ({"search.generations": 0}, {"search.acceptance": "train"}),
        ({"search.generations": 0}, {"search.off_policy": True}),
        ({"search.generations": 0}, {"search.screening": {"users": 2}}),
        ({"splits.train": 4, "search.budget": {"seconds": 60}}, {"search.racing": False}),
        ({"search.budget": {"seconds": 60}}, {"workers": {"count": 1}}),
    ],
)
def test_a_key_that_a_budget_or_the_seed_policy_s_judging_depends_on_is_left_alone(
    both: dict[str, Any], changes: dict[str, Any]
) -> None:
    assert said(both, both | changes) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"search.failures_shown": 2},
        {"search.routing": False},
        {"proposer_model": "openai:other"},
        {"search.veto": False},
    ],
)
def test_nothing_of_a_search_is_called_idle_where_another_package_proposes(
    foreign: str, changes: dict[str, Any]
) -> None:
    both = {"search.proposers": ["known", foreign], "search.acceptance": "train"}
    assert said(both, both | changes) == []
    nothing = both | {"search.generations": 0}
    assert len(said(nothing, nothing | changes)) == 1


def test_a_key_that_matters_beside_one_without_effect_is_enough() -> None:
    assert said(NUMBERS, {**NUMBERS, "search.failures_shown": 2, "search.candidates": 9}) == []


def test_each_variant_is_told_beside_the_first_that_it_cannot_differ_from() -> None:
    same = config(**{"search.generations": 0})
    found = twins({"a": config(), "b": same, "c": same, "d": same})
    assert [(pair.first, pair.second) for pair in found] == [("b", "c"), ("b", "d")]
