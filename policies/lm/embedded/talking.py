"""Plain talk: the assistant's replies and the simulated user's follow-ups."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...text import sentences, stem, stems
from ..base import Message
from .answering import find_schema
from .blocks import WORD
from .phrases import PHRASES, Lines, pick
from .reading import Reading, attend, foremost, read_messages
from .sentences import OWN, about_self, words_of

_EXCHANGE = re.compile(r"^User: (.*?)^Assistant: (.*?)(?=^User: |\n\n|\Z)", re.MULTILINE | re.DOTALL)
_OF_THE_USER = re.compile(r"\b(?:you|your|you're|you've)\b", re.IGNORECASE)
_TIME = re.compile(r"^\[Current Time: [^\]]*\]\s*")
_LABEL = re.compile(r"^\w+: ")
TELLING = 3
"""Words of a statement that a reply can rest on."""


def reply(messages: Sequence[Message], reading: Reading) -> str:
    """Reply as an assistant: rest on the user's statement that attention brings up for what is asked; give advice.

    That is what the user has just said or, where memory is louder, something said before.
    """
    last = _said(messages[-1].content)
    question = next((text for text in reversed(last) if text.endswith("?")), last[-1] if last else "")
    advice = _fill(PHRASES.advice, question, seed=messages[-1].content)
    statement = _brought_up(messages, last, question, reading)
    if statement is None:
        return advice
    opening = "I'll keep in mind that" if statement in last else "As you said before,"
    return f"{opening} {_to_second_person(statement)} {advice}"


def follow_up(prompt: str) -> str:
    """Follow up as the simulated user on the assistant's last reply, giving nothing away.

    A reply that rests on something else than what the user has just said leads the talk there.
    """
    exchanges = _EXCHANGE.findall(prompt)
    own, replied = exchanges[-1] if exchanges else ("", "")
    said = sentences(replied)
    if not said:
        return "Thanks. Could you tell me a bit more?"
    secret = frozenset(word for values in find_schema(prompt).values() for value in values for word in stems(value))
    if said[-1].endswith("?"):
        return _fill(PHRASES.answers, said[-1], seed=replied, secret=secret)
    stray = _stray(_said(own), said[:-1])
    if stray is not None:
        question = " ".join(text for text in _said(own) if text.endswith("?"))
        first, second = (_longest_words(text, secret)[0] for text in (question, stray))
        return pick(PHRASES.elsewhere, replied).replace("{a}", first).replace("{b}", second)
    return _fill(PHRASES.follow_ups, said[-1], seed=replied, secret=secret)


def _said(content: str) -> tuple[str, ...]:
    return sentences(_TIME.sub("", content))


def _brought_up(messages: Sequence[Message], last: Sequence[str], question: str, reading: Reading) -> str | None:
    """Return the user's statement that gets most attention, of those on the matter and those of the last message."""
    cue = words_of(question).all
    context = read_messages(messages)
    shares = attend(context, cue, reading)
    own = [
        (share, sentence.text)
        for share, sentence in zip(shares, context.sentences, strict=True)
        if sentence.voice == OWN and len(sentence.words) >= TELLING and (sentence.words & cue or sentence.text in last)
    ]
    return own[foremost([share for share, _ in own])][1] if own else None


def _stray(said: Sequence[str], replied: Sequence[str]) -> str | None:
    """Return what a reply says of the user that does not take up what the user has just said; None for nothing."""
    statements = [words for text in said if about_self(text) and (words := frozenset(stems(text)))]
    claims = [text for text in replied if _OF_THE_USER.search(text)] if statements else []
    shared = ((claim, [len(words.intersection(stems(claim))) / len(words) for words in statements]) for claim in claims)
    return next((claim for claim, shares in shared if max(shares) < 0.5), None)


def _fill(texts: Lines, source: str, *, seed: str, secret: frozenset[str] = frozenset()) -> str:
    """Fill one of the texts with the longest content words of ``source``."""
    a, b = [*_longest_words(source, secret), "the rest"][:2]
    return pick(texts, seed).replace("{a}", a).replace("{b}", b)


def _longest_words(source: str, secret: frozenset[str]) -> list[str]:
    """Return a text's content words, the longest first, without those that are secret; at least one word."""
    content = frozenset(stems(source)) - secret
    words = dict.fromkeys(word.lower() for word in WORD.findall(source) if stem(word.lower()) in content)
    return sorted(words, key=lambda word: (-len(word), word)) or ["this"]


def _to_second_person(text: str) -> str:
    """Return a statement of the user as one says it to the user, as a whole sentence."""
    text = _LABEL.sub("", text)
    for own, other in PHRASES.second_person.items():
        text = re.sub(rf"\b{own}\b", other, text)
    text = text[:1].lower() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."
