"""What every task with a plan promises: its stages, steps, facts and checks hold together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Protocol

from .task import Task


class PlannedSlot(Protocol):
    """A value of a step that the agent answers from memory."""

    @property
    def check(self) -> str:
        """The id of the check."""


class PlannedStep(Protocol):
    """A step of a plan."""

    @property
    def stage(self) -> int:
        """0-based."""

    @property
    def slots(self) -> Sequence[PlannedSlot]:
        """In the order in which they are asked."""


class PlannedTask(Task, Protocol):
    """A task with a plan."""

    @property
    def steps(self) -> Sequence[PlannedStep]:
        """The plan, in its order."""


class NamedSlot(PlannedSlot, Protocol):
    """A slot that stands as {name} in a text of the step."""

    @property
    def name(self) -> str:
        """Distinct within the step."""


class FilledStep(Protocol):
    """A step with named slots."""

    @property
    def slots(self) -> Sequence[NamedSlot]:
        """In the order in which they are asked."""

    @property
    def right(self) -> Mapping[str, str]:
        """The right value of each slot, by the slot's name."""


def problems_of_plan(task: PlannedTask) -> Iterator[str]:
    """Yield what does not hold together in a task that comes from a file, each beginning with the field."""
    return chain(_of_steps(task), _of_facts(task), _of_checks(task))


def problems_of_slots(step: FilledStep, text: str) -> Iterator[str]:
    """Yield what does not hold together in a step's named slots, which have to stand in ``text``."""
    names = [slot.name for slot in step.slots]
    if len({*names}) < len(names):
        yield f"slots: {', '.join(names)}; each has a name of its own"
    if {*names} != step.right.keys():
        yield f"right: has values of {', '.join(step.right) or 'nothing'}; the slots are {', '.join(names) or 'none'}"
    for name in names:
        if f"{{{name}}}" not in text:
            yield f"slots: {{{name}}} does not stand in the step"


def _of_steps(task: PlannedTask) -> Iterator[str]:
    if not task.steps:
        yield "steps: there has to be 1 or more"
    elif task.stages < 1 or task.stages != task.steps[-1].stage + 1:
        yield f"stages: {task.stages}; the last step is of stage {task.steps[-1].stage}, from 0"
    for place, step in enumerate(task.steps):
        where = f"steps.{place}"
        if not 0 <= step.stage < task.stages:
            yield f"{where}.stage: {step.stage} is none of the {task.stages} stages"
        if place and step.stage < task.steps[place - 1].stage:
            yield f"{where}.stage: {step.stage} comes after stage {task.steps[place - 1].stage}"
        for slot in step.slots:
            if slot.check not in task.checks:
                yield f"{where}.slots: there is no check {slot.check!r}"
            elif task.checks[slot.check].stage != step.stage:
                yield f"{where}.slots: check {slot.check!r} is of another stage"


def _of_facts(task: PlannedTask) -> Iterator[str]:
    for name, fact in task.facts.items():
        if fact.id != name:
            yield f"facts.{name}.id: is {fact.id!r}"
        if not fact.text.strip():
            yield f"facts.{name}.text: is empty"
        if not 0 <= fact.since < task.stages:
            yield f"facts.{name}.since: {fact.since} is none of the {task.stages} stages"
        if fact.until is not None and not fact.since < fact.until < task.stages:
            yield f"facts.{name}.until: {fact.until} is no stage after {fact.since}"


def _of_checks(task: PlannedTask) -> Iterator[str]:
    if not task.checks:
        yield "checks: there has to be 1 or more"
    asked = Counter(slot.check for step in task.steps for slot in step.slots)
    for name, check in task.checks.items():
        if check.id != name:
            yield f"checks.{name}.id: is {check.id!r}"
        if asked[name] != 1:
            yield f"checks.{name}: {asked[name]} slots ask it; each has a check of its own"
        if not check.text.strip():
            yield f"checks.{name}.text: is empty"
        if not 0 <= check.chance <= 1:
            yield f"checks.{name}.chance: {check.chance} is not in [0, 1]"
        missing = [need for need in check.needs if need not in task.facts]
        if missing or not check.needs:
            yield f"checks.{name}.needs: there is no fact {', '.join(map(repr, missing)) or 'named'}"
        for fact in (task.facts[need] for need in check.needs if not missing):
            if fact.since > check.stage:
                yield f"checks.{name}.needs: {fact.id!r} is told after stage {check.stage}"
            if fact.until is not None and fact.until <= check.stage:
                yield f"checks.{name}.needs: {fact.id!r} does not hold any more at stage {check.stage}"
