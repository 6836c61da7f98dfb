"""Questions for a value: the reader looks for the place that fits the question best, and copies what stands there."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ...text import STOP_WORDS, sentences, stem
from ..base import Message
from .blocks import fenced

_ASKS = re.compile(r'\{\s*"value"\s*:\s*"<')
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*", re.UNICODE)
_NAME = re.compile(r"[^\W\d]\w*(?:[.-]\w+)*")
_LITERAL = (
    r"(?:[rbfuRBFU]{0,2}(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')|-?[\w.+-]+(?:\([^()]*\))?"
    r"|\[[^\[\]]*\]|\([^()]*\)|\{[^{}]*\})"
)
_PAIR = re.compile(rf"[\"']?([^\W\d][\w.]*)[\"']?\s*(?::\s*[\w.\[\] |]+?\s*=(?!=)|(?<![=!<>])[=:](?!=))\s*({_LITERAL})")
_LABEL = re.compile(r"^\W*([^\W\d][\w '/-]{0,48}):\s+([^\s{\[=][^{=]*?)\s*$")
_SPEAKER = re.compile(r"^(?:- )?(?:(?:user|assistant|tool): )?")
_NEXT_CLAUSE = re.compile(
    r"[;,]?\s+(?:and|but|which|who|where|while|since)\s+(?=(?:is|was|were|are|has|had|also|it|its|he|she|they|first|then)\b)|;\s"
)
_CLASS = re.compile(r"^\s*class\s+(\w+)\s*\(([^()]*)\)")
_RAISE = re.compile(r"\braise\s+([\w.]+)")
_RETURN = re.compile(r"\breturn\s+(.+?)\s*$")
_SCOPE = re.compile(r"^(\s*)(?:async\s+)?(?:def|class)\s+\w+")
_KINDS = {
    "base": re.compile(r"\b(?:base class(?:es)?|inherits?|subclass(?:es)?|derives?|parent class)\b", re.I),
    "raise": re.compile(r"\b(?:raises?|exceptions?)\b", re.I),
    "return": re.compile(r"\breturn(?:s|ed)?\b", re.I),
}
KEY_WORTH = 2.0
"""Worth of a word of the question that names a value, beside one in the line."""
SCOPE_WORTH = 0.7
"""Worth of one in the lines that head the line: the file, the class, the function."""
KIND_WORTH = 4.0
"""Worth of standing where the question's kind of value stands: what is raised, returned or inherited."""
SENTENCE_WORTH = 0.5
"""Worth of what a sentence says beyond the question, beside that of a value that is named."""
LONGEST_LABELLED = 8
"""Words of a value after a label; more are a sentence after its topic."""
SHORTEST_SENTENCE = 4
"""Words from which on what ends in a full stop is a sentence."""
LATER = 0.02
"""Worth of standing after all other lines."""
_EDGE = frozenset({*STOP_WORDS, "called", "named", "e.g", "i.e"})


@dataclass(frozen=True, slots=True)
class _Value:
    """A value, and what names it."""

    text: str
    key: frozenset[str]
    kind: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line, and those above it that head it."""

    text: str
    heads: tuple[str, ...]


def asks_value(text: str) -> str | None:
    """Return the question of a prompt that asks for one value as JSON; None where it asks for something else."""
    return text.strip().split("\n\n", 1)[0] if _ASKS.search(text) else None


def answer_value(question: str, history: Sequence[Message]) -> str:
    """Copy the value that fits the question best out of the conversation; nothing where there is none."""
    lines = [line for message in history for line in lines_of(message.role, message.content)]
    asked, kind = _words(question), next((name for name, words in _KINDS.items() if words.search(question)), "pair")
    rarity = _rarity(lines)
    asked &= rarity.keys()
    best, top = "", 0.0
    for place, line in enumerate(lines):
        words = _words(line.text)
        said = sum(rarity[word] for word in sorted(asked & words))
        said += SCOPE_WORTH * sum(rarity[word] for word in sorted(asked & _words(" ".join(line.heads)) - words))
        for value in (*_named(line.text), *_stated(line.text, asked)):
            is_named = value.kind in _KINDS or not asked.isdisjoint(value.key)
            score = said + KEY_WORTH * sum(rarity[word] for word in sorted(asked & value.key))
            if is_named:
                score += KIND_WORTH * (value.kind == kind) - KIND_WORTH * (value.kind in _KINDS and value.kind != kind)
            else:
                score *= SENTENCE_WORTH
            score += LATER * place / max(1, len(lines))
            if said > 0 and score >= top:
                best, top = value.text, score
    return fenced({"value": best})


def _rarity(lines: Sequence[Line]) -> dict[str, float]:
    """Return each word's rarity in the lines."""
    seen = Counter(word for line in lines for word in _words(" ".join((line.text, *line.heads))))
    return {word: math.log((1 + len(lines)) / count) + 0.1 for word, count in seen.items()}


@lru_cache(maxsize=1 << 12)
def lines_of(role: str, content: str) -> tuple[Line, ...]:
    """Return a message's lines; a block's first line heads it, and in code what encloses a line does so too."""
    lines: list[Line] = []
    head, scopes = "", list[tuple[int, str]]()
    for text in content.splitlines():
        if not text.strip():
            continue
        begins = not lines or (role == "system" and text.startswith("- "))
        if begins:
            head, scopes = text, []
        scope = _SCOPE.match(text)
        if scope is not None:
            scopes = [(depth, said) for depth, said in scopes if depth < len(scope[1])]
        heads = () if begins else (head, *(said for depth, said in scopes if depth < _indent(text)))
        lines.append(Line(text, heads))
        if scope is not None:
            scopes.append((len(scope[1]), text))
    return tuple(lines)


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


@lru_cache(maxsize=1 << 14)
def _words(text: str) -> frozenset[str]:
    """Return a text's names as they stand, and the stems of its content words."""
    names = (name.lower() for name in _NAME.findall(text))
    words = (word.lower() for word in _WORD.findall(text.replace("_", " ")))
    return frozenset(
        {*(name for name in names if name not in STOP_WORDS), *(stem(w) for w in words if w not in STOP_WORDS)}
    )


@lru_cache(maxsize=1 << 14)
def _named(text: str) -> tuple[_Value, ...]:
    """Return the values of a line that something names."""
    return tuple(_each_named(text))


def _each_named(line: str) -> Iterator[_Value]:
    text = _SPEAKER.sub("", line)
    bases = _CLASS.match(text)
    if bases is not None:
        yield _Value(bases[2].strip(), _words(bases[1]), "base")
    for kind, pattern in (("raise", _RAISE), ("return", _RETURN)):
        if (match := pattern.search(text)) is not None:
            yield _Value(match[1], frozenset(), kind)
    label = _LABEL.match(text)
    is_topic = label is not None and _is_sentence(label[2])
    for name, value in () if is_topic else _PAIR.findall(text):
        yield _Value(_plain(value), _words(name), "pair")
    if label is not None and not is_topic:
        yield _Value(_plain(label[2].rstrip(",")), _words(label[1]), "pair")


def _is_sentence(text: str) -> bool:
    words = len(text.split())
    return ":" not in text and (words > LONGEST_LABELLED or (words >= SHORTEST_SENTENCE and text.endswith(".")))


def names_value(text: str) -> tuple[str, ...]:
    """Return what a line names values by: the words of each; of several, a record's, its first value too."""
    values = _named(text)
    names = tuple(" ".join([value.kind, *sorted(value.key)]) for value in values)
    return (*names, values[0].text) if len(values) > 1 else names


def _plain(value: str) -> str:
    """Return a JSON text without its quotes, and any other value as it is written."""
    try:
        read = json.loads(value)
    except ValueError:
        return value
    return read if isinstance(read, str) else value


def _stated(text: str, asked: frozenset[str]) -> Iterator[_Value]:
    """Yield what each sentence of a line says beyond the question: after its last word, or before its first."""
    for sentence in sentences(_SPEAKER.sub("", text)):
        words = list(re.finditer(r"\S+", sentence))
        known = [i for i, word in enumerate(words) if _words(word[0]) & asked]
        if not known:
            continue
        spans = (words[known[-1] + 1 :], words[: known[0]])
        ends = [_trimmed(span) for span in spans]
        for span in ends[:1] if ends[0] else ends[1:]:
            if span:
                said = _NEXT_CLAUSE.split(sentence[span[0].start() : span[-1].end()])[0].strip(" .,;:!?\"'()")
                if said:
                    yield _Value(said, frozenset(), "said")


def _trimmed(words: list[re.Match[str]]) -> list[re.Match[str]]:
    """Return the words without those at both ends that say nothing."""
    while words and words[0][0].strip(".,;:!?\"'()").lower() in _EDGE:
        words = words[1:]
    while words and words[-1][0].strip(".,;:!?\"'()").lower() in _EDGE:
        words = words[:-1]
    return words
