"""Scenarios: simulated users' lives, how they are loaded, split and generated."""

from .dialogue.load import load_scenarios
from .dialogue.scenario import Scenario, ScenarioError
from .splits import Splits, split_by_user

__all__ = ["Scenario", "ScenarioError", "Splits", "load_scenarios", "split_by_user"]
