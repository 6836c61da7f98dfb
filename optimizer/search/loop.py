"""The loop: propose, check, screen, race, validate, write down."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count

from ...env.statistics import paired_difference
from ...policies.lm import BudgetExhausted, LanguageModelError, Ledger, Limits, merged
from ...policies.lm.prices import Prices
from ...policies.policy import MemoryPolicy
from ..config import SearchConfig
from ..looks import Look
from ..proposers.mix import edits_in, propose
from ..proposers.numbers import distributions
from ..proposers.proposer import Candidate, Proposer
from ..study import Decision, Kind, Study, Trial, beats, lacks_most, leader, scored_users
from .acceptance import level, look, over_limits, promising
from .arena import Arena, Race, Validation, difference_text, failures_text, mean_scores
from .finalists import finalists, is_sure, over_all
from .front import pick
from .screen import Screen, Verdict, racing

NO_LOOK_BEFORE = 5
"""The first generation with a look on the way: an earlier leader is soon overtaken."""
GENERATIONS_BETWEEN_LOOKS = 5
"""Generations between looks on the way: each look makes the next dearer, and the leader is looked at in the end."""
FOR_BROAD_START = 2 / 3
"""Share of the budget after the seed policy that a broad start may take, if its candidates cost as much."""

BROAD = "broad"
"""Note of the study: how many candidates its broad start has."""


@dataclass
class Loop:
    """Everything that the loop works with."""

    study: Study
    arena: Arena
    screen: Screen
    proposers: Mapping[str, Proposer]
    search: SearchConfig
    tell: Callable[[Trial], None]
    """Hears of every finished trial."""
    limits: Limits
    """The search's limits; the models count what it spends."""
    prices: Prices | None = None
    """Of the assistant's tokens, for an objective in dollars."""

    async def run(self, seed_policy: MemoryPolicy) -> str:
        """Evolve until the generations are done, nothing is left to propose or the budget is spent; return which.

        The loop goes on where the study stands. A candidate is compared with its parent and with the leader on the same
        train users. A candidate that leads clearly is looked at, now and then, on users that no proposal has seen.
        """
        try:
            if not self.study.trials:
                self._append(await self._judge_seed(seed_policy))
            self.arena.order(self.study.trials[0].train)
            for generation in range(self._next_generation(), self.search.generations + 1):
                earlier = [trial for trial in self.study.trials if trial.generation < generation]
                size, broad = self._size(generation), bool(self._broad(generation))
                candidates = await propose(
                    self.proposers,
                    earlier,
                    generation=generation,
                    count=size,
                    seed=self.search.seed,
                    broad=broad,
                    edited=edits_in(self.search, size),
                )
                if not candidates:
                    return f"none of the proposers ({', '.join(self.proposers)}) has anything to make a candidate from"
                entrants = await self._checked(candidates, generation)
                together = len(entrants) if broad and self.search.racing else 1
                for first in range(0, len(entrants), together):
                    heat = entrants[first : first + together]
                    if len(self._candidates(generation)) < first + len(heat):
                        await self._judge(heat)
        except BudgetExhausted as end:
            return f"the search's share of the budget is used up ({end})"
        return f"all {self.search.generations} generations are done"

    async def look_last(self) -> None:
        """Look at the leader on the validation users, unless it is accepted already. Raises BudgetExhausted.

        Where it is accepted, what train users cannot tell from it is looked at too. Where the objective picks, its pick
        comes first; the leader is looked at if the pick is bad.
        """
        if self.search.aim.picks and await self._settle():
            return
        first = leader(self.study.trials)
        if self.search.acceptance == "train" or first.policy is None:
            return
        twins = [trial for trial in self.study.trials if trial.policy == first.policy]
        if not any(trial.accepted or (trial.look is not None and trial.look.last) for trial in twins):
            again = self._again(first, "last_look", "the leader, looked at last")
            twins.append(await self._look(again, first.policy, last=True))
            self._append(twins[-1])
        accepted = [trial.look for trial in twins if trial.accepted and trial.look is not None]
        if accepted:
            await self._look_at_finalists(accepted[0].level)

    async def _look_at_finalists(self, level: float) -> None:
        """Accept of what train users cannot tell from the accepted leader what is better on all users.

        Each must be surely better than the seed policy at the leader's level; the first that is not ends it, so that
        the chance to accept any by luck is the leader's.
        """
        noun = self.arena.track.noun
        for trial in finalists(self.study.trials)[1:]:
            met = [t for t in self.study.trials if t.kind == "finalist" and t.policy == trial.policy]
            if not met and trial.policy is not None:
                finalist = self._again(trial, "finalist", f"a finalist: train {noun}s cannot tell it from the leader")
                validation = await self.arena.validate(trial.policy)
                finalist, seen = self._seen(finalist, validation, last=True, level=level)
                best = self.study.best
                ours, theirs = over_all(finalist, best)
                scores = f"{ours:.3f} for {theirs:.3f} of trial {best.number}"
                reason = f"{scores} on train and validation {noun}s together"
                accepted = is_sure(seen) and ours > theirs
                met = [_ended(finalist, "validate", reason, accepted=accepted)]
                self._append(met[0])
            if not (met and met[0].look is not None and is_sure(met[0].look)):
                return

    async def _settle(self) -> bool:
        """Accept the objective's pick last, unless validation users are against it; tell whether it was accepted.

        A search that was stopped after its pick goes on from there.
        """
        settled = next((trial for trial in self.study.trials if trial.kind == "pick"), None)
        if settled is not None:
            return settled.accepted
        picked, best = pick(self.study.trials, self.search.aim, self.prices), self.study.best
        policy = None if picked is None else picked.policy
        if picked is None or policy is None or policy == best.policy:
            return picked is not None
        change = f"the most {self.search.objective}"
        trial = self._again(picked, "pick", change)
        known = next((twin for twin in self.study.trials if twin.policy == policy and twin.accepted), None)
        if known is not None or self.search.acceptance == "train":
            trial = trial if known is None else replace(trial, validation=known.validation, slices=known.slices)
            settled = _ended(trial, "race", change, accepted=True)
        else:
            at = level(self.study.trials, last=True)
            trial, seen = self._seen(trial, await self.arena.validate(policy), last=True, level=at)
            gain = f"{difference_text(seen.over_seed.gain)} over the seed policy on validation"
            reason = f"{gain} (p {seen.over_seed.p:.4f}), needed {seen.level:.4f}"
            if seen.only_reader is not None:
                reason += f"; {_alone(seen.only_reader)}"
            settled = _ended(trial, "validate", reason, accepted=is_sure(seen))
        self._append(settled)
        return settled.accepted

    def _again(self, trial: Trial, kind: Kind, change: str) -> Trial:
        """Return a trial as the next one, which is no candidate."""
        return replace(
            trial,
            number=len(self.study.trials),
            generation=self.study.trials[-1].generation,
            parent=trial.number,
            change=change,
            kind=kind,
            proposer="",
            forecast=math.nan,
            ahead=False,
            led=False,
            look=None,
            ledger=Ledger(),
            calls=0,
            periods=0,
            began=self.study.clock(),
        )

    def _next_generation(self) -> int:
        last = self.study.trials[-1].generation
        return last + 1 if last == 0 or len(self._candidates(last)) >= self._size(last) else last

    def _size(self, generation: int) -> int:
        """Return how many candidates a generation has."""
        return self._broad(generation) or self.search.candidates

    def _broad(self, generation: int) -> int:
        """Return how many candidates look everywhere and race together; 0 but in the first generation.

        A small budget has fewer, and 0 where it has no room for more than a usual generation.
        """
        if generation != 1:
            return 0
        noted = self.study.noted(BROAD)
        if noted is None:  # a run that goes on with a larger budget ends the generation that it has begun
            self.study.note(BROAD, noted := self._room_for_broad())
        return int(noted)

    def _room_for_broad(self) -> int:
        seed, drop = self.study.trials[0], self.screen.drop
        share = len(seed.series) / (len(seed.series) + len(seed.validation))
        room = FOR_BROAD_START * self.limits.room_for(seed.ledger.total) / share
        sizes = range(self.search.broad, self.search.candidates, -1)
        return next((n for n in sizes if self.arena.runs_of_heat(racing(n, drop)) <= room), 0)

    def _candidates(self, generation: int) -> list[Trial]:
        """Return the candidates of a generation that are in the study."""
        return [trial for trial in self.study.trials if trial.generation == generation and trial.kind == "candidate"]

    async def _judge_seed(self, policy: MemoryPolicy) -> Trial:
        began = self.study.clock()
        race = await self.arena.race(policy, [])
        validation = Validation({}, {}) if self.search.acceptance == "train" else await self.arena.validate(policy)
        known = [score for score in validation.scores.values() if not math.isnan(score)]
        no_room = validation.headroom <= 0 and not self.search.aim.by_evidence
        lacking = self.search.acceptance != "train" and (len(known) < 2 or no_room)
        failed = len(race.failures) == len(race.scores) or all(map(math.isnan, race.scores.values()))
        if failed or lacking:
            reasons = [*race.failures.values(), *validation.failures.values()]
            cannot = (
                "the upper bound is not above chance: the model cannot do the task, "
                f"even when told the {self.arena.track.noun}'s state"
            )
            why = reasons[0] if reasons else cannot
            raise LanguageModelError(f"the seed policy cannot be compared with: {why}")
        seed = self._placed(Trial(0, 0, policy, None, "the seed policy", "seed", kind="seed", began=began))
        seed = _ended(seed, "seed", "where the search starts", accepted=True)
        return _with_validation(_with_race(seed, race), validation)

    async def _checked(self, candidates: Sequence[Candidate], generation: int) -> list[Trial]:
        """Return a generation's candidates as trials: those whose ``decided_at`` is ``race`` are to race.

        The screen is shown each new policy once; the check refuses the other candidates.
        """
        known = [trial for trial in self.study.trials if trial.generation < generation]
        tried = {trial.policy for trial in known}
        new = [p for p in dict.fromkeys(c.policy for c in candidates) if p is not None and p not in tried]
        screened = await self.screen.screen(new, self.study.trials, generation=generation)
        verdicts: dict[MemoryPolicy | None, Verdict] = dict(zip(new, screened, strict=True))
        written = [trial.number for trial in self._candidates(generation)]
        numbers, first = chain(written, count(len(self.study.trials))), len(known)
        for candidate, number in zip(candidates, numbers, strict=False):
            verdict = verdicts.pop(candidate.policy, Verdict(keep=True, reason="no new policy"))
            trial = Trial(number, generation, candidate.policy, candidate.parent, candidate.change, "race")
            spent, proposer = merged([candidate.ledger, verdict.ledger]), candidate.proposer
            trial = replace(self._placed(trial), proposer=proposer, forecast=verdict.forecast, ledger=spent)
            twin = next((earlier for earlier in known if earlier.policy == candidate.policy), None)
            if candidate.policy is None:
                trial = _ended(trial, "check", candidate.problem)
            elif twin is not None:
                trial = _ended(trial, "check", f"the same policy as trial {twin.number}")
            elif not verdict.keep:
                trial = _ended(trial, "screen", verdict.reason)
            known.append(trial)
        return known[first:]

    async def _judge(self, heat: Sequence[Trial]) -> None:
        """Race candidates together, decide on each, and append those that the study lacks."""
        began = self.study.clock()
        heat = [replace(trial, began=began) for trial in heat]
        entrants = [(trial, trial.policy) for trial in heat if trial.decided_at == "race" and trial.policy is not None]
        first = leader(self.study.trials[: heat[0].number])
        rivals = [list(dict.fromkeys([self._parent(trial).number, first.number])) for trial, _ in entrants]
        races = await self.arena.heat(
            [policy for _, policy in entrants], [[self.study.trials[number] for number in those] for those in rivals]
        )
        raced = {trial.number: (policy, race) for (trial, policy), race in zip(entrants, races, strict=True)}
        for trial in heat[sum(trial.number < len(self.study.trials) for trial in heat) :]:
            self._append(await self._decide(trial, *raced[trial.number]) if trial.number in raced else trial)

    async def _decide(self, trial: Trial, policy: MemoryPolicy, race: Race) -> Trial:
        """Decide on a candidate after its race; every way out says why."""
        trial, parent, first = _with_race(trial, race), self._parent(trial), leader(self.study.trials)
        trial = replace(trial, over=over_limits(trial, self.search.most_stored))
        if trial.over:
            return _ended(trial, "race", f"memory holds too much: {trial.over}")
        lost = self._lost(trial, race, parent, first)
        if lost:
            return _ended(trial, "race", lost)
        trial = replace(trial, ahead=True, led=promising(race.scores, first.train))
        ahead = f"{difference_text(paired_difference(race.scores, first.train))} over trial {first.number}"
        if self.search.acceptance == "train":
            return _ended(trial, "race", f"the best mean on train {self.arena.track.noun}s: {ahead}", accepted=True)
        if not promising(race.scores, self.study.best.train):
            return _ended(trial, "race", f"it leads, but not clearly over trial {self.study.best.number}: {ahead}")
        looks = [earlier.generation for earlier in self.study.trials if earlier.decided_at == "validate"]
        if trial.generation < (looks[-1] + GENERATIONS_BETWEEN_LOOKS if looks else NO_LOOK_BEFORE):
            before = f"no look before generation {NO_LOOK_BEFORE}"
            when = f"the last look was in generation {looks[-1]}" if looks else before
            return _ended(trial, "race", f"it leads; {when}: {ahead}")
        return await self._look(trial, policy, last=False)

    def _parent(self, trial: Trial) -> Trial:
        """Return the parent that a trial has to beat; where it is over a limit, its nearest ancestor that is not."""
        parent = self.study.trials[trial.parent or 0]
        return self._parent(parent) if parent.over else parent

    def _lost(self, trial: Trial, race: Race, parent: Trial, first: Trial) -> str:
        """Say why a candidate does not lead; empty when it does."""
        stages = None if race.scores else max(map(len, race.series.values()), default=0)
        scores = mean_scores(race.series, stages)
        gain, over_first = (paired_difference(scores, mean_scores(rival.series, stages)) for rival in (parent, first))
        kin = "parent" if parent.number == (trial.parent or 0) else "ancestor"
        failed = failures_text(race.failures)
        against = f"{difference_text(gain)} over its {kin}, trial {parent.number}"
        if not race.finished:
            ahead = f"{difference_text(over_first)} over trial {first.number}, " if first != parent else ""
            whole = max(map(len, parent.series.values()))
            noun, stage_noun = self.arena.track.noun, self.arena.track.stage_noun
            after = f"{len(scores)} train {noun}s" + (f" and {stages} of {whole} {stage_noun}s" if stages else "")
            after += ", outrun by others" if race.outrun else ""
            return f"left after {after}: {ahead}{against}{failed}"
        if lacks_most(race.scores, scored_users(trial.train for trial in self.study.trials)):
            return f"most of its users have no score{failed}"
        if not gain.mean > 0:  # also when there is nothing to compare
            return f"no better: {against}{failed}"
        if not beats(trial, first):
            return f"above its parent, but not above trial {first.number}: {against}{failed}"
        return ""

    async def _look(self, trial: Trial, policy: MemoryPolicy, *, last: bool) -> Trial:
        """Decide on the validation users."""
        best = self.study.best
        validation = await self.arena.validate(policy, best)
        trial, seen = self._seen(trial, validation, last=last, level=level(self.study.trials, last=last))
        gain = f"{difference_text(seen.over_best.gain)} over trial {best.number} on validation"
        asked = validation.scores.keys() | validation.failures.keys()
        if lacks_most(validation.scores, asked & scored_users(trial.validation for trial in self.study.trials)):
            reason = f"most of its users have no score{failures_text(validation.failures)}"
        elif not validation.finished:
            reason = f"no better on the first {len(validation.scores)} {self.arena.track.noun}s"
        elif not seen.sure:
            reason = f"not surely better than the seed policy (p {seen.over_seed.p:.4f}, needed {seen.level:.4f})"
        elif not seen.likely:
            reason = f"too little (p {seen.over_best.p:.2f})"
        elif seen.only_reader is not None:
            reason = _alone(seen.only_reader)
        elif self.search.veto and seen.regressions:
            worst = seen.regressions[0]
            reason = f"worse on {worst}, {difference_text(seen.slices[worst])}"
        else:
            return _ended(trial, "validate", f"better: {gain}", accepted=True)
        return _ended(trial, "validate", f"{reason}: {gain}")

    def _seen(self, trial: Trial, validation: Validation, *, last: bool, level: float) -> tuple[Trial, Look]:
        trials, best, scores, slices = self.study.trials, self.study.best, validation.scores, validation.slices
        seen = look(
            scores,
            slices,
            seed=trials[0],
            best=best,
            level=level,
            last=last,
            readers=self.arena.evaluator.cast.readers,
        )
        return _with_validation(trial, validation, look=seen), seen

    def _placed(self, trial: Trial) -> Trial:
        """Note where a trial's policy stands in the space of numbers, if it does."""
        space = self.search.space
        point = None if trial.policy is None else space.point_of(trial.policy)
        return trial if point is None else replace(trial, params=point, distributions=distributions(point, space))

    def _append(self, trial: Trial) -> None:
        self.study.append(trial)
        self.tell(self.study.trials[-1])


def _alone(reader: str) -> str:
    """Say that a gain over the seed policy is one reader's alone."""
    return f"nothing is left of the gain over the seed policy without the users of {reader}"


def _with_race(trial: Trial, race: Race) -> Trial:
    return replace(
        _charged(trial, race), train=race.scores, series=race.series, summary=race.summary, evidence=race.evidence
    )


def _with_validation(trial: Trial, validation: Validation, *, look: Look | None = None) -> Trial:
    return replace(_charged(trial, validation), validation=validation.scores, slices=validation.slices, look=look)


def _charged(trial: Trial, run: Race | Validation) -> Trial:
    """Add a run's cost to a trial; upper bounds are no calls of it, as a run that goes on finds them anew."""
    calls = sum(spend.calls for role, spend in run.ledger.by_role.items() if role != "upper_bound")
    return replace(
        trial,
        ledger=merged([trial.ledger, run.ledger]),
        calls=trial.calls + (calls if trial.kind == "candidate" else 0),
        periods=trial.periods + run.stages,
    )


def _ended(trial: Trial, decided_at: Decision, reason: str, *, accepted: bool = False) -> Trial:
    return replace(trial, decided_at=decided_at, reason=reason, accepted=accepted)
