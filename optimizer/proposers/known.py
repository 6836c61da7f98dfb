"""The named strategies, tried before others are made up."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from ...policies.files import load_policy, presets
from ...policies.knob import Point
from ...policies.policy import MemoryPolicy
from ..study import Trial, leader
from .numbers import located
from .proposer import BaseProposer, Candidate, Means
from .sampled import at_point

STRATEGIES = ("native", "rag", "awe", "awi")
"""After AMemGym (ICLR 2026), the section on memory implementations."""
_USERS_WORDS = {"write": {"mode": "verbatim", "roles": "user"}, "update_every": 2, "buffer_size": 0}
USERS_MESSAGES = {
    "users_messages": {**_USERS_WORDS, "store": "context"},
    "users_messages_searched": {**_USERS_WORDS, "store": "external", "top_k": 30},
    "users_messages_renewed": {
        **_USERS_WORDS, "store": "external", "top_k": 45, "read": {"diversity": 50, "recency": 30},
    },
}  # fmt: skip
"""What the user said, as it was said: the newest of it, a window without the assistant's side; what is most similar to
the message at hand, RAG without it; or that, where the newest of what is alike stands for the rest. The numbers of the
last were chosen by hand, on 24 generated users, AMemGym's sample and LoCoMo (experiments/LOG.md).
"""


class Known(BaseProposer):
    """Proposes native, RAG, AWE, AWI and the three ways to show the user's messages, where they lie within the space.

    Where backends are searched, the presets that have one of them are proposed too. Elsewhere the backend stays, and
    the change says so. Prompts are the leader's, where they fit.
    """

    explores = True

    def __init__(self, means: Means) -> None:
        """Read the strategies."""
        super().__init__(means)
        space, texts = self.search.space, means.templates
        policies = {name: load_policy(name, templates=texts) for name in STRATEGIES}
        policies |= {name: MemoryPolicy.model_validate(values) for name, values in USERS_MESSAGES.items()}
        if space.knob("backend").domain is not None:
            others = {name: load_policy(name, templates=texts) for name in presets() if name not in STRATEGIES}
            policies |= {name: policy for name, policy in others.items() if policy.backend is not None}
        points = {name: space.point_of(policy) for name, policy in policies.items()}
        self._points: dict[str, Point] = {name: point for name, point in points.items() if point is not None}

    def ready(self, trials: Sequence[Trial]) -> bool:
        """Tell whether any of them is untried."""
        return bool(self._left(trials))

    async def propose(self, trials: Sequence[Trial], rng: random.Random) -> Candidate:
        """Propose an untried strategy."""
        left = self._left(trials)
        name = rng.choice(sorted(left))
        proposal = at_point(leader(trials), left[name], self.means)
        kept = proposal.policy.backend if proposal.policy and "backend" not in left[name] else None
        return replace(proposal, change=_change(name) + (f", with backend: {kept}" if kept else ""))

    def _left(self, trials: Sequence[Trial]) -> dict[str, Point]:
        """Return where those strategies stand that were not tried, with whatever prompts, and not refused."""
        tried = [point for _, point in located(trials, self.search.space)]
        refused = {trial.change for trial in trials if trial.policy is None}
        untried = {name: point for name, point in self._points.items() if point not in tried}
        return {name: point for name, point in untried.items() if _change(name) not in refused}


def _change(name: str) -> str:
    return f"the strategy {name}"
