"""A write as text: what a reward model reads before it answers `` Y`` (safe) or `` N``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ...policies.memory import MemoryEvent
from ...policies.text import STOP_WORDS, sentences, stem, stems, words_in_order
from ..episode import lines_beyond

TEMPLATE = 1
"""Goes up whenever the same event makes another prompt: a checkpoint reads the template that it was trained on."""
ANSWERS = (" Y", " N")
"""Safe and harmful: one token each, the next after the prompt."""
QUESTION = "\nDoes memory still hold what it should about the user? Y or N\nAnswer:"

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Prompt:
    """The two parts of a prompt; the text is one after the other."""

    prefix: str
    """The memory before and the messages: the same for all writes that meet the same messages with the same memory."""
    suffix: str
    """What the write did, and the question."""

    @property
    def text(self) -> str:
        """The whole prompt."""
        return self.prefix + self.suffix


def render(event: MemoryEvent, *, lines: int | None) -> Prompt:
    """Return an event's prompt.

    Of a long memory, at most ``lines`` lines are shown, those that share most words with what the user said, and the
    number of the others; None shows all. Nothing that the write touched is left out: it is in the suffix. There,
    «» marks words that no longer stand together in any line of the memory.

    Raises ValueError for an event that has no text to judge: see ``unreadable``.
    """
    problem = unreadable(event)
    if problem is not None:
        raise ValueError(f"this write cannot be judged: {problem}")
    return Prompt(_prefix(event, lines), _suffix(event))


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


def _prefix(event: MemoryEvent, lines: int | None) -> str:
    shown = _nearest(event, lines)
    parts = ["Memory:"]
    if len(shown) < len(event.before):
        parts.append(f"{len(event.before) - len(shown)} other lines")
    parts += [f"- {_flat(event.before[i])}" for i in shown]
    parts += ["Said:", *(f"{message.role}: {_flat(message.content)}" for message in event.evicted)]
    return "\n".join(parts) + "\n"


def _nearest(event: MemoryEvent, lines: int | None) -> Sequence[int]:
    """Return the places of the lines to show, in their order."""
    places = range(len(event.before))
    if lines is None or len(places) <= lines:
        return places
    said = {word for message in event.evicted if message.role == "user" for word in stems(message.content)}
    shared = [len(said.intersection(stems(line))) for line in event.before]
    nearest = sorted((i for i in places if shared[i]), key=lambda i: (shared[i], i))[-lines:] if lines else []
    return sorted(nearest)


def _suffix(event: MemoryEvent) -> str:
    removed, added = lines_beyond(event.before, event.after), lines_beyond(event.after, event.before)
    said = [s for message in event.evicted if message.role == "user" for s in _statements(message.content)]
    now = [_known(line) for line in dict.fromkeys(event.after)]
    parts = _listed("Removed:", [_marked(line, now).line for line in removed])
    parts += _listed("Added:", added)
    parts += _listed("Not written:", [marked.line for s in said if (marked := _marked(s, now)).kept < marked.words])
    return "\n".join(parts) + QUESTION


def _listed(title: str, items: Sequence[str]) -> list[str]:
    listed = [f"- {_flat(item)}" for item in items]
    return [title, *listed] if listed else [f"{title} nothing"]


def _statements(text: str) -> Iterator[str]:
    """Yield a message's sentences without stamps such as ``[Current Time: ...]``, which the prefix shows."""
    yield from (sentence for sentence in sentences(text) if not (sentence[0] == "[" and sentence[-1] == "]"))


def _flat(text: str) -> str:
    return " ".join(text.split())


@lru_cache(maxsize=1 << 15)
def _known(line: str) -> frozenset[str]:
    return frozenset(stem(word) for word in words_in_order(line))


@dataclass(frozen=True, slots=True)
class _Marked:
    """A text held against the line of the memory that is most like it."""

    text: str
    """With «» around the words that the line lacks; small words go with the word before them."""
    kept: int
    words: int
    """Words that the line has, and all; small ones do not count."""

    @property
    def line(self) -> str:
        return f"{self.kept} of {self.words}: {self.text}"


def _marked(text: str, lines: Sequence[frozenset[str]]) -> _Marked:
    words = _WORD.findall(text.replace("«", '"').replace("»", '"'))
    contents = [_content(word) for word in words]
    wanted = {word for content in contents for word in content}
    best = max(lines, key=lambda line: len(line & wanted), default=frozenset[str]())
    first = next((content for content in contents if content), ())
    lost, marked, inside = bool(set(first) - best), list[str](), False
    for word, content in zip(words, contents, strict=True):
        lost = bool(set(content) - best) if content else lost
        if lost != inside and inside:
            marked[-1] += "»"
        marked.append(f"«{word}" if lost and not inside else word)
        inside = lost
    return _Marked(" ".join(marked) + ("»" if inside else ""), len(wanted & best), len(wanted))


@lru_cache(maxsize=1 << 16)
def _content(word: str) -> tuple[str, ...]:
    return tuple(stem(w) for w in words_in_order(word) if w not in STOP_WORDS)
