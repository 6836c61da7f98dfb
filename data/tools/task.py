"""A task: a dialogue, or several calls of a customer, with a plan whose arguments have to be remembered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..folded import FoldedTask
from ..task import Check, Fact, Task, TaskError
from ..values import Values
from .row import Requestor, Row

StepKind = Literal["say", "call", "reply"]
"""The customer says something; a tool is called; the agent replies."""
Path = tuple[str | int, ...]
MOST_EXACT = 2**53
"""Whole numbers from here on are not all told apart as floats."""


@dataclass(frozen=True, slots=True)
class Slot(Values):
    """An argument that the agent answers from memory."""

    path: Path
    """Where it stands in the arguments."""
    check: str
    """The id of the check."""


@dataclass(frozen=True, slots=True)
class Step(Values):
    """A step of the dialogue: of the customer's, or of the agent's plan."""

    kind: StepKind
    stage: int
    text: str = ""
    """What the customer says; what the agent replies, with a slot {name} for each argument."""
    tool: str = ""
    """The name of the tool that is called."""
    requestor: Requestor = "assistant"
    """Who calls it. What the customer's own tools give back is the customer's to tell."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Of the tool, or of the reply; where there are slots, the right values."""
    slots: tuple[Slot, ...] = ()
    heard: tuple[str, ...] = ()
    """What memory observes in the step where every slot is right, each text by itself."""
    before: bool = False
    """Whether it belongs to the message history, which was before the agent."""

    def filled(self, answers: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with the answers, by check, in their slots."""
        arguments = deepcopy(dict(self.arguments))
        for slot in self.slots:
            place: Any = arguments
            for key in slot.path[:-1]:
                place = place[key]
            place[slot.path[-1]] = like(answers[slot.check], value_at(self.arguments, slot.path))
        return arguments


@dataclass(frozen=True, slots=True)
class ToolsTask(Values):
    """A task of the tools track."""

    id: str
    group: str
    """The customer."""
    stages: int
    domain: str
    """What its world is made from: a source."""
    row: Row
    steps: tuple[Step, ...]
    """In their order."""
    facts: Mapping[str, Fact]
    checks: Mapping[str, Check]
    later: tuple[Row, ...] = ()
    """Of the calls after the first, where each stage is a call with a row and databases of its own."""

    @property
    def script(self) -> tuple[str, ...]:
        """The customer's hidden script, which no memory may meet."""
        return tuple(text for row in (self.row, *self.later) for text in row.user_scenario.script)

    @property
    def dialogues(self) -> tuple[ToolsTask, ...]:
        """The task of each row alone; the task itself where there is one."""
        rows = enumerate((self.row, *self.later))
        return (
            tuple(replace(self, row=row, later=(), steps=tuple(self.at(stage))) for stage, row in rows)
            if self.later
            else (self,)
        )

    @property
    def is_scripted(self) -> bool:
        """Whether the steps have all that the customer says; else they have how the dialogue begins."""
        return not self.domain.startswith("tau2:")

    def at(self, stage: int) -> list[Step]:
        """Return the steps of a stage."""
        return [step for step in self.steps if step.stage == stage]

    def right(self, check: Check) -> Any:
        """Return the right answer to a check, as it stands in the arguments."""
        step, slot = self.place_of(check)
        return value_at(step.arguments, slot.path)

    def place_of(self, check: Check) -> tuple[Step, Slot]:
        """Return the step and the argument that a check asks for."""
        return next((step, slot) for step in self.steps for slot in step.slots if slot.check == check.id)


def spoken(text: str, values: Mapping[str, Any]) -> str:
    """Return what the agent replies: a text with values in its slots. Other braces are left alone."""
    return re.sub(r"\{(\w+)\}", lambda match: str(values.get(match[1], match[0])), text)


def value_at(arguments: Any, path: Path) -> Any:
    """Return the value at a place of the arguments."""
    for key in path:
        arguments = arguments[key]
    return arguments


def like(answer: str | None, gold: Any) -> Any:
    """Return an answer as a value of the right one's kind, as far as it can be one; nothing is an empty text."""
    if answer is None:
        return ""
    if isinstance(gold, bool) or not isinstance(gold, int | float):
        return answer
    try:
        if isinstance(gold, int) and (whole := re.fullmatch(r"\s*([+-]?\d+)(?:\.0*)?\s*", answer)):
            return int(whole[1])
        number = float(answer)
    except ValueError:
        return answer
    if isinstance(gold, int) and number.is_integer():
        return int(number) if abs(number) < MOST_EXACT else answer
    return number


def tools_task(task: Task) -> ToolsTask:
    """Return a task of the tools track. Raises TaskError for another track's."""
    opened = task.opened if isinstance(task, FoldedTask) else task
    if not isinstance(opened, ToolsTask):
        raise TaskError(f"{task.id}: is no task of the tools track")
    return opened
