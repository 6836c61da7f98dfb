"""A history: what was said in sessions, one after another, and the questions on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ..task import Check, Fact
from ..values import Values
from .times import day_of, is_time

Role = Literal["user", "assistant"]
ABSTENTION = "abstention"
"""The kind of questions about nothing that was said."""


@dataclass(frozen=True, slots=True)
class Utterance(Values):
    """What somebody said at a time."""

    id: str
    """Distinct within the history."""
    text: str
    role: Role = "user"
    speaker: str = ""
    """Who spoke, where people talk to each other; empty where a user talks to an assistant."""
    time: str = ""
    """As ISO 8601; empty where it is not known."""
    picture: str = ""
    """What a picture shows that was sent along."""

    @property
    def heard(self) -> str:
        """What memory hears: the name, the text, the day."""
        name = f"{self.speaker}: " if self.speaker else ""
        picture = f" [picture: {self.picture}]" if self.picture else ""
        day = f" ({day_of(self.time)})" if self.time else ""
        return f"{name}{self.text}{picture}{day}"


@dataclass(frozen=True, slots=True)
class Session(Values):
    """What was said without a long pause; it is a stage."""

    id: str
    utterances: tuple[Utterance, ...]


@dataclass(frozen=True, slots=True)
class Question(Values):
    """Something that is asked at the end of a session."""

    id: str
    """Distinct within the history."""
    text: str
    answers: tuple[str, ...]
    """Any of them is right; none: nothing that was said answers the question."""
    evidence: tuple[str, ...]
    """The ids of the utterances that have the answer."""
    stage: int
    """The session at whose end it is asked, 0-based."""
    kind: str = ""
    time: str = ""
    """When it is asked, as ISO 8601; empty where that does not matter."""
    reworded: str = ""
    """The same in other words, for the sealed test; empty where there is no such text."""


@dataclass(frozen=True)
class ConversationTask(Values):
    """One history: all that memory hears one after another."""

    id: str
    group: str
    """The user, or the conversation where each has a memory of its own."""
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]
    """In the order of their stages."""

    @property
    def stages(self) -> int:
        """How many sessions it has."""
        return len(self.sessions)

    @cached_property
    def by_question(self) -> Mapping[str, Question]:
        """The questions by id."""
        return {question.id: question for question in self.questions}

    @cached_property
    def places(self) -> Mapping[str, tuple[int, Utterance]]:
        """The session and the utterance by the utterance's id."""
        return {u.id: (stage, u) for stage, session in enumerate(self.sessions) for u in session.utterances}

    @cached_property
    def facts(self) -> Mapping[str, Fact]:
        """Each utterance that a question needs, as it was heard."""
        return {fact.id: fact for question in self.questions for fact in self._facts_of(question)}

    def _facts_of(self, question: Question) -> Iterator[Fact]:
        for name in question.evidence:
            stage, utterance = self.places[name]
            text = utterance.heard
            yield Fact(fact_id(question, name), name, question.kind, text, since=stage, sources=(text,))

    def said(self, fact: str) -> Utterance:
        """Return the utterance that a fact stands for."""
        return self.places[self.facts[fact].key][1]

    @cached_property
    def checks(self) -> Mapping[str, Check]:
        """The questions, each of which needs its evidence."""
        return {
            question.id: Check(
                question.id,
                question.id,
                question.stage,
                needs=tuple(fact_id(question, name) for name in question.evidence),
                chance=0.0,
                text=question.text,
                topic=question.kind,
            )
            for question in self.questions
        }


def fact_id(question: Question, utterance: str) -> str:
    """Return the id of what a question needs of an utterance."""
    return f"{question.id}/{utterance}"


def problems(task: ConversationTask) -> Iterator[str]:
    """Yield what is wrong with a history: the field, and why."""
    if not task.sessions:
        yield "sessions: there is none"
    names = [utterance.id for session in task.sessions for utterance in session.utterances]
    if len({*names}) < len(names):
        yield f"sessions: id: {_twice(names)!r} occurs twice; ids of utterances must be distinct"
    for utterance in (u for session in task.sessions for u in session.utterances):
        if not is_time(utterance.time):
            yield f"sessions: utterance {utterance.id}: time: {utterance.time[:60]!r} is no time in ISO 8601"
    if len(task.by_question) < len(task.questions):
        yield f"questions: id: {_twice([q.id for q in task.questions])!r} occurs twice; ids must be distinct"
    if [*task.questions] != sorted(task.questions, key=lambda question: question.stage):
        yield "questions: must stand in the order of their stages"
    for question in task.questions:
        where = f"questions: {question.id}"
        if not 0 <= question.stage < task.stages:
            yield f"{where}: stage: there are sessions 0 to {task.stages - 1}"
        for name in question.evidence:
            if name not in task.places:
                yield f"{where}: evidence: no utterance has the id {name!r}"
            elif task.places[name][0] > question.stage:
                yield f"{where}: evidence: {name!r} is said after the question"
        if len({*question.evidence}) < len(question.evidence):
            yield f"{where}: evidence: {_twice(question.evidence)!r} occurs twice"
        if not is_time(question.time):
            yield f"{where}: time: {question.time[:60]!r} is no time in ISO 8601"
        if not question.text.strip():
            yield f"{where}: text: is empty"
        if not all(answer.strip() for answer in question.answers):
            yield f"{where}: answers: one is empty"


def _twice(names: list[str] | tuple[str, ...]) -> str:
    return next(name for name in names if names.count(name) > 1)
