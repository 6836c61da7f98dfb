"""Tasks made by hand, of no track."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mnemotune.data import Check, Fact


@dataclass(frozen=True)
class HandMade:
    """A task of one group of its own, unless a group is given."""

    id: str = "task"
    group: str = "shop"
    stages: int = 1
    facts: Mapping[str, Fact] = field(default_factory=dict)
    checks: Mapping[str, Check] = field(default_factory=dict)


def quiz(
    name: str,
    *,
    group: str = "shop",
    stages: int = 1,
    tells: Mapping[str, int],
    asks: Mapping[str, tuple[int, tuple[str, ...]]],
    chance: float = 0.25,
) -> HandMade:
    """Make a task which tells facts, each at a stage, and asks checks, each at a stage and in need of some facts.

    A check called ``x@2`` puts the question ``x``, so that a question can be put at several stages.
    """
    facts = {fact: Fact(fact, fact, "things", f"{fact}: yes", since) for fact, since in tells.items()}
    checks = {
        check: Check(check, check.split("@")[0], stage, needs, chance, f"{check}?")
        for check, (stage, needs) in sorted(asks.items(), key=lambda item: item[1][0])
    }
    return HandMade(name, group, stages, facts, checks)
