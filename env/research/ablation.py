"""Ablations of research tasks that a language model reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...data.research.ablation import Verdict, conditions
from ...data.task import Task, checks_at
from ...policies.lm import LanguageModel, Message
from ..concurrency import side_by_side
from .track import ResearchTrack, research_of


async def verdicts(
    track: ResearchTrack, tasks: Sequence[Task], model: LanguageModel, *, seed: int
) -> Mapping[str, Verdict]:
    """Return for each task, by id, what a model answers under each condition. Raises LanguageModelError."""
    every = await side_by_side(_verdict(track, task, model, seed) for task in tasks)
    return {task.id: verdict for task, verdict in zip(tasks, every, strict=True)}


async def _verdict(track: ResearchTrack, task: Task, model: LanguageModel, seed: int) -> Verdict:
    checks, scores = checks_at(task, task.stages - 1), dict[str, float]()
    for condition, texts in conditions(research_of(task), seed=seed).items():
        shown = [Message("user", text) for text in texts]
        marks = await side_by_side(track.asked(task, check, shown, model) for check in checks)
        scores[condition] = sum(mark.score for mark in marks) / len(marks)
    return Verdict(**scores)
