"""The readers of the embedded model's family, each fitted to a published model."""

from collections.abc import Mapping
from types import MappingProxyType

from .reading import Reading

READERS: Mapping[str, Reading] = MappingProxyType(
    {
        "gpt-4.1-mini": Reading(),
        "claude-sonnet-4": Reading(sharpness=9.0, habit=-0.5),
        "gemini-2.5-flash": Reading(sharpness=7.0, habit=0.0),
        "deepseek-v3": Reading(sharpness=0.3, habit=1.0),
        "gpt-4o-mini": Reading(sharpness=0.3, habit=0.5),
    }
)
"""By the model that each was fitted to (AMemGym, ICLR 2026); the first is the default.

The first was fitted to seven arms of its model. The others differ from it in two parameters, which were fitted to the
accuracies of their models with the whole history in the prompt.
"""
