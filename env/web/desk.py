"""Where the web track's agents work: a page that opens at the first action that has not been recorded."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ...data.chunks import chunks
from ...data.web.task import Step, WebTask
from ...policies.lm import Message
from ..outside import Course, Outside
from ..planned import Answers, Desk, Seen
from .action import ENDS, Action
from .browser import Chromium
from .outline import MOST_PIECES, Outline
from .page import Verdict, WebPage
from .servers import digest_of

FORM = 2
"""Of what is recorded; another one is another start."""


class WebDesk(Desk[Step]):
    """A browser before one task."""

    def __init__(self, task: WebTask, outside: Outside, *, most: int = MOST_PIECES) -> None:
        """Open nothing yet; memory observes what an action shows in ``most`` pieces at most."""
        self._task, self._outside, self._most = task, outside, most
        self._course: Course | None = None
        self._before: Outline | None = None
        self._is_read = False
        self.verdict: Verdict | None = None
        """Of a task that was declared done, or given up."""

    async def do(self, step: Step, answers: Answers) -> Sequence[Seen]:
        """Do a step with the answers in its slots; before the first one, memory observes the instruction."""
        _, target, value = step.filled(answers)
        read = [] if self._is_read else self.instruction()
        _, seen = await self.act(Action(step.action, target, value))
        return [*read, *seen]

    def instruction(self) -> list[Seen]:
        """Return what memory observes of the instruction."""
        self._is_read = True
        return [("say", Message("user", text)) for text in chunks(self._task.instruction)]

    async def act(self, action: Action) -> tuple[Outline | None, list[Seen]]:
        """Do an action; return what the page shows then, if it goes on, and what memory observes.

        That is the action, and what is new on the page; one more than ``most`` messages at most.
        """
        acted: list[Seen] = [("act", Message("assistant", part)) for part in chunks(action.line)[: self._most]]
        course = await self._opened()
        seen = await course.act(action.as_json)
        if action.name in ENDS:
            self.verdict = Verdict.read(seen)
            await course.aclose()  # others wait for its place
            return None, acted
        outline, before = Outline.read(seen), self._before
        self._before = outline
        pieces = outline.pieces(before, most=self._most + 1 - len(acted))
        return outline, [*acted, *(("observe", Message("user", text)) for text in pieces)]

    async def reward(self) -> float | None:
        """Return what the verifier said; 0 where the task was never declared done."""
        return 0.0 if self.verdict is None else self.verdict.reward

    async def rest(self) -> None:
        """Let others have the page's place."""
        if self._course is not None:
            await self._course.rest()

    def fork(self, outside: Outside) -> WebDesk:
        """Return a desk of its own that has the same steps behind it."""
        desk = WebDesk(self._task, outside, most=self._most)
        desk._before, desk._is_read, desk.verdict = self._before, self._is_read, self.verdict
        desk._course = None if self._course is None else self._course.fork(outside)
        return desk

    async def aclose(self) -> None:
        """Close the page, where it is open."""
        if self._course is not None:
            await self._course.aclose()

    async def _opened(self) -> Course:
        if self._course is None:
            version = await self._outside.once("web: major version of the browser", self._version)
            start = json.dumps(["web", FORM, version, digest_of(self._task)])
            outside, task = self._outside, self._task

            async def place() -> WebPage:
                return await WebPage.open(outside, task, version=version)

            self._course = Course(self._outside, start, place)
        return self._course

    async def _version(self) -> str:
        chromium = await self._outside.shared("web browser", Chromium.start)
        return await chromium.version()
