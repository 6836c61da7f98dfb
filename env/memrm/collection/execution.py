"""Labels of what happens: the plan's next step is carried out with a memory that was damaged."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....data.errors import MnemotuneError
from ....data.plan import PlannedStep
from ....data.task import Check, Fact, Task
from ....policies.assistant import Assistant
from ....policies.lm import CallRole, Metered
from ....policies.memory import MemoryEvent
from ....policies.memory.stores import Entry, MemoryState
from ....policies.policy import MemoryPolicy
from ....policies.text import sentences
from ...concurrency import side_by_side
from ...episode import places_beyond
from ...outside import Outside
from ...planned import Answers, Desk, PlannedTrack, Seen
from ...slot import read_slot
from ...track import Cast
from ..rows.row import EvictedMessage, Execution, FactLabel, Row
from .labels import EpisodeLabels
from .perturbations import DAMAGES, damaged

CONTROL = "none"
"""The perturbation of a fork whose memory is left as it is: what differs there is not memory's fault."""
SEPARATOR = "\n"
"""Between the answers of one step, and between the messages that were observed in it."""


class NotPlannedError(MnemotuneError, ValueError):
    """Steps can only be carried out again where they are planned, with the memory that is built in."""


async def execute(
    track: Any,
    task: Task,
    policy: MemoryPolicy,
    cast: Cast,
    *,
    forks: Outside,
    foreign: Sequence[str],
    rng: random.Random,
    most: int | None = None,
) -> EpisodeLabels:
    """Follow a plan; after a write, fork memory, damage it, and carry the next step out that asks it for something.

    A fork is SAFE where the same is observed as with the memory that is whole (MemGym, 2026). Forks act in ``forks``,
    apart from the episode's own place; equal actions are carried out there once. ``foreign`` are the lines that a
    damage may add, and ``rng`` draws what is damaged, and of more than ``most`` forking points, which are used.
    Raises NotPlannedError for a track without a plan.
    """
    if not isinstance(track, PlannedTrack):
        raise NotPlannedError(f"{track.name}: its steps are not planned, so that none can be carried out again")
    episode = _Episode(track, task, policy, cast, forks)
    try:
        return await episode.play(foreign, rng, most)
    finally:
        await episode.desk.aclose()


@dataclass(frozen=True, slots=True)
class _Point:
    """A step before which memory is forked, and what came of it with the memory that is whole."""

    step: PlannedStep
    before: Desk[Any]
    """As it was before the step."""
    answers: Answers
    seen: Sequence[Seen]
    write: MemoryEvent
    """The newest."""
    number: int
    """0-based place of that write among all of the episode."""


class _Episode:
    """An episode that forks where it asks its memory."""

    def __init__(self, track: PlannedTrack[Any], task: Task, policy: MemoryPolicy, cast: Cast, forks: Outside) -> None:
        self.track, self.task, self.policy, self.forks = track, task, policy, forks
        self.model = Metered(cast.assistant)
        self.assistant = cast.assistant_under(policy.with_hints(track.hints(task)), self.model, cast.embedder)
        self.desk: Desk[Any] = track.desk(task, cast.outside)

    async def play(self, foreign: Sequence[str], rng: random.Random, most: int | None) -> EpisodeLabels:
        rows, controls, writes, fresh = list[Row](), list[Row](), list[MemoryEvent](), False
        chosen = self._chosen(rng, most)
        for number, step in enumerate(self.track.steps(self.task)):
            answers = await self._answers(self.assistant, step, role="answer")
            before = self.desk.fork(self.forks) if fresh and number in chosen else None
            seen = await self.desk.do(step, answers)
            if before is not None:
                fresh, point = False, _Point(step, before, answers, seen, writes[-1], len(writes) - 1)
                for name in (CONTROL, *DAMAGES):
                    fork = await self._fork(name, foreign, rng)
                    if fork is not None:
                        (controls if name == CONTROL else rows).append(await self._row(fork, name, point))
                await before.aclose()
            for _, message in seen:
                new = await self.assistant.memory.observe([message])
                fresh, writes = fresh or bool(new), [*writes, *new]
        calls = self.model.ledger.total.calls
        safe = sum(not row.harmful for row in controls)
        return EpisodeLabels(tuple(rows), len(writes), calls=calls, controls=len(controls), controls_safe=safe)

    def _chosen(self, rng: random.Random, most: int | None) -> set[int]:
        """Return the steps at which memory may be forked."""
        asking = [number for number, step in enumerate(self.track.steps(self.task)) if step.slots]
        return set(asking if most is None or len(asking) <= most else rng.sample(asking, most))

    async def _answers(self, assistant: Assistant, step: PlannedStep, *, role: CallRole) -> Answers:
        checks = [self.task.checks[slot.check] for slot in step.slots]
        raw = await side_by_side(self._asked(assistant, check, role) for check in checks)
        return {check.id: read_slot(text) for check, text in zip(checks, raw, strict=True)}

    async def _asked(self, assistant: Assistant, check: Check, role: CallRole) -> str:
        query, form = self.track.query(self.task, check), self.track.form(self.task, check)
        return await assistant.answer(query, role=role, form=form)

    async def _fork(self, name: str, foreign: Sequence[str], rng: random.Random) -> Assistant | None:
        """Return an assistant whose memory is damaged; None where there is nothing to damage."""
        fork = await self.assistant.fork()
        state = await fork.memory.snapshot()
        if not isinstance(state, MemoryState):
            raise NotPlannedError(f"policy {self.policy.key}: only the memory that is built in can be damaged")
        if name == CONTROL:
            return fork
        after = damaged(name, state.lines, foreign, rng)
        if after is None:
            return None
        kept, added = after
        entries = tuple(Entry(entry.id, text) for entry, text in zip(state.entries, kept, strict=True) if text)
        await fork.memory.restore(replace(state, entries=entries).with_new(added))
        return fork

    async def _row(self, fork: Assistant, name: str, point: _Point) -> Row:
        """Carry a step out with what a fork answers; return what came of it."""
        answers, others = point.answers, await self._answers(fork, point.step, role="probe")
        desk = point.before.fork(self.forks)
        try:
            same = _text(await desk.do(point.step, others)) == _text(point.seen)
        finally:
            await desk.aclose()
        event = replace(point.write, after=tuple((await fork.memory.snapshot()).lines))
        lost = {check for check in answers if not same and others[check] != answers[check]}
        return Row(
            group=self.task.group,
            task=self.task.id,
            policy=self.policy.key,
            stage=point.step.stage,
            write=point.number,
            evicted=[EvictedMessage.of(message) for message in event.evicted],
            before=list(event.before),
            after=list(event.after),
            facts=list(self._labels(event, answers, lost)),
            execution=Execution(perturbation=name, recorded=_said(answers), proposed=_said(others), same=same),
        )

    def _labels(self, event: MemoryEvent, answers: Answers, lost: set[str]) -> Iterator[FactLabel]:
        """Yield the facts that a step asks for and that were at stake, and where the event tells them."""
        for check in (self.task.checks[name] for name in answers):
            for fact in (self.task.facts[need] for need in check.needs):
                place = self._place(fact, event)
                if place or check.id in lost:
                    yield FactLabel.model_validate(
                        {"key": fact.key, "topic": fact.topic, "lost": check.id in lost, **place}
                    )

    def _place(self, fact: Fact, event: MemoryEvent) -> dict[str, int | None]:
        """Return which message tells a fact, and which of its sentences; or else which line that is gone."""
        said = [i for i, message in enumerate(event.evicted) if self._tells(fact, message.content)]
        if said:
            parts = sentences(event.evicted[said[-1]].content)
            telling = [i for i, part in enumerate(parts) if self._tells(fact, part)]
            return {"message": said[-1], "sentence": telling[0] if len(telling) == 1 else None}
        gone = [i for i in places_beyond(event.before, event.after) if self._tells(fact, event.before[i])]
        return {"line": gone[-1]} if gone else {}

    def _tells(self, fact: Fact, text: str) -> bool:
        return self.track.states(self.task, fact, text)


def _said(answers: Answers) -> str:
    return SEPARATOR.join(answer or "" for answer in answers.values())


def _text(seen: Sequence[Seen]) -> str:
    return SEPARATOR.join(message.content for _, message in seen)


def foreign_lines(tasks: Sequence[Task]) -> dict[str, list[str]]:
    """Return for each group what other groups' tasks tell: the lines that a damage may add."""
    told = {(task.group, fact.text): None for task in tasks for fact in task.facts.values()}
    return {task.group: [text for group, text in told if group != task.group] for task in tasks}
