"""A talk between an agent that plans by itself and a customer whom a model plays."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...data.chunks import chunks
from ...data.task import Check
from ...data.tools.observation import as_json, observed
from ...data.tools.task import Step, ToolsTask, like, value_at
from ...data.words import has_words
from ...policies.lm import LanguageModel, LanguageModelError, Message, Refused, Request
from ...policies.prompts import Templates, render
from ...policies.text import whole
from ..agent import MOST_PIECES, NO_OBJECT, ModelAgent, Observe, Think, arguments_of, tool_of
from ..episode import Mark
from .agent import KINDS, Call, PlannedAgent
from .reward import Reward, rewarded

MOST_ON_A_LINE = 3
"""Exchanges on one thing that the customer says unasked: the agent replies, and the customer answers what it asks."""
MOST_IN_A_TALK = 10
"""Exchanges of a dialogue that the customer only begins."""
MOST_CUSTOMER_CALLS = 4
"""Tools that the customer calls before an answer."""
_NUMBER = re.compile(r"(?<![\w.])(?<!\w-)(?<!\d[/:])(?:0|[1-9]\d*)(?:\.\d+)?(?!\d|[-/:.]\d)")
"""One that is no code, nor part of one, of a date or of a time: codes may begin with zeros or letters."""
DONE = "DONE"
"""What the customer says who has nothing to add."""


class Talk:
    """One dialogue. What the customer says unasked stands in the task; what the agent asks, a model answers.

    The model that plays the customer knows the hidden script; the agent and its memory never meet it.
    """

    def __init__(self, task: ToolsTask, templates: Templates, customer: LanguageModel) -> None:
        """Begin with the databases as the task has them."""
        self._task, self._templates, self._customer = task, templates, customer
        self._played = PlannedAgent(task)
        self._said: list[str] = []
        self._calls, self._replies = 0, 0
        """Those of the stages before."""

    @property
    def reward(self) -> Reward:
        """What the talk is worth as it stands."""
        return rewarded(self._task, self._played.world, self._played.calls, self._played.replies)

    async def stage(self, number: int, think: Think, observe: Observe) -> None:
        """Play a stage: what the customer does, and what the agent makes of it."""
        if self._task.is_scripted:
            self._calls, self._replies = len(self._played.calls), len(self._played.replies)
        agent = ModelAgent(think, observe, self._act, [tool_of(each) for each in self._played.world.tools("assistant")])
        for step in unasked(self._task, number):
            if step.kind == "say" and not step.before:
                await self._exchange(step.text, agent)
            else:
                for message in self._played.do(step, {}):
                    who = {"say": "You", "reply": "Agent"}.get(step.kind)
                    self._said += [f"{who}: {message.content}"] if who else []
                    await observe(KINDS[step.kind], message)

    async def _exchange(self, line: str, agent: ModelAgent) -> None:
        most = calls_a_reply(self._task)
        for left in reversed(range(most_exchanges(self._task))):
            self._said.append(f"You: {line}")
            prompt = render(self._templates.agent, policy=self._played.world.policy, message=line)
            reply = await agent.turn(prompt, line, heard=chunks(line), most=most)
            if reply is not None:
                self._played.replies.append(reply)
                self._said.append(f"Agent: {reply}")
            answer = await self._answer() if left else ""
            if not answer:
                return
            line = answer

    async def _act(self, name: str, arguments: Mapping[str, Any]) -> Sequence[str]:
        self._played.calls.append(Call(name, arguments))
        result = self._played.world.call(name, arguments)
        return observed(name, arguments, result)[: most_pieces(self._task)]

    async def _answer(self) -> str:
        """Return what the customer says to the last reply; empty where there is nothing to add."""
        world, script = self._played.world, "\n".join(self._task.script)
        asked = Message("user", render(self._templates.customer, script=script, talk="\n".join(self._said)))
        tools, done = tuple(map(tool_of, world.tools("user"))), list[Message]()
        for _ in range(MOST_CUSTOMER_CALLS):
            try:
                completion = await self._customer.complete(Request((asked, *done), role="user", tools=tools))
            except Refused as error:  # what the customer cannot say is no fault of the policy's
                raise LanguageModelError(str(error)) from error
            if not completion.tool_calls:
                said = whole(completion.text).strip()
                return "" if said.startswith(DONE) else said
            done.append(Message("assistant", whole(completion.text).strip(), completion.tool_calls))
            for call in completion.tool_calls:
                arguments = arguments_of(call)
                if arguments is None:
                    shown = NO_OBJECT
                else:
                    self._played.calls.append(Call(call.name, arguments, "user"))
                    shown = as_json(world.call(call.name, arguments, "user").value)
                done.append(Message("tool", shown, tool_call_id=call.id))
        return ""

    def mark(self, check: Check) -> Mark:
        """Tell whether the value that a check asks for has been used where the plan uses it: in a call, or a reply.

        What counts is the check's stage; where the task does not say all that the customer says, the whole talk. What
        the customer calls is not the agent's, and has no score.
        """
        step, slot = self._task.place_of(check)
        if step.requestor == "user":
            return Mark(check.id, "", math.nan)
        right = value_at(step.arguments, slot.path)
        calls, replies = self._played.calls[self._calls :], self._played.replies[self._replies :]
        if step.kind == "reply":
            used = [right] if any(_is_said(reply, str(right)) for reply in replies) else []
        else:
            own = [call for call in calls if call.requestor == "assistant" and call.name == step.tool]
            used = [_used(call, slot.path, right) for call in own]
        given = right if right in used else next(reversed(used), None)
        return Mark(check.id, as_json({"value": given}), float(right in used))


def _is_said(reply: str, value: str) -> bool:
    """Tell whether a reply tells a value, whatever the letters' case and the commas in it; numbers count as such."""
    told, wanted = (text.lower().replace(",", "") for text in (reply, value))
    if _NUMBER.fullmatch(wanted):
        return float(wanted) in map(float, _NUMBER.findall(told))
    return has_words(told, wanted)


def _used(call: Call, path: Sequence[str | int], right: Any) -> Any:
    """Return what a call has at a place of its arguments, as a value of the right one's kind; None for nothing."""
    try:
        value = value_at(call.arguments, tuple(path))
    except (KeyError, IndexError, TypeError):
        return None
    return like(value, right) if isinstance(value, str) else value


def unasked(task: ToolsTask, stage: int) -> list[Step]:
    """Return what the customer does in a stage unasked, and what was before the agent."""
    if task.is_scripted:
        return [step for step in task.at(stage) if step.before or step.kind == "say" or step.requestor == "user"]
    opening = next(step for step in task.steps if step.kind == "say" and not step.before)
    return [step for step in task.at(stage) if step.before or step is opening]


def most_exchanges(task: ToolsTask) -> int:
    """Return how often the agent replies at most to what the customer says unasked."""
    return MOST_ON_A_LINE if task.is_scripted else MOST_IN_A_TALK


def calls_a_reply(task: ToolsTask) -> int:
    """Return how many calls an agent makes at most before it replies."""
    planned = sum(step.kind == "call" and step.requestor == "assistant" for step in task.steps)
    return 2 * max(1, planned // task.stages if task.is_scripted else planned) + 2


def most_pieces(task: ToolsTask) -> int:
    """Return how many messages memory observes of one result at most: more where the plan's own results have more."""
    return max(MOST_PIECES, *(len(step.heard) for step in task.steps))
