"""Plain talk: the assistant's replies and the simulated user's follow-ups."""

from __future__ import annotations

import re
from collections.abc import Sequence
from zlib import crc32

from ...text import sentences, stem, stems
from ..base import Message
from .answering import find_schema
from .reading import Reading, attend, foremost, read_messages
from .sentences import OWN, about_self, words_of

_WORDS = re.compile(r"[A-Za-z][A-Za-z'-]+")
_EXCHANGE = re.compile(r"^User: (.*?)^Assistant: (.*?)(?=^User: |\n\n|\Z)", re.MULTILINE | re.DOTALL)
_OF_THE_USER = re.compile(r"\b(?:you|your|you're|you've)\b", re.IGNORECASE)
_TIME = re.compile(r"^\[Current Time: [^\]]*\]\s*")
_LABEL = re.compile(r"^\w+: ")
TELLING = 3
"""Words of a statement that a reply can rest on."""
_SECOND_PERSON = (
    (r"\bI am\b", "you are"),
    (r"\bI'm\b", "you're"),
    (r"\bI was\b", "you were"),
    (r"\bI've\b", "you've"),
    (r"\bI'd\b", "you'd"),
    (r"\bI'll\b", "you'll"),
    (r"\bI\b", "you"),
    (r"\bmy\b", "your"),
    (r"\bMy\b", "Your"),
    (r"\bme\b", "you"),
    (r"\bmyself\b", "yourself"),
    (r"\bmine\b", "yours"),
    (r"\b[Ww]e're\b", "you're"),
    (r"\b[Ww]e\b", "you"),
    (r"\b[Oo]ur\b", "your"),
)

_ADVICE = (
    "With {a}, I would start small and see what works before changing anything else.",
    "For {a}, it helps to write down what matters most and to compare two or three options.",
    "A good first step with {a} is to set aside a fixed moment and to review it after two weeks.",
    "Many people find that {a} gets easier once {b} is sorted out.",
    "When it comes to {a}, I would look at {b} first and keep the rest simple.",
)
_FOLLOW_UPS = (
    "Thanks, that helps. Could you say a bit more about {a}?",
    "That makes sense. What should I watch out for with {a}?",
    "Good idea. My neighbour mentioned {a} the other day as well. Is there anything I should do before that?",
    "I see. How would {a} fit together with {b}?",
    "Interesting, I had not thought of {a}. Which mistake do people make most often there?",
)
_ELSEWHERE = (
    "Why do you bring up {b}? I was asking about {a}.",
    "We have moved on to {b}, I see. And what about {a}?",
    "All right, {b}, but tell me about {a} first.",
)
_ANSWERS = (
    "I have not decided on that yet. What would you suggest regarding {a}?",
    "Hard to say. Let us leave that open, and tell me more about {a}.",
)


def reply(messages: Sequence[Message], reading: Reading) -> str:
    """Reply as an assistant: rest on the user's statement that attention brings up for what is asked; give advice.

    That is what the user has just told or, where memory is louder, something told before.
    """
    last = _said(messages[-1].content)
    asked = next((text for text in reversed(last) if text.endswith("?")), last[-1] if last else "")
    advice = _fill(_ADVICE, asked, seed=messages[-1].content)
    statement = _brought_up(messages, last, asked, reading)
    if statement is None:
        return advice
    opening = "I'll keep in mind that" if statement in last else "As you said before,"
    return f"{opening} {_to_second_person(statement)} {advice}"


def follow_up(prompt: str) -> str:
    """Follow up as the simulated user on the assistant's last reply, giving nothing away.

    A reply that rests on something else than what the user has just told leads the talk there.
    """
    exchanges = _EXCHANGE.findall(prompt)
    own, replied = exchanges[-1] if exchanges else ("", "")
    said = sentences(replied)
    if not said:
        return "Thanks. Could you tell me a bit more?"
    secret = frozenset(word for values in find_schema(prompt).values() for value in values for word in stems(value))
    if said[-1].endswith("?"):
        return _fill(_ANSWERS, said[-1], seed=replied, secret=secret)
    stray = _stray(_said(own), said[:-1])
    if stray is not None:
        asked = " ".join(text for text in _said(own) if text.endswith("?"))
        first, second = (_longest_words(text, secret)[0] for text in (asked, stray))
        return _pick(_ELSEWHERE, replied).replace("{a}", first).replace("{b}", second)
    return _fill(_FOLLOW_UPS, said[-1], seed=replied, secret=secret)


def _said(content: str) -> tuple[str, ...]:
    return sentences(_TIME.sub("", content))


def _brought_up(messages: Sequence[Message], last: Sequence[str], asked: str, reading: Reading) -> str | None:
    """Return the user's statement that gets most attention among those on the matter and those just made."""
    cue = words_of(asked).all
    context = read_messages(messages)
    shares = attend(context, cue, reading)
    own = [
        (share, sentence.text)
        for share, sentence in zip(shares, context.sentences, strict=True)
        if sentence.voice == OWN and len(sentence.words) >= TELLING and (sentence.words & cue or sentence.text in last)
    ]
    return own[foremost([share for share, _ in own])][1] if own else None


def _stray(said: Sequence[str], replied: Sequence[str]) -> str | None:
    """Return what a reply says of the user without taking up what the user has just told; None when there is none."""
    told = [words for text in said if about_self(text) and (words := frozenset(stems(text)))]
    claims = [text for text in replied if _OF_THE_USER.search(text)] if told else []
    return next((c for c in claims if all(2 * len(words.intersection(stems(c))) < len(words) for words in told)), None)


def _fill(texts: Sequence[str], source: str, *, seed: str, secret: frozenset[str] = frozenset()) -> str:
    """Fill one of the texts with the longest content words of ``source``."""
    a, b = [*_longest_words(source, secret), "the rest"][:2]
    return _pick(texts, seed).replace("{a}", a).replace("{b}", b)


def _pick(texts: Sequence[str], seed: str) -> str:
    return texts[crc32(seed.encode("utf-8", "surrogatepass")) % len(texts)]


def _longest_words(source: str, secret: frozenset[str]) -> list[str]:
    """Return a text's content words, the longest first, without those that are secret; at least one word."""
    content = frozenset(stems(source)) - secret
    words = dict.fromkeys(word.lower() for word in _WORDS.findall(source) if stem(word.lower()) in content)
    return sorted(words, key=lambda word: (-len(word), word)) or ["this"]


def _to_second_person(text: str) -> str:
    """Return a statement of the user as one says it to the user, as a whole sentence."""
    text = _LABEL.sub("", text)
    for pattern, other in _SECOND_PERSON:
        text = re.sub(pattern, other, text)
    text = text[:1].lower() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."
