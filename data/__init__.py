"""Tasks of every track: how they are loaded, split and generated."""

from .dialogue.load import load_scenarios
from .dialogue.scenario import Scenario, ScenarioError
from .splits import Splits, split_by_group
from .task import Check, Fact, Group, Task

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
