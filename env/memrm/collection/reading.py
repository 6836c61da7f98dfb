"""Which facts texts tell: a language model reads them where their words alone do not show it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Literal

from ....data.task import Fact, Task, facts_by_source
from ....policies.lm.base import LanguageModel, Message, Request
from ...concurrency import side_by_side
from ...evidence import entails
from ...track import FactPrompt, Track

State = tuple[str, str]
"""A fact's key and text: where a value comes back after another, it is the same state."""
HEADING = "Memories of the user, oldest first:"
Known = Literal["yes", "no", "unsure"]
"""Whether texts tell a fact: a model reads it in all prompts, in none, or in some, where words do not show it."""

_Place = tuple[State, tuple[Message, ...]]


def state_of(fact: Fact) -> State:
    """Return the state that a fact describes."""
    return fact.key, fact.text


def facts_stated(track: Track, task: Task) -> Callable[[str], Sequence[Fact]]:
    """Return which facts a message's text tells: it is known to, or, where no source is known, its words show it."""
    by_source = facts_by_source(task)
    unsourced = [fact for fact in task.facts.values() if not fact.sources]

    def of(text: str) -> Sequence[Fact]:
        return [*by_source.get(text, ()), *(fact for fact in unsourced if track.states(task, fact, text))]

    return of


class FactReader:
    """Asks a language model for the facts of one task in several prompts, and keeps what it reads."""

    def __init__(self, track: Track, task: Task, model: LanguageModel) -> None:
        """Ask with the prompts of a track."""
        self.calls = 0
        self._track, self._task, self._model = track, task, model
        self._stated = facts_stated(track, task)
        self._known: dict[_Place, Known] = {}
        self._locks: defaultdict[_Place, asyncio.Lock] = defaultdict(asyncio.Lock)

    def facts_in(self, text: str) -> Sequence[Fact]:
        """Return the facts that a message tells, as ``facts_stated`` has it."""
        return self._stated(text)

    def entailed(self, fact: Fact, lines: Sequence[str]) -> bool | None:
        """Tell whether lines of memory entail a fact, where their words show it; None where a model has to read."""
        if not lines:
            return False
        stated = self._track.states(self._task, fact, "\n".join(lines))
        return entails(fact, lines) if stated is None else stated

    async def from_lines(self, fact: Fact, lines: Sequence[str]) -> Known:
        """Tell whether lines of memory, oldest first, tell a fact: their words show it, or the model reads it."""
        entailed = self.entailed(fact, lines)
        if entailed is not None:
            return "yes" if entailed else "no"
        listed = "\n".join(f"- {line}" for line in lines)
        return await self.from_messages(fact, [Message("system", f"{HEADING}\n{listed}")])

    async def from_messages(self, fact: Fact, messages: Sequence[Message]) -> Known:
        """Tell whether the model reads a fact from messages."""
        place = state_of(fact), tuple(messages)
        async with self._locks[place]:
            if place not in self._known:
                stated = self._track.states(self._task, fact, "\n".join(message.text for message in messages))
                if stated is not None:
                    self._known[place] = "yes" if stated else "no"
                    return self._known[place]
                prompts = self._track.fact_prompts(self._task, fact)
                right = await side_by_side(self._is_right(prompt, messages) for prompt in prompts)
                self._known[place] = "no" if not any(right) else "yes" if all(right) else "unsure"
        return self._known[place]

    async def _is_right(self, prompt: FactPrompt, context: Sequence[Message]) -> bool:
        self.calls += 1
        request = Request((*context, Message("user", prompt.text)), role="probe", form=prompt.form)
        return prompt.is_right((await self._model.complete(request)).text)
