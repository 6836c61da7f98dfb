"""Labels of an episode's writes: which facts were at stake, and which of them are lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ....data.task import Fact, Task
from ....policies.lm.base import Message
from ....policies.memory import MemoryEvent
from ....policies.policy import MemoryPolicy
from ....policies.text import sentences
from ...concurrency import side_by_side
from ...episode import Episode, places_beyond
from ..rows.row import EvictedMessage, FactLabel, Row
from .reading import FactReader, State, state_of


@dataclass(frozen=True, slots=True)
class EpisodeLabels:
    """The rows of an episode, and what the labels cost."""

    rows: tuple[Row, ...] = ()
    writes: int = 0
    """Of the episode, labelled or not."""
    undecided: int = 0
    """Writes that were left out, as it is not known whether a fact is lost."""
    failed: int = 0
    """Writes whose reply could not be read."""
    calls: int = 0
    """Calls of the labels."""
    controls: int = 0
    """Steps that were carried out once more with the memory as it was; none where facts alone are read."""
    controls_safe: int = 0
    """Those of them in which the same was observed."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of memory, and the states that it can hold."""

    text: str
    states: frozenset[State]


@dataclass(frozen=True, slots=True)
class Change:
    """The memory before and after one write."""

    before: tuple[Line, ...]
    after: tuple[Line, ...]

    @property
    def touched(self) -> frozenset[State]:
        """The states whose lines, or whose order of lines, the write changed."""
        states = frozenset[State]().union(*(line.states for line in (*self.before, *self.after)))
        return frozenset(s for s in states if lines_with(self.before, s) != lines_with(self.after, s))


def lines_with(lines: Sequence[Line], state: State) -> list[str]:
    """Return the lines that can hold a state, in their order."""
    return [line.text for line in lines if state in line.states]


def trace(writes: Sequence[MemoryEvent], states: Sequence[Iterable[State]]) -> list[Change]:
    """Return what each write changed; ``states`` are those of each write's evicted messages.

    A new line can also hold what the removed lines held.
    """
    changes = []
    lines: tuple[Line, ...] = ()
    for write, evicted in zip(writes, states, strict=True):
        before, removed = lines, list(lines)
        kept: list[Line | None] = []
        for text in write.after:
            same = next((line for line in removed if line.text == text), None)
            if same is not None:
                removed.remove(same)
            kept.append(same)
        new = frozenset(evicted).union(*(line.states for line in removed))
        lines = tuple(same or Line(text, new) for text, same in zip(write.after, kept, strict=True))
        changes.append(Change(before, lines))
    return changes


@dataclass(frozen=True, slots=True)
class _Write:
    stage: int
    number: int
    event: MemoryEvent
    evicted: Mapping[str, Fact]
    """The facts of the evicted messages, by key."""
    newest: Mapping[str, Fact]
    """The newest fact of each key so far."""
    change: Change

    @property
    def messages(self) -> Sequence[Message]:
        """The evicted messages that memory heard."""
        return [message for message in self.event.evicted if message.role != "system"]


class Labeller:
    """Labels the episodes of one task; the reader's replies are kept from episode to episode."""

    def __init__(self, task: Task, reader: FactReader) -> None:
        """Label with what a model reads; it has to be the assistant's."""
        self._task, self._reader = task, reader
        self._lock = asyncio.Lock()
        needs = (task.facts[fact].key for check in reversed(list(task.checks.values())) for fact in check.needs)
        self._needed = list(dict.fromkeys(needs))

    async def label(
        self, episode: Episode, policy: MemoryPolicy, *, most: int | None = None, rng: random.Random
    ) -> EpisodeLabels:
        """Label an episode's writes, at most ``most`` of them, which ``rng`` draws.

        Facts count that a check needs, each key with its newest fact so far. A fact is at stake when an evicted
        message tells it, or else lines of the old memory that the write changed. It is lost when the new memory does
        not tell it. Lines tell what their words entail; where words do not show it, the model reads them. Where the
        model reads a fact in some prompts only, or cannot read it in the evicted message itself, its reading says
        nothing: then the write is left out unless a fact is lost for certain.
        """
        writes = self._writes(episode)
        chosen = writes
        if most is not None and len(writes) > most:
            chosen = sorted(rng.sample(writes, most), key=lambda write: write.number)
        async with self._lock:  # episodes are labelled in turn, so that the calls of each are known
            before = self._reader.calls
            labels = await side_by_side(self._labels(write) for write in chosen)
            calls = self._reader.calls - before
        rows = tuple(
            Row(
                group=self._task.group,
                task=self._task.id,
                policy=policy.key,
                stage=write.stage,
                write=write.number,
                evicted=[EvictedMessage.of(message) for message in write.messages],
                before=list(write.event.before),
                after=list(write.event.after),
                facts=facts,
            )
            for write, facts in zip(chosen, labels, strict=True)
            if facts is not None
        )
        failed = sum(write.event.error is not None for write in writes)
        return EpisodeLabels(rows, len(writes), len(chosen) - len(rows), failed, calls)

    def _writes(self, episode: Episode) -> list[_Write]:
        events = [(s, event) for s, stage in enumerate(episode.stages) for event in stage.writes]
        evicted = [self._facts_in(event.evicted) for _, event in events]
        changes = trace([event for _, event in events], [map(state_of, facts.values()) for facts in evicted])
        newest: dict[str, Fact] = {}
        writes = []
        for number, ((stage, event), facts, change) in enumerate(zip(events, evicted, changes, strict=True)):
            newest = newest | facts
            writes.append(_Write(stage, number, event, facts, newest, change))
        return writes

    def _facts_in(self, messages: Sequence[Message]) -> dict[str, Fact]:
        """Return the facts that messages tell, the newest of each key."""
        return {fact.key: fact for message in messages for fact in self._facts_of(message)}

    def _facts_of(self, message: Message) -> Sequence[Fact]:
        return () if message.role == "assistant" else self._reader.facts_in(message.content)

    async def _labels(self, write: _Write) -> list[FactLabel] | None:
        """Return the labels of the facts at stake; None where the write is undecided."""
        touched = write.change.touched
        concerned = {key for key, fact in write.newest.items() if key in write.evicted or state_of(fact) in touched}
        labels = await side_by_side(self._label(key, write) for key in self._needed if key in concerned)
        facts = [label for label in labels if label is not None]
        lost = [fact.lost for fact in facts]
        return None if None in lost and True not in lost else facts

    async def _label(self, key: str, write: _Write) -> FactLabel | None:
        """Return the label of a fact; None where it is not at stake."""
        fact, message = write.newest[key], self._source(key, write)
        after = lines_with(write.change.after, state_of(fact))
        if message is not None:
            evicted = write.messages[message]
            told = await self._reader.from_messages(fact, [evicted])
            lost = await self._lost(fact, after) if told == "yes" else self._lost_for_certain(fact, after)
            sentence = await self._sentence(fact, evicted)
            return FactLabel(key=key, fact=fact.id, topic=fact.topic, lost=lost, message=message, sentence=sentence)
        held = await self._reader.from_lines(fact, lines_with(write.change.before, state_of(fact)))
        lost = await self._lost(fact, after)
        if held == "no" or (held == "unsure" and lost is None):
            return None
        place = await self._line(fact, write)
        return FactLabel(key=key, fact=fact.id, topic=fact.topic, lost=lost if held == "yes" else None, line=place)

    async def _lost(self, fact: Fact, after: Sequence[str]) -> bool | None:
        return {"yes": False, "no": True, "unsure": None}[await self._reader.from_lines(fact, after)]

    def _lost_for_certain(self, fact: Fact, after: Sequence[str]) -> bool | None:
        """Return True where the words of the new lines show that a fact is lost, else None."""
        return True if self._reader.entailed(fact, after) is False else None

    async def _sentence(self, fact: Fact, message: Message) -> int | None:
        """Return the place of the only sentence of a message that tells a fact."""
        parts = [replace(message, content=sentence) for sentence in sentences(message.content)]
        return _only([await self._reader.from_messages(fact, [part]) == "yes" for part in parts])

    async def _line(self, fact: Fact, write: _Write) -> int | None:
        """Return the place of the only removed line that tells a fact."""
        removed = set(places_beyond(write.event.before, write.event.after))
        tells = [
            place in removed
            and state_of(fact) in line.states
            and await self._reader.from_lines(fact, [line.text]) == "yes"
            for place, line in enumerate(write.change.before)
        ]
        return _only(tells)

    def _source(self, key: str, write: _Write) -> int | None:
        """Return the place of the last evicted message that tells a fact of a key."""
        places = (i for i, m in enumerate(write.messages) if any(fact.key == key for fact in self._facts_of(m)))
        return max(places, default=None)


def _only(tells: Sequence[bool]) -> int | None:
    return tells.index(True) if sum(tells) == 1 else None
