"""Tracks in which memory only reads: what comes next depends on nothing that the assistant says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Generic

from ..data.task import Check, Fact, Task, checks_at
from ..policies.assistant import Assistant
from ..policies.files import load_policy
from ..policies.forms import ReplyForm
from ..policies.lm import CallRole, LanguageModel, Message, Request
from ..policies.memory import Context
from ..policies.policy import MemoryPolicy
from .calls import recorded
from .concurrency import both, side_by_side
from .episode import Bounds, Episode, Event, Mark, RecordError, StageRecord, read_heard
from .evidence import evidence, pieces_of
from .rollout import AssistantRollout, TaskT
from .scoring import LEAST_HEADROOM
from .track import Cast, FactPrompt, Rollout, Usual, memory_calls, reworded_role


class ReadingTrack(ABC, Generic[TaskT]):
    """Memory hears each stage's messages, and the assistant is asked each check with what memory brings back.

    A subclass says what is heard, how a check is put and how a reply is scored; it may override the rest.
    """

    name: str
    noun: str = "group"
    stage_noun: str = "stage"
    agent: str = ""
    turn: CallRole = "answer"
    usual: Usual = Usual()
    least_headroom: float | None = LEAST_HEADROOM
    compat: frozenset[str] = frozenset()

    @abstractmethod
    def load(self, source: str, *, groups: Collection[str] | None = None) -> Sequence[TaskT]:
        """Return the tasks that a source names. Raises TaskError."""

    @abstractmethod
    def heard(self, task: TaskT, stage: int) -> Sequence[tuple[Message, ...]]:
        """Return the messages of a stage, those together that memory observes together."""

    @abstractmethod
    def query(self, task: TaskT, check: Check) -> str:
        """Return how a check is put."""

    def reworded(self, task: TaskT, check: Check) -> str | None:
        """Return how the sealed test also puts a check: in no other words."""
        return None

    @abstractmethod
    def mark(self, task: TaskT, check: Check, raw: str) -> Mark:
        """Score a reply; what is recalled is added by ``recalled``."""

    def recalled(self, task: TaskT, check: Check, mark: Mark) -> Mapping[str, bool | None]:
        """Return which facts a mark shows to be known: the only one that is needed, where the answer is right."""
        return {fact: mark.score == 1 if len(check.needs) == 1 else None for fact in check.needs}

    def fact_probes(self, task: TaskT, check: Check) -> Mapping[str, FactPrompt]:
        """Return how each fact is asked for besides that the reply to a check does not show: none."""
        return {}

    def given(self, task: TaskT, check: Check) -> tuple[Message, ...]:
        """Return what the model is shown for the ceiling: exactly the facts that the check needs."""
        return (Message("system", "\n".join(task.facts[fact].text for fact in check.needs)),)

    def begin(
        self,
        task: TaskT,
        policy: MemoryPolicy,
        cast: Cast,
        *,
        replay: Episode | None = None,
        after: Rollout | None = None,
    ) -> Rollout:
        """Set up an episode. Raises RecordError where ``replay`` is of another task."""
        if replay is not None and [list(stage.heard) for stage in replay.stages] != [
            list(self.heard(task, stage)) for stage in range(task.stages)
        ]:
            raise RecordError(f"{self.noun} {task.group}, task {task.id}: another text is recorded")
        return ReadingRollout(self, task, policy, cast)

    def in_turn(self, policy: MemoryPolicy) -> bool:
        """Tell that episodes are independent."""
        return False

    def form(self, task: TaskT, check: Check) -> ReplyForm | None:
        """Return the form of the reply to a check: a free text."""
        return None

    async def bounds(self, task: TaskT, cast: Cast) -> Bounds:
        """Ask each check with nothing but the facts that it needs; the floor is what ``floor`` returns."""
        ceiling = side_by_side(
            self.asked(task, check, self.given(task, check), cast.assistant) for check in task.checks.values()
        )
        floor, marks = await both(self.floor(task, cast), ceiling)
        return Bounds({mark.check: mark for mark in floor}, {mark.check: mark for mark in marks})

    async def floor(self, task: TaskT, cast: Cast) -> list[Mark]:
        """Return how each check is answered without memory: by a blind guess."""
        return [Mark(check.id, "", check.chance) for check in task.checks.values()]

    async def asked(self, task: TaskT, check: Check, shown: Sequence[Message], model: LanguageModel) -> Mark:
        """Ask a model a check after some messages."""
        messages = (*shown, Message("user", self.query(task, check)))
        request = Request(messages, role="upper_bound", form=self.form(task, check))
        return self.mark(task, check, (await model.complete(request)).text)

    def settle(
        self, tasks: Sequence[Task], episodes: Sequence[Episode], bounds: Mapping[str, Bounds]
    ) -> tuple[Sequence[Episode], Mapping[str, Bounds]]:
        """Return both as they are."""
        return episodes, bounds

    def most_calls(self, task: TaskT, policy: MemoryPolicy) -> int:
        """Return those of memory, and a call for each check and each probe."""
        messages = sum(len(together) for stage in range(task.stages) for together in self.heard(task, stage))
        questions = self.question_calls(task)
        return questions + memory_calls(policy, messages=messages, searches=questions)

    def question_calls(self, task: TaskT) -> int:
        """Return a call for each check and each probe."""
        beside = sum(len(self.fact_probes(task, check)) for check in task.checks.values())
        return len(task.checks) + beside + sum(len(probes_at(task, stage)) for stage in range(task.stages))

    def bound_calls(self, task: TaskT) -> int:
        """Return a call for each check."""
        return len(task.checks)

    def tell(self, task: TaskT, episode: Episode, stage: int, mark: Mark) -> str:
        """Describe a wrong answer: what was asked, what memory had heard, and what it was answered."""
        check = task.checks[mark.check]
        heard = [f'It was said: "{text}"' for fact in check.needs for text in task.facts[fact].sources[-1:]]
        return "\n".join([f"Question: {check.text}", *heard, f"Chosen answer: {mark.raw}"])

    def fact_prompts(self, task: TaskT, fact: Fact) -> Iterator[FactPrompt]:
        """Yield each question that needs the fact, after the other facts that it needs."""
        checks = {check.question: check for check in reversed(list(task.checks.values())) if fact.id in check.needs}
        for check in checks.values():
            others = [task.facts[need].text for need in check.needs if need != fact.id]
            yield FactPrompt("\n".join([*others, self.query(task, check)]), partial(self._is_right, task, check))

    def states(self, task: TaskT, fact: Fact, text: str) -> bool | None:
        """Leave it to a model."""
        return None

    def _is_right(self, task: TaskT, check: Check, reply: str) -> bool:
        return self.mark(task, check, reply).score == 1

    def hints(self, task: TaskT) -> Mapping[str, str]:
        """Return nothing."""
        return {}

    def replays(self, folder: Path) -> Mapping[str, Episode]:
        """Read recorded episodes by task. Raises RecordError."""
        return read_heard(folder)

    def extras(
        self, tasks: Sequence[Task], episodes: Sequence[Episode], bounds: Mapping[str, Bounds]
    ) -> Mapping[str, Any]:
        """Return nothing."""
        return {}


class ObservingTrack(ReadingTrack[TaskT]):
    """A reading track whose floor is what the newest observations give away that fit the budget."""

    async def floor(self, task: TaskT, cast: Cast) -> list[Mark]:
        """Ask each check with the newest observations up to its stage that fit ``cast.context_tokens``."""
        assistant = cast.assistant_under(load_policy("window"), cast.assistant, cast.embedder)
        marks: list[Mark] = []
        for stage in range(task.stages):
            for messages in self.heard(task, stage):
                await assistant.memory.observe(messages)
            checks = checks_at(task, stage)
            shown = [(await assistant.context(self.query(task, check))).render() for check in checks]
            marks += await side_by_side(
                self.asked(task, check, newest, cast.assistant) for check, newest in zip(checks, shown, strict=True)
            )
        return marks

    def bound_calls(self, task: TaskT) -> int:
        """Return a call for the floor and another for the ceiling of each check."""
        return 2 * len(task.checks)


class ReadingRollout(AssistantRollout[TaskT]):
    """One episode under way."""

    def __init__(self, track: ReadingTrack[TaskT], task: TaskT, policy: MemoryPolicy, cast: Cast) -> None:
        """Begin with the first stage."""
        super().__init__(task, policy, cast, track.hints(task))
        self._track = track

    async def go_on(self, end: int) -> None:
        """Let memory hear a stage, and ask what it remembers, until ``end`` of them are over."""
        while len(self.records) < end:
            self.records.append(await self._stage(len(self.records)))

    def heard(self, stage: int) -> Sequence[tuple[Message, ...]]:
        """Return the messages of a stage."""
        return self._track.heard(self.task, stage)

    def query(self, check: Check) -> str:
        """Return how a check is put."""
        return self._track.query(self.task, check)

    def query_reworded(self, check: Check) -> str | None:
        """Return how the sealed test also puts it."""
        return self._track.reworded(self.task, check)

    async def observe(self, stage: int) -> list[Event]:
        """Let memory hear a stage; return what it met and wrote."""
        heard = enumerate(self.heard(stage))
        return [event for step, messages in heard for event in await self.observed(step, "observe", messages)]

    async def _stage(self, stage: int) -> StageRecord:
        events = await self.observe(stage)
        asker, checks = await self.assistant.fork(), checks_at(self.task, stage)
        (marks, again), recalled = await both(self._answers(asker, checks), self._recalled(asker, stage))
        return StageRecord(tuple(events), tuple(marks), recalled, reworded=tuple(again))

    async def _answers(self, asker: Assistant, checks: Sequence[Check]) -> tuple[list[Mark], list[Mark]]:
        """Ask checks, and once more in other words where that is wanted, which is no turn."""
        queries = [(check, self.query(check)) for check in checks]
        reworded = [(check, self.query_reworded(check)) for check in checks if self.reworded]
        role = reworded_role(self._track.turn)
        return await both(
            side_by_side(self._answer_and_probe(asker, check, text) for check, text in queries),
            side_by_side(self._answer(asker, check, text, role=role) for check, text in reworded if text is not None),
        )

    async def _recalled(self, asker: Assistant, stage: int) -> dict[str, bool]:
        """Ask at the end of a stage for what it tells and only later stages ask for."""
        probes = probes_at(self.task, stage)
        marks = await side_by_side(self._answer(asker, check, self.query(check), role="probe") for check in probes)
        known = {fact: known for mark in marks for fact, known in mark.recalled.items()}
        return {fact: each for fact, each in known.items() if each is not None}

    async def _answer(self, asker: Assistant, check: Check, text: str, *, role: CallRole = "answer") -> Mark:
        form = self._track.form(self.task, check)
        with recorded() as calls:
            raw, context = await asker.answer_and_context(text, role=role, form=form)
        mark, shown = self._track.mark(self.task, check, raw), self._shown(check, context)
        recalled = self._track.recalled(self.task, check, mark)
        return replace(mark, recalled=recalled, shown=shown, context=pieces_of(context), calls=tuple(calls))

    def _shown(self, check: Check, context: Context) -> dict[str, bool]:
        return evidence(self.task, check, context, states=partial(self._track.states, self.task))

    async def _answer_and_probe(self, asker: Assistant, check: Check, text: str) -> Mark:
        probes = self._track.fact_probes(self.task, check)
        asked = side_by_side(self._is_known(asker, probe) for probe in probes.values())
        with recorded() as calls:
            mark, known = await both(self._answer(asker, check, text), asked)
        recalled = {**mark.recalled, **dict(zip(probes, known, strict=True))}
        return replace(mark, recalled=recalled, calls=(*mark.calls, *calls))

    async def _is_known(self, asker: Assistant, probe: FactPrompt) -> bool:
        return probe.is_right(await asker.answer(probe.text, role="probe", form=probe.form))


def probes_at(task: Task, stage: int) -> list[Check]:
    """Return a check for each fact that a stage tells and only later stages ask for: the first that needs no other.

    A fact that later checks need only together with others has none.
    """
    asked = {need for check in checks_at(task, stage) for need in check.needs}
    alone = [check for check in task.checks.values() if check.stage > stage and len(check.needs) == 1]
    first = {check.needs[0]: check for check in reversed(alone)}
    told = (fact.id for fact in task.facts.values() if fact.since == stage and fact.id not in asked)
    return [first[fact] for fact in told if fact in first]
