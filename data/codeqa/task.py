"""A task of the code questions: what an agent reads stage by stage, and what it is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..task import Check, Fact
from ..values import Values


@dataclass(frozen=True, slots=True)
class CodeTask(Values):
    """Excerpts of files in several stages, and questions on what they say."""

    id: str
    group: str
    """A package or module of the source tree; for MemGym's rows, the repository."""
    observations: Sequence[Sequence[str]]
    """By stage: texts of 200 tokens or fewer, in the order in which they are read."""
    facts: Mapping[str, Fact]
    checks: Mapping[str, Check]
    questions: Mapping[str, str]
    """By fact: how it is asked for alone; empty for MemGym's rows."""
    values: Mapping[str, str]
    """By fact: the literal or name that it states; for MemGym's rows, all that it says."""
    distractors: Mapping[str, Sequence[str]]
    """By question: values that stand elsewhere under the same name, or texts that mislead. None is right."""
    external: frozenset[str]
    """Facts that reading the source tree again would not show."""
    critical: frozenset[str]
    """Facts without which a question cannot be answered."""
    literal: bool
    """Whether answers are literals, which are right or wrong; else they are texts, scored by the facts they state."""
    tokens: int
    """Size of all observations, in tokens of 4 bytes."""

    @property
    def stages(self) -> int:
        """How many batches of files are read."""
        return len(self.observations)

    def answer(self, check: Check) -> str:
        """Return the right answer: the literal of the last fact that a check needs, or all that the facts say."""
        return self.values[check.needs[-1]] if self.literal else "\n".join(self.values[fact] for fact in check.needs)
