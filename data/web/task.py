"""A task in a web app, with a plan whose slots have to be remembered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..folded import FoldedTask
from ..task import Check, Fact, Task, TaskError
from ..values import Values

Action = Literal["click", "type", "select", "goto", "back", "key", "scroll", "done", "fail"]


@dataclass(frozen=True, slots=True)
class Slot(Values):
    """A part of a step that the agent answers from memory."""

    name: str
    """It stands as {name} in the step's target or value."""
    check: str
    """The id of the check."""


@dataclass(frozen=True, slots=True)
class Step(Values):
    """A step of the plan: one action in the browser."""

    stage: int
    action: Action
    target: str = ""
    """The role and the accessible name of an element, such as ``button "Open order {order}"``."""
    value: str = ""
    """What is typed, selected or opened, the key that is pressed, or the direction of scrolling."""
    right: Mapping[str, str] = field(default_factory=dict)
    """The right answer in each slot, by the slot's name."""
    slots: tuple[Slot, ...] = ()

    def filled(self, answers: Mapping[str, str | None]) -> tuple[str, str, str]:
        """Return action, target and value with the answers, by check, in their slots; no answer is an empty text."""
        given = {slot.name: answers[slot.check] or "" for slot in self.slots}
        return self.action, _filled(self.target, given), _filled(self.value, given)


@dataclass(frozen=True, slots=True)
class WebTask(Values):
    """A task of the web track."""

    id: str
    group: str
    """An instance: an app with data of its own. Of a checkout, the app."""
    stages: int
    app: str
    """The name of an app that ships, or the folder of a checkout's app."""
    instruction: str
    """What the agent is to do, which memory observes first."""
    state: Mapping[str, Any]
    """The app's whole state before the task; empty where the app brings it along."""
    verify: str
    """What has to be changed, as JSON; of a checkout, the file with the verifier."""
    steps: tuple[Step, ...]
    """In their order; none where the task has no plan."""
    facts: Mapping[str, Fact]
    checks: Mapping[str, Check]

    def at(self, stage: int) -> list[Step]:
        """Return the steps of a stage."""
        return [step for step in self.steps if step.stage == stage]

    def right(self, check: Check) -> str:
        """Return the right answer to a check."""
        step, slot = self.place_of(check)
        return step.right[slot.name]

    def place_of(self, check: Check) -> tuple[Step, Slot]:
        """Return the step and the slot that a check asks for."""
        return next((step, slot) for step in self.steps for slot in step.slots if slot.check == check.id)


def _filled(text: str, given: Mapping[str, str]) -> str:
    """Return a text with values in its slots; other braces are left alone."""
    return re.sub(r"\{(\w+)\}", lambda match: given.get(match[1], match[0]), text)


def web_task(task: Task) -> WebTask:
    """Return a task of the web track. Raises TaskError for another track's."""
    opened = task.opened if isinstance(task, FoldedTask) else task
    if not isinstance(opened, WebTask):
        raise TaskError(f"{task.id}: is no task of the web track")
    return opened
