"""Plain talk: the assistant's replies and the simulated user's follow-ups."""

from __future__ import annotations

import re
from collections.abc import Sequence
from zlib import crc32

from ...text import sentences, stem, stems
from ..base import Message
from .reading import Context, Reading, Sentence, attend, read_messages

_WORDS = re.compile(r"[A-Za-z][A-Za-z'-]+")
_EXCHANGE = re.compile(r"^Assistant: (.*?)(?=^User: |\n\n|\Z)", re.MULTILINE | re.DOTALL)
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
    """Follow up as the simulated user on the assistant's last reply, giving nothing away."""
    replies = _EXCHANGE.findall(prompt)
    said = sentences(replies[-1]) if replies else ()
    if not said:
        return "Thanks. Could you tell me a bit more?"
    texts = _ANSWERS if said[-1].endswith("?") else _FOLLOW_UPS
    return _fill(texts, said[-1], seed=replies[-1])


def _recall(history: Sequence[Message], cue: frozenset[str], reading: Reading) -> Sentence | None:
    own = [sentence for sentence in read_messages(history).sentences if sentence.own and sentence.words & cue]
    if not own:
        return None
    shares = attend(Context(own), cue, reading)
    return own[int(shares.argmax())]


def _fill(texts: Sequence[str], source: str, *, seed: str) -> str:
    """Fill one of the texts with the longest content words of ``source``."""
    content = frozenset(stems(source))
    words = [word for word in _WORDS.findall(source) if stem(word.lower()) in content]
    longest = sorted(dict.fromkeys(word.lower() for word in words), key=lambda word: (-len(word), word))
    a, b = [*longest, "this", "the rest"][:2]
    return texts[crc32(seed.encode("utf-8", "surrogatepass")) % len(texts)].replace("{a}", a).replace("{b}", b)


def _to_second_person(text: str) -> str:
    for pattern, other in _SECOND_PERSON:
        text = re.sub(pattern, other, text)
    return text[:1].lower() + text[1:]
