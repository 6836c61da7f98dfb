"""How strongly a text asks for what the model can do."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache

from ...text import words_in_order
from .classifier import NOTHING, POLES, chances_of
from .meaning import ABILITIES, OF_NOTES, WEAK, Sense, sense_of
from .wording import split_sentences, without_places

FELT, NEUTRAL = 0.25, 0.1
"""Strengths from which on an instruction has an effect that is felt, and up to which it has none to speak of."""
LIKELY = 0.5
"""Probability from which on a sentence asks for what its words speak for."""
SURE = 0.8
"""The same of an item of a list, of a sentence of few words, and against what its grammar says of an ability where a
single word is besides those of instructions. Without such a word the grammar stands: it can tell one negation from two.
"""
FEWEST_WORDS = 4
"""Of a sentence of more than a few."""

Chances = Callable[[str], Mapping[str, float]]
"""The probability of each class, for a sentence."""


@lru_cache(maxsize=1 << 10)
def strengths_of(text: str) -> Mapping[str, float]:
    """Return how strongly a text asks for each ability's one pole or, below 0, for the other.

    One plain instruction is 1; more of them, stronger or weaker words go beyond that or not as far, up to 1.3.
    """
    return strengths_by(chances_of, text)


def strengths_by(chances_in: Chances | None, text: str) -> Mapping[str, float]:
    """Return the same with another classifier, or with the grammar alone."""
    senses = zip(split_sentences(text), sense_of(text), strict=True)
    read = [_read(sentence, sense, chances_in) for sentence, sense in senses]
    totals = {ability: sum(each.get(ability, 0.0) for each in read) for ability in ABILITIES}
    return {ability: math.tanh(total) / math.tanh(1.0) for ability, total in totals.items()}


def is_likely_order(sentence: str) -> bool:
    """Tell whether the words of a sentence make it likely that it asks for something of what is written.

    A few words rather name a kind of information.
    """
    chances = chances_of(sentence)
    likeliest = max(chances, key=lambda name: chances[name])
    return (
        likeliest != NOTHING
        and chances[likeliest] >= SURE
        and _least(sentence) == LIKELY
        and POLES[likeliest.removeprefix("not ")][0] in OF_NOTES
    )


def _least(sentence: str) -> float:
    """Return the probability from which on the words of a sentence say what it asks for; above 1 where it has none."""
    count = len(words_in_order(without_places(sentence)))
    return LIKELY if count >= FEWEST_WORDS else SURE if count else math.inf


def _read(sentence: str, sense: Sense, chances_in: Chances | None) -> Mapping[str, float]:
    """Return what a sentence's grammar says, unless its words make another meaning likelier."""
    if chances_in is None or sense.is_form:
        return sense.strengths
    chances = chances_in(sentence)
    likely = _least(sentence)
    if chances[NOTHING] >= likely:
        return {}
    sure = max(likely, _surety(sense))
    strengths = dict(sense.strengths)
    for name, (ability, pole) in POLES.items():
        strength = pole * strengths.get(ability, 0.0)
        least = sure if ability in sense.strengths else likely
        if chances[name] >= least and strength < FELT:
            strengths[ability] = pole
        elif chances[f"not {name}"] >= least and strength >= 0.0:
            strengths[ability] = -WEAK * pole
    return strengths


def _surety(sense: Sense) -> float:
    """Return the probability from which on the words of a sentence prevail over its grammar."""
    if not sense.strengths or sense.strangers > 1:
        return LIKELY
    return SURE if sense.strangers else math.inf
