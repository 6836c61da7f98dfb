"""The environment: simulated users, episodes, scores and diagnosis."""

from .dialogue.protocol import Protocol
from .dialogue.rollout import Cast, rollout
from .episode import Episode
from .evaluation import Evaluation, Evaluator
from .summary import Summary

__all__ = ["Cast", "Episode", "Evaluation", "Evaluator", "Protocol", "Summary", "rollout"]
