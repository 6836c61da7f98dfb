"""The environment: simulated users, episodes, scores and diagnosis."""

from .episode import Episode
from .evaluation import Evaluation, Evaluator
from .protocol import Protocol
from .rollout import Cast, rollout

__all__ = ["Cast", "Episode", "Evaluation", "Evaluator", "Protocol", "rollout"]
