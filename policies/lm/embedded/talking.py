"""Plain talk: the assistant's replies and the simulated user's follow-ups."""

from __future__ import annotations

import re
from collections.abc import Sequence
from zlib import crc32

from ...text import sentences, stem, stems
from ..base import Message
from .answering import find_schema
from .reading import Context, Reading, attend, read_messages
from .sentences import OWN, Sentence

_WORDS = re.compile(r"[A-Za-z][A-Za-z'-]+")
_EXCHANGE = re.compile(r"^User: (.*?)^Assistant: (.*?)(?=^User: |\n\n|\Z)", re.MULTILINE | re.DOTALL)
_OF_THE_USER = re.compile(r"\b(?:you|your|you're|you've)\b", re.IGNORECASE)
_TIME = re.compile(r"^\[Current Time: [^\]]*\]\s*")
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
    """Reply as an assistant: take up what was said, recall what attention brings back, give advice."""
    last = sentences(_TIME.sub("", messages[-1].content))
    told = [text for text in last if not text.endswith("?")]
    asked = next((text for text in reversed(last) if text.endswith("?")), last[-1] if last else "")
    parts = []
    if told:
        parts.append(f"I'll keep in mind that {_to_second_person(max(told, key=len))}")
    recalled = _recall(messages[:-1], frozenset(stems(messages[-1].content)), reading)
    if recalled is not None:
        parts.append(f"As you said before, {_to_second_person(recalled.text)}")
    parts.append(_fill(_ADVICE, asked, seed=messages[-1].content))
    return " ".join(parts)


def follow_up(prompt: str) -> str:
    """Follow up as the simulated user on the assistant's last reply, giving nothing away.

    Where the reply brings up what the user's message was not about, the user wonders.
    """
    exchanges = _EXCHANGE.findall(prompt)
    own, replied = exchanges[-1] if exchanges else ("", "")
    said = sentences(replied)
    if not said:
        return "Thanks. Could you tell me a bit more?"
    secret = frozenset(word for values in find_schema(prompt).values() for value in values for word in stems(value))
    if said[-1].endswith("?"):
        return _fill(_ANSWERS, said[-1], seed=replied, secret=secret)
    about = frozenset(stems(own))
    stray = next((s for s in said[:-1] if _OF_THE_USER.search(s) and not about.intersection(stems(s))), None)
    if stray is not None:
        asked = " ".join(text for text in sentences(_TIME.sub("", own)) if text.endswith("?"))
        first, second = (_longest_words(text, secret)[0] for text in (asked, stray))
        return _pick(_ELSEWHERE, replied).replace("{a}", first).replace("{b}", second)
    return _fill(_FOLLOW_UPS, said[-1], seed=replied, secret=secret)


def _recall(history: Sequence[Message], cue: frozenset[str], reading: Reading) -> Sentence | None:
    own = [sentence for sentence in read_messages(history).sentences if sentence.voice == OWN and sentence.words & cue]
    if not own:
        return None
    shares = attend(Context(own), cue, reading)
    return own[int(shares.argmax())]


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
    for pattern, other in _SECOND_PERSON:
        text = re.sub(pattern, other, text)
    return text[:1].lower() + text[1:]
