"""Agents of the tools track, and what becomes of what they do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...data.chunks import chunks
from ...data.tools.load import open_world
from ...data.tools.observation import observed
from ...data.tools.row import Requestor
from ...data.tools.task import Step, ToolsTask, spoken
from ...data.tools.world import World
from ...policies.lm import Message
from ..episode import EventKind
from ..planned import Answers

KINDS: Mapping[str, EventKind] = {"say": "say", "call": "observe", "reply": "act"}
"""What a step is to who observes it."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that was made."""

    name: str
    arguments: Mapping[str, Any]
    requestor: Requestor = "assistant"


@dataclass(slots=True)
class PlannedAgent:
    """Follows the task's plan in a world of its own: planning is held constant, and the arguments are answered.

    A wrong argument is used as it is, with what follows from it in the databases. Where each call has a row of its own,
    a call begins with the world that its row has.
    """

    task: ToolsTask
    world: World = field(init=False)
    calls: list[Call] = field(init=False)
    """Every tool call of the dialogue, the customer's too."""
    replies: list[str] = field(init=False)
    """What the agent has told the customer in the dialogue."""
    _dialogue: ToolsTask = field(init=False)

    def __post_init__(self) -> None:
        """Set the world to where the task begins."""
        self._begin(self.task.dialogues[0])

    def _begin(self, dialogue: ToolsTask) -> None:
        self._dialogue, self.calls, self.replies = dialogue, [], []
        self.world = open_world(dialogue)
        self.world.begin(dialogue.row.initial_state)

    def do(self, step: Step, answers: Answers) -> tuple[Message, ...]:
        """Do a step with the answers in its slots; return what memory observes, one message after another."""
        if self.task.later and (dialogue := self.task.dialogues[step.stage]).row is not self._dialogue.row:
            self._begin(dialogue)
        if step.kind == "say":
            return tuple(Message("user", text) for text in step.heard)
        arguments = step.filled(answers)
        if step.kind == "reply":
            said = spoken(step.text, arguments)
            self.replies.append(said)
            return tuple(Message("assistant", text) for text in chunks(said)[: most_heard(self.task, step)])
        self.calls.append(Call(step.tool, arguments, step.requestor))
        result = self.world.call(step.tool, arguments, step.requestor)
        if step.requestor == "user":
            return ()
        heard = observed(step.tool, arguments, result)[: most_heard(self.task, step)]
        return tuple(Message("user", text) for text in heard)

    def play(self, answers: Answers) -> None:
        """Do every step."""
        for step in self.task.steps:
            self.do(step, answers)


def most_heard(task: ToolsTask, step: Step) -> int:
    """Return how many messages memory observes in a step at most: a wrong call gives back no more than a right one."""
    if step.kind == "call" and step.requestor == "assistant":
        return max(len(other.heard) for other in task.steps)
    return len(step.heard)


def gold_messages(step: Step) -> tuple[Message, ...]:
    """Return what memory observes in a step where every slot is right."""
    return tuple(Message("assistant" if step.kind == "reply" else "user", text) for text in step.heard)
