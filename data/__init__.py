"""Tasks of every track: how they are loaded, split and generated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import lazily

if TYPE_CHECKING:
    from .dialogue.load import load_scenarios
    from .dialogue.scenario import Scenario, ScenarioError
    from .splits import Splits, split_by_group
    from .task import Check, Fact, Group, Task

__getattr__ = lazily(
    __name__,
    {
        "dialogue.load": ("load_scenarios",),
        "dialogue.scenario": ("Scenario", "ScenarioError"),
        "splits": ("Splits", "split_by_group"),
        "task": ("Check", "Fact", "Group", "Task"),
    },
)

__all__ = [
    "Check",
    "Fact",
    "Group",
    "Scenario",
    "ScenarioError",
    "Splits",
    "Task",
    "load_scenarios",
    "split_by_group",
]
