"""Making a task: its steps are played in a world, and what they give back are the facts that later steps need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..chunks import chunks
from ..task import Check, Fact, TaskError
from .observation import observed
from .row import Action, Requestor, Row
from .task import Path, Slot, Step, ToolsTask, spoken
from .world import Result, World


@dataclass(frozen=True, slots=True)
class Known:
    """A value that was said or given back, for a step to need."""

    value: Any
    fact: str
    """The fact's id."""
    question: str
    """For which the value is the answer."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a step has told."""

    heard: tuple[str, ...]
    """The messages that memory observes."""
    stage: int
    step: int
    """Its place among all steps."""
    value: Any = None
    """What a tool gave back."""


@dataclass(slots=True)
class Plot:
    """A task in the making."""

    id: str
    world: World
    """It has begun."""
    stage: int = 0
    steps: list[Step] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    """Of the gold plan."""
    _facts: dict[str, Fact] = field(default_factory=dict)
    _learned: dict[str, tuple[int, str]] = field(default_factory=dict)
    """The step that told each fact, and the value."""
    _checks: dict[str, Check] = field(default_factory=dict)

    def next_stage(self) -> None:
        """Go on with the next stage."""
        self.stage += 1

    def say(self, text: str) -> Told:
        """Let the customer say something."""
        heard = tuple(chunks(text))
        return self._done(Step("say", self.stage, text, heard=heard))

    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        slots: Sequence[tuple[Path, Known]] = (),
        requestor: Requestor = "assistant",
    ) -> Told:
        """Call a tool; an argument that is ``Known`` is a slot, as are the ``slots`` inside of arguments.

        What a customer's tool gives back is the customer's to tell. Raises TaskError where the call fails.
        """
        told, result = self.try_call(tool, arguments, slots=slots, requestor=requestor)
        if result.error:
            raise TaskError(f"{self.id}: step {told.step}, {tool}: {result.value}")
        return told

    def try_call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        slots: Sequence[tuple[Path, Known]] = (),
        requestor: Requestor = "assistant",
    ) -> tuple[Told, Result]:
        """Call a tool, as ``call`` does, which may fail."""
        gold, places = _gold(arguments)
        result = self.world.call(tool, gold, requestor)
        heard = observed(tool, gold, result) if requestor == "assistant" else ()
        name = f"{self.id}/{len(self.actions)}"
        self.actions.append(Action(action_id=name, requestor=requestor, name=tool, arguments=gold))
        filled = self._slots([*places, *slots])
        step = Step("call", self.stage, "", tool, requestor, gold, filled, heard)
        return self._done(step, None if result.error else result.value), result

    def reply(self, text: str, **values: Any) -> Told:
        """Let the agent tell the customer values; the text has a slot for each."""
        gold, places = _gold(values)
        filled = self._slots(places)
        heard = tuple(chunks(spoken(text, gold)))
        return self._done(Step("reply", self.stage, text, arguments=gold, slots=filled, heard=heard))

    def learn(self, told: Told, value: Any, key: str, question: str, *, beside: Sequence[str] = ()) -> Known:
        """Note a value that was told; it replaces what an earlier step has told of its key.

        Of several lines that tell it, the one that has most of what stands ``beside`` it is the fact. Raises TaskError
        where it was not told, and where the step has told another value of that key.
        """
        place = _line_with(told.heard, str(value), beside)
        if place is None:
            raise TaskError(f"{self.id}: stage {told.stage}: {value!r} is nowhere told")
        name = f"{key}, step {told.step}"
        if name not in self._facts:
            source, line = place
            self._facts[name] = Fact(name, key, key.partition(" of ")[0], line, told.stage, sources=(source,))
            self._learned[name] = told.step, str(value)
        elif (other := self._learned[name][1]) != str(value):
            raise TaskError(f"{self.id}: stage {told.stage}: {key}: is {other!r} and {value!r}; give them two keys")
        return Known(value, name, question)

    def finish(self, *, group: str, domain: str, row: Row) -> ToolsTask:
        """Return the task; of the facts, those that a step needs."""
        needed = {need for check in self._checks.values() for need in check.needs}
        facts = {name: replace(fact, until=self._until(name)) for name, fact in self._facts.items() if name in needed}
        return ToolsTask(self.id, group, self.stage + 1, domain, row, tuple(self.steps), facts, dict(self._checks))

    def _until(self, name: str) -> int | None:
        """Return the stage of the next step that has told another value of a fact's key; None where there is none."""
        key, (step, value) = self._facts[name].key, self._learned[name]
        others = (self._learned[other] for other, fact in self._facts.items() if fact.key == key)
        return min((self.steps[later].stage for later, told in others if later > step and told != value), default=None)

    def _done(self, step: Step, value: Any = None) -> Told:
        self.steps.append(step)
        return Told(step.heard, step.stage, len(self.steps) - 1, value)

    def _slots(self, places: Sequence[tuple[Path, Known]]) -> tuple[Slot, ...]:
        slots = []
        for path, known in places:
            check = f"{len(self.steps)}.{'.'.join(map(str, path))}"
            key = self._facts[known.fact].key
            self._checks[check] = Check(check, key, self.stage, (known.fact,), 0.0, known.question)
            slots.append(Slot(path, check))
        return tuple(slots)


def _gold(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[tuple[Path, Known]]]:
    """Return the arguments with the right values, and where slots are."""
    known: list[tuple[Path, Known]] = [((name,), v) for name, v in arguments.items() if isinstance(v, Known)]
    return {name: v.value if isinstance(v, Known) else v for name, v in arguments.items()}, known


def _line_with(messages: Sequence[str], text: str, beside: Sequence[str]) -> tuple[str, str] | None:
    """Return the message and the line that tell a text; what a tool was called with tells nothing."""
    lines = [(message, line) for message in messages for line in message.splitlines()]
    telling = [place for place in lines if text in place[1] and not place[1].endswith(") returned:")]
    return max(telling, key=lambda place: sum(other in place[1] for other in beside), default=None)
