"""What memory brings back before each question, when it listens to a recorded talk and writes."""

from __future__ import annotations

from collections.abc import Sequence

from ....data.dialogue.scenario import Scenario
from ....policies.lm import Message
from ....policies.lm.base import Completion, Embedder, LanguageModel, Request, Usage
from ....policies.memory import MemoryEvent, open_memory
from ....policies.policy import MemoryPolicy
from ...dialogue.evolution import told_schema
from ...dialogue.protocol import Protocol, answer_prompt
from ...dialogue.transcript import Transcript
from ..rows.retrievals import Retrieval


async def retrieve(
    policy: MemoryPolicy,
    scenario: Scenario,
    talk: Transcript,
    *,
    model: LanguageModel,
    embedder: Embedder,
    protocol: Protocol,
) -> list[Retrieval]:
    """Return what a policy's memory brings back before each question: it listens to a recorded talk and writes.

    Nothing is asked of the model but what the policy writes with. Raises what the model raises.
    """
    memory = open_memory(told_schema(policy, scenario), model, embedder)
    template = policy.prompts.answer or protocol.templates.answer
    told: dict[str, tuple[str, ...]] = {}
    retrievals = []
    for p, (period, sessions) in enumerate(zip(scenario.periods, talk, strict=True)):
        for session, turns in zip(period.sessions, sessions, strict=True):
            told |= {info: (*told.get(info, ()), turns[0].user) for info in session.exposed_states}
            for turn in turns:
                await memory.observe([Message("user", turn.user), Message("assistant", turn.assistant)])
        for q, question in enumerate(scenario.qas):
            needs = tuple(told[info] for info in question.required_info if info in told)
            context = await memory.context(answer_prompt(template, question, compat=protocol.compat), tokens=None)
            buffer = [message.content for message in context.messages]
            buffer_words = sum(len(text.split()) for text in buffer)
            lines = tuple(item.text for item in context.items)
            buffered = frozenset(text for texts in needs for text in texts if text in buffer)
            retrievals.append(Retrieval(p, q, needs, buffered, lines, buffer_words))
    return retrievals


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
