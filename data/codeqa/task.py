"""A task of the code questions: what an agent reads stage by stage, and what it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..chunks import BYTES_PER_TOKEN
from ..task import Check, Fact, TaskError
from ..values import Values
from .literals import holds_literal, same_literal


@dataclass(frozen=True, slots=True)
class CodeTask(Values):
    """Excerpts of files in several stages, and questions on what they say."""

    id: str
    group: str
    """A package or module of the source tree; for MemGym's rows, the repository."""
    observations: tuple[tuple[str, ...], ...]
    """By stage: texts of 200 tokens or fewer, in the order in which they are read."""
    facts: Mapping[str, Fact]
    checks: Mapping[str, Check]
    questions: Mapping[str, str]
    """By fact: how it is asked for alone; empty for MemGym's rows."""
    values: Mapping[str, str]
    """By fact: the literal or name that it states; for MemGym's rows, all that it says."""
    distractors: Mapping[str, tuple[str, ...]]
    """By question: values that stand elsewhere under the same name, or texts that mislead. None is right."""
    external: tuple[str, ...]
    """Facts that reading the source tree again would not show."""
    critical: tuple[str, ...]
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


def check_task(task: CodeTask) -> None:
    """Check what a task of literals promises of each question; no model is needed.

    What tells its facts gives the answer, no distractor is the answer, nor does the question hold it. Raises TaskError
    naming the task and the check.
    """
    for check in task.checks.values():
        if set(check.needs) - task.facts.keys() or not check.needs or not 0 <= check.stage < task.stages:
            raise TaskError(f"{task.id}: check {check.id}: needs facts of the task, and one of its stages")
        answer, last = task.answer(check), task.facts[check.needs[-1]]
        read = {text for batch in task.observations[: check.stage + 1] for text in batch}
        for problem, holds in {
            "is not in what is read": any(set(task.facts[fact].sources) - read for fact in check.needs)
            or not any(holds_literal(text, answer) for text in last.sources),
            "is the value of a distractor": any(same_literal(v, answer) for v in task.distractors[check.question]),
            "is in the question": holds_literal(check.text, answer),
        }.items():
            if holds:
                raise TaskError(f"{task.id}: check {check.id}: the answer {answer} {problem}")


def tokens_of(text: str) -> int:
    """Return a text's size in tokens of 4 bytes, rounded up."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)
