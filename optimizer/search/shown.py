"""What each policy shows a turn where nothing bounds it, so that a budget can be chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...data.task import Task
from ...env import Cast, Track
from ...policies.assistant import ContextUse
from ...policies.lm import LanguageModelError
from ...policies.policy import MemoryPolicy

STAGES_WITH_ASK = 2
"""Stages that a model behind an endpoint is asked for: enough to see how long its messages are."""


async def context_use_of(
    policies: Mapping[str, MemoryPolicy], track: Track, task: Task, cast: Cast, *, stages: int | None = None
) -> dict[str, ContextUse]:
    """Play one task under each policy without a budget; return what memory put before the replies, by name.

    Raises LanguageModelError when an episode fails.
    """
    uses = {}
    for name, policy in policies.items():
        rollout = track.begin(task, policy, replace(cast, context_tokens=None))
        try:
            episode = await rollout.run(stages)
        finally:
            await rollout.aclose()
        if episode.failure is not None:
            raise LanguageModelError(f"{name}: {episode.failure}")
        uses[name] = episode.uses.get("reply", ContextUse())
    return uses
