"""Multiple-choice questions and probes of the user's state."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...text import stems
from ..base import Message
from .reading import Context, Reading, Sentence, read_messages, read_state_lines, weigh

_CHOICE = re.compile(r"^(\d+): (.+)$", re.MULTILINE)
_PROBE_LINE = re.compile(r'^\s*"([^"]+)"\s*:\s*(\[\s*"[^\]]*\])\s*,?\s*$', re.MULTILINE)
_NEWEST = re.compile(r"\b(most recent(?:ly)?|newest|latest)\b", re.IGNORECASE)
_OWN_WORDS = re.compile(r"\b(of themselves|user's own|not (?:on talk )?about other people)\b", re.IGNORECASE)
HEED = 2.0
"""Factor by which an instruction in the question shifts attention."""


@dataclass(frozen=True, slots=True)
class Choices:
    """A multiple-choice question as read from a message."""

    query: str
    """The text before the first choice."""
    options: tuple[str, ...]


def find_choices(text: str) -> Choices | None:
    """Find a question with lines ``1: text``, ``2: text``, ...; None when there is none."""
    options: list[str] = []
    start = None
    for match in _CHOICE.finditer(text):
        if match[1] == str(len(options) + 1):
            start = match.start() if start is None else start
            options.append(match[2])
    if start is None or len(options) < 2:
        return None
    return Choices(query=text[:start], options=tuple(options))


def find_schema(text: str) -> dict[str, tuple[str, ...]]:
    """Find lines ``"key": ["choice", ...]``; empty when there are none."""
    schema = {}
    for match in _PROBE_LINE.finditer(text):
        try:
            choices = json.loads(match[2])
        except (ValueError, RecursionError):
            continue
        schema[match[1]] = tuple(str(choice) for choice in choices)
    return schema


def answer_choices(choices: Choices, history: Sequence[Message], reading: Reading) -> str:
    """Choose the answer for which the conversation speaks most; the first where nothing speaks for any."""
    words = [frozenset(stems(option)) for option in choices.options]
    given = list(read_state_lines(choices.query))
    if given:  # what is stated in the question itself needs no searching
        scores = _agreement(given, words, reading)
    else:
        cue = frozenset(stems(_question_only(choices.query))).union(*words)
        scores = weigh(read_messages(history), cue, words, _heed(choices.query, reading))
    return _fenced({"answer": _best(scores) + 1})


def fill_probe(schema: dict[str, tuple[str, ...]], text: str, history: Sequence[Message], reading: Reading) -> str:
    """Choose each key's value for which the conversation speaks most."""
    context = read_messages(history)
    query = frozenset(stems(_question_only(text)))
    return _fenced({key: _choose_value(key, values, query, context, reading) for key, values in schema.items()})


def _choose_value(key: str, values: Sequence[str], query: frozenset[str], context: Context, reading: Reading) -> str:
    words = [frozenset(stems(value)) for value in values]
    cue = query.union(stems(key), *words)
    return values[_best(weigh(context, cue, words, reading))]


def _agreement(given: Sequence[Sentence], options: Sequence[frozenset[str]], reading: Reading) -> list[float]:
    """Return how well each option agrees with the given statements, each of which counts alike."""
    scores = [0.0] * len(options)
    for statement in given:
        spoken = weigh(Context([statement]), frozenset(), options, reading)
        top = max(spoken) or 1.0
        scores = [score + one / top for score, one in zip(scores, spoken, strict=True)]
    return scores


def _heed(prompt: str, reading: Reading) -> Reading:
    """Follow what the prompt says about which statements to rely on."""
    return replace(
        reading,
        recency=reading.recency * (HEED if _NEWEST.search(prompt) else 1.0),
        own_voice=reading.own_voice * (HEED if _OWN_WORDS.search(prompt) else 1.0),
    )


def _question_only(text: str) -> str:
    """Return a prompt's first paragraph: what the user asks, without the instructions that follow."""
    return text.strip().split("\n\n", 1)[0]


def _best(scores: Sequence[float]) -> int:
    return max(range(len(scores)), key=lambda i: (scores[i], -i))


def _fenced(value: object) -> str:
    return f"```json\n{json.dumps(value, ensure_ascii=False)}\n```"
