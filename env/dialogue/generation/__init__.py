"""New users made with a language model, through AMemGym's stages: each checked, repaired and resumable."""

from .folder import GenerationError
from .generation import DroppedUser, Generated, GenerationProgress, GenerationSetup, generate
from .plan import GenerationPlan, expected_user_calls, most_user_calls
from .texts import GenerationTexts

__all__ = [
    "DroppedUser",
    "Generated",
    "GenerationError",
    "GenerationPlan",
    "GenerationProgress",
    "GenerationSetup",
    "GenerationTexts",
    "expected_user_calls",
    "generate",
    "most_user_calls",
]
