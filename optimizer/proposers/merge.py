"""Crossing of two policies that win on different users."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...policies.policy import MemoryPolicy
from ..config import SearchConfig
from ..search.study import Trial
from .proposer import Candidate, candidate, pick_parent, policy_of, raced

PARTS = {
    "answer prompt": ("prompts.answer",),
    "reply prompt": ("prompts.reply",),
    "write prompt": ("prompts.write", "prompts.merge"),
    "roles": ("write.roles",),
    "update_every": ("update_every",),
    "buffer_size": ("buffer_size",),
    "retrieval": ("top_k", "read.order", "read.budget_tokens"),
}
"""What is inherited together."""


@dataclass(frozen=True, slots=True)
class Merge:
    """Crosses a parent with a trial that does better for some of its users; what is written and where is one parent's.

    After gepa's merge (2025), with numbers beside prompts.
    """

    search: SearchConfig
    alone = False
    explores = False

    def ready(self, trials: Sequence[Trial]) -> bool:
        """Tell whether there are two policies, each better for some user, that differ in what may change."""
        return any(self._mates(trial, trials) for trial in raced(trials))

    async def propose(self, trials: Sequence[Trial], rng: random.Random) -> Candidate:
        """Cross two parents; each part is one's or the other's."""
        parent = pick_parent(trials, rng)
        mates = self._mates(parent, trials) or {}
        if not mates:
            parent = rng.choice([trial for trial in raced(trials) if self._mates(trial, trials)])
            mates = self._mates(parent, trials)
        number = rng.choices(list(mates), weights=list(mates.values()))[0]
        mate = next(trial for trial in trials if trial.number == number)
        one, other = policy_of(parent), policy_of(mate)
        differing = self._differing(one, other)
        taken = rng.sample(differing, rng.randint(1, len(differing)))
        values = one.model_dump()
        for part in taken:
            for place in self._places(part):
                _put(values, place, _get(other.model_dump(), place))
        change = f"crossed with trial {mate.number}, from which it has: {', '.join(taken)}"
        return candidate(parent, change, values, longest_prompt=self.search.longest_prompt)

    def _mates(self, parent: Trial, trials: Sequence[Trial]) -> dict[int, float]:
        """Return by how much other trials are better than a parent, summed over the users for whom they are."""
        mates = {}
        for trial in raced(trials):
            gains = [trial.train.get(user, math.nan) - score for user, score in parent.train.items()]
            better = sum(gain for gain in gains if gain > 0)
            if better > 0 and self._differing(policy_of(parent), policy_of(trial)):
                mates[trial.number] = better
        return mates

    def _differing(self, one: MemoryPolicy, other: MemoryPolicy) -> list[str]:
        """Return the parts that the second policy could lend to the first and that may change."""
        a, b = one.model_dump(), other.model_dump()
        return [
            part
            for part in PARTS
            if _fits(part, one, other) and any(_get(a, place) != _get(b, place) for place in self._places(part))
        ]

    def _places(self, part: str) -> list[str]:
        """Return those of a part's values that may change."""
        slots = [f"prompts.{slot}" for slot in self.search.slots] if self.search.prompts else []
        return [p for p in PARTS[part] if p in slots or (self.search.numbers and not p.startswith("prompts."))]


def _fits(part: str, one: MemoryPolicy, other: MemoryPolicy) -> bool:
    """Tell whether a part means the same in both policies."""
    if part in {"write prompt", "reply prompt"}:
        slots = [place.removeprefix("prompts.") for place in PARTS[part]]
        return all(one.prompt_kinds.get(slot) == other.prompt_kinds.get(slot) for slot in slots)
    if part == "retrieval":
        return one.store == other.store
    if part in {"roles", "update_every", "buffer_size"}:
        return "none" not in {one.write.mode, other.write.mode}
    return True


def _get(values: dict[str, Any], place: str) -> Any:
    found: Any = values
    for name in place.split("."):
        found = found[name]
    return found


def _put(values: dict[str, Any], place: str, value: Any) -> None:
    *path, last = place.split(".")
    for name in path:
        values = values[name]
    values[last] = value
