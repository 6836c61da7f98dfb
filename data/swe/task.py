"""A task: a bug of a repository, and a plan of commands whose values have to be remembered."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..folded import FoldedTask
from ..task import Check, Fact, Task, TaskError
from ..values import Values


@dataclass(frozen=True, slots=True)
class Slot(Values):
    """A value of a command that the agent answers from memory."""

    name: str
    """It stands as {name} in the command."""
    check: str
    """The id of the check."""


@dataclass(frozen=True, slots=True)
class Step(Values):
    """A shell command of the plan, run in the repository's root."""

    stage: int
    """0-based."""
    command: str
    """With {name} for each slot."""
    right: Mapping[str, str] = field(default_factory=dict)
    """The right value of each slot, by the slot's name."""
    slots: tuple[Slot, ...] = ()

    @property
    def gold(self) -> str:
        """The command with the right values."""
        return self.filled({slot.check: self.right[slot.name] for slot in self.slots})

    def filled(self, answers: Mapping[str, str | None]) -> str:
        """Return the command with the answers, by check, each quoted for the shell; None is an empty text.

        Braces that are no slot's stay as they are; a null character, which no command can have, is left out.
        """
        words = {slot.name: shlex.quote((answers[slot.check] or "").replace("\0", "")) for slot in self.slots}
        return re.sub(r"\{(\w+)\}", lambda match: words.get(match[1], match[0]), self.command)


@dataclass(frozen=True, slots=True)
class SweTask(Values):
    """A task of the swe track."""

    id: str
    group: str
    """The bug; for rows of SWE-bench and SWE-Gym, the repository."""
    stages: int
    problem: str
    """The problem statement, which is observed before the first command of stage 0."""
    files: Mapping[str, str]
    """The repository with the bug, by path; empty where the image has it."""
    patch: str
    """The reference repair, a unified diff."""
    test_command: str
    """It runs the tests whose names follow, or all."""
    fail_to_pass: tuple[str, ...]
    """Tests that fail before the repair and pass after it."""
    pass_to_pass: tuple[str, ...]
    """Tests that pass before and after."""
    test_patch: str = ""
    """A unified diff that brings the tests along; empty where the repository has them."""
    image: str = ""
    """The name of a published image; empty for the base that is made on the machine."""
    base: str = ""
    """The commit at which the repository has its tests as they were; empty for the newest."""
    steps: tuple[Step, ...] = ()
    """The plan, in its order; empty where only an agent that plans by itself can play."""
    facts: Mapping[str, Fact] = field(default_factory=dict)
    checks: Mapping[str, Check] = field(default_factory=dict)

    def right(self, check: Check) -> str:
        """Return the right answer to a check."""
        return next(step.right[slot.name] for step in self.steps for slot in step.slots if slot.check == check.id)


def swe_task(task: Task) -> SweTask:
    """Return a task of the swe track. Raises TaskError for another track's."""
    opened = task.opened if isinstance(task, FoldedTask) else task
    if not isinstance(opened, SweTask):
        raise TaskError(f"{task.id}: is no task of the swe track")
    return opened
