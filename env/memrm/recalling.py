"""What a policy's memory would still tell, found from recorded talks without a question being asked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...data.scenario import Scenario
from ...policies.lm import Message
from ...policies.lm.base import Embedder, LanguageModel
from ...policies.memory import Memory, MemoryEvent
from ...policies.policy import MemoryPolicy
from ..evolution import told_schema
from ..protocol import Protocol, answer_prompt
from ..transcript import Transcript
from .scoring import RewardModel


@dataclass(frozen=True, slots=True)
class Recalled:
    """What a memory would still tell of one user."""

    share: float
    """Probability that it tells all that a question needs, mean over periods and questions, in [0, 1]; NaN where no
    state that a question needs was told, or one could not be scored."""
    words: float
    """Of what the model reads before a question, memories and buffer, mean over periods and questions."""


@dataclass(frozen=True, slots=True)
class _Need:
    """A state that a question needs in a period."""

    question: tuple[int, int]
    """Period and question, 0-based."""
    event: MemoryEvent | None
    """The message that told it, held against what memory shows for the question; None while the buffer has it."""


async def recall(
    policy: MemoryPolicy,
    scenario: Scenario,
    talk: Transcript,
    reward: RewardModel,
    *,
    model: LanguageModel,
    embedder: Embedder,
    protocol: Protocol,
) -> Recalled:
    """Return what a policy's memory would tell: it listens to a recorded talk and writes, and is asked nothing.

    Raises what the model raises.
    """
    needs, words = await _needs(policy, scenario, talk, model, embedder, protocol)
    written = [need.event for need in needs if need.event is not None]
    scores = iter(reward.score(written).tolist())
    found: dict[tuple[int, int], float] = {}
    for need in needs:
        p_safe = 1.0 if need.event is None else next(scores)
        found[need.question] = found.get(need.question, 1.0) * p_safe
    share = float(np.mean(list(found.values()))) if found else math.nan
    return Recalled(share, float(np.mean(words)))


async def _needs(
    policy: MemoryPolicy,
    scenario: Scenario,
    talk: Transcript,
    model: LanguageModel,
    embedder: Embedder,
    protocol: Protocol,
) -> tuple[list[_Need], list[int]]:
    memory = Memory(told_schema(policy, scenario), model, embedder)
    told: dict[str, Message] = {}
    found: list[_Need] = []
    words: list[int] = []
    for p, (period, sessions) in enumerate(zip(scenario.periods, talk, strict=True)):
        for session, turns in zip(period.sessions, sessions, strict=True):
            told |= dict.fromkeys(session.exposed_states, Message("user", turns[0].user))
            for turn in turns:
                await memory.observe([Message("user", turn.user), Message("assistant", turn.assistant)])
        for q, question in enumerate(scenario.qas):
            template = policy.prompts.answer or protocol.templates.answer
            listing = await memory.listing(answer_prompt(template, question, compat=protocol.compat))
            lines = tuple(line.removeprefix("- ") for line in listing.splitlines())
            words.append(len(listing.split()) + sum(len(m.content.split()) for m in memory.snapshot().buffer))
            messages = [told[info] for info in question.required_info if info in told]
            found += (_Need((p, q), event) for event in _held(messages, lines, memory.snapshot().buffer))
    return found, words


def _held(
    messages: Sequence[Message], lines: tuple[str, ...], buffer: Sequence[Message]
) -> Iterator[MemoryEvent | None]:
    """Yield each message held against memory; None for one that is still in the buffer."""
    for message in messages:
        yield None if message in buffer else MemoryEvent((message,), lines, lines)
