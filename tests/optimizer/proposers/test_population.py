"""Populations of policies that rows are collected from."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.optimizer.proposers.population import dealt, population
from mnemotune.policies.files import PolicyError


def test_the_same_names_and_seed_give_the_same_policies() -> None:
    names = ["presets", "random:20", "damaged:20"]
    one, other = ([m.policy.key for m in population(names, seed=2)] for _ in range(2))
    assert one == other
    assert len(set(one)) == len(one) > 40
    assert one != [m.policy.key for m in population(names, seed=3)]


def test_fewer_policies_are_the_first_of_more() -> None:
    few, more = population(["damaged:3"], seed=0), population(["damaged:9"], seed=0)
    assert more[:3] == few


def test_random_policies_write_in_every_way_and_damaged_ones_in_those_that_can_lose() -> None:
    modes = {m.policy.write.mode for m in population(["random:40"], seed=0)}
    assert modes == {"verbatim", "facts", "profile"}
    damaged = population(["damaged:40"], seed=0)
    assert {m.policy.write.mode for m in damaged} == {"facts", "profile"}
    assert len({m.prompt for m in damaged}) == 7


def test_a_policy_that_is_named_twice_is_there_once() -> None:
    assert [m.name for m in population(["awi", "presets"], seed=0)] == ["awi", "native", "rag", "awe"]


@pytest.mark.parametrize("name", ["random:", "random:0", "damaged:-1", "damaged:x"])
def test_a_number_of_policies_must_be_one(name: str) -> None:
    with pytest.raises(PolicyError, match=r"write (random|damaged):N"):
        population([name], seed=0)


@given(users=st.integers(1, 30), each=st.integers(1, 12), seed=st.integers(0, 5))
def test_policies_are_dealt_evenly_and_none_twice_to_a_user(users: int, each: int, seed: int) -> None:
    members = population(["presets", "random:5"], seed=0)
    names = [f"user-{i}" for i in range(users)]
    hands = dealt(members, names, each=each, seed=seed)
    assert hands == dealt(members, names, each=each, seed=seed)
    assert list(hands) == names
    assert all(len({m.name for m in hand}) == len(hand) == min(each, 9) for hand in hands.values())
    met = Counter(member.name for hand in hands.values() for member in hand)
    counts = [met[member.name] for member in members]
    assert max(counts) - min(counts) <= 2


def test_all_policies_are_dealt_where_no_number_is_given() -> None:
    members = population(["presets"], seed=0)
    assert dealt(members, ["a", "b"], each=None, seed=0) == {"a": members, "b": members}
