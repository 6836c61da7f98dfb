"""The environment: tracks, episodes, scores and diagnosis."""

from .dialogue.protocol import Protocol
from .dialogue.rollout import rollout
from .dialogue.track import DialogueTrack
from .episode import Episode
from .evaluation import Evaluation, Evaluator
from .summary import Summary
from .track import Cast, Rollout, Track

__all__ = [
    "Cast",
    "DialogueTrack",
    "Episode",
    "Evaluation",
    "Evaluator",
    "Protocol",
    "Rollout",
    "Summary",
    "Track",
    "rollout",
]
