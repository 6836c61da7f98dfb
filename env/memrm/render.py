"""A write as text: what a reward model reads before it answers `` Y`` (safe) or `` N``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ...policies.memory import MemoryEvent
from ...policies.text import STOP_WORDS, sentences, stem, words_in_order
from ..episode import lines_beyond

TEMPLATE = 2
"""Goes up whenever the same event makes another prompt: a checkpoint reads the template that it was trained on."""
ANSWERS = (" Y", " N")
"""Safe and harmful: one token each, the next after the prompt."""
SAID, KEPT, QUESTION = "Said:", "Memory has:", "Is all safe?"
NUMBERS = "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳㉑㉒㉓㉔㉕㉖㉗㉘㉙㉚㉛㉜㉝㉞㉟㊱㊲㊳㊴㊵㊶㊷㊸㊹㊺㊻㊼㊽㊾㊿"
ROLES = ("user", "assist")
"""Stems of what verbatim lines begin with."""

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Prompt:
    """The two parts of a prompt; the text is one after the other."""

    prefix: str
    """What was said: the same for all writes that meet the same messages."""
    suffix: str
    """What the memory has of it, what is gone, and the question."""

    @property
    def text(self) -> str:
        """The whole prompt."""
        return self.prefix + self.suffix


def render(event: MemoryEvent) -> Prompt:
    """Return an event's prompt.

    The prefix has the statements that the messages made, each with a number. The suffix tells what the new memory has
    of each: ``all`` its words, ``none``, or the words that the most similar line of it has; then each removed line of
    which words are missing now, those marked by «»; then the words of added lines that nobody said.

    Raises ValueError for an event that has no text to judge: see ``unreadable``.
    """
    problem = unreadable(event)
    if problem is not None:
        raise ValueError(f"this write cannot be judged: {problem}")
    now = [_known(line) for line in dict.fromkeys(event.after)]
    said = [_held_against(now, statement) for statement in _said(event)]
    gone = [_held_against(now, line) for line in lines_beyond(event.before, event.after)]
    prefix = [f"{_flat(one.text)} {_number(i)}" for i, one in enumerate(said)]
    suffix = [f"{_number(i)} {one.kept}" for i, one in enumerate(said)]
    suffix += [f"gone: {one.marked}" for one in gone if not one.whole]
    suffix += [f"new: {words}" for words in _unheard(event) if words]
    return Prompt("\n".join([SAID, *prefix, ""]), "\n".join([KEPT, *suffix, QUESTION]))


def unreadable(event: MemoryEvent) -> str | None:
    """Return why an event cannot be judged: it is empty, or is not text; None when it can."""
    texts: list[object] = [*(message.content for message in event.evicted), *event.before, *event.after]
    for text in texts:
        if not isinstance(text, str):
            return f"it holds {type(text).__name__}, not text"
        if _CONTROL.search(text) or not _encodes(text):
            return f"it holds characters that are not text, in {text[:40]!r}"
    said = any(message.content.strip() for message in event.evicted)
    if not said and Counter(event.before) == Counter(event.after):
        return "it is empty: nothing was said, and nothing changed"
    return None


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _said(event: MemoryEvent) -> list[str]:
    """Return what the user stated, and where no user spoke, what was said at all.

    Stamps such as ``[Current Time: ...]`` are left out.
    """
    own = [message for message in event.evicted if message.role == "user"]
    spoken = [sentence for message in own or event.evicted for sentence in sentences(message.content)]
    return [sentence for sentence in spoken if not (sentence[0] == "[" and sentence[-1] == "]")]


def _unheard(event: MemoryEvent) -> Iterator[str]:
    """Yield the words of each added line that neither a message nor a removed line has."""
    removed = lines_beyond(event.before, event.after)
    heard = frozenset(ROLES).union(*map(_known, [*(message.content for message in event.evicted), *removed]))
    for line in lines_beyond(event.after, event.before):
        yield " ".join(word for word in _words(line) if not heard.issuperset(_content(word)))


def _number(place: int) -> str:
    """Return a sign that is one word to a tokenizer, also beside digits."""
    return NUMBERS[place] if place < len(NUMBERS) else f"({place + 1})"


def _flat(text: str) -> str:
    return " ".join(text.split())


@lru_cache(maxsize=1 << 15)
def _known(line: str) -> frozenset[str]:
    return frozenset(stem(word) for word in words_in_order(line))


@dataclass(frozen=True, slots=True)
class _Held:
    """A text held against the line of the memory that is most like it."""

    text: str
    there: tuple[bool | None, ...]
    """Of each word, whether the line has it; None for small words."""

    @property
    def whole(self) -> bool:
        """Whether no word is missing."""
        return False not in self.there

    @property
    def kept(self) -> str:
        """The words that are there."""
        if True not in self.there:
            return "all" if self.whole else "none"
        kept = [word for word, there in zip(_words(self.text), self.there, strict=True) if there]
        return "all" if self.whole else " ".join(kept)

    @property
    def marked(self) -> str:
        """The text with «» around the words that are missing; small words go with the word before them."""
        marked, inside = list[str](), False
        lost = next((there is False for there in self.there if there is not None), False)
        for word, there in zip(_words(self.text), self.there, strict=True):
            lost = lost if there is None else not there
            if inside and not lost:
                marked[-1] += "»"
            marked.append(f"«{word}" if lost and not inside else word)
            inside = lost
        return " ".join(marked) + ("»" if inside else "")


def _held_against(lines: Sequence[frozenset[str]], text: str) -> _Held:
    contents = [_content(word) for word in _words(text)]
    wanted = {word for content in contents for word in content}
    best = max(lines, key=lambda line: len(line & wanted), default=frozenset[str]())
    return _Held(text, tuple(best.issuperset(content) if content else None for content in contents))


def _words(text: str) -> list[str]:
    return text.replace("«", '"').replace("»", '"').split()


@lru_cache(maxsize=1 << 16)
def _content(word: str) -> tuple[str, ...]:
    return tuple(stem(w) for w in words_in_order(word) if w not in STOP_WORDS)
