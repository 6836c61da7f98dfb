"""The swe track: an agent follows a plan of shell commands, and memory gives back what it has seen of a bug."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...data.swe.load import load_swe
from ...data.swe.task import Step, swe_task
from ...data.task import Check, Fact, Task, TaskError
from ..outside import Outside
from ..planned import PlannedTrack
from ..track import Usual
from .desk import SweDesk, course_of, problem
from .observation import MOST_PIECES


class SweTrack(PlannedTrack[Step]):
    """An agent repairs a bug in a container; what the plan's commands need is answered from memory."""

    name, noun, stage_noun = "swe", "bug", "step"
    usual = Usual(data="repairs", context_tokens=500)

    def load(self, source: str, *, groups: Collection[str] | None = None) -> Sequence[Task]:
        """Return the tasks that a source names, as ``load_swe`` has it. Raises TaskError, also without a plan."""
        tasks = load_swe(source, groups=groups)
        if bare := next((task.id for task in tasks if not task.checks), None):
            raise TaskError(f"{source}: task {bare} has no plan: take an agent that plans by itself, --track swe:model")
        return tasks

    def steps(self, task: Task) -> Sequence[Step]:
        """Return the plan."""
        return swe_task(task).steps

    def right(self, task: Task, check: Check) -> str:
        """Return the right value."""
        return swe_task(task).right(check)

    def most_seen(self, task: Task, step: Step) -> int:
        """Return how many messages memory observes in a step at most."""
        opened = swe_task(task)
        return MOST_PIECES + (len(problem(opened)) if step is opened.steps[0] else 0)

    def desk(self, task: Task, outside: Outside) -> SweDesk:
        """Return a desk with a course of its own."""
        opened = swe_task(task)
        return SweDesk(opened, course_of(opened, outside))

    def states(self, task: Task, fact: Fact, text: str) -> bool:
        """Tell whether a line of a text has the value, and a word of what is asked beside it.

        A fact that nothing asks for, as a later one replaces it, has to stand there word for word.
        """
        if any(fact.id in check.needs for check in task.checks.values()):
            return super().states(task, fact, text)
        return fact.text in text
