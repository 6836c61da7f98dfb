"""The web track with an agent that plans and acts by itself."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...data.folded import FoldedTask
from ...data.task import Check, Fact, Task
from ...data.web.load import load_web
from ...data.web.task import WebTask, web_task
from ...policies.files import load_policy
from ...policies.lm import CallRole, Message, Tool, ToolCall
from ...policies.policy import MemoryPolicy
from ...policies.prompts import Templates, render
from ..agent import AsBound, ModelAgent, Sight, refuse_replay, thought
from ..episode import Bounds, Episode, Event, EventKind, Mark, StageRecord
from ..planned import Seen
from ..rollout import AssistantRollout
from ..track import Cast, FactPrompt, Rollout, memory_calls
from .action import Action
from .desk import WebDesk
from .outline import MOST_FOREIGN_PIECES, Outline
from .prefix import Prefix
from .track import WebTrack, most_read

MOST_ACTIONS = 50
"""Of an episode, those of a prefix left out; as in MemGym."""
SOLVED = Check("solved", "solved", 0, (), 0.0, "Is the task done?")
"""What the one check of a task is where no plan says which values are needed."""
_TARGET = {"type": "string", "description": 'the element, as [12] or as button "Save"'}
_OPENING = Action("goto")


def _tool(name: str, description: str, *, optional: Sequence[str] = (), **properties: Mapping[str, str]) -> Tool:
    required = [each for each in properties if each not in optional]
    return Tool(name, description, json.dumps({"type": "object", "properties": properties, "required": required}))


def _text(description: str) -> dict[str, str]:
    return {"type": "string", "description": description}


TOOLS = (
    _tool("click", "Clicks an element.", target=_TARGET),
    _tool("type", "Types into a field, in the place of what it has.", target=_TARGET, value=_text("the text")),
    _tool("select", "Selects an option.", target=_TARGET, value=_text("the option's label")),
    _tool("goto", "Opens a page of the app.", value=_text("its path, such as /#/orders")),
    _tool("back", "Goes back to the page before."),
    _tool("key", "Presses a key.", optional=["target"], value=_text("such as Enter or Escape"), target=_TARGET),
    _tool("scroll", "Scrolls the page.", value=_text("up or down")),
    _tool("done", "Says that the task is done. Nothing can be done after that."),
    _tool("fail", "Says that the task cannot be done.", optional=["value"], value=_text("why")),
)


class ModelWebTrack(WebTrack):
    """The web track whose agent is a model; a task has one check, whether its verifier is content in the end."""

    agent = "model"
    turn: CallRole = "reply"

    def __init__(self, templates: Templates, *, prefix: Prefix | None = None) -> None:
        """Begin each episode with the actions of a prefix, where there is one."""
        super().__init__(templates)
        self.prefix = prefix

    def load(self, source: str, *, groups: Collection[str] | None = None) -> Sequence[Task]:
        """Return the tasks that a source names, each as one stage without a plan. Raises TaskError."""
        tasks = map(web_task, load_web(source, instances=groups))
        return [
            FoldedTask.of(replace(task, stages=1, steps=(), facts={}, checks={SOLVED.id: SOLVED})) for task in tasks
        ]

    def begin(
        self,
        task: Task,
        policy: MemoryPolicy,
        cast: Cast,
        *,
        replay: Episode | None = None,
        after: Rollout | None = None,
    ) -> ModelWebRollout:
        """Set up an episode. Raises RecordError where there is a ``replay``, or no record for a prefix."""
        refuse_replay(replay, task=task)
        return ModelWebRollout(self, web_task(task), policy, cast)

    async def bounds(self, task: Task, cast: Cast) -> Bounds:
        """Play the task with the newest messages that fit the budget; that it can be done is known."""
        bare = replace(cast, assistant=AsBound(cast.assistant), reworded=False)
        rollout = ModelWebRollout(self, web_task(task), load_policy("window"), bare)
        try:
            await rollout.go_on(1)
        finally:
            await rollout.aclose()
        floor = {mark.check: mark for record in rollout.records for mark in record.marks}
        return Bounds(floor, {SOLVED.id: Mark(SOLVED.id, "", 1.0)})

    def query(self, task: Task, check: Check) -> str:
        """Return what the agent is asked to do."""
        return render(self.templates.clerk, instruction=web_task(task).instruction)

    def reworded(self, task: Task, check: Check) -> None:
        """Return nothing: the agent is not asked."""

    def most_calls(self, task: Task, policy: MemoryPolicy) -> int:
        """Return a call for each action, and those of memory."""
        before = 0 if self.prefix is None else len(self.prefix.actions(task))
        messages = most_read(web_task(task)) + (MOST_ACTIONS + before + 2) * (1 + MOST_FOREIGN_PIECES)
        acting = MOST_ACTIONS + 1
        return acting + memory_calls(policy, messages=messages, searches=acting)

    def bound_calls(self, task: Task) -> int:
        """Return the calls of an episode of ``window``."""
        return self.most_calls(task, load_policy("window"))

    def tell(self, task: Task, episode: Episode, stage: int, mark: Mark) -> str:
        """Describe how the work ended."""
        events = [event for record in episode.stages for event in record.events if event.kind == "act"]
        acts = [message.content for event in events for message in event.seen][-5:]
        return "\n".join([f"Task: {web_task(task).instruction}", "The last actions:", *acts, f"The end: {mark.raw}"])

    def fact_prompts(self, task: Task, fact: Fact) -> list[FactPrompt]:  # type: ignore[override]
        """Return nothing: no fact is known to be needed."""
        return []


class ModelWebRollout(AssistantRollout[Task]):
    """One episode under way."""

    def __init__(self, track: ModelWebTrack, task: WebTask, policy: MemoryPolicy, cast: Cast) -> None:
        """Begin with the first page."""
        super().__init__(task, policy, cast, track.hints(task))
        self._track, self._web = track, task
        self._desk = WebDesk(task, cast.outside, most=MOST_FOREIGN_PIECES)
        self._before = [] if track.prefix is None else track.prefix.actions(task)
        self._events: list[Event] = []

    async def go_on(self, end: int) -> None:
        """Work until the task is declared done, or given up."""
        if self.records or end < 1:
            return
        await self._work()
        verdict = self._desk.verdict
        self.reward = await self._desk.reward()
        why = "the agent never said that the task is done" if verdict is None else verdict.why
        self.records.append(StageRecord(tuple(self._events), (Mark(SOLVED.id, why, self.reward or 0.0),)))

    async def aclose(self) -> None:
        """Release the memory and the page."""
        await super().aclose()
        await self._desk.aclose()

    async def _work(self) -> None:
        await self._observe_all(self._desk.instruction())
        made, outline = _OPENING, None
        for action in self._before or [_OPENING]:
            made, (outline, seen) = action, await self._desk.act(action)
            await self._observe_all(seen)
        agent = ModelAgent(partial(thought, self.assistant, role="reply"), self._observe, self._act, TOOLS)
        prompt = render(self._track.templates.clerk, instruction=self._web.instruction)
        try:
            await agent.turn(prompt, self._web.instruction, last=_shown(made, outline), most=MOST_ACTIONS)
        except _Ended:
            return

    async def _act(self, name: str, arguments: Mapping[str, Any]) -> Sequence[str] | Sight:
        try:
            action = Action.of(name, arguments)
        except ValueError as error:
            return [f"Error: {error}"]
        outline, seen = await self._desk.act(action)
        if outline is None:
            await self._observe_all(seen)
            raise _Ended
        return Sight(outline.text, seen)

    async def _observe_all(self, seen: Sequence[Seen]) -> None:
        for kind, message in seen:
            await self._observe(kind, message)

    async def _observe(self, kind: EventKind, message: Message) -> None:
        self._events += await self.observed(len(self._events), kind, [message])


class _Ended(Exception):  # noqa: N818 - what happened
    """The agent has ended its episode."""


def _shown(action: Action, outline: Outline | None) -> list[Message]:
    """Return an action as the agent's own call, with the page that it has led to."""
    arguments = {"target": action.target, "value": action.value}
    call = ToolCall("call-0", action.name, json.dumps({name: text for name, text in arguments.items() if text}))
    return [
        Message("assistant", "", (call,)),
        Message("tool", "" if outline is None else outline.text, tool_call_id=call.id),
    ]
