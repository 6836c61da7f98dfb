"""AMemGym's self-evolution as a proposer: a policy rewrites its own write prompt within a user's life."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ...policies.policy import MemoryPolicy
from ..study import Trial, raced
from .proposer import BaseProposer, Candidate, candidate, pick_parent, policy_of

EVOLUTION = {"feedback": "complete", "targets": ["write"]}


class AMemGym(BaseProposer):
    """Lets a parent rewrite its write prompt after each period of a train user's life, and keeps the last prompt.

    After AMemGym (ICLR 2026), section on self-evolution. There each user starts anew; here other users get the prompt.
    """

    def ready(self, trials: Sequence[Trial]) -> bool:
        """Tell whether some parent has a write prompt, and it may change."""
        return "write" in self.search.slots and any(_can_rewrite(trial) for trial in raced(trials))

    async def propose(self, trials: Sequence[Trial], rng: random.Random) -> Candidate:
        """Rewrite a parent's write prompt within one user's life."""
        parent = pick_parent(trials, rng, fit=_can_rewrite)
        base = policy_of(parent)
        user = rng.choice(sorted(parent.train))
        evolving = MemoryPolicy.model_validate({**base.model_dump(), "evolution": EVOLUTION})
        played = (await self.means.arena.play(evolving, [user]))[user]
        texts = [revision.text for revision in played.revisions if revision.text is not None]
        reasons = [reason for revision in played.revisions for reason in revision.changes]
        values = base.model_dump()
        values["prompts"]["write"] = texts[-1] if texts else base.prompts.write
        change = f"write prompt: rewritten {len(texts)} times in the life of {user}: {'; '.join(reasons)}"[:400]
        return candidate(parent, change, values, longest_prompt=self.search.longest_prompt)


def _can_rewrite(trial: Trial) -> bool:
    return trial.policy is not None and "write" in trial.policy.prompt_kinds
