"""What a task of the tools track promises, checked where it comes from a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from ..plan import problems_of_plan
from ..task import TaskError
from .task import Path, ToolsTask, value_at
from .workshop.database import domain_of
from .world import Domain, ToolError


def check_task(task: ToolsTask, *, seed: int, branch: int, where: str) -> None:
    """Check a task of a branch of the workshop: all that it names is there.

    Raises TaskError, beginning with ``where``, that names the field.
    """
    domain = domain_of(seed, branch)
    for problem in chain(problems_of_plan(task), _of_steps(task, domain), _of_facts(task), _of_row(task, domain)):
        raise TaskError(f"{where}: {problem}")


def _of_steps(task: ToolsTask, domain: Domain) -> Iterator[str]:
    for place, step in enumerate(task.steps):
        where = f"steps.{place}"
        tools = domain.tools if step.requestor == "assistant" else domain.user_tools
        if step.kind == "call" and step.tool not in tools:
            yield f"{where}.tool: there is no tool {step.tool!r} of the {step.requestor}"
        if step.slots and (step.kind == "say" or step.before):
            yield f"{where}.slots: nobody answers for what is said, or was before"
        for slot in step.slots:
            if not _stands_at(step.arguments, slot.path):
                yield f"{where}.slots: nothing stands at {'.'.join(map(str, slot.path)) or 'no place'} of the arguments"


def _stands_at(arguments: Mapping[str, Any], path: Path) -> bool:
    """Tell whether a path leads to a value in an object or a list."""
    try:
        return (
            bool(path)
            and isinstance(value_at(arguments, path[:-1]), dict | list)
            and value_at(arguments, path) is not None
        )
    except (KeyError, IndexError, TypeError):
        return False


def _of_facts(task: ToolsTask) -> Iterator[str]:
    heard = [{text for step in task.at(stage) for text in step.heard} for stage in range(task.stages)]
    for name, fact in task.facts.items():
        if not fact.sources or not heard[fact.since].issuperset(fact.sources):
            yield f"facts.{name}.sources: stage {fact.since} does not tell it"


def _of_row(task: ToolsTask, domain: Domain) -> Iterator[str]:
    world, criteria = domain.open(), task.row.evaluation_criteria
    if task.later:
        yield "later: only calls of a checkout have rows of their own"
    try:
        world.begin(task.row.initial_state)
    except ToolError as error:
        yield f"row.initial_state: {error}"
        return
    for place, assertion in enumerate((criteria and criteria.env_assertions) or ()):
        try:
            world.holds(assertion)
        except ToolError as error:
            yield f"row.evaluation_criteria.env_assertions.{place}: {error}"
