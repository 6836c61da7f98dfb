"""Evidence recall: what memory puts before the model, whoever reads it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from ..data.task import Check, Fact, Task
from ..policies.memory import Context
from ..policies.text import sentences, stems, words_in_order

ENOUGH = 0.8
"""Share of a text's content words that stand together where the text counts as shown."""


def evidence(
    task: Task, check: Check, context: Context, *, states: Callable[[Fact, str], bool | None] = lambda fact, text: None
) -> dict[str, bool]:
    """Tell of each fact that a check needs, by id, whether a context holds evidence of it.

    Evidence is a text that ``states`` the fact; or a memory or a message that has most content words of the fact, or of
    the sentence that told it.
    """
    pieces = pieces_of(context)
    facts = {need: task.facts[need] for need in check.needs}
    return {
        need: any(stands_in(telling, pieces) for telling in tellings(fact)) or bool(states(fact, "\n".join(pieces)))
        for need, fact in facts.items()
    }


def recall(shown: Mapping[str, bool]) -> float:
    """Return the share of facts whose evidence is shown, in [0, 1]; NaN where there is none."""
    return sum(shown.values()) / len(shown) if shown else math.nan


def pieces_of(context: Context) -> tuple[str, ...]:
    """Return the memories and the messages that a context shows."""
    return (*(item.text for item in context.items), *(message.content for message in context.messages))


def stands_in(text: str, pieces: Sequence[str]) -> bool:
    """Tell whether one of the pieces has most content words of a text; one without any stands there word by word."""
    wanted = _stems(text)
    if not wanted:
        return bool(text.strip()) and any(_said(text) in _said(piece) for piece in pieces)
    return any(len(wanted & _stems(piece)) >= ENOUGH * len(wanted) for piece in pieces)


def entails(fact: Fact, pieces: Sequence[str]) -> bool | None:
    """Tell whether one of the pieces entails a fact, where their words show it; None where a model has to read them.

    It does where it has most content words of the fact, or of the sentence that told it. It does not where no piece
    shares any of them; that is known only of facts with sources.
    """
    ways = tellings(fact)
    if any(stands_in(telling, pieces) for telling in ways):
        return True
    words = frozenset[str]().union(*map(_stems, ways))
    return False if fact.sources and words and all(words.isdisjoint(_stems(piece)) for piece in pieces) else None


def tellings(fact: Fact) -> Sequence[str]:
    """Return the texts that tell a fact: its own, and the sentences of messages that told it."""
    return fact.text, *(telling(fact.text, source) for source in fact.sources)


@lru_cache(maxsize=1 << 12)
def telling(fact: str, message: str) -> str:
    """Return the sentence of a message that tells a fact: the one that shares most of its words with it.

    Where none shares any, it is the whole message.
    """
    wanted = _stems(fact)
    nearest = max(sentences(message), key=lambda sentence: len(wanted & _stems(sentence)), default=message)
    return nearest if wanted & _stems(nearest) else message


def _said(text: str) -> str:
    return f" {' '.join(words_in_order(text) or text.split())} "


@lru_cache(maxsize=1 << 11)
def _stems(text: str) -> frozenset[str]:
    return frozenset(stems(text))
