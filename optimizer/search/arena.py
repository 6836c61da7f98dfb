"""The arena: candidates are compared on their parent's groups, then on groups that no proposal has seen."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property

from ...data.splits import Splits
from ...data.task import Group, Task, tasks_of
from ...env import Episode, Evaluation, Evaluator, Summary, Track
from ...env.concurrency import side_by_side
from ...env.scoring import FAILURE_KINDS, Measure, failure_kind, marked, memory_score
from ...env.statistics import Estimate, nan_mean, paired_difference, paired_test
from ...policies.lm import Ledger, merged, on_account
from ...policies.policy import MemoryPolicy
from ..study import Evidence, Played, Trial
from .acceptance import Slices, slices_of

LOST = 0.1
"""p of the signed-rank test below which a race is lost."""
UNLIKELY = 0.6
"""One-sided p of no gain over a rival, on half of the groups or more, above which a candidate leaves the race."""
FIRST_LOOK = 3
"""The first look at a race is at 1 / FIRST_LOOK of a task's stages."""
HALVING = 2
"""After each rung, the best 1 / HALVING of the candidates that race together go on (successive halving)."""

MOST_PER_KIND = 8
"""Most failures of a kind that proposers get to see of a candidate."""


@dataclass(frozen=True, slots=True)
class Race:
    """How a candidate did on the train groups."""

    series: Mapping[str, tuple[float, ...]]
    """What is compared, by group and stage; empty where an episode failed."""
    scores: Mapping[str, float]
    """Mean over all stages by group; NaN where an episode failed, empty where no episode was played to its end."""
    failures: Mapping[str, str]
    """Why episodes failed, by group."""
    finished: bool
    outrun: bool
    """Whether it left the race only because others of its heat were better."""
    summary: Summary | None
    """None unless finished."""
    evidence: tuple[Evidence, ...]
    stages: int
    """Whole stages of its episodes."""
    ledger: Ledger


@dataclass(slots=True, eq=False)
class _Entrant:
    """A candidate under way."""

    policy: MemoryPolicy
    rivals: Sequence[Trial]
    evaluations: Mapping[str, Evaluation] = field(default_factory=dict)
    """By group, as far as it got."""
    measure: Measure = memory_score
    upto: int | None = None
    """Stages of each task that count; None is all of them."""
    ledger: Ledger = field(default_factory=Ledger)

    @property
    def series(self) -> dict[str, tuple[float, ...]]:
        return {
            group: series_of(evaluation, self.measure)[: self.upto] for group, evaluation in self.evaluations.items()
        }

    @property
    def score(self) -> float:
        """Mean so far; NaN where every episode failed."""
        return nan_mean(list(mean_scores(self.series).values()))


@dataclass(frozen=True, slots=True)
class Validation:
    """How a policy did on the validation groups."""

    scores: Mapping[str, float]
    """What is compared, by group; groups with a failed episode are left out."""
    failures: Mapping[str, str]
    """Why episodes failed, by group."""
    finished: bool = True
    """Whether all groups were asked: a policy that does no better on half of them is left."""
    headroom: float = math.nan
    """Ceiling less floor."""
    slices: Slices = field(default_factory=dict)
    stages: int = 0
    """Whole stages of its episodes."""
    ledger: Ledger = field(default_factory=Ledger)


@dataclass(eq=False)
class Arena:
    """Runs candidates on the splits of a study; until its race is over, a policy meets each train group once."""

    splits: Splits
    evaluator: Evaluator
    _: KW_ONLY
    seed: int
    block: int
    """Train groups of the first race; then come twice as many, and so on."""
    racing: bool = True
    """Else each race is on all train groups at once."""
    measure: Measure = memory_score
    """What candidates are compared by."""
    replays: Mapping[str, Episode] | None = None
    """By task: memory hears them instead of acting."""
    done: Callable[[Episode], None] = lambda _: None
    """Hears of every episode."""
    _held: dict[tuple[str, str], Evaluation] = field(init=False, default_factory=dict)
    """Evaluations of policies whose race is not over, by key and group."""

    def __post_init__(self) -> None:
        self._train = random.Random(f"train:{self.seed}").sample(self.splits.train, len(self.splits.train))

    def order(self, seed: Mapping[str, float]) -> None:
        """Put the train groups in the order of racing: those of middling difficulty to the seed policy first.

        Groups that it fails, or serves perfectly, tell candidates apart the least.
        """
        known = {group: score for group, score in seed.items() if not math.isnan(score)}
        middle = statistics.median(known.values()) if known else 0.0
        distances = {group: abs(score - middle) for group, score in known.items()}
        self._train.sort(key=lambda group: distances.get(group.id, math.inf))

    async def play(self, policy: MemoryPolicy, groups: Sequence[str]) -> Mapping[str, Played]:
        """Return how a policy does on these train groups, by group; its race does not play them again.

        Raises BudgetExhausted or EndpointDown.
        """
        by_id = {group.id: group for group in self._train}
        played = await self._evaluate(policy, [by_id[name] for name in dict.fromkeys(groups)])
        return {
            name: Played(
                part.measured(self.measure).get(name, math.nan),
                self._evidence(part, policy),
                tuple(r for episode in part.episodes for stage in episode.stages for r in stage.revisions),
            )
            for name, part in played.items()
        }

    async def race(self, policy: MemoryPolicy, rivals: Sequence[Trial]) -> Race:
        """Run a candidate on more and more train groups, until it has lost to a rival or all groups are done.

        The first rung is the first groups' first stages; each rung goes on where the last rung stopped. Without rivals
        all groups come at once.
        """
        return (await self.heat([policy], [rivals]))[0]

    async def heat(self, policies: Sequence[MemoryPolicy], rivals: Sequence[Sequence[Trial]]) -> list[Race]:
        """Race several candidates at once; after each rung the better half goes on (successive halving).

        Each candidate has its own ``rivals``; they and the races are aligned with ``policies``.
        """
        every = [
            _Entrant(policy, against, measure=self.measure) for policy, against in zip(policies, rivals, strict=True)
        ]
        steps = self._rungs() if any(rivals) else iter([(len(self._train), None)])
        running, outrun = every, list[_Entrant]()
        for groups, stages in steps:
            await side_by_side(self._run_on(entrant, self._train[:groups], stages) for entrant in running)
            if groups < len(self._train) or stages is not None:
                abreast = [e for e in running if not any(self._is_behind(e, rival) for rival in e.rivals)]
                ranked = sorted(abreast, key=lambda entrant: (math.isnan(entrant.score), -entrant.score))
                most = math.ceil(len(running) / HALVING)
                running, outrun = ranked[:most], outrun + ranked[most:]
        for policy in policies:
            await self._leave(policy)
        return [self._race_of(entrant, finished=entrant in running, outrun=entrant in outrun) for entrant in every]

    def runs_of_heat(self, count: int) -> float:
        """Return the most that a heat of ``count`` candidates plays, in whole tasks of all train groups."""
        every, longest = len(self._train), self._longest
        total = before = 0.0
        for groups, stages in self._rungs():
            here = groups / every * (stages or longest) / longest
            total, before = total + count * (here - before), here
            count = math.ceil(count / HALVING)
        return total

    @property
    def track(self) -> Track:
        """The kind of task that it runs."""
        return self.evaluator.track

    @property
    def _longest(self) -> int:
        return max(group.stages for group in self._train)

    @cached_property
    def _raced(self) -> int:
        return raced_stages(self._train)

    def _rungs(self) -> Iterator[tuple[int, int | None]]:
        every = len(self._train)
        return rungs(every, block=self.block if self.racing else every, stages=self._raced)

    async def _run_on(self, entrant: _Entrant, groups: Sequence[Group], stages: int | None) -> None:
        with on_account(entrant.ledger):
            entrant.evaluations = {**entrant.evaluations, **await self._evaluate(entrant.policy, groups, stages)}
        entrant.upto = stages

    def _race_of(self, entrant: _Entrant, *, finished: bool, outrun: bool) -> Race:
        every = joined(list(entrant.evaluations.values()))
        scores = {} if entrant.upto is not None else mean_scores(entrant.series)
        return Race(
            entrant.series,
            scores,
            every.failures,
            finished=finished,
            summary=Summary.of(every, name=entrant.policy.label) if finished else None,
            evidence=self._evidence(every, entrant.policy) if finished else (),
            outrun=outrun,
            stages=stages_of(every),
            ledger=entrant.ledger,
        )

    def _is_behind(self, entrant: _Entrant, rival: Trial) -> bool:
        """Tell whether a candidate has lost to a rival, or is not likely to lead it in the end."""
        scores, others = mean_scores(entrant.series), mean_scores(rival.series, entrant.upto)
        _, p = paired_test(scores, others)
        unlikely = not paired_difference(scores, others).mean > 0 if math.isnan(p) else p > UNLIKELY
        halfway = entrant.upto is None and 2 * len(scores) >= len(self._train)
        return has_lost(others, scores) or (halfway and unlikely)

    async def validate(self, policy: MemoryPolicy, best: Trial | None = None) -> Validation:
        """Run a policy on all validation groups, or on half of them if it does no better than ``best`` there."""
        half, ledger = self.splits.validation[: len(self.splits.validation) // 2] if best is not None else [], Ledger()
        with on_account(ledger):
            parts = [await self._run(policy, half)] if len(half) > 1 else []
            if (
                best is None
                or not parts
                or paired_difference(parts[0].measured(self.measure), best.validation).mean > 0
            ):
                rest = self.splits.validation[len(half) if parts else 0 :]
                parts.append(await self._run(policy, rest))
        whole = joined(parts)
        return Validation(
            whole.measured(self.measure),
            whole.failures,
            finished=len(whole.episodes) == len(tasks_of(self.splits.validation)),
            headroom=whole.mean("ceiling") - whole.mean("floor"),
            slices=slices_of(whole, tasks_of(self.splits.validation), stage_noun=self.track.stage_noun),
            stages=stages_of(whole),
            ledger=ledger,
        )

    async def _evaluate(
        self, policy: MemoryPolicy, groups: Sequence[Group], stages: int | None = None
    ) -> Mapping[str, Evaluation]:
        """Return an evaluation for each group, those held from before included."""
        new = [group for group in groups if (policy.key, group.id) not in self._held]
        if new:
            evaluation = await self._run(policy, new, stages)
            for group in new:
                self._held[policy.key, group.id] = part_of(evaluation, group)
        held = {group.id: self._held[policy.key, group.id] for group in groups}
        if stages is not None:  # an episode that stopped has more to tell when it goes on
            stopped = {(policy.key, group.id) for group in new if group.stages > stages}
            self._held = {place: part for place, part in self._held.items() if place not in stopped}
        return held

    async def _run(self, policy: MemoryPolicy, groups: Sequence[Group], stages: int | None = None) -> Evaluation:
        return await self.evaluator.evaluate(
            policy, tasks_of(groups), replays=self.replays, stages=stages, done=self.done
        )

    async def _leave(self, policy: MemoryPolicy) -> None:
        self._held = {place: part for place, part in self._held.items() if place[0] != policy.key}
        await self.evaluator.leave(policy)

    def _evidence(self, evaluation: Evaluation, policy: MemoryPolicy) -> tuple[Evidence, ...]:
        rng = random.Random(f"evidence:{self.seed}:{policy.key}")
        return gather_evidence(evaluation, tasks_of(self._train), track=self.track, rng=rng)


def rungs(every: int, *, block: int, stages: int) -> Iterator[tuple[int, int | None]]:
    """Yield each rung of a race: its groups out of all, and their stages; None is all stages."""
    groups = block
    if groups < every and first_look(stages) < stages:
        yield groups, first_look(stages)
    while groups < every:
        yield groups, None
        groups *= 2
    yield every, None


def raced_stages(groups: Sequence[Group]) -> int:
    """Return the stages of the longest task; 1 where most groups are asked nothing yet at a race's first look."""
    longest = max(group.stages for group in groups)
    early = first_look(longest)
    asked = [any(check.stage < early for task in group.tasks for check in task.checks.values()) for group in groups]
    return longest if 2 * sum(asked) >= len(asked) else 1


def first_look(stages: int) -> int:
    """Return the stages of a task that come before the first look at a race."""
    return math.ceil(stages / FIRST_LOOK)


def series_of(evaluation: Evaluation, measure: Measure = memory_score) -> tuple[float, ...]:
    """Return what is compared, by stage, of the only group that an evaluation is of; empty where an episode failed."""
    return tuple(measure(stage) for group in evaluation.groups for stage in group.stages)


def stages_of(evaluation: Evaluation) -> int:
    """Count the whole stages of an evaluation's episodes."""
    return sum(len(episode.stages) for episode in evaluation.episodes)


def mean_scores(series: Mapping[str, Sequence[float]], stages: int | None = None) -> dict[str, float]:
    """Return each group's mean over the first ``stages``, or all of them; NaN where there is no score."""
    return {group: nan_mean(scores[:stages]) for group, scores in series.items()}


def part_of(evaluation: Evaluation, group: Group) -> Evaluation:
    """Return an evaluation's part for one group; its ledger stays that of the whole."""
    ids = {task.id for task in group.tasks}
    scores = tuple(score for score in evaluation.groups if score.group == group.id)
    return replace(evaluation, groups=scores, episodes=tuple(e for e in evaluation.episodes if e.task in ids))


def joined(parts: Sequence[Evaluation]) -> Evaluation:
    """Join evaluations of one policy on different groups; the ledger leaves out their bounds."""
    episodes = tuple(episode for part in parts for episode in part.episodes)
    return Evaluation(
        policy=parts[0].policy,
        turn=parts[0].turn,
        groups=tuple(score for part in parts for score in part.groups),
        episodes=episodes,
        group_of={task: group for part in parts for task, group in part.group_of.items()},
        readers={group: name for part in parts for group, name in part.readers.items()},
        ledger=merged([episode.ledger for episode in episodes]),
    )


def has_lost(rival: Mapping[str, float], scores: Mapping[str, float]) -> bool:
    """Tell whether scores are below a rival's on the same groups: on the average, and by a signed-rank test.

    After Optuna's WilcoxonPruner.
    """
    from scipy.stats import wilcoxon  # imported late: it takes a while that not every command needs

    pairs = [(score, rival[g]) for g, score in scores.items() if not math.isnan(score - rival.get(g, math.nan))]
    if len(pairs) < 2:
        return False
    ours, theirs = zip(*pairs, strict=True)
    if nan_mean(ours) >= nan_mean(theirs):  # the test takes far longer
        return False
    return bool(wilcoxon(ours, theirs, alternative="less", zero_method="zsplit").pvalue < LOST)


def failures_text(failures: Mapping[str, str]) -> str:
    """Say behind something else how many episodes failed, and why the first of them did; nothing where none did."""
    example = next(iter(failures.values()), None)
    return "" if example is None else f"; {len(failures)} episodes failed, for example: {example}"


def difference_text(difference: Estimate) -> str:
    """Write a difference with its interval, where there is one."""
    mean, low, high = (round(value, 3) + 0.0 for value in (difference.mean, difference.low, difference.high))
    return f"{mean:+.3f}" if math.isnan(low) else f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"


def gather_evidence(
    evaluation: Evaluation, tasks: Sequence[Task], *, track: Track, rng: random.Random
) -> tuple[Evidence, ...]:
    """Pick some wrong answers of each kind of failure, at random, from tasks of the train split."""
    by_id = {task.id: task for task in tasks}
    failures = [e for episode in evaluation.episodes for e in _failures(episode, by_id[episode.task], track)]
    picked: list[Evidence] = []
    for kind in FAILURE_KINDS:
        of_kind = [evidence for evidence in failures if evidence.kind == kind]
        picked += rng.sample(of_kind, min(MOST_PER_KIND, len(of_kind)))
    return tuple(picked)


def _failures(episode: Episode, task: Task, track: Track) -> Iterator[Evidence]:
    for stage in range(len(episode.stages)):
        for check, mark in marked(task, episode, stage):
            if mark.score == 0:
                kind = failure_kind(check, mark, task, episode.stages) or "write"
                yield Evidence(kind, track.tell(task, episode, stage, mark), task.group)
