"""What a memory still holds of the user's states: decided by the language model that reads it, never by its words."""

from __future__ import annotations

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Literal

from ....data.dialogue.scenario import Scenario
from ....policies.lm import Message, Request
from ....policies.lm.base import LanguageModel
from ....policies.memory import MemoryEvent
from ....policies.prompts import Templates, render
from ...concurrency import side_by_side
from ...dialogue.protocol import read_probe
from ..rows.row import topic

Told = tuple[str, str]
"""A state: an info type and its value."""
PROMPTS = 4
"""Times that a state is asked for."""
FOILS = 12
"""Values of other states among the choices: a reader that guesses hits one of them more often than the right one."""
Known = Literal["yes", "no", "unsure"]
NOT_TOLD = "not_told"
"""The choice for a memory that does not say; it comes first, where a reader without a clue looks."""
HEADING = "Memories of the user, oldest first:"
PLAIN = "What do you know about me and this: {key}?"
"""The second phrasing: without the question that needs the state."""


@dataclass(frozen=True, slots=True)
class Line:
    """One memory, and the states that it can tell: those told in the messages that it was written from."""

    text: str
    states: frozenset[Told]


@dataclass(frozen=True, slots=True)
class Change:
    """One write's memory before and after it."""

    before: tuple[Line, ...]
    after: tuple[Line, ...]

    @property
    def touched(self) -> frozenset[Told]:
        """The states of which the lines that can tell them, or their order, are not what they were."""
        states = frozenset[Told]().union(*(line.states for line in (*self.before, *self.after)))
        return frozenset(state for state in states if able(self.before, state) != able(self.after, state))


def able(lines: Sequence[Line], state: Told) -> list[str]:
    """Return the lines that can tell a state, in their order."""
    return [line.text for line in lines if state in line.states]


def trace(events: Sequence[MemoryEvent], told: Sequence[Iterable[Told]]) -> list[Change]:
    """Return what each write changed; ``told`` are the states of each write's evicted messages.

    A line that is new may also tell what the removed ones told.
    """
    found = []
    lines: tuple[Line, ...] = ()
    for event, states in zip(events, told, strict=True):
        before, left = lines, list(lines)
        kept: list[Line | None] = []
        for text in event.after:
            old = next((line for line in left if line.text == text), None)
            if old is not None:
                left.remove(old)
            kept.append(old)
        fresh = frozenset(states).union(*(line.states for line in left))
        lines = tuple(old or Line(text, fresh) for text, old in zip(event.after, kept, strict=True))
        found.append(Change(before, lines))
    return found


class Reader:
    """Asks a language model for the user's states, several times over; its replies are kept."""

    def __init__(self, scenario: Scenario, model: LanguageModel, templates: Templates) -> None:
        """Read for one user."""
        self._scenario, self._model, self._templates = scenario, model, templates
        self._read: dict[tuple[Told, tuple[Message, ...]], Known] = {}
        self._asking: defaultdict[tuple[Told, tuple[Message, ...]], asyncio.Lock] = defaultdict(asyncio.Lock)
        self.calls = 0

    @cached_property
    def queries(self) -> Mapping[str, str]:
        """The first question that asks for each info."""
        return {info: q.query for q in reversed(self._scenario.qas) for info in q.required_info}

    async def from_memory(self, state: Told, lines: Sequence[Line]) -> Known:
        """Tell whether a memory tells a state: the model reads the lines that can tell it, in their order."""
        texts = able(lines, state)
        if not texts:
            return "no"
        listed = "\n".join(f"- {text}" for text in texts)
        return await self._ask(state, (Message("system", f"{HEADING}\n{listed}"),))

    async def from_talk(self, state: Told, heard: Sequence[Message]) -> Known:
        """Tell whether messages tell a state."""
        return await self._ask(state, tuple(heard))

    async def _ask(self, state: Told, context: tuple[Message, ...]) -> Known:
        place = state, context
        async with self._asking[place]:
            if place not in self._read:
                prompts = self._prompts(state[0])
                right = await side_by_side(self._is_right(prompt, state, context) for prompt in prompts)
                self._read[place] = "yes" if all(right) else "unsure" if any(right) else "no"
        return self._read[place]

    async def _is_right(self, prompt: str, state: Told, context: tuple[Message, ...]) -> bool:
        self.calls += 1
        completion = await self._model.complete(Request((*context, Message("user", prompt)), role="probe"))
        return (read_probe(completion.text) or {}).get(state[0]) == state[1]

    def _prompts(self, info: str) -> Iterable[str]:
        """Yield each phrasing with the values in one order and in the other, each time among other foils."""
        values, foils = self._scenario.state_schema[info], self._foils[info]
        asked = (self.queries[info], render(PLAIN, key=info.replace("_", " ")))
        for i, (query, order) in enumerate(product(asked, (values, values[::-1]))):
            yield _probe(self._templates.probe, query, info, [NOT_TOLD, *foils[i], *order])

    @cached_property
    def _foils(self) -> Mapping[str, Sequence[Sequence[str]]]:
        """For each info and each of its prompts the values of states about other topics."""
        schema, found = self._scenario.state_schema, {}
        for info in self.queries:
            others = [v for other, values in schema.items() if topic(other) != topic(info) for v in values]
            random.Random(f"foils:{self._scenario.id}:{info}").shuffle(others)
            found[info] = [others[i * FOILS : (i + 1) * FOILS] for i in range(PROMPTS)]
        return found


def _probe(template: str, query: str, info: str, values: Sequence[str]) -> str:
    line = f"{json.dumps(info)}: {json.dumps(list(values), ensure_ascii=False)}"
    whole = json.dumps({info: list(values)}, ensure_ascii=False, indent=2)
    return render(template, query=query, schema=line, schema_json=whole)
