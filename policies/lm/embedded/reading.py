"""How the embedded model reads: sentences compete for attention, and the attended ones speak for an option."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from ...text import sentences, stems
from ..base import Message

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Reading:
    """The reader's few parameters."""

    sharpness: float = 12.0
    """How strongly attention goes to the sentences most like the question, >= 0. At 0 all sentences count alike."""
    recency: float = 2.0
    """Log-odds of attention by which the newest sentence leads the oldest, >= 0."""
    own_voice: float = 0.7
    """Log-odds of attention by which a statement of the user about the user leads other talk."""


@dataclass(frozen=True, slots=True, eq=False)
class Sentence:
    """A sentence of the conversation as the reader sees it."""

    text: str
    words: frozenset[str]
    """Stems of its content words."""
    own: bool
    """Whether the user says it of the user."""


_FIRST_PERSON = re.compile(r"\b(i|i'm|i've|i'd|i'll|we|we're|we've|we'd|we'll|my|our|me|us|mine|ours)\b", re.IGNORECASE)
_RELATIVE = (
    r"(?:\w+ ){0,2}(?:sister|brother|mother|mum|mom|father|dad|aunt|uncle|cousin|neighbou?rs?|friends?|colleagues?|"
    r"boss|coworkers?|parents|grand\w+|nieces?|nephews?|flatmate|roommate|teacher|coach|\w+-in-law)"
)
_SOMEBODY_ELSE = re.compile(
    rf"^(?:(?:my|our|a|an|the|one of my|some of my|most of my) {_RELATIVE}|(?:he|she|they|people|everyone|somebody)\b)|"
    rf"\b(?:my|our) {_RELATIVE}(?:'s)? "
    r"(?:has|is|was|says|keeps|swears|lives|loves|always|never|just|went|only|used|does|got)\b",
    re.IGNORECASE,
)
_TIME_PREFIX = re.compile(r"^\[Current Time: [^\]]*\]\s*")
_KEY_VALUE = re.compile(r'^\s*"([^"]+)"\s*:\s*"([^"]*)"\s*,?\s*$')


def about_self(text: str) -> bool:
    """Tell whether a sentence is a statement in the first person about the speaker."""
    return not text.endswith("?") and _FIRST_PERSON.search(text) is not None and _SOMEBODY_ELSE.search(text) is None


@lru_cache(maxsize=1 << 15)
def _sentence(text: str, from_user: bool) -> Sentence:
    return Sentence(text=text, words=frozenset(stems(text)), own=from_user and about_self(text))


@lru_cache(maxsize=1 << 14)
def _message_sentences(role: str, content: str) -> tuple[Sentence, ...]:
    # A system message holds memories: what they say was the user's own, unless marked as the assistant's.
    made = []
    for piece in sentences(_TIME_PREFIX.sub("", content)):
        from_assistant = role == "assistant" or piece.startswith(("- assistant:", "assistant:"))
        made.append(_sentence(piece.removeprefix("- ").removeprefix("user: "), not from_assistant))
    return tuple(made)


class Context:
    """Sentences that compete for attention, oldest first.

    Words are always summed up in sorted order: sets have another order in every process, and sums would differ.
    """

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        """Put these sentences together."""
        self.sentences = tuple(sentences)
        self.own = np.array([sentence.own for sentence in sentences], dtype=float)
        self.root_lengths = np.sqrt([max(1, len(sentence.words)) for sentence in sentences])
        self.places: dict[str, list[int]] = {}
        """The sentences that each word is in."""
        for place, sentence in enumerate(sentences):
            for word in sentence.words:
                self.places.setdefault(word, []).append(place)

    @cached_property
    def weight(self) -> dict[str, float]:
        """Each word's rarity in this context."""
        return _rarity({word: len(places) for word, places in self.places.items()}, len(self.sentences))

    @cached_property
    def masses(self) -> Floats:
        """Each sentence's sum of squared weights."""
        words = sorted(self.places)
        places = [place for word in words for place in self.places[word]]
        squares = np.repeat([self.weight[word] ** 2 for word in words], [len(self.places[word]) for word in words])
        sums = np.bincount(np.array(places, dtype=int), weights=squares, minlength=len(self.sentences))
        return sums.astype(float)


def read_messages(messages: Sequence[Message]) -> Context:
    """Return all sentences of the messages."""
    return _read(tuple(messages))


@lru_cache(maxsize=64)
def _read(messages: tuple[Message, ...]) -> Context:
    return Context([sentence for m in messages for sentence in _message_sentences(m.role, m.content)])


def read_state_lines(text: str) -> Iterator[Sentence]:
    """Yield each line of the form ``"key": "value"`` as a statement of the user."""
    for line in text.splitlines():
        pair = _KEY_VALUE.match(line)
        if pair:
            yield Sentence(text=line, words=frozenset(stems(pair[2])), own=True)


def rarity(documents: Sequence[frozenset[str]]) -> dict[str, float]:
    """Return each word's inverse document frequency in these documents, in (0, 1]."""
    return _rarity(Counter(word for words in documents for word in words), len(documents))


def _rarity(counts: Mapping[str, int], documents: int) -> dict[str, float]:
    top = math.log(1 + documents)
    return {word: math.log((1 + documents) / count) / top for word, count in counts.items()}


def overlap(words: frozenset[str], others: frozenset[str], weight: dict[str, float]) -> float:
    """Return the weighted cosine of two sets of words, in [0, 1]; words without a weight count fully."""
    shared = words & others
    if not shared:
        return 0.0
    norm = _mass(words, weight) * _mass(others, weight)
    return _mass(shared, weight) / math.sqrt(norm) if norm else 0.0


def _mass(words: frozenset[str], weight: Mapping[str, float]) -> float:
    return sum(weight.get(word, 1.0) ** 2 for word in sorted(words))


def attend(context: Context, cue: frozenset[str], reading: Reading) -> Floats:
    """Return each sentence's share of attention, aligned with the context's; the shares sum to 1."""
    count = len(context.sentences)
    if not count:
        return np.zeros(0)
    weight = context.weight
    shared = np.zeros(count)
    for word in sorted(cue.intersection(context.places)):
        shared[context.places[word]] += weight[word] ** 2
    norms = np.sqrt(context.masses * _mass(cue, weight))
    like = np.divide(shared, norms, out=np.zeros(count), where=shared > 0)
    recent = np.arange(count) / max(count - 1, 1)
    odds = np.exp(reading.sharpness * like + reading.recency * recent + reading.own_voice * context.own)
    return np.asarray(odds / odds.sum())


def weigh(context: Context, cue: frozenset[str], options: Sequence[frozenset[str]], reading: Reading) -> list[float]:
    """Return how much the context speaks for each option, aligned with ``options``, >= 0.

    Only words that tell the options apart count, the rarer among the options the more.
    """
    telling = rarity(options) if len(options) > 1 else {}
    shares = attend(context, cue, reading) / context.root_lengths
    heard = frozenset().union(*options).intersection(context.places)
    spoken = {word: telling.get(word, 1.0) ** 2 * float(shares[context.places[word]].sum()) for word in heard}
    return [sum(spoken[word] for word in sorted(words & heard)) for words in options]
