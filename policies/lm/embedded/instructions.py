"""What a prompt that asks for notes asks for, as far as the model understands it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from ...text import stems
from .blocks import ITEM
from .reading import KIN_WORTH
from .sentences import Words, words_of

MOST_KINDS = 24
"""Kinds of information of a prompt that get full attention; with more, each gets less."""
WORDS_OF_A_KIND = 6
"""Words with which a kind is still described precisely."""
WORDS_PER_NOTE = 14
"""Length of a note, in words, where the prompt says nothing about it; in full and in brief it is the next two."""
WORDS_PER_FULL_NOTE = 40
WORDS_PER_BRIEF_NOTE = 7
WORDS_PER_LABEL = 4

_DETAIL = re.compile(
    r"\b((?:every|all|full|with|in) details?|detailed|specifics?|exact(?:ly)?|precise(?:ly)?|in full|verbatim|"
    r"own words)\b",
    re.IGNORECASE,
)
_BRIEF = re.compile(r"\b(brief|briefly|short|concise|terse|keywords?)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of information that a prompt asks for."""

    text: str
    words: Words

    def fit(self, said: Words) -> float:
        """Return how well something said fits, in [0, 1]; what asks for everything fits nothing well."""
        shared = len(said.plain & self.words.plain) + KIN_WORTH * len(said.kin & self.words.kin)
        breadth = max(1.0, len(self.words.plain) / WORDS_OF_A_KIND)
        return shared / (shared + breadth)


def _whether(pattern: str) -> cached_property[bool]:
    """Return a property of instructions: whether their prose matches."""
    return cached_property(lambda instructions: re.search(pattern, instructions.prose, re.IGNORECASE) is not None)


@dataclass(frozen=True)
class Instructions:
    """A prompt without what is to be read."""

    text: str

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """The items of the prompt's lists."""
        lines = [re.sub(r"[*`\"]", "", match[2]).strip() for match in ITEM.finditer(self.text)]
        kinds = [Kind(line, words_of(line)) for line in lines]
        return tuple(kind for kind in kinds if kind.words.all)

    @cached_property
    def prose(self) -> str:
        """The prompt without its lists."""
        return ITEM.sub("", self.text)

    @cached_property
    def care(self) -> float:
        """How much attention each kind gets, in (0, 1]."""
        return min(1.0, MOST_KINDS / max(len(self.kinds), 1))

    @cached_property
    def words_per_note(self) -> int:
        """How long a note is, in words."""
        if _DETAIL.search(self.prose):
            return WORDS_PER_FULL_NOTE
        return WORDS_PER_BRIEF_NOTE if _BRIEF.search(self.prose) else WORDS_PER_NOTE

    own_only = _whether(
        r"\b(only about the user|user's own|users? themselves|about themselves|not (?:about )?other people)\b"
    )
    """Whether other people's doings are to be left out."""
    dated = _whether(r"\b(keep|note|with|include|add)\b[^.\n]*\b(dates?|when it was said)\b")
    """Whether each note is to carry the day on which it was said."""
    replaces = _whether(r"\b(same matter|same subject)\b[^.\n]*\breplaces?\b")
    """Whether news of a matter are to replace what was known of it, even where the words differ more."""
    appends = _whether(r"\b(never (?:overwrite|replace)|keep (?:the )?(?:old|earlier)|do not (?:overwrite|replace))\b")
    """Whether what is known is to be kept beside the news."""
    separate = _whether(r"\b(?:own|separate|specific|distinct|different) labels?\b|\blabels? of (?:its|their) own\b")
    """Whether each matter is to have a label of its own."""

    def kind_of(self, said: Words) -> tuple[Kind | None, float]:
        """Return the kind that fits best and how well, in [0, 1]; many kinds blur each other."""
        fits = [kind.fit(said) for kind in self.kinds]
        best = max(fits, default=0.0)
        return self.kinds[fits.index(best)] if best else None, best * self.care


@lru_cache(maxsize=256)
def read_instructions(text: str) -> Instructions:
    """Read a prompt."""
    return Instructions(text)


def slug(text: str) -> str:
    """Return a label made of a text's first content words, up to its colon."""
    return "_".join(stems(text.split(":", 1)[0])[:WORDS_PER_LABEL])
