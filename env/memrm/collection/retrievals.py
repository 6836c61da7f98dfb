"""What memory brings back before each check, when it hears a recorded episode and writes."""

from __future__ import annotations

from collections.abc import Sequence

from ....data.task import Task, checks_at
from ....policies.lm.base import Completion, LanguageModel, LanguageModelError, Request
from ....policies.lm.ledger import Usage
from ....policies.memory import MemoryEvent
from ....policies.policy import MemoryPolicy
from ...episode import Episode
from ...track import Cast, Track
from ..rows.retrievals import Retrieval
from .reading import facts_stated


async def retrieve(
    policy: MemoryPolicy, task: Task, replay: Episode, *, model: LanguageModel, cast: Cast, track: Track
) -> list[Retrieval]:
    """Return what a policy's memory brings back before each check: it hears what was heard in an episode, and writes.

    ``model`` writes; of the cast only the embedder is used. Raises what the model raises.
    """
    assistant = cast.assistant_under(policy.with_hints(track.hints(task)), model, cast.embedder)
    facts_in, sources = facts_stated(track, task), dict[str, tuple[str, ...]]()
    retrievals = []
    for stage, record in enumerate(replay.stages):
        for messages in record.heard:
            for message in messages:
                for key in dict.fromkeys(fact.key for fact in facts_in(message.content)):
                    sources[key] = (*sources.get(key, ()), message.content)
            await assistant.memory.observe(messages)
        for check in checks_at(task, stage):
            keys = (task.facts[fact].key for fact in check.needs)
            needs = tuple(sources[key] for key in keys if key in sources)
            context = await assistant.context(track.query(task, check))
            buffer = [message.content for message in context.messages]
            buffered = frozenset(text for texts in needs for text in texts if text in buffer)
            lines = tuple(item.text for item in context.items)
            retrievals.append(Retrieval(check.id, needs, buffered, lines, sum(len(text.split()) for text in buffer)))
    return retrievals


class RecordedReplies(LanguageModel):
    """Repeats the replies of recorded writes, in their order."""

    name = "recorded"

    def __init__(self, writes: Sequence[MemoryEvent]) -> None:
        """Start with the first write."""
        self._replies = iter([reply for write in writes for reply in write.raw])

    async def complete(self, request: Request) -> Completion:
        """Return the next reply. Raises LanguageModelError where there is none."""
        reply = next(self._replies, None)
        if reply is None:
            raise LanguageModelError("memory asks for more replies than its writes have recorded (MemoryEvent.raw)")
        return Completion(reply, Usage(0, 0))
