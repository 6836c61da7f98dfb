"""Pick failures that a proposer can learn from."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from ...data.task import Task
from ...env.episode import Episode
from ...env.evaluation import Evaluation
from ...env.scoring import FAILURE_KINDS, FailureKind, failure_weights, marked
from ...env.track import Track
from ..study import Evidence

MOST_PER_KIND = 8


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
                write, read, utilisation = failure_weights(check, mark, task, episode.stages)
                kind: FailureKind = "utilisation" if utilisation else "write" if write >= read else "read"
                yield Evidence(kind, track.tell(task, episode, stage, mark), task.group)
