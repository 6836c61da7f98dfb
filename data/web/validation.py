"""What a task of the web track promises, checked where it comes from a file."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain

from ..task import TaskError
from .generator import APPS
from .server import MOST_BYTES
from .task import Step, WebTask
from .verifier import changed, state_hash

TARGET = re.compile(r'[a-z]+ "[^"\n]+"')
"""A role and an accessible name."""
ROUTE = re.compile(r"#/[^\s]*")
"""Where a plan may go: a page of its app, and nowhere else."""
DIRECTIONS = ("up", "down")
_TARGETED = frozenset({"click", "type", "select"})


def check_task(task: WebTask, *, where: str) -> None:
    """Check a task of an app that ships: all that it names is there.

    Raises TaskError, beginning with ``where``, that names the field.
    """
    for problem in chain(_of_app(task), _of_steps(task), _of_facts(task), _of_checks(task)):
        raise TaskError(f"{where}: {problem}")


def _of_app(task: WebTask) -> Iterator[str]:
    if task.app not in APPS:  # a file of tasks must not say which code is run
        yield f"app: there is no {task.app!r} among {', '.join(sorted(APPS))}; play a checkout by its own source"
    if not task.instruction.strip():
        yield "instruction: is empty"
    if len(json.dumps(task.state)) > MOST_BYTES:
        yield f"state: is longer than {MOST_BYTES:,} bytes"
    if task.state.get("app") != task.app:
        yield f"state.app: is {task.state.get('app')!r}, not {task.app!r}"
    try:
        wanted = changed(task.state, task.verify)
    except TaskError as error:
        yield str(error)
    else:
        if state_hash(wanted) == state_hash(task.state):
            yield "verify: nothing has to be changed"


def _of_steps(task: WebTask) -> Iterator[str]:
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
        if (step.action in ("done", "fail")) != (place == len(task.steps) - 1):
            yield f"{where}.action: {step.action}; the last step is done or fail, and no other"
        yield from (f"{where}.{problem}" for problem in _of_action(step))
        yield from (f"{where}.{problem}" for problem in _of_slots(task, step))


def _of_action(step: Step) -> Iterator[str]:
    if (step.target or step.action in _TARGETED) and not TARGET.fullmatch(step.target):
        yield f'target: {step.target!r} is no role "name"'
    if step.action in ("type", "select", "key") and not step.value:
        yield f"value: is empty, and the action is {step.action}"
    if step.action == "goto" and not ROUTE.fullmatch(step.value):
        yield f"value: {step.value!r} is no page of the app, which begins with #/"
    if step.action == "scroll" and step.value not in DIRECTIONS:
        yield f"value: {step.value!r} is none of {', '.join(DIRECTIONS)}"


def _of_slots(task: WebTask, step: Step) -> Iterator[str]:
    names = [slot.name for slot in step.slots]
    if sorted(names) != sorted(step.right):
        yield f"right: has {sorted(step.right)}; the slots are {sorted(names)}"
    if len(set(names)) < len(names):
        yield f"slots: {names}; each has a name of its own"
    for slot in step.slots:
        if f"{{{slot.name}}}" not in f"{step.target}\n{step.value}":
            yield f"slots: {{{slot.name}}} stands in neither target nor value"
        if slot.check not in task.checks:
            yield f"slots: there is no check {slot.check!r}"
        elif task.checks[slot.check].stage != step.stage:
            yield f"slots: check {slot.check!r} is of another stage"


def _of_facts(task: WebTask) -> Iterator[str]:
    needed = {need for check in task.checks.values() for need in check.needs}
    for name, fact in task.facts.items():
        if fact.id != name:
            yield f"facts.{name}.id: is {fact.id!r}"
        if name not in needed:
            yield f"facts.{name}: no check needs it"
        if not 0 <= fact.since < task.stages:
            yield f"facts.{name}.since: {fact.since} is none of the {task.stages} stages"
        if fact.until is not None and not fact.since < fact.until < task.stages:
            yield f"facts.{name}.until: {fact.until} is no stage after {fact.since}"


def _of_checks(task: WebTask) -> Iterator[str]:
    if not task.checks:
        yield "checks: there has to be 1 or more"
    asked = Counter(slot.check for step in task.steps for slot in step.slots)
    for name, check in task.checks.items():
        if check.id != name:
            yield f"checks.{name}.id: is {check.id!r}"
        if asked[name] != 1:
            yield f"checks.{name}: {asked[name]} slots ask it; each has a check of its own"
        if not 0 <= check.chance <= 1:
            yield f"checks.{name}.chance: {check.chance} is not in [0, 1]"
        if not check.text.strip():
            yield f"checks.{name}.text: is empty"
        missing = [need for need in check.needs if need not in task.facts]
        if missing or not check.needs:
            yield f"checks.{name}.needs: there is no fact {', '.join(map(repr, missing)) or 'named'}"
            continue
        for fact in (task.facts[need] for need in check.needs):
            if asked[name] == 1 and task.right(check) not in fact.text:
                yield f"checks.{name}.needs: {fact.id!r} does not tell {task.right(check)!r}"
            if fact.since > check.stage:
                yield f"checks.{name}.needs: {fact.id!r} is shown after stage {check.stage}"
            if fact.until is not None and fact.until <= check.stage:
                yield f"checks.{name}.needs: {fact.id!r} does not hold any more at stage {check.stage}"
