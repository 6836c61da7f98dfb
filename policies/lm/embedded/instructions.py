"""What a prompt that asks for notes asks for, as far as the model understands it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from ...text import stems
from .blocks import ITEM
from .lengths import word_limits
from .meaning import OF_NOTES, sense_of
from .reading import KIN_WORTH
from .sentences import Words, words_of
from .strengths import is_likely_order, strengths_of
from .wording import split_sentences

MOST_KINDS = 24
"""Kinds of information of a prompt that get full attention; with more, each gets less."""
WORDS_OF_A_KIND = 6
"""Words with which a kind is still described precisely."""
WORDS_PER_NOTE = 13
"""Length of a note, in words, where the prompt says nothing about it; in full and in brief it is the next two."""
WORDS_PER_FULL_NOTE = 40
WORDS_PER_BRIEF_NOTE = 6
WORDS_OF_A_SLUG = 4
NOTES_PER_LABEL = 5
"""How many notes of the length that the prompt wants stand under one label of a profile."""
PASSING = 0.5
"""How much a kind is asked for that is named in a sentence, beside one in a list."""
CLEAR = 0.4
"""Strength from which on a prompt asks clearly for what is done or not done, and has no degrees."""
_NAME = re.compile(r"[\w/' -]{1,40}:\s*")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of information that a prompt asks for."""

    text: str
    words: Words
    wanted: float = 1.0
    """How much it is asked for; below 0 where it is to be left out."""

    def fit(self, said: Words) -> float:
        """Return how well something said fits, in [0, 1]; what asks for everything fits nothing well."""
        shared = len(said.plain & self.words.plain) + KIN_WORTH * len(said.kin & self.words.kin)
        breadth = max(1.0, len(self.words.plain) / WORDS_OF_A_KIND)
        return shared / (shared + breadth)


@dataclass(frozen=True)
class Instructions:
    """A prompt without what is to be read."""

    text: str
    is_list: bool = False
    """Whether its items are labels and nothing else."""
    names_kinds: bool = True
    """Whether its sentences name kinds of information; those of a manual name too much to go by."""

    @cached_property
    def _parts(self) -> tuple[tuple[Kind, ...], str]:
        """The kinds of information that the prompt names, and what it says besides."""
        kinds: list[Kind] = []
        prose: list[str] = []
        place, heading = 0, ""
        for match in ITEM.finditer(self.text):
            between = self.text[place : match.start()]
            place = match.end()
            prose.append(between)
            heading = (split_sentences(between) or (heading,))[-1]
            item = re.sub(r"[*`\"]", "", match[2]).strip()
            if self.is_list:
                kinds.append(Kind(item, words_of(item)))
            elif order := _order(item, heading):
                prose.append(f"\n{order}\n")
            else:
                kinds.append(Kind(item, words_of(item), min(_bearing(heading), _bearing(item))))
        prose.append(self.text[place:])
        text = "".join(prose)
        if self.names_kinds and not self.is_list:
            kinds += _named_in_passing(text)
        return tuple(kind for kind in kinds if kind.words.all), text

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of information that the prompt names: in lists, and in passing."""
        return self._parts[0]

    @property
    def lists_kinds(self) -> bool:
        """Whether some of them stand in a list."""
        return any(kind.wanted > PASSING for kind in self.kinds)

    @property
    def prose(self) -> str:
        """The prompt without the lists of kinds."""
        return self._parts[1]

    @cached_property
    def care(self) -> float:
        """How much attention each kind gets, in (0, 1]."""
        return min(1.0, MOST_KINDS / max(len(self.kinds), 1))

    @cached_property
    def _strengths(self) -> Mapping[str, float]:
        return strengths_of(self.prose)

    @cached_property
    def words_per_note(self) -> int:
        """How long a note is, in words: the more, the more strongly the prompt asks for it in full."""
        strength = self._strengths["length"]
        low, high = word_limits(self.prose)
        if strength < 0 and WORDS_PER_NOTE < high < math.inf:  # brief is what is said to be
            strength = 0.0
        extreme = WORDS_PER_FULL_NOTE if strength > 0 else WORDS_PER_BRIEF_NOTE
        words = round(WORDS_PER_NOTE * (extreme / WORDS_PER_NOTE) ** abs(strength))
        return int(max(low, min(high, words)))

    @property
    def words_per_label(self) -> int:
        """How many words the text under a label of a profile may have; a single note may have more."""
        return NOTES_PER_LABEL * self.words_per_note

    @cached_property
    def own(self) -> float:
        """Whose doings are noted: 1 for the user's own only, 0 for those of others a little, -1 for all alike."""
        return self._bounded("own")

    @cached_property
    def speakers(self) -> float:
        """Whose words are noted: the assistant's like the user's at 1, the user's alone from 0 down."""
        return self._bounded("speakers")

    @cached_property
    def dated(self) -> bool:
        """Whether each note is to carry the day on which it was said."""
        return self._strengths["dated"] > CLEAR

    @cached_property
    def replaces(self) -> float:
        """How much more of what was known news replace, even where the words differ more, in [0, 1]."""
        return max(0.0, self._bounded("replace"))

    @cached_property
    def appends(self) -> bool:
        """Whether what is known is to be kept beside the news."""
        return self._strengths["replace"] < -CLEAR

    @cached_property
    def separate(self) -> bool:
        """Whether each matter is to have a label of its own."""
        return self._strengths["labels"] > CLEAR

    def _bounded(self, ability: str) -> float:
        return max(-1.0, min(1.0, self._strengths[ability]))

    def kind_of(self, said: Words) -> tuple[Kind | None, float]:
        """Return the kind that fits best and how well, in [-1, 1]; many kinds blur each other.

        What fits a kind that is to be left out fits the less, below 0 in the end.
        """
        fits = [kind.wanted * kind.fit(said) for kind in self.kinds]
        best, worst = max(fits, default=0.0), min(fits, default=0.0)
        kind = self.kinds[fits.index(best)] if best > 0 else None
        return kind, (max(best, 0.0) + min(worst, 0.0)) * self.care


def _order(item: str, heading: str) -> str:
    """Return an item of a list as an order where it is no kind of information; nothing where it is one.

    A name before it, as in "Brevity: keep it short", is left out; under a heading such as "Do not:" it is read with it.
    """
    name = _NAME.match(item)
    is_named = name is not None and _bearing(name[0]) > 0
    rule = item[name.end() :] if name and is_named else item
    is_turned = bool(heading) and _bearing(heading) < 0 <= _bearing(rule)
    order = f"{heading.rstrip(': ')} {rule}" if is_turned else rule
    is_order = any(sense.is_order for sense in sense_of(rule)[:1]) or (is_turned and not is_named)
    is_order = is_order or is_likely_order(rule)
    bears = any(strengths_of(order)[ability] for ability in OF_NOTES)
    return order if bears and is_order else ""


def _bearing(text: str) -> float:
    """Return -1 where what follows a text is not wanted, else 1."""
    senses = sense_of(text)
    return -1.0 if senses and senses[-1].bearing < 0 else 1.0


def _named_in_passing(text: str) -> Iterator[Kind]:
    """Yield the kinds of information that sentences name.

    What is just mentioned is one where the lexicon knows its words: others may mean anything.
    """
    named = {words: wanted for sense in sense_of(text) for words, wanted in sense.matters}
    matters = {words: wanted for words, wanted in named.items() if not words.isdigit()}
    kinds = (Kind(words, words_of(words), PASSING * wanted) for words, wanted in matters.items())
    return (kind for kind in kinds if kind.words.kin or not 0 <= kind.wanted <= PASSING)


@lru_cache(maxsize=256)
def read_instructions(text: str) -> Instructions:
    """Read a prompt."""
    return Instructions(text)


@lru_cache(maxsize=256)
def read_manual(text: str) -> Instructions:
    """Read a long prompt, for how things are to be noted and not for which."""
    return Instructions(ITEM.sub("", text), names_kinds=False)


@lru_cache(maxsize=256)
def read_labels(text: str) -> Instructions:
    """Read a list of labels: each is a kind, whatever it says."""
    return Instructions(text, is_list=True)


def slug(text: str) -> str:
    """Return a label made of a text's first content words, up to its colon."""
    return "_".join(stems(text.split(":", 1)[0])[:WORDS_OF_A_SLUG])
