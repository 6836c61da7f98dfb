"""The finished record of one policy in one task."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from ..data.errors import MnemotuneError
from ..data.folded import Folded
from ..data.values import Values
from ..data.whole_files import replacing
from ..policies.assistant import ContextUse
from ..policies.lm import CallRole, Ledger, Message
from ..policies.memory import MemoryEvent
from .calls import Call
from .stored import Stored

EPISODES = "episodes.jsonl"

EventKind = Literal["say", "act", "observe", "document", "write", "read"]
HEARD: frozenset[EventKind] = frozenset(get_args(EventKind)) - {"write", "read"}
"""The kinds of events whose messages memory observes."""


class RecordError(MnemotuneError, ValueError):
    """Say what is wrong with a recorded episode, naming the file and the line, or the task and the stage."""


@dataclass(frozen=True, slots=True)
class Event(Values):
    """What memory met or gave back."""

    step: int
    """0-based place within the stage; for a dialogue, the session."""
    kind: EventKind
    seen: tuple[Message, ...] = ()
    """The messages that memory observed together."""
    write: MemoryEvent | None = None
    """What was written, where the kind is ``write``."""
    shown_tokens: int = 0
    """What memory put before the model, where the kind is ``read``."""
    calls: tuple[Call, ...] = ()
    """Those that it took, or that were made since the event before; none where calls are not recorded."""

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values, without the calls; a write is given by the lines that it removed and added."""
        values: dict[str, Any] = {"step": self.step, "kind": self.kind}
        if self.seen:
            values["seen"] = [{"role": message.role, "content": message.content} for message in self.seen]
        if self.write is not None:
            values["write"] = _write_json(self.write)
        return values | ({"shown_tokens": self.shown_tokens} if self.shown_tokens else {})


@dataclass(frozen=True, slots=True)
class Mark(Values):
    """How a check was answered."""

    check: str
    """The check's id."""
    raw: str
    """The reply as it came."""
    score: float
    """In [0, 1], higher is better; NaN when unscored."""
    recalled: Mapping[str, bool | None] = field(default_factory=dict)
    """Whether the assistant knows each fact that the check needs, by its id; None where it was not asked."""
    readable: bool = True
    """Whether the reply could be read as an answer."""
    shown: Mapping[str, bool] = field(default_factory=dict)
    """Whether memory put evidence of each fact that the check needs before the model, by its id, as ``evidence`` tells;
    empty where that is not known."""
    context: tuple[str, ...] = ()
    """The memories and the messages that memory put before the model with the check; empty where that is not known.

    In tools and swe, an agent that plans by itself answers no check: there it is the context of the question for the
    facts, which comes once the agent is done.
    """
    calls: tuple[Call, ...] = ()
    """Those that ask the check and the facts that it needs; none where calls are not recorded."""

    def with_facts_of(self, probe: Mark) -> Mark:
        """Return the mark with what a question for the facts, once an agent is done, tells of them."""
        return replace(
            self, recalled=probe.recalled, shown=probe.shown, context=probe.context, calls=(*self.calls, *probe.calls)
        )

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values, without the context and the calls, which are long; NaN becomes null."""
        values = asdict(replace(self, context=(), calls=()))
        del values["context"], values["calls"]
        return values | {"score": None if math.isnan(self.score) else self.score}


@dataclass(frozen=True, slots=True)
class Revision:
    """One rewriting of a prompt by an evolving policy."""

    target: str
    """The prompt: ``info_types``, ``write`` or ``merge``."""
    text: str | None
    """What it says from the next stage on; None when it stayed as it was."""
    changes: tuple[str, ...]
    """What was changed, in the model's words."""
    raw: str
    error: str | None = None
    """Why the model's reply was of no use; None when all went well."""


@dataclass(frozen=True, slots=True)
class StageRecord(Values):
    """What happened in one stage."""

    events: Sequence[Event] = ()
    marks: tuple[Mark, ...] = ()
    """Aligned with the checks of the stage."""
    recalled: Mapping[str, bool] = field(default_factory=dict)
    """Whether the assistant knew, at the end of this stage, each fact that it told and that no check asked for yet.

    Left out is what could not be asked for alone.
    """
    revisions: tuple[Revision, ...] = ()
    """What an evolving policy learned from the stage's checks."""
    reworded: tuple[Mark, ...] = ()
    """How the same checks were answered in other words, where they were asked so."""

    @property
    def writes(self) -> tuple[MemoryEvent, ...]:
        """The writes, in their order."""
        return tuple(event.write for event in self.events if event.write is not None)

    @property
    def heard(self) -> Iterator[tuple[Message, ...]]:
        """The messages that memory observed, as they came together."""
        return (event.seen for event in self.events if event.kind in HEARD)

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "events": [event.as_json() for event in self.events],
            "marks": [mark.as_json() for mark in self.marks],
            "recalled": dict(self.recalled),
            "revisions": [asdict(revision) for revision in self.revisions],
            "reworded": [mark.as_json() for mark in self.reworded],
        }


@dataclass(frozen=True, slots=True)
class Bounds:
    """How the same reasoner answers each check without memory, and with exactly the facts that the check needs."""

    floor: Mapping[str, Mark]
    """By check."""
    ceiling: Mapping[str, Mark]
    """By check."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One policy in one task."""

    task: str
    policy_key: str
    stages: Sequence[StageRecord]
    ledger: Ledger = field(default_factory=Ledger)
    failure: str | None = None
    """Why the episode ended early; None when it is complete."""
    refused: bool = False
    """Whether it ended as the endpoint refuses what the policy asks, or as the policy's memory failed: what is missing
    counts as wrong. Else it was lost, and has no score."""
    memory_failed: bool = False
    """Whether it was the policy's memory that failed."""
    uses: Mapping[CallRole, ContextUse] = field(default_factory=dict)
    """What memory put before the model, by what the calls were for."""
    reward: float | None = None
    """What the environment gives at the end, where it gives something."""
    stored: Stored | None = None
    """What memory holds at the end; None where the episode has not come to it."""

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "task": self.task,
            "policy": self.policy_key,
            "failure": self.failure,
            "refused": self.refused,
            **({"memory_failed": True} if self.memory_failed else {}),
            "stages": [stage.as_json() for stage in self.stages],
            "spend": self.ledger.as_json(),
            "context": {role: asdict(use) for role, use in self.uses.items()},
            **({} if self.reward is None else {"reward": self.reward}),
            **({} if self.stored is None else {"stored": self.stored.as_json()}),
        }


def folded(episode: Episode) -> Episode:
    """Return an equal episode that takes a tenth of the memory until its stages are looked at."""
    events = Folded.each_of([stage.events for stage in episode.stages])
    stages = [replace(stage, events=theirs) for stage, theirs in zip(episode.stages, events, strict=True)]
    return replace(episode, stages=Folded.of(stages))


def write_episodes(folder: Path, episodes: Sequence[Episode]) -> None:
    """Write ``episodes.jsonl`` into a folder, one line an episode."""
    with replacing(folder / EPISODES) as file:
        for episode in episodes:
            file.write(json.dumps(episode.as_json(), ensure_ascii=False).encode() + b"\n")


def complete(episodes: Sequence[Episode]) -> dict[str, Episode]:
    """Return the episodes that did not fail, by task."""
    return {episode.task: episode for episode in episodes if episode.failure is None}


def read_heard(folder: Path) -> dict[str, Episode]:
    """Read from ``episodes.jsonl`` what memory heard in each complete episode, by task: enough to replay it.

    Raises RecordError naming the line.
    """
    with (folder / EPISODES).open("rb") as file:
        episodes = [_heard(line, where=f"{file.name}, line {number}") for number, line in enumerate(file, 1)]
    return {episode.task: episode for episode in episodes if episode.failure is None}


def _heard(line: bytes, *, where: str) -> Episode:
    try:
        values = json.loads(line)
        stages = tuple(
            StageRecord(tuple(_event(event) for event in stage["events"] if event["kind"] in HEARD))
            for stage in values["stages"]
        )
        return folded(Episode(values["task"], values["policy"], stages, failure=values["failure"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RecordError(f"{where}: is no episode of this version: {error!r}") from None


def _event(values: Mapping[str, Any]) -> Event:
    seen = tuple(Message(message["role"], message["content"]) for message in values["seen"])
    return Event(int(values["step"]), values["kind"], seen)


def _write_json(write: MemoryEvent) -> dict[str, Any]:
    return {
        "evicted": [{"role": message.role, "content": message.content} for message in write.evicted],
        "removed": lines_beyond(write.before, write.after),
        "added": lines_beyond(write.after, write.before),
        "raw": list(write.raw),
        "error": write.error,
    }


def lines_beyond(lines: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return the lines that occur more often than in ``others``, the last of equal ones, in order."""
    return [lines[place] for place in places_beyond(lines, others)]


def places_beyond(lines: Sequence[str], others: Sequence[str]) -> list[int]:
    """Return the 0-based places of the lines that occur more often than in ``others``, the last of equal ones."""
    size = min(len(lines), len(others))
    same = size if lines[:size] == others[:size] else 0  # a memory that only grows is long, and a write to it short
    more = Counter(lines[same:]) - Counter(others[same:])
    places = []
    for place in reversed(range(same, len(lines))):
        if more[lines[place]] > 0:
            more[lines[place]] -= 1
            places.append(place)
    return places[::-1]
