"""Multiple-choice questions and probes of the user's state."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from ...text import sentences
from ..base import Message
from .blocks import fenced, value_of
from .reading import Reading, ReadText, foremost, read_messages, weigh
from .sentences import Sentence, Words, about_self, read_state_lines, words_of
from .strengths import strengths_of

_CHOICE = re.compile(r"^(\d+): (.+)$", re.MULTILINE)
_PROBE_LINE = re.compile(r'^\s*"([^"]+)"\s*:\s*(\[\s*"[^\]]*\])\s*,?\s*$', re.MULTILINE)
HEED = 2.0
"""Factor by which instructions that ask for the user's own words shift attention to them."""
LATEST = 1.5
"""Log-odds by which instructions that ask for the newest strengthen forgetting."""


def find_choices(text: str) -> tuple[str, list[str]] | None:
    """Find a question with lines ``1: text``, ``2: text``, ...: what stands before them, and their texts; or None."""
    choices: list[re.Match[str]] = []
    for match in _CHOICE.finditer(text):
        if match[1] == str(len(choices) + 1):
            choices.append(match)
    if len(choices) < 2:
        return None
    return text[: choices[0].start()], [choice[2] for choice in choices]


def find_schema(text: str) -> dict[str, tuple[str, ...]]:
    """Find lines ``"key": ["choice", ...]``; empty when there are none."""
    lines = ((name, _choices_in(listed)) for name, listed in _PROBE_LINE.findall(text))
    return {name: choices for name, choices in lines if choices is not None}


@lru_cache(maxsize=4096)
def _choices_in(listed: str) -> tuple[str, ...] | None:
    choices = value_of(listed)
    return None if choices is None else tuple(map(str, choices))


def answer_choices(query: str, options: Sequence[str], history: Sequence[Message], reading: Reading) -> str:
    """Choose the answer for which the conversation speaks most; the first where nothing speaks for any."""
    words = [words_of(option) for option in options]
    given = list(read_state_lines(query))
    if given:  # what is stated in the question itself needs no searching
        scores = _agreement(given, words, reading)
    else:
        cue = words_of(_question_only(query)).all
        system = "\n".join(m.content for m in history[:1] if m.role == "system")
        scores = weigh(read_messages(history), cue, words, _heed(query, system, reading.for_advice))
    return fenced({"answer": foremost(scores) + 1})


def fill_probe(schema: dict[str, tuple[str, ...]], text: str, history: Sequence[Message], reading: Reading) -> str:
    """Choose each key's value for which the conversation speaks most."""
    context, query, chosen = read_messages(history), _question_only(text), {}
    for key, values in schema.items():
        words = [words_of(value) for value in values]
        chosen[key] = values[foremost(weigh(context, _cue(f"{query} {key}", words), words, reading))]
    return fenced(chosen)


def _cue(text: str, options: Sequence[Words]) -> frozenset[str]:
    """Return the words to look for: those of a text and of all options."""
    return words_of(text).all.union(*(option.all for option in options))


def _agreement(given: Sequence[Sentence], options: Sequence[Words], reading: Reading) -> list[float]:
    """Return how well each option agrees with the given statements, each of which counts alike."""
    scores = [0.0] * len(options)
    for statement in given:
        spoken = weigh(ReadText([statement]), frozenset(), options, reading)
        top = max(spoken) or 1.0
        scores = [score + share / top for score, share in zip(scores, spoken, strict=True)]
    return scores


def _heed(prompt: str, system: str, reading: Reading) -> Reading:
    """Follow what the prompts say about which statements to rely on; memories that are to be used are read closely.

    The stronger they say it, the more; what they say against it has the opposite effect. The question itself and
    memories say nothing of the kind: of the prompt, what follows its first paragraph is an instruction, and of the
    system prompt what stands before its first line with ``- ``.
    """
    told = re.split(r"(?:^|(?<=: ))- ", system, maxsplit=1, flags=re.MULTILINE)[0]
    asked = strengths_of(f"{told}\n\n{_instructions_only(prompt)}")
    newest, own, memories = (max(-1.0, min(1.0, asked[ability])) for ability in ("newest", "own", "memories"))
    return replace(
        reading,
        forgetting=reading.forgetting + LATEST * newest,
        sharpness=reading.sharpness * reading.focus ** (memories if system else 0.0),
        voice=reading.voice * HEED**own,
    )


def _instructions_only(prompt: str) -> str:
    """Return a prompt without the user's question, which is its first paragraph but for what is plainly an order."""
    first, _, rest = prompt.strip().partition("\n\n")
    orders = [text for text in sentences(first) if not text.endswith("?") and not about_self(text)]
    return "\n".join([*(orders if len(orders) < len(sentences(first)) else []), "", rest])


def _question_only(text: str) -> str:
    """Return a prompt's first paragraph: what the user asks, without the instructions that follow."""
    return text.strip().split("\n\n", 1)[0]
