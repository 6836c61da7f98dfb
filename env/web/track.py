"""The web track: a stage is a part of the work at a desk, and a check is a value that a step of the plan needs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...data.chunks import chunks
from ...data.task import Check, Task, TaskError
from ...data.web.checkout import SCHEME
from ...data.web.load import load_web
from ...data.web.task import Step, WebTask, web_task
from ..outside import Outside
from ..planned import PlannedTrack
from ..track import Usual
from .desk import WebDesk
from .outline import MOST_PIECES


class WebTrack(PlannedTrack[Step]):
    """An agent follows a plan in a browser; what it types and clicks memory gives back. After WebArena-Infinity."""

    name, noun, stage_noun = "web", "instance", "stage"
    usual = Usual(data="desks", context_tokens=800)

    def load(self, source: str, *, groups: Collection[str] | None = None) -> Sequence[Task]:
        """Return the tasks that a source names, as ``load_web`` has it. Raises TaskError, also for a checkout's."""
        if source.startswith(SCHEME):
            raise TaskError(f"{source}: has no plans: take an agent that plans by itself, --track web:model")
        return load_web(source, instances=groups)

    def steps(self, task: Task) -> Sequence[Step]:
        """Return the plan."""
        return web_task(task).steps

    def right(self, task: Task, check: Check) -> str:
        """Return the right value."""
        return web_task(task).right(check)

    def most_seen(self, task: Task, step: Step) -> int:
        """Return how many messages memory observes in a step at most."""
        opened = web_task(task)
        return 1 + MOST_PIECES + (most_read(opened) if step is opened.steps[0] else 0)

    def desk(self, task: Task, outside: Outside) -> WebDesk:
        """Sit down before a browser that is not open yet."""
        return WebDesk(web_task(task), outside)


def most_read(task: WebTask) -> int:
    """Return how many messages memory observes of the instruction."""
    return len(chunks(task.instruction))
