"""The finished record of one policy in one scenario."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..data.dialogue.scenario import Question
from ..policies.lm import Ledger
from ..policies.memory import MemoryEvent

EPISODES = "episodes.jsonl"


@dataclass(frozen=True, slots=True)
class Answer:
    """The assistant's answer to one question at the end of one period."""

    raw: str
    choice: int | None
    """0-based index of the chosen answer; None when the reply could not be read as one."""
    gold: int | None
    """0-based index of the right answer; None when no choice suits the state, so that nothing can be scored."""
    score: float
    """1 for the right state, 0 for another or an unreadable reply, NaN when unscored."""
    guessed: bool = False
    """Whether the choice is a random one, because the reply could not be read (``compat: guessed_answers``)."""


UpperBound = tuple[tuple[Answer, ...], ...]
"""What a model answers when the state is given: for each question and each of its choices, which is the right one."""


def answer_of(raw: str, choice: int | None, gold: int | None, question: Question, *, guessed: bool = False) -> Answer:
    """Score a reply that was read as ``choice``."""
    if gold is None:
        score = math.nan
    else:
        right = question.answer_choices[gold].state
        score = float(choice is not None and question.answer_choices[choice].state == right)
    return Answer(raw, choice, gold, score, guessed)


@dataclass(frozen=True, slots=True)
class Probe:
    """What the assistant says about the states behind one question, at the end of one period."""

    raw: str
    values: Mapping[str, str] | None
    """The reply as read; None when it could not be read."""
    right: Mapping[str, bool]
    """For each of the question's required infos, whether its value is the current one."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One round: what the user said, what the assistant replied."""

    user: str
    assistant: str


@dataclass(frozen=True, slots=True)
class Revision:
    """One rewriting of a prompt by an evolving policy."""

    target: str
    """The prompt: ``info_types``, ``write`` or ``merge``."""
    text: str | None
    """What it says from the next period on; None when it stayed as it was."""
    changes: tuple[str, ...]
    """What was changed, in the model's words."""
    raw: str
    error: str | None = None
    """Why the model's reply was of no use; None when all went well."""


@dataclass(frozen=True, slots=True)
class PeriodRecord:
    """What happened in one period; ``answers`` and ``probes`` are aligned with the scenario's questions."""

    sessions: tuple[tuple[Turn, ...], ...]
    events: tuple[MemoryEvent, ...]
    answers: tuple[Answer, ...]
    probes: tuple[Probe, ...]
    revisions: tuple[Revision, ...] = ()
    """What an evolving policy made of the period's questions."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One policy in one scenario."""

    user: str
    policy_key: str
    periods: tuple[PeriodRecord, ...]
    ledger: Ledger = field(default_factory=Ledger)
    failure: str | None = None
    """Why the episode ended early; None when it is complete."""

    def as_json(self) -> dict[str, Any]:
        """Return the episode as plain JSON values; a write is told by the lines it removed and added."""
        return {
            "user": self.user,
            "policy": self.policy_key,
            "failure": self.failure,
            "periods": [_period_json(period) for period in self.periods],
            "spend": self.ledger.as_json(),
        }


def write_episodes(folder: Path, episodes: Sequence[Episode]) -> None:
    """Write ``episodes.jsonl`` into a folder, one line per user."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / EPISODES).open("w", encoding="utf-8") as file:
        for episode in episodes:
            file.write(json.dumps(episode.as_json(), ensure_ascii=False) + "\n")


def _period_json(period: PeriodRecord) -> dict[str, Any]:
    return {
        "sessions": [[asdict(turn) for turn in session] for session in period.sessions],
        "events": [_event_json(event) for event in period.events],
        "answers": [
            asdict(answer) | {"score": None if answer.gold is None else answer.score} for answer in period.answers
        ],
        "probes": [
            {"raw": p.raw, "values": None if p.values is None else dict(p.values), "right": dict(p.right)}
            for p in period.probes
        ],
        "revisions": [asdict(revision) for revision in period.revisions],
    }


def _event_json(event: MemoryEvent) -> dict[str, Any]:
    return {
        "evicted": [asdict(message) for message in event.evicted],
        "removed": lines_beyond(event.before, event.after),
        "added": lines_beyond(event.after, event.before),
        "raw": list(event.raw),
        "error": event.error,
    }


def lines_beyond(lines: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return the lines that occur more often than in ``others``, the last of equal ones, in order."""
    return [lines[place] for place in places_beyond(lines, others)]


def places_beyond(lines: Sequence[str], others: Sequence[str]) -> list[int]:
    """Return the 0-based places of the lines that occur more often than in ``others``, the last of equal ones."""
    if lines == others:
        return []
    more = Counter(lines) - Counter(others)
    found = []
    for place in reversed(range(len(lines))):
        if more[lines[place]] > 0:
            more[lines[place]] -= 1
            found.append(place)
    return found[::-1]
