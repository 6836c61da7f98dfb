"""New users made with a language model, through AMemGym's stages: each checked, repaired and resumable."""

from .folder import GenerationError
from .generation import DroppedUser, Generated, Progress, Recipe, generate
from .plan import GenerationPlan, expected_calls, most_calls
from .texts import GenerationTexts

__all__ = [
    "DroppedUser",
    "Generated",
    "GenerationError",
    "GenerationPlan",
    "GenerationTexts",
    "Progress",
    "Recipe",
    "expected_calls",
    "generate",
    "most_calls",
]
