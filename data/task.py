"""What every kind of task is made of: facts to be remembered, and checks that need them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from .errors import MnemotuneError


class TaskError(MnemotuneError, ValueError):
    """Say what is wrong with tasks, naming the source, the task and the field."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that has to be remembered."""

    id: str
    """Distinct within the task."""
    key: str
    """What it is about: a later fact with the same key replaces it."""
    topic: str
    text: str
    since: int
    """The stage that tells it, 0-based."""
    until: int | None = None
    """The stage that overwrites it; None where it holds to the end."""
    sources: tuple[str, ...] = ()
    """The messages that tell it, in their order; empty where they are not known."""


@dataclass(frozen=True, slots=True)
class Check:
    """Something that is asked after a stage."""

    id: str
    """Distinct within the task."""
    question: str
    """The same for one question at all the stages at which it is asked."""
    stage: int
    """0-based."""
    needs: tuple[str, ...]
    """The ids of the facts that it needs."""
    chance: float
    """Expected score of a blind guess, in [0, 1]."""
    text: str = ""
    """How the question reads."""
    topic: str = ""
    """What it is about; empty: what the first fact is about that it needs."""


class Task(Protocol):
    """One thing to be done under a policy."""

    @property
    def id(self) -> str:
        """Distinct among all tasks of a run."""

    @property
    def group(self) -> str:
        """The unit of splits, pairing and intervals: what tasks of one group share, they can leak to each other."""

    @property
    def stages(self) -> int:
        """How many stages it has, at least 1; checks are asked at the end of each."""

    @property
    def facts(self) -> Mapping[str, Fact]:
        """What has to be remembered, by id."""

    @property
    def checks(self) -> Mapping[str, Check]:
        """What is asked, by id, in the order of stages."""


@dataclass(frozen=True, slots=True)
class Group:
    """Tasks that stay together."""

    id: str
    tasks: tuple[Task, ...]

    @property
    def stages(self) -> int:
        """Stages of its longest task."""
        return max(task.stages for task in self.tasks)


def grouped(tasks: Iterable[Task]) -> list[Group]:
    """Return the groups of tasks, in the order in which they first come."""
    by_group: dict[str, list[Task]] = {}
    for task in tasks:
        by_group.setdefault(task.group, []).append(task)
    return [Group(name, tuple(members)) for name, members in by_group.items()]


def tasks_of(groups: Iterable[Group]) -> list[Task]:
    """Return all tasks of groups, in their order."""
    return [task for group in groups for task in group.tasks]


def checks_at(task: Task, stage: int) -> list[Check]:
    """Return what is asked at the end of a stage."""
    return [check for check in task.checks.values() if check.stage == stage]


def topic_of(task: Task, check: Check) -> str:
    """Return what a check is about; ``none`` where neither it nor a fact that it needs says so."""
    return check.topic or (task.facts[check.needs[0]].topic if check.needs else "none")


def facts_by_source(task: Task) -> dict[str, list[Fact]]:
    """Return the facts that each message tells, by its text."""
    facts: dict[str, list[Fact]] = {}
    for fact in task.facts.values():
        for text in dict.fromkeys(fact.sources):
            facts.setdefault(text, []).append(fact)
    return facts
