"""The environment: simulated users, episodes, scores and diagnosis."""

from .dialogue.protocol import Protocol
from .dialogue.rollout import Cast, rollout
from .episode import Episode
from .evaluation import Evaluation, Evaluator

__all__ = ["Cast", "Episode", "Evaluation", "Evaluator", "Protocol", "rollout"]
