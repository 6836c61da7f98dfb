"""How the embedded model reads: sentences compete for attention, and the attended ones speak for an option."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from ..base import Message
from .quantities import Quantity
from .sentences import NO_CODE, Codes, Sentence, Words, codes_of, message_sentences

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Reading:
    """The reader's few parameters."""

    sharpness: float = 7.0
    """How fast attention falls with likeness, beside what is most like what is looked for, >= 0; at 0 all count alike.

    It is the power to which the ratio of likenesses is raised.
    """
    focus: float = 1.5
    """Factor of sharpness in answers that are to rest on memories, >= 1."""
    voice: float = 0.5
    """Log-odds of attention by which a statement of the user about the user leads other people's talk."""
    forgetting: float = 0.8
    """Log-odds of attention that a sentence loses with each doubling of its distance from the end, >= 0."""
    habit: float = 1.8
    """How much less it loses where advice is asked for, and not the fact itself: what was heard first is relied on."""
    kinship: float = 0.3
    """How much a kindred word counts beside the same word when it speaks for an option, in [0, 1]."""

    @property
    def for_advice(self) -> Reading:
        """How it reads where advice is asked for, and not a fact itself."""
        return replace(self, forgetting=self.forgetting - self.habit, habit=0.0)


KIN_WORTH = 0.5
"""Worth of a kindred word in a search, beside that of the same word."""
QUANTITY_WORTH = 2.0
"""Worth of a quantity that fits some options only, beside that of a word."""
LOUD = 2.4
"""What a sentence says when it is half as loud as it can be, in words."""
TIED = 1e-9
"""Scores that differ by no more than this share of the highest are a tie: how a machine rounds never decides."""


FRESH = 2.0
"""Sentences at the end that are fresh in mind."""
BLUR = 0.1
"""Likeness, as a share of the highest, below which differences are not seen."""


class ReadText:
    """Sentences that compete for attention, oldest first."""

    def __init__(self, sentences: Sequence[Sentence], places: Sequence[int] | None = None) -> None:
        """Put these sentences together; ``places`` are theirs in the order of telling, as they stand by default."""
        self.sentences = tuple(sentences)
        self.order = np.arange(len(sentences)) if places is None else np.array(places, dtype=int)
        self.voice = np.array([sentence.voice for sentence in sentences], dtype=float)
        codes = [sentence.said.codes for sentence in sentences]
        self.owners = np.repeat(np.arange(len(codes)), [len(code) for code in codes])
        """The sentence of each word, of shape (words,)."""
        every = np.concatenate([codes_of(frozenset()), *codes])
        self.codes, self.words = np.unique(every, return_inverse=True)
        """The different words, and which of them each word is, of shape (words,)."""
        self._codes_and_end = np.append(self.codes, NO_CODE)

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.sentences)

    @cached_property
    def worth(self) -> Floats:
        """Each different word's worth: its rarity here, less for a group of words."""
        count = len(self)
        seen = np.bincount(self.words, minlength=len(self.codes))
        rare = np.log((1 + count) / np.maximum(seen, 1)) / math.log(1 + count)
        return np.asarray(np.where(self.of_groups, KIN_WORTH, 1.0) * rare)

    @cached_property
    def squares(self) -> Floats:
        """Each different word's squared worth."""
        return np.asarray(self.worth**2)

    @cached_property
    def masses(self) -> Floats:
        """Each sentence's sum of squared worths."""
        return self.sums(self.squares)

    @cached_property
    def of_groups(self) -> NDArray[np.bool_]:
        """Which of the different words name a group of kindred words."""
        return np.asarray(self.codes % 2 == 1)

    def sums(self, values: Floats) -> Floats:
        """Return each sentence's sum of a value of its words; ``values`` are aligned with ``codes``."""
        return np.asarray(np.bincount(self.owners, weights=values[self.words], minlength=len(self)), dtype=float)

    def sums_of_each(self, values: Floats) -> Floats:
        """Return each sentence's sums of several rows of values, of shape (sentences, rows), as ``sums`` adds them up.

        ``values`` have the shape (rows, codes).
        """
        count = len(values)
        places = np.add.outer(np.arange(0, count * len(self), len(self)), self.owners)
        each = np.bincount(places.ravel(), weights=values[:, self.words].ravel(), minlength=count * len(self))
        return np.ascontiguousarray(each.reshape(count, len(self)).T)

    def find(self, codes: Codes) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Tell which different words are among these, aligned with ``self.codes``, and which of these there are."""
        places = self.codes.searchsorted(codes)
        there = self._codes_and_end[places] == codes
        among = np.zeros(len(self.codes), dtype=bool)
        among[places[there]] = True
        return among, there

    def held_by(self, options: tuple[Words, ...]) -> Floats:
        """Tell with 1 which different words each option has, of shape (options, codes); 0 elsewhere."""
        codes, owners = _codes_of_each(options)
        places = self.codes.searchsorted(codes)
        there = self._codes_and_end[places] == codes
        held = np.zeros((len(options), len(self.codes)))
        held[owners[there], places[there]] = 1.0
        return held

    @cached_property
    def age(self) -> Floats:
        """How far each sentence is from the end: doublings, in spans of ``FRESH`` sentences."""
        return np.asarray(np.log2(1.0 + (len(self) - 1 - self.order) / FRESH))

    @cached_property
    def quantities(self) -> tuple[tuple[int, Quantity], ...]:
        """What is counted, with the sentence that says it."""
        return tuple((i, q) for i, sentence in enumerate(self.sentences) for q in sentence.said.quantities)


@lru_cache(maxsize=1 << 12)
def _codes_of_each(options: tuple[Words, ...]) -> tuple[Codes, NDArray[np.intp]]:
    """Return the numbers of all options' words, and the option of each."""
    codes = [option.codes for option in options]
    return np.concatenate(codes), np.repeat(np.arange(len(codes)), [len(code) for code in codes])


def read_messages(messages: Sequence[Message]) -> ReadText:
    """Return all sentences of the messages."""
    return _read(tuple(messages))


@lru_cache(maxsize=64)
def _read(messages: tuple[Message, ...]) -> ReadText:
    sentences: list[Sentence] = []
    places: list[int] = []
    for message in messages:
        said, start = message_sentences(message.role, message.content), len(sentences)
        sentences += said
        places += [start + i for i in (_by_date(said) if message.role == "system" else range(len(said)))]
    return ReadText(sentences, places)


def _by_date(lines: Sequence[Sentence]) -> list[int]:
    """Return the places of a list's lines in the order of telling: dates decide among the lines that have one."""
    places = list(range(len(lines)))
    dated = [i for i in places if lines[i].day]
    for place, i in zip(dated, sorted(dated, key=lambda i: lines[i].day), strict=True):
        places[i] = place
    return places


def attend(context: ReadText, cue: frozenset[str], reading: Reading) -> Floats:
    """Return each sentence's share of attention, aligned with the context's; the shares sum to 1."""
    if not len(context):
        return np.zeros(0)
    codes = codes_of(cue)
    known, there = context.find(codes)
    shared = context.sums(known * context.squares)
    unknown = codes[~there]
    kindred = np.count_nonzero(unknown % 2)
    mass = math.fsum(context.squares[known]) + (len(unknown) - kindred + kindred * KIN_WORTH**2)
    norms = np.sqrt(context.masses * mass)
    like = np.divide(shared, norms, out=np.zeros(len(context)), where=(shared > 0) & (norms > 0))
    odds = reading.sharpness * np.log(BLUR + like / (like.max() or 1.0)) + reading.voice * context.voice
    odds -= reading.forgetting * context.age
    odds = np.exp(odds - odds.max())
    return np.asarray(odds / odds.sum())


def votes(context: ReadText, options: Sequence[Words], reading: Reading) -> Floats:
    """Return how much each sentence speaks for each option, in [0, 1), of shape (sentences, options).

    Only what tells the options apart counts, the more the fewer of them have it. A sentence speaks for several in
    proportion, and the louder the more it says.
    """
    held = context.held_by(tuple(options))
    telling = np.sqrt(1.0 - held.mean(axis=0)) * np.where(context.of_groups, reading.kinship, 1.0)
    spoken = context.sums_of_each(telling * held)
    for place, quantity in context.quantities:
        fits = np.array([any(quantity.within(other) for other in option.quantities) for option in options], dtype=float)
        if 0 < fits.sum() < len(options):
            spoken[place] += QUANTITY_WORTH * fits
    top = spoken.max(axis=1, keepdims=True, initial=0.0)
    return np.asarray(spoken / (top + LOUD))


def weigh(context: ReadText, cue: frozenset[str], options: Sequence[Words], reading: Reading) -> list[float]:
    """Return how much the context speaks for each option, aligned with ``options``, >= 0."""
    if not len(context):
        return [0.0] * len(options)
    return [float(score) for score in attend(context, cue, reading) @ votes(context, options, reading)]


def foremost(scores: Sequence[float]) -> int:
    """Return the place of the highest score, the first in a tie."""
    top = max(scores)
    return next(place for place, score in enumerate(scores) if score >= top * (1.0 - TIED))
