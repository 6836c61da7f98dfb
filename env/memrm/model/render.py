"""A write as text: a short prompt for each statement that it may lose, answered by `` Y`` (safe) or `` N``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from ....policies.memory import MemoryEvent
from ....policies.text import STOP_WORDS, sentences, stem, words_in_order
from ...episode import lines_beyond, places_beyond

TEMPLATE = 4
"""Goes up whenever the same event makes other prompts: a checkpoint reads the template that it was trained on."""
ANSWERS = (" Y", " N")
"""Safe and harmful: one token each, the next after the prompt."""
QUESTION = "\nsafe?"
ROLES = frozenset({"user", "assist"})
"""Stems of what verbatim lines begin with."""

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_LABEL = re.compile(r"^[\w-]+: ")


@dataclass(frozen=True, slots=True)
class Prompt:
    """The two parts of a prompt; the text is one after the other."""

    prefix: str
    """The statement, which is the same for every write."""
    suffix: str
    """What the memory holds of it, and the question."""

    @property
    def text(self) -> str:
        """The whole prompt."""
        return self.prefix + self.suffix


@dataclass(frozen=True, slots=True)
class Statement:
    """Something that a write may lose: a sentence of an evicted message, or a line that left the memory."""

    origin: Literal["said", "gone"]
    place: int
    """0-based place of the message among the evicted ones, or of the line in the old memory."""
    sentence: int
    """0-based place of the sentence in its message; 0 for a line."""
    prompt: Prompt


def statements(event: MemoryEvent) -> list[Statement]:
    """Return what a write may lose, each with its prompt; empty where it can lose nothing.

    A prompt says how many words of a statement are in the most similar line of the new memory, and how long that line
    is. Where words are missing, it lists the words that are there, the words that are not, the words of new lines that
    nobody said, and the number of lines before and after. For a removed line it says how many lines were newer: an old
    line is often out of date.

    Only what users and tools say counts, unless they say nothing. Stamps such as ``[Current Time: ...]`` do not count,
    nor sentences of small words only, nor removed lines of which no word is missing.

    Raises ValueError for an event that has no text to judge: see ``unreadable``.
    """
    problem = unreadable(event)
    if problem is not None:
        raise ValueError(f"this write cannot be judged: {problem}")
    now = [_known(line) for line in dict.fromkeys(event.after)]
    unheard = " ".join(_unheard(event))
    new = f"\nnew: {unheard}" if unheard else ""
    size = f"\nlines: {_about(len(event.before))} to {_about(len(event.after))}"
    stated = []
    for place, sentence, text in _said(event):
        held = _held_against(now, text)
        if held.count:
            stated.append(Statement("said", place, sentence, held.prompt("said", new, size if held.kept else "")))
    for place in places_beyond(event.before, event.after):
        held = _held_against(now, event.before[place])
        if held.kept < held.count:
            newer = _about(len(event.before) - place - 1)
            stated.append(Statement("gone", place, 0, held.prompt("gone", new, f"{size}, {newer} newer")))
    return stated


def whole_prompt(event: MemoryEvent) -> str:
    """Return an event as one prompt: for models that take no other. Raises ValueError as ``statements``."""
    prompts = [statement.prompt.text.removesuffix(QUESTION) for statement in statements(event)]
    return "\n".join([*prompts, "Is all of it safe?\n\nAnswer:"])


def unreadable(event: MemoryEvent) -> str | None:
    """Return why an event cannot be judged: it is empty, or is not text; None when it can."""
    texts: list[object] = [*(message.content for message in event.evicted), *event.before, *event.after]
    for text in texts:
        if not isinstance(text, str):
            return f"it holds {type(text).__name__}, not text"
        if not _is_text(text):
            return f"it holds characters that are not text, in {text[:40]!r}"
    said = any(message.content.strip() for message in event.evicted)
    if not said and Counter(event.before) == Counter(event.after):
        return "it is empty: nothing was said, and nothing changed"
    return None


@lru_cache(maxsize=1 << 15)
def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return _CONTROL.search(text) is None


def _said(event: MemoryEvent) -> Iterator[tuple[int, int, str]]:
    """Yield places of messages, of sentences in them, and the sentences."""
    own = [i for i, message in enumerate(event.evicted) if message.role in {"user", "tool"}]
    for place in own or range(len(event.evicted)):
        for number, sentence in enumerate(sentences(event.evicted[place].content)):
            if not (sentence[0] == "[" and sentence[-1] == "]"):
                yield place, number, sentence


def _unheard(event: MemoryEvent) -> Iterator[str]:
    """Yield the words of added lines that neither a message nor a removed line has; labels do not count."""
    removed, added = lines_beyond(event.before, event.after), lines_beyond(event.after, event.before)
    if not added:
        return
    heard = ROLES.union(*map(_known, [*(message.content for message in event.evicted), *removed]))
    for line in added:
        yield from (word for word in _LABEL.sub("", line).split() if not heard.issuperset(_content(word)))


@dataclass(frozen=True, slots=True)
class _Held:
    """A text held against the line of the memory that is most like it."""

    words: tuple[str, ...]
    there: tuple[bool | None, ...]
    """Of each word, whether the line has it; None for small words."""
    length: int
    """Of the line, in different words."""

    @property
    def kept(self) -> int:
        """Words that are there, small ones aside."""
        return self.there.count(True)

    @property
    def count(self) -> int:
        """Words that might be, small ones aside."""
        return self.kept + self.there.count(False)

    def prompt(self, origin: str, *about_the_write: str) -> Prompt:
        """Return the prompt about it; what is said about the write counts where a word is missing."""
        text = f"{self.kept} of {self.count} in {self.length}" if self.kept else f"0 of {self.count}"
        if 0 < self.kept < self.count:
            text += f": {self._those(True)} / {self._those(False)}"
        if self.kept < self.count:
            text += "".join(about_the_write)
        return Prompt(f"{origin}: {' '.join(self.words)}\n", f"{text}{QUESTION}")

    def _those(self, there: bool) -> str:
        return " ".join(word for word, is_there in zip(self.words, self.there, strict=True) if is_there is there)


def _held_against(lines: Sequence[frozenset[str]], text: str) -> _Held:
    words = tuple(text.split())
    contents = [_content(word) for word in words]
    wanted = {word for content in contents for word in content}
    best = max(lines, key=lambda line: len(line & wanted), default=frozenset[str]())
    there = tuple(best.issuperset(content) if content else None for content in contents)
    return _Held(words, there, len(best))


def _about(count: int) -> int:
    """Return the nearest of 0, 1, 3, 7, 15 ... that is not above a count: fewer different prompts are left."""
    return (1 << (count + 1).bit_length() - 1) - 1


@lru_cache(maxsize=1 << 15)
def _known(line: str) -> frozenset[str]:
    return frozenset(stem(word) for word in words_in_order(line))


@lru_cache(maxsize=1 << 16)
def _content(word: str) -> tuple[str, ...]:
    return tuple(stem(w) for w in words_in_order(word) if w not in STOP_WORDS)
