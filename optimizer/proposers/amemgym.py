"""AMemGym's self-evolution as a proposer: what a policy makes of its own write prompt within a user's life."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from ...policies.policy import MemoryPolicy
from ..config import SearchConfig
from ..study import Trial, raced
from .proposer import Candidate, Playing, candidate, pick_parent, policy_of

EVOLUTION = {"feedback": "complete", "targets": ["write"]}


@dataclass(frozen=True, slots=True)
class AMemGym:
    """Lets a parent rewrite its write prompt after each period of one train user's life, and keeps what came out.

    After AMemGym (ICLR 2026), section on self-evolution, where each user starts anew; here the prompt goes on to
    others.
    """

    search: SearchConfig
    arena: Playing
    alone = False
    explores = False

    def ready(self, trials: Sequence[Trial]) -> bool:
        """Tell whether some parent has a write prompt, and it may change."""
        return "write" in self.search.slots and any(_can_rewrite(trial) for trial in raced(trials))

    async def propose(self, trials: Sequence[Trial], rng: random.Random) -> Candidate:
        """Rewrite a parent's write prompt within one user's life."""
        parent = pick_parent(trials, rng)
        if not _can_rewrite(parent):
            parent = rng.choice([trial for trial in raced(trials) if _can_rewrite(trial)])
        base = policy_of(parent)
        user = rng.choice(sorted(parent.train))
        evolving = MemoryPolicy.model_validate({**base.model_dump(), "evolution": EVOLUTION})
        played = (await self.arena.play(evolving, [user]))[user]
        texts = [revision.text for revision in played.revisions if revision.text is not None]
        changes = [change for revision in played.revisions for change in revision.changes]
        values = base.model_dump()
        values["prompts"]["write"] = texts[-1] if texts else base.prompts.write
        told = f"write prompt: rewritten {len(texts)} times in the life of {user}: {'; '.join(changes)}"[:400]
        return candidate(parent, told, values, longest_prompt=self.search.longest_prompt)

    def close(self) -> None:
        """Release nothing: it holds nothing."""


def _can_rewrite(trial: Trial) -> bool:
    return trial.policy is not None and "write" in trial.policy.prompt_kinds
