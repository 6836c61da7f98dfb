"""Research with an agent that plans its searches by itself."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...data.research.task import ResearchTask
from ...data.task import Task
from ...policies.files import load_policy
from ...policies.lm import CallRole, Message, Tool
from ...policies.policy import MemoryPolicy
from ...policies.prompts import render
from ..agent import MOST_PIECES, AsBound, ModelAgent, refuse_replay, thought
from ..episode import Episode, Event, EventKind, Mark
from ..reading import ReadingRollout
from ..slot import read_slot
from ..statistics import nan_mean
from ..track import Cast, Rollout, memory_calls
from .search import index_of
from .track import ResearchTrack, research_of

MOST_SEARCHES = 3
"""Of a turn; then its documents are gone."""
_SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
SEARCH = Tool("search", "Returns the documents that a query is most like.", json.dumps(_SCHEMA))


class ModelResearchTrack(ResearchTrack):
    """The research track whose agent is a model that is given the whole question, and searches for what it needs."""

    agent = "model"
    turn: CallRole = "reply"

    def begin(
        self,
        task: Task,
        policy: MemoryPolicy,
        cast: Cast,
        *,
        replay: Episode | None = None,
        after: Rollout | None = None,
    ) -> ModelResearchRollout:
        """Set up an episode. Raises RecordError where there is a ``replay``."""
        refuse_replay(replay, task=task)
        return ModelResearchRollout(self, research_of(task), policy, cast)

    async def floor(self, task: Task, cast: Cast) -> list[Mark]:
        """Return the marks of the same agent that has nothing but the newest messages that fit the budget."""
        bare = replace(cast, assistant=AsBound(cast.assistant), reworded=False)
        rollout = ModelResearchRollout(self, research_of(task), load_policy("window"), bare)
        try:
            await rollout.go_on(task.stages)
        finally:
            await rollout.aclose()
        return [mark for record in rollout.records for mark in record.marks]

    def bound_calls(self, task: Task) -> int:
        """Return a call for each check of the ceiling, and those of an episode of ``window``."""
        return len(task.checks) + self.most_calls(task, load_policy("window"))

    def most_calls(self, task: Task, policy: MemoryPolicy) -> int:
        """Return a call for each search, check and reply, and those of memory, which may write each piece alone."""
        research = research_of(task)
        sizes = sorted((len(document.pieces) for document in research.documents), reverse=True)
        pieces = 0
        for turn in research.turns:
            found = MOST_SEARCHES * sum(sizes[: _most_found(turn.documents)])
            pieces += found + sum(len(research.documents[place].pieces) for place in turn.notices)
        asked = self.question_calls(task) + research.stages * (MOST_SEARCHES + 1)
        return asked + memory_calls(policy, messages=pieces + research.stages * MOST_PIECES, searches=asked)

    def extras(
        self, tasks: Sequence[Task], episodes: Sequence[Episode], bounds: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the share of chains whose every check was answered rightly, and the tokens that were read."""
        sizes = {task.id: task.stages for task in tasks}
        complete = [e for e in episodes if e.failure is None and len(e.stages) == sizes[e.task]]
        if not complete:
            return {}
        right = [all(mark.score == 1 for record in e.stages for mark in record.marks) for e in complete]
        read = [sum(m.tokens for record in e.stages for seen in record.heard for m in seen) for e in complete]
        return {"whole_chains": round(nan_mean(right), 6), "tokens_read": round(nan_mean(read))}

    def tell(self, task: Task, episode: Episode, stage: int, mark: Mark) -> str:
        """Describe a wrong answer: what was asked, what the documents say, and what was answered."""
        research = research_of(task)
        check = research.checks[mark.check]
        say = [f'The documents say: "{research.facts[fact].text}"' for fact in check.needs]
        given = f"Answer: {read_slot(mark.raw) or 'none'}"
        return "\n".join([f"Question: {check.text}", *say, given, f"Right answer: {research.value_of(check)}"])


class ModelResearchRollout(ReadingRollout[Task]):
    """One episode under way."""

    def __init__(self, track: ModelResearchTrack, task: ResearchTask, policy: MemoryPolicy, cast: Cast) -> None:
        """Begin with the first turn."""
        super().__init__(track, task, policy, cast)
        self._research, self._templates = task, track.templates

    async def observe(self, stage: int) -> list[Event]:
        """Let the agent search; memory observes what comes back, and what the agent says at the end."""
        turn, events = self._research.turns[stage], list[Event]()

        async def observe(kind: EventKind, message: Message) -> None:
            events.extend(await self.observed(len(events), kind, [message]))

        for place in turn.notices:
            for piece in self._research.documents[place].pieces:
                await observe("observe", Message("user", piece))
        agent = ModelAgent(
            partial(thought, self.assistant, role="reply"), observe, partial(self._search, stage), [SEARCH]
        )
        prompt = render(self._templates.searcher, query=self._research.question)
        await agent.turn(prompt, self._research.question, most=MOST_SEARCHES)
        return events

    async def _search(self, stage: int, name: str, arguments: Mapping[str, Any]) -> Sequence[str]:
        query = arguments.get("query")
        if name != SEARCH.name or not isinstance(query, str):
            return [f"Error: there is {SEARCH.name}(query) alone"]
        most = _most_found(self._research.turns[stage].documents)
        found = index_of(self._research.documents).search(query, most=most)
        return [piece for place in found for piece in self._research.documents[place].pieces] or ["Nothing was found."]


def _most_found(documents: Collection[int]) -> int:
    """Return how many documents a search brings at most: as many as the turn's own search."""
    return max(1, len(documents))
