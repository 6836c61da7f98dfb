"""Collect labelled writes: many policies play on-policy episodes with the same users."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....data.dialogue.scenario import Scenario
from ....policies.lm import EndpointDown, LanguageModelError
from ....policies.policy import MemoryPolicy
from ...concurrency import side_by_side
from ...dialogue.track import DialogueTrack
from ...episode import Episode
from ...evaluation import Evaluator
from ...track import Cast
from ..rows.retrievals import RetrievalLog, retrieval_log
from ..rows.row import Row
from .labels import EpisodeLabels, Labeller
from .retrievals import RecordedReplies, retrieve


@dataclass(frozen=True, slots=True)
class CollectedEpisode:
    """One policy's episode with one user."""

    user: str
    policy: str
    """The policy's key."""
    memory_score: float
    """On-policy, mean over periods; NaN where the episode failed."""
    labelled: EpisodeLabels
    calls: int
    """Calls that the episode took, its questions included and labels left out."""
    showing: RetrievalLog | None = None
    """What its memory showed before each question; None where the episode failed."""
    failure: str | None = None
    """Why there are no rows; None when all went well."""

    @property
    def rows(self) -> Sequence[Row]:
        """Its labelled writes, in their order."""
        return self.labelled.rows


async def collect(
    track: DialogueTrack,
    scenario: Scenario,
    policies: Mapping[str, MemoryPolicy],
    cast: Cast,
    *,
    seed: int,
    writes: int | None = None,
) -> list[CollectedEpisode]:
    """Play every policy with one user and label its writes, at most ``writes`` an episode; in the policies' order.

    The seed draws the writes. A policy that writes nothing has no rows. A failed episode is data; raises EndpointDown
    when no call gets through.
    """
    evaluator = Evaluator(track, cast)
    labeller = Labeller(scenario, cast.assistant, track.protocol.templates)

    async def played(policy: MemoryPolicy) -> CollectedEpisode:
        evaluation = await evaluator.evaluate(policy, [scenario])
        [episode] = evaluation.episodes
        labelled, failure, calls = NOTHING, episode.failure, episode.ledger.total.calls
        score, showing = float("nan"), None
        if failure is None:
            score = evaluation.memory_score.mean
            rng = random.Random(f"writes:{seed}:{scenario.id}:{policy.key}")
            try:
                showing = await _showing(track, scenario, policy, episode, score, cast)
                labelled = await labeller.label(episode, policy, most=writes, rng=rng)
            except EndpointDown:
                raise
            except LanguageModelError as error:
                failure = f"labels: {error}"
        return CollectedEpisode(scenario.id, policy.key, score, labelled, calls, showing, failure)

    first, *others = policies.values()
    return [await played(first), *await side_by_side(played(policy) for policy in others)]


async def _showing(
    track: DialogueTrack, scenario: Scenario, policy: MemoryPolicy, episode: Episode, score: float, cast: Cast
) -> RetrievalLog:
    """Return what an episode's memory showed: its writes are written again as they were, without a call."""
    writes = [write for stage in episode.stages for write in stage.writes]
    shown = await retrieve(
        policy,
        scenario,
        episode,
        model=RecordedReplies(writes),
        embedder=cast.embedder,
        track=track,
    )
    marks = [episode.stages[one.period].marks[one.question] for one in shown]
    right = [None if math.isnan(mark.score) else mark.score == 1 for mark in marks]
    return retrieval_log(scenario.id, policy.key, score, shown, right)


NOTHING = EpisodeLabels(rows=(), writes=0, undecided=0, failed=0, calls=0)
