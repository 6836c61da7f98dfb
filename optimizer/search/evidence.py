"""Tell failures so that a proposer can learn from them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Literal

from ...data.dialogue.scenario import Scenario
from ...env.dialogue.scoring import failure_weights
from ...env.episode import Episode, PeriodRecord
from ...env.evaluation import Evaluation
from ...policies.text import stems
from ..study import Evidence

Stage = Literal["write", "read", "utilisation"]

STAGE_LINE = "Stage: "
MOST_PER_STAGE = 8
MEMORIES_SHOWN = 4


def gather_evidence(
    evaluation: Evaluation, scenarios: Sequence[Scenario], *, rng: random.Random
) -> tuple[Evidence, ...]:
    """Pick some wrong answers of each failure stage, at random, from users of the train split."""
    by_id = {scenario.id: scenario for scenario in scenarios}
    found = [e for episode in evaluation.episodes for e in _failures(episode, by_id[episode.user])]
    picked: list[Evidence] = []
    for stage in ("write", "read", "utilisation"):
        of_stage = [evidence for evidence in found if evidence.stage == stage]
        picked += rng.sample(of_stage, min(MOST_PER_STAGE, len(of_stage)))
    return tuple(picked)


def without_stage(text: str) -> str:
    """Return a told failure without the line that says at which stage memory failed."""
    return "\n".join(line for line in text.splitlines() if not line.startswith(STAGE_LINE))


def _failures(episode: Episode, scenario: Scenario) -> Iterator[Evidence]:
    memories: tuple[str, ...] = ()
    for p, record in enumerate(episode.periods):
        if record.events:
            memories = record.events[-1].after
        for q, answer in enumerate(record.answers):
            if answer.score == 0:
                write, read, utilisation = failure_weights(episode.periods, p, q, scenario)
                stage: Stage = "utilisation" if utilisation else "write" if write >= read else "read"
                yield Evidence(stage, _tell(stage, scenario, p, q, record, memories), scenario.id)


def _tell(stage: Stage, scenario: Scenario, p: int, q: int, record: PeriodRecord, memories: Sequence[str]) -> str:
    question, answer = scenario.qas[q], record.answers[q]
    unknown = [info for info, right in record.probes[q].right.items() if not right]
    said = list(dict.fromkeys(_said(scenario, p, unknown or question.required_info)))
    cue = set(stems(" ".join([question.query, *said])))
    held = sorted(memories, key=lambda line: -len(cue & set(stems(line))))[:MEMORIES_SHOWN]
    lines = [
        f"{STAGE_LINE}{stage}",
        f"Question: {question.query}",
        *(f'The user said: "{text}"' for text in said),
        "Memory held:\n" + ("\n".join(f"- {line}" for line in held) or "nothing"),
    ]
    chosen = (
        "none, the reply could not be read" if answer.choice is None else question.answer_choices[answer.choice].answer
    )
    lines.append(f"Chosen answer: {chosen}")
    if answer.gold is not None:
        lines.append(f"Right answer: {question.answer_choices[answer.gold].answer}")
    return "\n".join(lines)


def _said(scenario: Scenario, p: int, infos: Sequence[str]) -> Iterator[str]:
    """Yield what the user said last about each of these states."""
    for info in infos:
        told = [s.query for period in scenario.periods[: p + 1] for s in period.sessions if info in s.exposed_states]
        if told:
            yield told[-1]
