"""Describe failures of the dialogue so that a proposer can learn from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...data.dialogue.scenario import Scenario
from ...policies.text import stems
from ..episode import Episode, Mark
from .record import period_of

MEMORIES_SHOWN = 4


def describe_failure(scenario: Scenario, episode: Episode, p: int, mark: Mark) -> str:
    """Say what was asked and answered at the end of a period, what the user had said, and what memory held."""
    q = int(scenario.checks[mark.check].question)
    question, answer, memories = scenario.qas[q], period_of(episode, p).answers[q], _memories(episode, p)
    unknown = [scenario.facts[fact].key for fact, known in mark.recalled.items() if not known]
    said = list(dict.fromkeys(_said(scenario, p, unknown or question.required_info)))
    cue = set(stems(" ".join([question.query, *said])))
    held = sorted(memories, key=lambda line: -len(cue & set(stems(line))))[:MEMORIES_SHOWN]
    lines = [
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


def _memories(episode: Episode, p: int) -> tuple[str, ...]:
    """Return the memories after the last write up to a period."""
    writes = [write for stage in episode.stages[: p + 1] for write in stage.writes]
    return writes[-1].after if writes else ()


def _said(scenario: Scenario, p: int, infos: Sequence[str]) -> Iterator[str]:
    """Yield what the user said last about each of these states."""
    for info in infos:
        said = [s.query for period in scenario.periods[: p + 1] for s in period.sessions if info in s.exposed_states]
        if said:
            yield said[-1]
