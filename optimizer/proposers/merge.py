"""Crossing of two policies that win on different users."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

from ...policies.knob import Knob, Values
from ...policies.policy import MemoryPolicy
from ...policies.space import effective, nested
from ..study import Trial, raced
from .proposer import BaseProposer, Candidate, candidate, pick_parent, policy_of


class Merge(BaseProposer):
    """Crosses a parent with a trial that does better for some of its users; ``mode`` and ``store`` stay the parent's.

    Where backends are searched, that of the mate can come over, with the prompts and numbers that only it has. After
    gepa's merge (2025), with numbers beside prompts.
    """

    def ready(self, trials: Sequence[Trial]) -> bool:
        """Tell whether there are two policies, each better for some user, that differ in what may change."""
        return any(self._mates(trial, trials) for trial in raced(trials))

    async def propose(self, trials: Sequence[Trial], rng: random.Random) -> Candidate:
        """Cross two parents; each part comes from either."""
        parent = pick_parent(trials, rng, fit=lambda trial: self._mates(trial, trials))
        mates = self._mates(parent, trials)
        number = rng.choices(list(mates), weights=list(mates.values()))[0]
        mate = next(trial for trial in trials if trial.number == number)
        base, giver = policy_of(parent), policy_of(mate)
        lent = self._lendable(base, giver)
        parts = rng.sample(list(lent), rng.randint(1, len(lent)))
        values = nested(base.values | {path: value for part in parts for path, value in lent[part].items()})
        change = f"crossed with trial {mate.number}, from which it has: {', '.join(parts)}"
        return candidate(parent, change, values, longest_prompt=self.search.longest_prompt)

    def _mates(self, parent: Trial, trials: Sequence[Trial]) -> dict[int, float]:
        """Return by how much other trials are better than a parent, summed over the users for whom they are."""
        mates = {}
        for trial in raced(trials):
            gains = [trial.train.get(user, math.nan) - score for user, score in parent.train.items()]
            better = sum(gain for gain in gains if gain > 0)
            if better > 0 and self._lendable(policy_of(parent), policy_of(trial)):
                mates[trial.number] = better
        return mates

    def _lendable(self, base: MemoryPolicy, giver: MemoryPolicy) -> dict[str, dict[str, Any]]:
        """Return the parts that ``giver`` could lend to ``base``, with their values that may change, by path.

        A part can be lent when the same knobs of it have an effect in both policies. Prompts come first, from the last
        to the first, and then numbers, both in a policy's order; a backend comes last.
        """
        a, b, knobs = base.values, giver.values, self.search.space.knobs
        in_base, in_giver = effective(a, knobs), effective(b, knobs)
        rows = {path: row for row, path in enumerate(a)}
        parts: dict[str, list[Knob]] = {}
        for knob in sorted(knobs, key=lambda knob: rows.get(knob.path, len(rows)) * (-1 if knob.slot else 1)):
            if knob.mends:
                parts.setdefault(knob.part or knob.name, []).append(knob)
        lent = {}
        for part, of_part in parts.items():
            here = [knob for knob in of_part if knob.name in in_base]
            paths = [knob.path for knob in here if self._may_change(knob)]
            same = here == [knob for knob in of_part if knob.name in in_giver]
            differing = {knob.path for knob in here if a.get(knob.path) != b.get(knob.path)}
            held = {knob.path for knob in here if _is_held(knob)}
            if same and differing & set(paths) and not differing & held:
                lent[part] = {path: b.get(path) for path in paths}
        backend = self.search.space.knob("backend")
        both = backend.name in in_base and backend.name in in_giver
        if both and self._may_change(backend) and in_base[backend.name] != in_giver[backend.name]:
            lent[backend.name] = self._of_backend(a, b)
        return lent

    def _of_backend(self, base: Values, giver: Values) -> dict[str, Any]:
        """Return what comes with the giver's backend, by path; what only the base's has goes."""
        knobs, backend = self.search.space.knobs, {"backend": giver["backend"]}
        before, after = effective(base, knobs), effective({**base, **backend}, knobs)
        lost = [knob.path for knob in knobs if knob.name in before and knob.name not in after]
        new = [knob.path for knob in knobs if knob.name in after and knob.name not in before]
        return backend | dict.fromkeys(lost) | {path: giver.get(path) for path in new}

    def _may_change(self, knob: Knob) -> bool:
        if _is_held(knob):
            return False
        return self.search.prompts and knob.slot in self.search.slots if knob.slot else self.search.numbers


def _is_held(knob: Knob) -> bool:
    """Tell whether a knob would be searched where ``search.space`` names it, which it does not."""
    return knob.named and knob.domain is None
