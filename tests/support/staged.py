"""Episodes of the dialogue in one line: a cast that knows the protocol that it follows."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from mnemotune import env
from mnemotune.data import Scenario
from mnemotune.env import DialogueTrack, Episode, Protocol
from mnemotune.policies.policy import MemoryPolicy


@dataclass(frozen=True, slots=True)
class Cast(env.Cast):
    protocol: Protocol = field(default_factory=Protocol)


def evaluator(cast: Cast, **known: Any) -> env.Evaluator:
    """Return an evaluator of the dialogue under the cast's protocol."""
    return env.Evaluator(DialogueTrack(cast.protocol), cast, **known)


async def rollout(
    scenario: Scenario,
    policy: MemoryPolicy,
    cast: Cast,
    *,
    replay: Episode | None = None,
    guesses: random.Random | None = None,
) -> Episode:
    """Run one episode under the cast's protocol."""
    return await env.rollout(scenario, policy, cast, protocol=cast.protocol, replay=replay, guesses=guesses)
