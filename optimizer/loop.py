"""The loop: propose, check, screen, race, validate, write down."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..policies.lm import BudgetExhausted, LanguageModel, LanguageModelError, Ledger
from ..policies.policy import MemoryPolicy
from .arena import Arena, Race, compare, told
from .config import SearchConfig
from .proposers.candidates import Candidate, propose
from .proposers.numbers import point_of
from .screen import Screen, Verdict
from .study import Stage, Study, Trial


@dataclass
class Loop:
    """Everything that the loop works with."""

    study: Study
    arena: Arena
    screen: Screen
    proposer: LanguageModel
    spent: Callable[[], Ledger]
    """Returns what all models have taken so far."""
    search: SearchConfig
    tell: Callable[[Trial], None]
    """Hears of every finished trial."""
    _billed: Ledger = field(default_factory=Ledger, init=False)

    async def run(self, seed_policy: MemoryPolicy) -> str:
        """Evolve until the generations are done or the budget is spent; return why it ended.

        Goes on where the study stands. A candidate is compared with its parent on the same train users. What beats
        its parent and the best so far there is validated on users that no proposal has seen, and accepted when the
        paired interval, clustered by user, lies above zero.
        """
        self._billed = self.spent().copy()
        try:
            if not self.study.trials:
                self._append(await self._judge_seed(seed_policy))
            for generation in range(self._next_generation(), self.search.generations + 1):
                earlier = [trial for trial in self.study.trials if trial.generation < generation]
                candidates = await propose(
                    earlier,
                    generation=generation,
                    search=self.search,
                    model=self.proposer,
                    templates=self.arena.templates,
                )
                verdicts = await self._screen(candidates)
                for slot in range(len(self.study.trials) - len(earlier), len(candidates)):
                    self._append(await self._judge(candidates[slot], verdicts[slot], generation))
        except BudgetExhausted as end:
            return f"the search's share of the budget is used up ({end})"
        return f"all {self.search.generations} generations are done"

    def _next_generation(self) -> int:
        last = self.study.trials[-1].generation
        whole = sum(trial.generation == last for trial in self.study.trials) >= self.search.candidates
        return last + 1 if whole or last == 0 else last

    async def _screen(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        sound = [candidate.policy for candidate in candidates if candidate.policy is not None]
        verdicts = iter(await self.screen.screen(sound))
        return [Verdict(keep=True, reason="") if c.policy is None else next(verdicts) for c in candidates]

    async def _judge_seed(self, policy: MemoryPolicy) -> Trial:
        race = await self.arena.race(policy, None)
        validation = await self.arena.validate(policy)
        headroom = validation.mean("upper_bound") - validation.mean("random")
        if all(map(math.isnan, race.scores.values())) or validation.memory_score.users < 2 or headroom <= 0:
            reasons = [failure["reason"] for failure in race.summary["failures"]] + list(validation.failures.values())
            cannot = (
                "the upper bound is not above chance: the model cannot do the task, even when told the user's state"
            )
            raise LanguageModelError(
                f"the seed policy has no score to compare with: {reasons[0] if reasons else cannot}"
            )
        place = point_of(policy, self.search.space)
        seed = Trial(
            number=0,
            generation=0,
            policy=policy,
            parent=None,
            change="the seed policy",
            stage="seed",
            accepted=True,
            reason="where the search starts",
            validation=validation.by_user,
        )
        seed = replace(seed, **_of_race(race))
        return seed if place is None else replace(seed, params=place.point, distributions=place.distributions)

    async def _judge(self, candidate: Candidate, verdict: Verdict, generation: int) -> Trial:
        """Decide on one candidate; every way out says why."""
        policy = candidate.policy
        trial = Trial(
            number=len(self.study.trials),
            generation=generation,
            policy=policy,
            parent=candidate.parent,
            change=candidate.change,
            stage="check",
            accepted=False,
            reason=candidate.problem,
            params=candidate.params,
            distributions=candidate.distributions,
        )
        if policy is None:
            return trial
        twin = self.study.find(policy)
        if twin is not None:
            return replace(trial, reason=f"the same policy as trial {twin.number}")
        if not verdict.keep:
            return _ended(trial, "screen", verdict.reason)
        parent = self.study.trials[candidate.parent]
        race = await self.arena.race(policy, parent)
        trial = replace(trial, **_of_race(race))
        lost = self._lost(trial, race, parent)
        return _ended(trial, "race", lost) if lost else await self._validate(trial, policy)

    def _lost(self, trial: Trial, race: Race, parent: Trial) -> str:
        """Say why a candidate goes no further than the race; empty when it does."""
        best = self.study.best
        gain = compare(race.scores, parent.train)
        against = f"{told(gain)} over its parent, trial {parent.number}"
        if not race.finished:
            return f"{against}: lost after {len(race.scores)} train users"
        if len(race.summary["failures"]) > len(parent.summary["failures"]):
            return f"more episodes failed than its parent's, for example: {race.summary['failures'][0]['reason']}"
        if not gain.mean > 0:  # also when there is nothing to compare
            return f"{against}: no better"
        if trial.score <= best.score:
            return f"{against}: better, but not than trial {best.number}"
        return ""

    async def _validate(self, trial: Trial, policy: MemoryPolicy) -> Trial:
        best = self.study.best
        validation = await self.arena.validate(policy)
        gain = compare(validation.by_user, best.validation)
        broken = [user for user in validation.failures if not math.isnan(best.validation.get(user, math.nan))]
        accepted = gain.low > 0 and not broken
        how = "better" if accepted else "not surely better"
        if broken:
            how = f"but {len(broken)} episodes failed, for example: {validation.failures[broken[0]]}"
        reason = f"{told(gain)} over trial {best.number} on validation: {how}"
        return _ended(replace(trial, validation=validation.by_user), "validate", reason, accepted=accepted)

    def _append(self, trial: Trial) -> None:
        """Write a trial down with what was spent since the last one."""
        now = self.spent().copy()
        done = replace(trial, ledger=now.since(self._billed))
        self._billed = now
        self.study.append(done)
        self.tell(done)


def _of_race(race: Race) -> dict[str, Any]:
    return {"train": race.scores, "summary": race.summary, "evidence": race.evidence}


def _ended(trial: Trial, stage: Stage, reason: str, *, accepted: bool = False) -> Trial:
    return replace(trial, stage=stage, reason=reason, accepted=accepted)
