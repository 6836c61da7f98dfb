"""Collecting labelled writes: the episodes of many policies, on-policy, in the same tasks."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....data.task import Task
from ....policies.lm import EndpointDown, LanguageModelError
from ....policies.memory import MemoryFault
from ....policies.policy import MemoryPolicy
from ...concurrency import side_by_side
from ...episode import Episode
from ...evaluation import Evaluator
from ...outside import Outside, OutsideFault
from ...track import Cast, Track
from ..rows.retrievals import RetrievalLog, retrieval_log
from ..rows.row import Row
from .execution import execute
from .labels import EpisodeLabels, Labeller
from .reading import FactReader
from .retrievals import RecordedReplies, retrieve
from .validity import RIGHT_FROM, Outcome, answers_after, facts_after


@dataclass(frozen=True, slots=True)
class CollectedEpisode:
    """One policy's episode in one task."""

    task: str
    policy: str
    """The policy's key."""
    memory_score: float
    """On-policy, mean over stages; NaN where the episode failed."""
    labels: EpisodeLabels
    calls: int
    """Calls of the episode and of its checks, without those of the labels."""
    retrievals: RetrievalLog | None = None
    """What its memory brought back for each check; None where the episode failed, or what its model replied is not
    known."""
    failure: str | None = None
    """Why there are no rows; None when all went well."""
    answers: Sequence[Outcome] = ()
    """How checks were answered after labelled writes."""
    facts: Sequence[Outcome] = ()
    """Which facts were known after labelled writes."""

    @property
    def rows(self) -> Sequence[Row]:
        """Its labelled writes, in their order."""
        return self.labels.rows


async def collect(
    track: Track,
    task: Task,
    policies: Mapping[str, MemoryPolicy],
    cast: Cast,
    *,
    seed: int,
    writes: int | None = None,
    foreign: Sequence[str] | None = None,
) -> list[CollectedEpisode]:
    """Run every policy in one task and label its writes, at most ``writes`` an episode; in the policies' order.

    The facts that a write lost make its label. Where ``foreign`` lines are given, which a damage may add, it is what
    happens when the plan's next step is carried out with a damaged memory, as ``execute`` has it. The seed draws the
    writes and the damages. A policy that writes nothing has no rows. A failed episode is data; raises EndpointDown
    when no call gets through.
    """
    evaluator, labeller = Evaluator(track, cast), Labeller(task, FactReader(track, task, cast.assistant))
    forks = Outside()

    async def collected(policy: MemoryPolicy) -> CollectedEpisode:
        evaluation = await evaluator.evaluate(policy, [task])
        [episode] = evaluation.episodes
        labels, failure, calls = EpisodeLabels(), episode.failure, episode.ledger.total.calls
        score, retrievals = math.nan, None
        marks = [mark for stage in episode.stages for mark in stage.marks]
        if failure is None:
            score = evaluation.memory_score.mean
            rng = random.Random(f"writes:{seed}:{task.id}:{policy.key}")
            try:
                retrievals = await replayed(track, task, policy, episode, score, cast)
                if foreign is None:
                    labels = await labeller.label(episode, policy, most=writes, rng=rng)
                else:
                    labels = await execute(
                        track, task, policy, cast, forks=forks, foreign=foreign, rng=rng, most=writes
                    )
            except EndpointDown:
                raise
            except (LanguageModelError, MemoryFault, OutsideFault) as error:
                failure = f"labels: {error}"
        outcomes = (tuple(after(task, labels.rows, marks)) for after in (answers_after, facts_after))
        return CollectedEpisode(task.id, policy.key, score, labels, calls, retrievals, failure, *outcomes)

    first, *others = policies.values()
    try:
        return [await collected(first), *await side_by_side(collected(policy) for policy in others)]
    finally:
        await forks.aclose()


async def replayed(
    track: Track, task: Task, policy: MemoryPolicy, episode: Episode, score: float, cast: Cast
) -> RetrievalLog | None:
    """Return what an episode's memory brought back: its writes are written again as they were, without a call.

    None for a memory that does not say what its model replied, such as a package.
    """
    writes = [write for stage in episode.stages for write in stage.writes]
    if writes and policy.write.mode != "verbatim" and not any(write.raw for write in writes):
        return None
    replies = RecordedReplies(writes)
    retrievals = await retrieve(policy, task, episode, model=replies, cast=cast, track=track)
    scores = {mark.check: mark.score for stage in episode.stages for mark in stage.marks}
    right = [None if math.isnan(scores[r.check]) else scores[r.check] >= RIGHT_FROM for r in retrievals]
    return retrieval_log(task, policy.key, score, retrievals, right)
