"""Where candidates are compared: on the same users as their parent, then on users that the search never proposed on."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import optuna

from ...data.dialogue.scenario import Scenario
from ...data.splits import Splits
from ...env import Episode, Evaluation, Evaluator, Summary
from ...env.concurrency import side_by_side
from ...env.dialogue.transcript import Transcript
from ...env.statistics import Estimate, nan_mean, paired_difference, paired_test
from ...policies.lm import Ledger
from ...policies.lm.base import merged
from ...policies.lm.budget import on_account
from ...policies.policy import MemoryPolicy
from ..study import Evidence, Played, Trial, quiet_optuna
from .acceptance import Slices, slices_of
from .evidence import gather_evidence

LOST = 0.1
"""p-value of the signed-rank test below which a race counts as lost."""
UNLIKELY = 0.6
"""One-sided p of no gain over a rival, on half of the users or more, above which a race is left."""
FIRST_LOOK = 3
"""The first look takes in one of so many parts of a user's periods."""
ONE_OF = 2
"""Of candidates that race together, one of so many goes on after each rung (successive halving)."""


@dataclass(frozen=True, slots=True)
class Race:
    """How a candidate did on the train users."""

    series: Mapping[str, tuple[float, ...]]
    """Memory score by user and period; empty where an episode failed."""
    scores: Mapping[str, float]
    """Mean over all periods by user; NaN where an episode failed, empty where no episode was played to its end."""
    failures: Mapping[str, str]
    """Why episodes failed, by user."""
    finished: bool
    outrun: bool
    """Whether it was left only because others that raced beside it were better."""
    summary: Summary | None
    """None unless finished."""
    evidence: tuple[Evidence, ...]
    periods: int
    """Whole periods of its episodes."""
    took: Ledger


@dataclass(slots=True, eq=False)
class _Entrant:
    """A candidate under way."""

    policy: MemoryPolicy
    rivals: Sequence[Trial]
    found: Mapping[str, Evaluation] = field(default_factory=dict)
    """By user, as far as it got."""
    upto: int | None = None
    """Periods of each user's life that count; None is all of them."""
    took: Ledger = field(default_factory=Ledger)

    @property
    def series(self) -> dict[str, tuple[float, ...]]:
        return {user: series_of(evaluation)[: self.upto] for user, evaluation in self.found.items()}

    @property
    def score(self) -> float:
        """Mean so far; NaN where every episode failed."""
        return nan_mean(list(mean_scores(self.series).values()))


@dataclass(frozen=True, slots=True)
class Validation:
    """How a policy did on the validation users."""

    scores: Mapping[str, float]
    """Memory score by user; users whose episode failed are left out."""
    failures: Mapping[str, str]
    """Why episodes failed, by user."""
    finished: bool = True
    """Whether all users were asked: a policy that does no better on half of them is left."""
    headroom: float = math.nan
    """Upper bound less chance."""
    slices: Slices = field(default_factory=dict)
    periods: int = 0
    """Whole periods of its episodes."""
    took: Ledger = field(default_factory=Ledger)


class Arena:
    """Runs candidates on the splits of a study; no policy meets a train user twice before its race is over."""

    def __init__(
        self,
        splits: Splits,
        evaluator: Evaluator,
        *,
        seed: int,
        block: int,
        racing: bool = True,
        talks: Mapping[str, Transcript] | None = None,
        done: Callable[[Episode], None] = lambda _: None,
    ) -> None:
        """Race on ``block`` train users first, then on twice as many, and so on; without ``racing``, on all at once.

        Where ``talks`` by user are given, policies listen to them instead of talking. ``done`` hears of every episode.
        """
        self._train = random.Random(f"train:{seed}").sample(splits.train, len(splits.train))
        self._validation = splits.validation
        self._evaluator = evaluator
        self._seed = seed
        self._block = block if racing else len(self._train)
        self._talks = talks
        self._done = done
        self._held: dict[tuple[str, str], Evaluation] = {}
        """Of policies that were played and not raced yet, by key and user."""

    def order(self, seed: Mapping[str, float]) -> None:
        """Put the train users in the order of racing: those of middling difficulty to the seed policy first.

        Users that it fails, or serves perfectly, tell candidates apart the least.
        """
        known = [score for score in seed.values() if not math.isnan(score)]
        middle = statistics.median(known) if known else 0.0

        def distance(user: str) -> float:
            score = seed.get(user, math.nan)
            return math.inf if math.isnan(score) else abs(score - middle)

        self._train.sort(key=lambda scenario: distance(scenario.id))

    async def play(self, policy: MemoryPolicy, users: Sequence[str]) -> Mapping[str, Played]:
        """Return how a policy does on these train users, by user; what is played here its race need not play again.

        Raises BudgetExhausted or EndpointDown.
        """
        by_id = {scenario.id: scenario for scenario in self._train}
        evaluations = await self._evaluate(policy, [by_id[user] for user in dict.fromkeys(users)])
        return {
            user: Played(
                evaluations[user].by_user.get(user, math.nan),
                gather_evidence(evaluations[user], [by_id[user]], rng=self._rng(policy)),
                tuple(
                    r for episode in evaluations[user].episodes for period in episode.periods for r in period.revisions
                ),
            )
            for user in users
        }

    async def race(self, policy: MemoryPolicy, rivals: Sequence[Trial]) -> Race:
        """Run one candidate on ever more of the train users, until it has lost to a rival or all are done.

        The first users' first periods come first; each rung goes on where the last one stopped. Without rivals there is
        nothing to lose, and all users come at once.
        """
        return (await self.heat([policy], [rivals]))[0]

    async def heat(self, policies: Sequence[MemoryPolicy], rivals: Sequence[Sequence[Trial]]) -> list[Race]:
        """Race several candidates at once: after each rung the better half of them goes on (successive halving).

        ``rivals``, each candidate's own, and the races are aligned with ``policies``.
        """
        every = [_Entrant(policy, against) for policy, against in zip(policies, rivals, strict=True)]
        longest = max(len(scenario.periods) for scenario in self._train)
        steps = (
            rungs(len(self._train), block=self._block, periods=longest) if any(rivals) else [(len(self._train), None)]
        )
        running, outrun = every, list[_Entrant]()
        for users, periods in steps:
            await side_by_side(self._run_on(entrant, self._train[:users], periods) for entrant in running)
            if users < len(self._train) or periods is not None:
                level = [entrant for entrant in running if not self._is_behind(entrant)]
                ranked = sorted(level, key=lambda entrant: (math.isnan(entrant.score), -entrant.score))
                most = math.ceil(len(running) / ONE_OF)
                running, outrun = ranked[:most], outrun + ranked[most:]
        for policy in policies:
            self._forget(policy)
        ends = [(entrant, entrant in running, entrant in outrun) for entrant in every]
        return [self._race_of(entrant, finished=finished, outrun=left) for entrant, finished, left in ends]

    def runs_of_heat(self, count: int) -> float:
        """Return how many times all train users' whole lives a heat of so many candidates plays at most."""
        every, longest = len(self._train), max(len(scenario.periods) for scenario in self._train)
        total = before = 0.0
        for users, periods in rungs(every, block=self._block, periods=longest):
            here = users / every * (periods or longest) / longest
            total, before = total + count * (here - before), here
            count = math.ceil(count / ONE_OF)
        return total

    async def _run_on(self, entrant: _Entrant, users: Sequence[Scenario], periods: int | None) -> None:
        with on_account(entrant.took):
            entrant.found = {**entrant.found, **await self._evaluate(entrant.policy, users, periods)}
        entrant.upto = periods

    def _race_of(self, entrant: _Entrant, *, finished: bool, outrun: bool) -> Race:
        every = joined(list(entrant.found.values()))
        scores = {} if entrant.upto is not None else mean_scores(entrant.series)
        return Race(
            entrant.series,
            scores,
            every.failures,
            finished=finished,
            summary=Summary.of(every, name=entrant.policy.label) if finished else None,
            evidence=gather_evidence(every, self._train, rng=self._rng(entrant.policy)) if finished else (),
            outrun=outrun,
            periods=periods_of(every),
            took=entrant.took,
        )

    def _is_behind(self, entrant: _Entrant) -> bool:
        """Tell whether a candidate has lost to a rival, or is not likely to lead in the end."""
        return any(self._is_behind_one(entrant, mean_scores(rival.series, entrant.upto)) for rival in entrant.rivals)

    def _is_behind_one(self, entrant: _Entrant, others: Mapping[str, float]) -> bool:
        scores = mean_scores(entrant.series)
        _, p = paired_test(scores, others)
        unlikely = not compare(scores, others).mean > 0 if math.isnan(p) else p > UNLIKELY
        halfway = entrant.upto is None and 2 * len(scores) >= len(self._train)
        return has_lost(others, scores) or (halfway and unlikely)

    async def validate(self, policy: MemoryPolicy, best: Trial | None = None) -> Validation:
        """Run a policy on all validation users; on half of them, where it does no better than ``best`` there."""
        half, took = self._validation[: len(self._validation) // 2] if best is not None else [], Ledger()
        with on_account(took):
            parts = [await self._run(policy, half)] if len(half) > 1 else []
            if best is None or not parts or paired_difference(parts[0].by_user, best.validation).mean > 0:
                rest = self._validation[len(half) if parts else 0 :]
                parts.append(await self._run(policy, rest))
        found = joined(parts)
        return Validation(
            found.by_user,
            found.failures,
            finished=len(found.episodes) == len(self._validation),
            headroom=found.mean("upper_bound") - found.mean("random"),
            slices=slices_of(found, self._validation),
            periods=periods_of(found),
            took=took,
        )

    async def _evaluate(
        self, policy: MemoryPolicy, users: Sequence[Scenario], periods: int | None = None
    ) -> Mapping[str, Evaluation]:
        """Return one evaluation for each user, those held from before included."""
        new = [s for s in users if (policy.key, s.id) not in self._held]
        if new:
            found = await self._run(policy, new, periods)
            for episode in found.episodes:
                scored = tuple(user for user in found.users if user.user == episode.user)
                self._held[policy.key, episode.user] = replace(found, users=scored, episodes=(episode,))
        held = {scenario.id: self._held[policy.key, scenario.id] for scenario in users}
        if periods is not None:  # an episode that stopped has more to tell when it goes on
            stopped = {(policy.key, scenario.id) for scenario in new if len(scenario.periods) > periods}
            self._held = {place: one for place, one in self._held.items() if place not in stopped}
        return held

    async def _run(self, policy: MemoryPolicy, users: Sequence[Scenario], periods: int | None = None) -> Evaluation:
        return await self._evaluator.evaluate(policy, users, transcripts=self._talks, periods=periods, done=self._done)

    def _forget(self, policy: MemoryPolicy) -> None:
        self._held = {place: one for place, one in self._held.items() if place[0] != policy.key}
        self._evaluator.forget(policy)

    def _rng(self, policy: MemoryPolicy) -> random.Random:
        return random.Random(f"evidence:{self._seed}:{policy.key}")


def rungs(every: int, *, block: int, periods: int) -> Iterator[tuple[int, int | None]]:
    """Yield how many of all users, and how many of their periods, each look at a race takes in; None is all periods."""
    users = block
    if users < every:
        yield users, first_look(periods)
    while users < every:
        yield users, None
        users *= 2
    yield every, None


def first_look(periods: int) -> int:
    """Return how many of a life's periods come before the first look at a race."""
    return math.ceil(periods / FIRST_LOOK)


def series_of(evaluation: Evaluation) -> tuple[float, ...]:
    """Return the memory score by period of the one user that an evaluation is of; empty where the episode failed."""
    return tuple(period.memory_score for user in evaluation.users for period in user.periods)


def periods_of(evaluation: Evaluation) -> int:
    """Count the whole periods of an evaluation's episodes."""
    return sum(len(episode.periods) for episode in evaluation.episodes)


def mean_scores(series: Mapping[str, Sequence[float]], periods: int | None = None) -> dict[str, float]:
    """Return each user's mean over the first ``periods``, or all of them; NaN where there is no score."""
    return {user: nan_mean(scores[:periods]) for user, scores in series.items()}


def joined(parts: Sequence[Evaluation]) -> Evaluation:
    """Put evaluations of one policy on different users together; upper bounds are left out of what they took."""
    episodes = tuple(episode for part in parts for episode in part.episodes)
    return Evaluation(
        policy=parts[0].policy,
        users=tuple(user for part in parts for user in part.users),
        episodes=episodes,
        ledger=merged([episode.ledger for episode in episodes]),
    )


def has_lost(rival: Mapping[str, float], scores: Mapping[str, float]) -> bool:
    """Tell whether scores are below a rival's on the same users by a signed-rank test (Optuna's WilcoxonPruner)."""
    users = [u for u, score in scores.items() if not math.isnan(score) and not math.isnan(rival.get(u, math.nan))]
    if len(users) < 2:
        return False
    with quiet_optuna():
        study = optuna.create_study(
            direction="maximize", pruner=optuna.pruners.WilcoxonPruner(p_threshold=LOST, n_startup_steps=2)
        )
        steps = {i: rival[user] for i, user in enumerate(users)}
        mean = sum(steps.values()) / len(steps)
        study.add_trial(optuna.create_trial(value=mean, intermediate_values=steps))
        trial = study.ask()
        for i, user in enumerate(users):
            trial.report(scores[user], i)
        return trial.should_prune()


def compare(scores: Mapping[str, float], others: Mapping[str, float]) -> Estimate:
    """Return the paired difference over users, with its interval."""
    return paired_difference(scores, others)


def told(difference: Estimate) -> str:
    """Write a difference with its interval, where there is one."""
    mean, low, high = (round(value, 3) + 0.0 for value in (difference.mean, difference.low, difference.high))
    return f"{mean:+.3f}" if math.isnan(low) else f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"
