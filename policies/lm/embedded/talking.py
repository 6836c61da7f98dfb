"""Plain talk: the assistant's replies and the simulated user's follow-ups."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from ...text import sentences, stems
from ..base import Message
from .answering import find_schema
from .phrases import PHRASES, Lines, pick
from .reading import Reading, attend, foremost, read_messages
from .sentences import OWN, about_self, words_of

_EXCHANGE = re.compile(r"^User: (.*?)^Assistant: (.*?)(?=^User: |\n\n|\Z)", re.MULTILINE | re.DOTALL)
_OF_THE_USER = re.compile(r"\b(?:you|your|you're|you've)\b", re.IGNORECASE)
_TIME = re.compile(r"^\[Current Time: [^\]]*\]\s*")
_LABEL = re.compile(r"^\w+: ")
_THING = re.compile(r"\b(?:the|an?|my|our|your|his|her|their)(?: [a-z][a-z'-]+){1,3}", re.IGNORECASE)
_WITHOUT_ARTICLE = re.compile(
    r"\b(?:which|what|some|any|more|of|for|with|without|about|on) ([a-z][a-z'-]{2,})\b|\b([a-z][a-z-]{2,}[^\Ws']s)\b",
    re.I,
)
"""Things that a text names without an article: after such a word, or in the plural."""
_OWNERS = {"my": "your", "our": "your", "your": "my"}
_NO_THING = ("ing", "ly", "n't", "'ve")
"""Endings of words that mostly name no thing."""
_NO_BARE_THING = ("ed", "er", "est")
"""The same where no article shows that one is named."""
_VERBS = frozenset(
    "add ask become begin bring buy call carry change choose come eat fall feed feel fit grow happen help hold last "
    "leave live look need pay plan play read ride run save see sell sit sleep spend stand start stay stop store "
    "suit swim teach tell train turn wait walk want wash wear work would write".split()
)
"""Words that follow the name of a thing in a question: what does my dog need?"""
_NOTHING_NAMED = ("this", "the rest")
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
        first, second = ([*_things(text, secret), *_NOTHING_NAMED][0] for text in (question, stray))
        return pick(PHRASES.elsewhere, replied).replace("{a}", first).replace("{b}", second)
    return _fill(PHRASES.follow_ups, said[-1], seed=replied, secret=secret)


def _said(content: str) -> tuple[str, ...]:
    return sentences(_TIME.sub("", content))


def _brought_up(messages: Sequence[Message], last: Sequence[str], question: str, reading: Reading) -> str | None:
    """Return the user's statement that gets most attention, of those on the matter and those of the last message."""
    cue = words_of(question).all
    stated = Message(messages[-1].role, " ".join(text for text in last if not text.endswith("?")))
    context = read_messages([*messages[:-1], stated])
    own = [
        (share, sentence.text)
        for share, sentence in zip(attend(context, cue, reading), context.sentences, strict=True)
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
    """Fill one of the texts with the longest things that ``source`` names."""
    a, b = [*_things(source, secret), *_NOTHING_NAMED][:2]
    return pick(texts, seed).replace("{a}", a).replace("{b}", b)


def _things(source: str, secret: frozenset[str]) -> list[str]:
    """Return the things that a text names with an article or an owner, as the other one says it, the longest first.

    Where there is none, those without an article. A thing with a secret word is left out.
    """
    named = [_without_trail(" ".join(match[0].split())) for match in _THING.finditer(source)]
    words = [
        match[1] or match[2] for match in _WITHOUT_ARTICLE.finditer(source) if _is_bare_thing(match[1] or match[2])
    ]
    for texts in (named, words):
        told = dict.fromkeys(text.lower() for text in texts if text and not secret.intersection(stems(text)))
        if told:
            return [_turned(thing) for thing in sorted(told, key=lambda thing: (-len(thing), thing))]
    return []


def _without_trail(text: str) -> str:
    """Return an article or an owner with the words that follow as far as they may name a thing; empty for none."""
    owner, *words = text.split()
    kept = list(takewhile(_is_thing, words))
    return f"{owner} {' '.join(kept)}" if kept else ""


def _is_thing(word: str) -> bool:
    return bool(stems(word)) and word.lower() not in _VERBS and not word.endswith(_NO_THING)


def _is_bare_thing(word: str) -> bool:
    return _is_thing(word) and not word.endswith(_NO_BARE_THING)


def _turned(thing: str) -> str:
    """Return a thing as the one who is spoken to calls it: my dog is your dog."""
    owner, *words = thing.split()
    return " ".join([_OWNERS.get(owner, owner), *words])


def _to_second_person(text: str) -> str:
    """Return a statement of the user as one says it to the user, as a whole sentence."""
    text = _LABEL.sub("", text)
    for own, other in PHRASES.second_person.items():
        text = re.sub(rf"\b{own}\b", other, text)
    text = text[:1].lower() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."
