"""Label the writes of an episode: which facts were at stake, and which of them are lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....data.dialogue.scenario import Scenario
from ....policies.lm.base import LanguageModel, Message
from ....policies.memory import MemoryEvent
from ....policies.policy import MemoryPolicy
from ....policies.prompts import Templates
from ....policies.text import sentences
from ...concurrency import side_by_side
from ...episode import Episode, places_beyond
from ..rows.row import EvictedMessage, FactLabel, Row
from .knowing import Change, Reader, Told, trace


@dataclass(frozen=True, slots=True)
class EpisodeLabels:
    """The rows of one episode, and what it took."""

    rows: tuple[Row, ...]
    writes: int
    """Of the episode, labelled or not."""
    undecided: int
    """Writes that were left out: whether a fact is lost depends on how the model is asked."""
    failed: int
    """Writes whose reply could not be read."""
    calls: int
    """Calls that the labels took."""


@dataclass(frozen=True, slots=True)
class _Write:
    period: int
    number: int
    event: MemoryEvent
    told: Mapping[str, str]
    """The states that the evicted messages told."""
    truth: Mapping[str, str]
    """All states that were told until then: the newest values."""
    change: Change

    @property
    def heard(self) -> Sequence[Message]:
        """The evicted messages of the talk."""
        return [message for message in self.event.evicted if message.role != "system"]


class Labeller:
    """Labels the episodes of one user; what one of them took to read is not asked again for the next."""

    def __init__(self, scenario: Scenario, model: LanguageModel, templates: Templates) -> None:
        """Ask this model, which is the assistant's."""
        self._scenario = scenario
        self._reader = Reader(scenario, model, templates)
        self._turn = asyncio.Lock()
        self._told = {
            session.opening: session.exposed_states for period in scenario.periods for session in period.sessions
        }

    async def label(
        self, episode: Episode, policy: MemoryPolicy, *, most: int | None = None, rng: random.Random
    ) -> EpisodeLabels:
        """Label an episode's writes, at most ``most`` of them, which ``rng`` draws.

        A fact is the newest value of a state that the evicted messages or ones before them told, and that a question
        asks for. It is at stake when the model reads it from the evicted message that told it, or else from lines of
        the old memory that the write changed, and lost when the model does not read it from the new memory. Where the
        model is right in some phrasings and not in others, nothing is said of the fact, and the write is left out
        unless another fact is lost for certain.
        """
        writes = self._writes(episode)
        chosen = writes if most is None or len(writes) <= most else _drawn(writes, most, rng)
        async with self._turn:  # one episode after the other, so that each one's calls can be told
            before = self._reader.calls
            found = await side_by_side(self._row(episode.task, policy, write) for write in chosen)
            calls = self._reader.calls - before
        rows = tuple(row for row in found if row is not None)
        failed = sum(write.event.error is not None for write in writes)
        return EpisodeLabels(rows, len(writes), len(found) - len(rows), failed, calls)

    def _writes(self, episode: Episode) -> list[_Write]:
        events = [(p, event) for p, stage in enumerate(episode.stages) for event in stage.writes]
        told = [self._told_in(event) for _, event in events]
        traced = trace([event for _, event in events], [states.items() for states in told])
        truth: dict[str, str] = {}
        writes = []
        for number, ((p, event), new, change) in enumerate(zip(events, told, traced, strict=True)):
            truth = truth | new
            writes.append(_Write(p, number, event, new, truth, change))
        return writes

    def _told_in(self, event: MemoryEvent) -> dict[str, str]:
        told: dict[str, str] = {}
        for message in event.evicted:
            told |= self._told.get(message.content, {}) if message.role == "user" else {}
        return told

    async def _row(self, user: str, policy: MemoryPolicy, write: _Write) -> Row | None:
        touched = write.change.touched
        concerned = {info for info, value in write.truth.items() if info in write.told or (info, value) in touched}
        infos = [info for info in self._reader.queries if info in concerned]
        found = await side_by_side(self._fact(info, write) for info in infos)
        facts = [fact for fact in found if fact is not None]
        lost = [fact.lost for fact in facts]
        if None in lost and True not in lost:
            return None
        return Row(
            user=user,
            policy=policy.key,
            period=write.period,
            write=write.number,
            evicted=[EvictedMessage(role=m.role, content=m.content) for m in write.heard],
            before=list(write.event.before),
            after=list(write.event.after),
            facts=facts,
        )

    async def _fact(self, info: str, write: _Write) -> FactLabel | None:
        """Return a fact; None where none is at stake."""
        reader, state, message = self._reader, (info, write.truth[info]), self._teller(info, write)
        if message is None:
            had = await reader.from_memory(state, write.change.before)
        else:
            had = await reader.from_talk(state, write.heard[message : message + 1])
        if had == "no":
            return None
        has = await reader.from_memory(state, write.change.after)
        if had == has == "unsure" and message is None:
            return None
        wavers = "unsure" in {had, has}
        place = (
            {"line": await self._line(state, write)}
            if message is None
            else {"message": message, "sentence": await self._sentence(state, write.heard[message])}
        )
        return FactLabel(info=info, lost=None if wavers else has == "no", **place)

    async def _sentence(self, state: Told, message: Message) -> int | None:
        """Return the place of the one sentence of a message that tells a state."""
        parts = [[Message("user", sentence)] for sentence in sentences(message.content)]
        return _only([await self._reader.from_talk(state, part) == "yes" for part in parts])

    async def _line(self, state: Told, write: _Write) -> int | None:
        """Return the place of the one removed line that tells a state."""
        before, gone = write.change.before, set(places_beyond(write.event.before, write.event.after))
        tells = [
            place in gone and state in line.states and await self._reader.from_memory(state, [line]) == "yes"
            for place, line in enumerate(before)
        ]
        return _only(tells)

    def _teller(self, info: str, write: _Write) -> int | None:
        """Return the place of the last evicted message that told a state."""
        told = (i for i, m in enumerate(write.heard) if m.role == "user" and info in self._told.get(m.content, {}))
        return max(told, default=None)


def _only(tells: Sequence[bool]) -> int | None:
    return tells.index(True) if sum(tells) == 1 else None


def _drawn(writes: Sequence[_Write], most: int, rng: random.Random) -> list[_Write]:
    return sorted(rng.sample(list(writes), most), key=lambda write: write.number)
