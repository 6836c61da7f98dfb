"""What a task of the web track promises, checked where it comes from a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import chain

from ..plan import problems_of_plan, problems_of_slots
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
    for problem in chain(_of_app(task), problems_of_plan(task), _of_steps(task), _of_facts(task)):
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
    for place, step in enumerate(task.steps):
        where = f"steps.{place}"
        if (step.action in ("done", "fail")) != (place == len(task.steps) - 1):
            yield f"{where}.action: {step.action}; the last step is done or fail, and no other"
        yield from (f"{where}.{problem}" for problem in _of_action(step))
        yield from (f"{where}.{problem}" for problem in problems_of_slots(step, f"{step.target}\n{step.value}"))


def _of_action(step: Step) -> Iterator[str]:
    if (step.target or step.action in _TARGETED) and not TARGET.fullmatch(step.target):
        yield f'target: {step.target!r} is no role "name"'
    if step.action in ("type", "select", "key") and not step.value:
        yield f"value: is empty, and the action is {step.action}"
    if step.action == "goto" and not ROUTE.fullmatch(step.value):
        yield f"value: {step.value!r} is no page of the app, which begins with #/"
    if step.action == "scroll" and step.value not in DIRECTIONS:
        yield f"value: {step.value!r} is none of {', '.join(DIRECTIONS)}"


def _of_facts(task: WebTask) -> Iterator[str]:
    needed = {need for check in task.checks.values() for need in check.needs}
    if useless := sorted(task.facts.keys() - needed):
        yield f"facts.{useless[0]}: no check needs it"
    for name, check in task.checks.items():
        for need in check.needs:
            if task.right(check) not in task.facts[need].text:
                yield f"checks.{name}.needs: {need!r} does not tell {task.right(check)!r}"
