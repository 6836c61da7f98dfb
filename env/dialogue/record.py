"""What an episode of the dialogue track records: what was said, how questions were answered, what was known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from ...data.dialogue.scenario import Question, Scenario, check_id, fact_id
from ...data.values import Values
from ...policies.lm import Message
from ..calls import Call
from ..episode import Bounds, Episode, Event, Mark, RecordError, Revision, StageRecord


@dataclass(frozen=True, slots=True)
class Answer(Values):
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
    shown: Mapping[str, bool] = field(default_factory=dict)
    """Whether memory put evidence of each fact that the question needs before the model; empty where not known."""
    context: tuple[str, ...] = ()
    """The memories and the messages that memory put before the model; empty where not known."""
    calls: tuple[Call, ...] = ()
    """The one that asked; none where calls are not recorded."""

    def mark(self, check: str, recalled: Mapping[str, bool | None], probed: tuple[Call, ...] = ()) -> Mark:
        """Return the answer as the mark of a check, with the calls of its probe."""
        readable, calls = self.choice is not None and not self.guessed, (*self.calls, *probed)
        return Mark(check, self.raw, self.score, recalled, readable, self.shown, self.context, calls)


UpperBound = tuple[tuple[Answer, ...], ...]
"""A model's answers with the state given: for each question, and each of its choices as the right choice."""


def answer_of(raw: str, choice: int | None, gold: int | None, question: Question, *, guessed: bool = False) -> Answer:
    """Score a reply that was read as ``choice``."""
    if gold is None:
        score = math.nan
    else:
        right = question.answer_choices[gold].state
        score = float(choice is not None and question.answer_choices[choice].state == right)
    return Answer(raw, choice, gold, score, guessed)


@dataclass(frozen=True, slots=True)
class Probe(Values):
    """What the assistant says about the states behind one question, at the end of one period."""

    raw: str
    values: Mapping[str, str] | None
    """The reply as read; None when it could not be read."""
    right: Mapping[str, bool]
    """For each of the question's required infos, whether its value is the current one."""
    calls: tuple[Call, ...] = ()
    """The one that asked; none where calls are not recorded."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One round: what the user said, what the assistant replied."""

    user: str
    assistant: str

    @property
    def messages(self) -> tuple[Message, Message]:
        """The turn as chat messages."""
        return Message("user", self.user), Message("assistant", self.assistant)


@dataclass(frozen=True, slots=True)
class PeriodRecord(StageRecord):
    """What happened in one period; ``answers`` and ``probes`` are aligned with the scenario's questions."""

    answers: tuple[Answer, ...] = ()
    probes: tuple[Probe, ...] = ()
    """Empty where the assistant was not probed."""

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        answers = [_answer_json(answer) for answer in self.answers]
        return StageRecord.as_json(self) | {"answers": answers, "probes": [*map(_probe_json, self.probes)]}


def _answer_json(answer: Answer) -> dict[str, Any]:
    """Return plain JSON values; what was shown is told with the marks."""
    score = None if answer.gold is None else answer.score
    values = {"raw": answer.raw, "choice": answer.choice, "gold": answer.gold, "score": score}
    return values | {"guessed": answer.guessed}


def _probe_json(probe: Probe) -> dict[str, Any]:
    return {"raw": probe.raw, "values": probe.values, "right": dict(probe.right)}


@dataclass(frozen=True, slots=True)
class DialogueBounds(Bounds):
    """Chance as floor, the upper bound as ceiling, and what was answered to each choice's state."""

    choices: UpperBound = ()


def record_period(
    scenario: Scenario,
    p: int,
    *,
    events: Sequence[Event] = (),
    answers: Sequence[Answer] = (),
    probes: Sequence[Probe] = (),
    reworded: Sequence[Answer] = (),
    revisions: Sequence[Revision] = (),
) -> PeriodRecord:
    """Return the record of a period."""
    known: Sequence[Mapping[str, bool] | None] = [probe.right for probe in probes] or [None] * len(answers)
    probed: Sequence[tuple[Call, ...]] = [probe.calls for probe in probes] or [()] * len(answers)
    marks = tuple(
        answer.mark(check_id(p, q), _recalled(scenario, p, q, right), calls)
        for q, (answer, right, calls) in enumerate(zip(answers, known, probed, strict=True))
    )
    again = tuple(answer.mark(check_id(p, q), {}) for q, answer in enumerate(reworded))
    return PeriodRecord(tuple(events), marks, {}, tuple(revisions), again, tuple(answers), tuple(probes))


def _recalled(scenario: Scenario, p: int, q: int, right: Mapping[str, bool] | None) -> dict[str, bool | None]:
    infos = scenario.qas[q].required_info
    return {fact_id(info, scenario.last_change(info, p)): None if right is None else right[info] for info in infos}


def period_of(episode: Episode, p: int) -> PeriodRecord:
    """Return a recorded period. Raises RecordError where only what was said is known of it."""
    stage = episode.stages[p]
    if not isinstance(stage, PeriodRecord):
        raise RecordError(f"user {episode.task}, period {p}: no answers are recorded")
    return stage


def sessions_of(stage: StageRecord) -> tuple[tuple[Turn, ...], ...]:
    """Return the rounds of each session of a recorded period."""
    said = (event for event in stage.events if event.kind == "say")
    return tuple(
        tuple(Turn(event.seen[0].content, event.seen[1].content) for event in session)
        for _, session in groupby(said, key=lambda event: event.step)
    )


def events_of(sessions: Sequence[Sequence[Turn]]) -> tuple[Event, ...]:
    """Return the rounds of each session as events."""
    return tuple(Event(s, "say", turn.messages) for s, session in enumerate(sessions) for turn in session)
