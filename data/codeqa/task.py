"""A task of the code questions: what an agent reads stage by stage, and what it is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..chunks import BYTES_PER_TOKEN, MOST_CHUNK_TOKENS
from ..task import Check, Fact
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


def problems(task: CodeTask) -> Iterator[str]:
    """Yield what is wrong with a task, each after its field; no model is needed.

    Its parts fit together. Where answers are literals, what tells the facts of a question gives the answer, no
    distractor is the answer, nor does the question hold it.
    """
    parts = list(_parts_at_fault(task))
    yield from parts
    if task.literal and not parts:
        yield from (problem for check in task.checks.values() for problem in _broken_promises(task, check))


def _parts_at_fault(task: CodeTask) -> Iterator[str]:
    yield from (f"{name}: is empty" for name in ("id", "group") if not getattr(task, name).strip())
    yield from (f"{name}: none" for name in ("observations", "checks") if not getattr(task, name))
    for stage, texts in enumerate(task.observations):
        for place, text in enumerate(texts):
            if tokens_of(text) > MOST_CHUNK_TOKENS:
                yield f"observations.{stage}.{place}: more than {MOST_CHUNK_TOKENS} tokens"
    for name in ("values", *(["questions"] if task.literal else [])):
        by_fact = getattr(task, name)
        yield from (f"{name}.{fact}: missing or empty" for fact in task.facts if not by_fact.get(fact, "").strip())
    for name in ("values", "questions", "external", "critical"):
        yield from (f"{name}: there is no fact {fact!r}" for fact in getattr(task, name) if fact not in task.facts)
    for key, fact in task.facts.items():
        yield from (f"facts.{key}.{problem}" for problem in _fact_at_fault(task, key, fact))
    for key, check in task.checks.items():
        yield from (f"checks.{key}.{problem}" for problem in _check_at_fault(task, key, check))
    if task.tokens != (size := sum(tokens_of(text) for texts in task.observations for text in texts)):
        yield f"tokens: the observations have {size}, not {task.tokens}"
    stages = [check.stage for check in task.checks.values()]
    if stages != sorted(stages):
        yield "checks: must be in the order of their stages"


def _fact_at_fault(task: CodeTask, key: str, fact: Fact) -> Iterator[str]:
    if fact.id != key or not key.strip():
        yield f"id: is {fact.id!r}"
    if not fact.text.strip():
        yield "text: is empty"
    if task.literal and fact.key.count(":") < 2:
        yield f"key: must be FILE:KIND:NAME, not {fact.key!r}"
    if not 0 <= fact.since < task.stages:
        yield f"since: there is no stage {fact.since}"
    if fact.until is not None and not fact.since < fact.until < task.stages:
        yield f"until: must be a stage after {fact.since}, not {fact.until}"


def _check_at_fault(task: CodeTask, key: str, check: Check) -> Iterator[str]:
    if check.id != key or not key.strip():
        yield f"id: is {check.id!r}"
    if not 0 <= check.stage < task.stages:
        yield f"stage: there is no stage {check.stage}"
    if not 0 <= check.chance <= 1:
        yield f"chance: must be from 0 to 1, not {check.chance}"
    if not check.text.strip():
        yield "text: is empty"
    if check.question not in task.distractors:
        yield f"question: distractors has no {check.question!r}"
    if not check.needs or len(set(check.needs)) < len(check.needs):
        yield f"needs: names {'a fact twice' if check.needs else 'no fact'}"
    for name in check.needs:
        fact = task.facts.get(name)
        if fact is None:
            yield f"needs: there is no fact {name!r}"
        elif fact.since > check.stage or (fact.until is not None and fact.until <= check.stage):
            yield f"needs: {name!r} does not hold in stage {check.stage}"


def _broken_promises(task: CodeTask, check: Check) -> Iterator[str]:
    answer, last = task.answer(check), task.facts[check.needs[-1]]
    read = {text for batch in task.observations[: check.stage + 1] for text in batch}
    told = not any(set(task.facts[fact].sources) - read for fact in check.needs)
    for problem, holds in {
        "is not in what is read": not told or not any(holds_literal(text, answer) for text in last.sources),
        "is the value of a distractor": any(same_literal(v, answer) for v in task.distractors[check.question]),
        "is in the question": holds_literal(check.text, answer),
    }.items():
        if holds:
            yield f"checks.{check.id}: the answer {answer} {problem}"


def tokens_of(text: str) -> int:
    """Return a text's size in tokens of 4 bytes, rounded up."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)
