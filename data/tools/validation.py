"""What a task of the tools track promises, checked where it comes from a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from ..task import TaskError
from .task import Path, ToolsTask, value_at
from .workshop.database import domain_of
from .world import Domain, ToolError


def check_task(task: ToolsTask, *, seed: int, branch: int, where: str) -> None:
    """Check a task of a branch of the workshop: all that it names is there.

    Raises TaskError, beginning with ``where``, that names the field.
    """
    domain = domain_of(seed, branch)
    problems = chain(_of_steps(task, domain), _of_facts(task), _of_checks(task), _of_row(task, domain))
    for problem in problems:
        raise TaskError(f"{where}: {problem}")


def _of_steps(task: ToolsTask, domain: Domain) -> Iterator[str]:
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
        tools = domain.tools if step.requestor == "assistant" else domain.user_tools
        if step.kind == "call" and step.tool not in tools:
            yield f"{where}.tool: there is no tool {step.tool!r} of the {step.requestor}"
        if step.slots and (step.kind == "say" or step.before):
            yield f"{where}.slots: nobody answers for what is said, or was before"
        for slot in step.slots:
            if slot.check not in task.checks:
                yield f"{where}.slots: there is no check {slot.check!r}"
            elif task.checks[slot.check].stage != step.stage:
                yield f"{where}.slots: check {slot.check!r} is of another stage"
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
        if fact.id != name:
            yield f"facts.{name}.id: is {fact.id!r}"
        if not 0 <= fact.since < task.stages:
            yield f"facts.{name}.since: {fact.since} is none of the {task.stages} stages"
        elif not fact.sources or not heard[fact.since].issuperset(fact.sources):
            yield f"facts.{name}.sources: stage {fact.since} does not tell it"
        if fact.until is not None and not fact.since < fact.until < task.stages:
            yield f"facts.{name}.until: {fact.until} is no stage after {fact.since}"


def _of_checks(task: ToolsTask) -> Iterator[str]:
    if not task.checks:
        yield "checks: there has to be 1 or more"
    asked = Counter(slot.check for step in task.steps for slot in step.slots)
    for name, check in task.checks.items():
        if check.id != name:
            yield f"checks.{name}.id: is {check.id!r}"
        if name not in asked:
            yield f"checks.{name}: no slot of a step asks it"
        if asked[name] > 1:
            yield f"checks.{name}: {asked[name]} slots ask it; each has a check of its own"
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
