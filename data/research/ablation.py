"""Ablations of a research task: what can be answered with all facts, with none, and from documents alone.

After MemGym's deep-research pipeline (its memory-fact ablation and its hack check), with its thresholds. What is drawn
is drawn from a seed: which documents, and in which order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..chunks import BYTES_PER_TOKEN
from ..task import Check, checks_at
from ..values import Values
from .task import ResearchTask, states

LONG_CONTEXT_TOKENS = 500
"""Of documents that a reader keeps in place of a memory: MemGym's largest budget of notes."""
MOST_DOCUMENTS = 20
"""Of the hack check."""
MOST_CHARACTERS = 1_000
"""Of each of its documents."""

Condition = Literal["all", "none", "long_context", "hack"]


@dataclass(frozen=True, slots=True)
class Verdict(Values):
    """The mean scores of the last turn's checks under each condition, in [0, 1], and what follows from them."""

    all: float
    """With the facts as notes, beside the last turn's documents."""
    none: float
    """With the last turn's documents that state no answer."""
    long_context: float
    """With as many of all documents, in an order that is drawn, as fit 500 tokens."""
    hack: float
    """With up to 20 documents that state no answer, drawn from all."""

    @property
    def reason(self) -> str | None:
        """Why the task is rejected; None where it is accepted."""
        rules = {
            f"with all facts the score is {self.all:.2f}, less than 0.50": self.all < 0.5,
            f"without facts it is {self.none:.2f}, more than 0.50": self.none > 0.5,
            f"the facts add {self.all - self.none:.2f}, less than 0.30": self.all - self.none < 0.3,
            f"documents in place of notes give {self.long_context:.2f}, more than 0.90": self.long_context > 0.9,
            f"documents in place of notes give {self.long_context:.2f}, more than the facts": self.long_context
            > self.all,
            f"documents that state no answer give {self.hack:.2f}, more than 0.45": self.hack > 0.45,
        }
        return next((reason for reason, broken in rules.items() if broken), None)

    @property
    def is_accepted(self) -> bool:
        """Whether every threshold holds."""
        return self.reason is None


def stands_in(task: ResearchTask, check: Check, texts: Sequence[str]) -> float:
    """Return 1 where the right answer of a check stands in one of the texts, else 0: no reader is asked."""
    value = task.value_of(check)
    return float(any(states(text, value) for text in texts))


Scorer = Callable[[ResearchTask, Check, Sequence[str]], float]
"""Scores a check that is answered from texts, in [0, 1]."""


def ablate(task: ResearchTask, score: Scorer, *, seed: int) -> Verdict:
    """Score the checks after the last turn under every condition."""
    checks = checks_at(task, task.stages - 1)
    scores = {
        condition: sum(score(task, check, texts) for check in checks) / len(checks)
        for condition, texts in conditions(task, seed=seed).items()
    }
    return Verdict(scores["all"], scores["none"], scores["long_context"], scores["hack"])


def conditions(task: ResearchTask, *, seed: int) -> Mapping[Condition, Sequence[str]]:
    """Return the texts that a reader is shown under each condition, in their order."""
    last = task.stages - 1
    needs = dict.fromkeys(need for check in checks_at(task, last) for need in check.needs)
    facts = [task.facts[need].text for need in needs]
    bare = [document.text for document in task.read_in(last) if not document.supporting]
    read = [document.text for turn in range(task.stages) for document in task.read_in(turn)]
    others = [document.text for document in task.documents if not document.supporting]
    return {
        "all": [*facts, *_shuffled(bare, f"all:{seed}:{task.id}")],
        "none": _shuffled(bare, f"none:{seed}:{task.id}"),
        "long_context": _fitting(_shuffled(read, f"long:{seed}:{task.id}"), LONG_CONTEXT_TOKENS),
        "hack": [text[:MOST_CHARACTERS] for text in _shuffled(others, f"hack:{seed}:{task.id}")[:MOST_DOCUMENTS]],
    }


def _shuffled(texts: Sequence[str], seed: str) -> list[str]:
    return random.Random(seed).sample(texts, len(texts))


def _fitting(texts: Sequence[str], tokens: int) -> list[str]:
    """Return texts in their order as far as they fit; the last is cut."""
    kept, free = list[str](), tokens * BYTES_PER_TOKEN
    for text in texts:
        if free <= 0:
            break
        kept.append(text.encode("utf-8", "surrogatepass")[:free].decode("utf-8", "ignore"))
        free -= len(text.encode("utf-8", "surrogatepass"))
    return kept
