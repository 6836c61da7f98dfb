"""A track in sixty lines: letters tell where things are kept, and each letter's checks ask for it again."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mnemotune.data.task import Check, Fact, checks_at
from mnemotune.env.episode import Bounds, Episode, Event, Mark, RecordError, StageRecord, read_heard
from mnemotune.policies import Assistant
from mnemotune.policies.lm import LanguageModelError, Message, Metered, Request
from mnemotune.policies.memory import open_memory
from mnemotune.policies.prompts import Templates, render
from mnemotune.policies.replies import ReplyError, read_json_object

PLACES = ("attic", "cellar", "garage", "kitchen")
THINGS = ("lantern", "ladder", "violin", "tent", "kettle", "globe")


@dataclass(frozen=True)
class Letters:
    id: str
    group: str
    stages: int

    @cached_property
    def facts(self) -> Mapping[str, Fact]:
        rng, found = random.Random(self.id), {}
        for stage in range(self.stages):
            thing, place = THINGS[stage], rng.choice(PLACES)
            text = f"By the way, I keep my {thing} in the {place}."
            found[thing] = Fact(thing, thing, "things", f"{thing}: {place}", stage, sources=(text,))
        return found

    @cached_property
    def checks(self) -> Mapping[str, Check]:
        asked = [(stage, fact) for stage in range(self.stages) for fact in self.facts.values() if fact.since <= stage]
        made = [Check(f"{s}.{f.id}", f.id, s, (f.id,), 0.25, f"Where do I keep my {f.id}?") for s, f in asked]
        return {check.id: check for check in made}


class LettersRollout:
    def __init__(self, track: LettersTrack, task: Letters, policy: Any, cast: Any, replay: Episode | None) -> None:
        self.track, self.task, self.policy, self.replay = track, task, policy, replay
        self.model, self.records = Metered(cast.assistant), list[StageRecord]()
        self.assistant = Assistant(self.model, open_memory(policy, self.model, cast.embedder))

    async def run(self, stages: int | None = None) -> Episode:
        failure = None
        try:
            for stage in range(len(self.records), min(stages if stages is not None else math.inf, self.task.stages)):
                self.records.append(await self.play(stage))
        except LanguageModelError as error:
            failure = str(error)
        return Episode(self.task.id, self.policy.key, tuple(self.records), self.model.ledger, failure)

    async def play(self, stage: int) -> StageRecord:
        (letter,) = (fact.sources[0] for fact in self.task.facts.values() if fact.since == stage)
        reply = self.replay.stages[stage].events[0].seen[1].content if self.replay else None
        reply = reply or await self.assistant.respond(letter)
        writes = await self.assistant.remember(letter, reply)
        said = Event(0, "say", (Message("user", letter), Message("assistant", reply)))
        events = (said, *(Event(0, "write", write=write) for write in writes))
        asker = await self.assistant.fork()
        marks = [await self.ask(asker, check) for check in checks_at(self.task, stage)]
        return StageRecord(events, tuple(marks))

    async def ask(self, asker: Any, check: Check) -> Mark:
        mark = self.track.mark(self.task, check, await asker.answer(self.track.query(self.task, check, self.policy)))
        return Mark(check.id, mark.raw, mark.score, {check.needs[0]: mark.score == 1}, mark.readable)

    async def aclose(self) -> None:
        pass


@dataclass(frozen=True)
class LettersTrack:
    """Tasks are made from ``letters:GROUPS:STAGES``."""

    templates: Templates
    name: str = "letters"
    noun: str = "writer"
    stage_noun: str = "letter"
    least_headroom: float = 0.05
    compat: frozenset[str] = frozenset()

    def load(self, source: str, *, groups: Any = None) -> list[Letters]:
        _, count, stages = source.split(":")
        tasks = [Letters(f"writer-{i}", f"writer-{i}", int(stages)) for i in range(int(count))]
        unknown = sorted(set(groups or ()) - {task.group for task in tasks})
        if unknown:
            raise ValueError(f"{source}: no writer {', '.join(unknown)}")
        return [task for task in tasks if groups is None or task.group in groups]

    def begin(self, task: Any, policy: Any, cast: Any, *, replay: Any = None, after: Any = None) -> LettersRollout:
        if replay is not None and len(replay.stages) != task.stages:
            raise RecordError(f"{task.id}: another writer's letters are recorded")
        return LettersRollout(self, task, policy, cast, replay)

    def in_turn(self, policy: Any) -> bool:
        return False

    async def bounds(self, task: Letters, cast: Any) -> Bounds:
        ceiling = {check.id: await self.told(task, check, cast) for check in task.checks.values()}
        return Bounds({c.id: Mark(c.id, "", c.chance) for c in task.checks.values()}, ceiling)

    async def told(self, task: Letters, check: Check, cast: Any) -> Mark:
        letter = Message("user", task.facts[check.needs[0]].sources[0])
        asked = Request((letter, Message("user", self.query(task, check, None))), role="upper_bound")
        return self.mark(task, check, (await cast.assistant.complete(asked)).text)

    def settle(self, tasks: Any, episodes: Any, bounds: Any) -> Any:
        return episodes, bounds

    def most_calls(self, task: Letters, policy: Any) -> int:
        return 3 * task.stages + len(task.checks)

    def bound_calls(self, task: Letters) -> int:
        return len(task.checks)

    def query(self, task: Letters, check: Check, policy: Any) -> str:
        choices = "\n".join(f"{i}: In the {place}." for i, place in enumerate(PLACES, 1))
        return render(self.templates.answer, query=check.text, choices=choices)

    def mark(self, task: Letters, check: Check, raw: str) -> Mark:
        try:
            chosen = int(read_json_object(raw)["answer"])
        except (ReplyError, KeyError, TypeError, ValueError):
            return Mark(check.id, raw, 0.0, readable=False)
        place = PLACES[chosen - 1] if 1 <= chosen <= len(PLACES) else ""
        return Mark(check.id, raw, float(task.facts[check.needs[0]].text.endswith(place or "?")))

    def tell(self, task: Letters, episode: Episode, stage: int, mark: Mark) -> str:
        check = task.checks[mark.check]
        said = task.facts[check.needs[0]].sources[0]
        return f'Question: {check.text}\nThe user said: "{said}"\nMemory held:\nnothing\nChosen answer: {mark.raw}'

    def hints(self, task: Any) -> Mapping[str, str]:
        return {}

    def replays(self, folder: Any) -> Mapping[str, Episode]:
        return read_heard(folder)

    def extras(self, tasks: Any, episodes: Any, bounds: Any) -> Mapping[str, Any]:
        return {}


def make(templates: Templates, options: Mapping[str, Any]) -> LettersTrack:
    return LettersTrack(templates)
