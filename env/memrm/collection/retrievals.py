"""What memory brings back before each question, when it listens to a recorded talk and writes."""

from __future__ import annotations

from collections.abc import Sequence

from ....data.task import Fact, Task, checks_at
from ....policies.lm.base import Completion, Embedder, LanguageModel, Request, Usage
from ....policies.memory import MemoryEvent, open_memory
from ....policies.policy import MemoryPolicy
from ...episode import Episode
from ...track import Track
from ..rows.retrievals import Retrieval


async def retrieve(
    policy: MemoryPolicy,
    task: Task,
    replay: Episode,
    *,
    model: LanguageModel,
    embedder: Embedder,
    track: Track,
) -> list[Retrieval]:
    """Return what a policy's memory brings back before each check: it hears what was heard in an episode, and writes.

    Nothing is asked of the model but what the policy writes with. Raises what the model raises.
    """
    memory = open_memory(policy.with_hints(track.hints(task)), model, embedder)
    sources: dict[str, tuple[str, ...]] = {}
    facts_in = _facts_by_source(task)
    retrievals = []
    for stage, record in enumerate(replay.stages):
        for messages in record.heard:
            for message in messages:
                for fact in facts_in.get(message.content, ()):
                    sources[fact.key] = (*sources.get(fact.key, ()), message.content)
            await memory.observe(messages)
        for place, check in enumerate(checks_at(task, stage)):
            keys = (task.facts[fact].key for fact in check.needs)
            needs = tuple(sources[key] for key in keys if key in sources)
            context = await memory.context(track.query(task, check, policy), tokens=None)
            buffer = [message.content for message in context.messages]
            buffer_words = sum(len(text.split()) for text in buffer)
            lines = tuple(item.text for item in context.items)
            buffered = frozenset(text for texts in needs for text in texts if text in buffer)
            retrievals.append(Retrieval(stage, place, needs, buffered, lines, buffer_words))
    return retrievals


def _facts_by_source(task: Task) -> dict[str, list[Fact]]:
    found: dict[str, list[Fact]] = {}
    for fact in task.facts.values():
        for text in dict.fromkeys(fact.sources):
            found.setdefault(text, []).append(fact)
    return found


class RecordedReplies(LanguageModel):
    """Repeats the replies of recorded writes, in their order."""

    name = "recorded"

    def __init__(self, events: Sequence[MemoryEvent]) -> None:
        """Start with the first write."""
        self._texts = iter([text for event in events for text in event.raw])

    async def complete(self, request: Request) -> Completion:
        """Return the next reply."""
        return Completion(next(self._texts), Usage(0, 0))

    async def aclose(self) -> None:
        """There is nothing to close."""
