"""Questions on a conversation: the model takes a sentence that somebody said, and asks how it goes on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ...text import STOP_WORDS, sentences, stems

_ASKS = re.compile(r'\{\s*"question"\s*:\s*"<[^}]*"evidence"\s*:\s*\[<', re.DOTALL)
_MESSAGE = re.compile(r"^(\d+)\. (?:([^\W\d][\w'-]*(?: [\w'-]+)?): )?", re.MULTILINE)
_AFTER = re.compile(r"(?:\s*\[picture: [^\]]*\])?(?:\s*\(\d{1,2} [A-Z][a-z]+ \d{4}\))?\s*\Z")
"""What stands after what was said: a picture, a day."""
_TELLING = re.compile(r"\d|\b[A-Z][a-z]")
"""A number or a name, which is worth asking for."""
FEWEST_WORDS, MOST_WORDS = 5, 25
"""Of a sentence that is asked for."""
MOST_ANSWER = 4
"""Words of an answer."""


@dataclass(frozen=True, slots=True)
class _Ending:
    """A sentence in two parts, the second of which is the answer."""

    number: int
    speaker: str
    head: str
    tail: str

    @property
    def worth(self) -> tuple[bool, int]:
        """Endings with a number or a name come first, then those of which most is told."""
        return _TELLING.search(self.tail) is not None, len(self.head.split())


def asked_for_question(text: str) -> str | None:
    """Return a question on the numbered messages of a prompt that asks for one as JSON; None where it does not.

    Where no sentence will do, the reply says so.
    """
    if _ASKS.search(text) is None:
        return None
    endings = list(_endings(text.split("\n\n", 1)[0]))
    if not endings:
        return "No sentence of this conversation can be asked for."
    best = max(endings, key=lambda ending: ending.worth)
    whose = "I" if best.speaker.lower() in ("", "user") else best.speaker
    question = f'How does it go on, what {whose} said: "{best.head} ..."?'
    return json.dumps({"question": question, "answer": best.tail, "evidence": [best.number]}, ensure_ascii=False)


def _endings(excerpt: str) -> Iterator[_Ending]:
    marks = list(_MESSAGE.finditer(excerpt))
    for mark, after in zip(marks, [*marks[1:], None], strict=True):
        speaker, said = mark[2] or "", excerpt[mark.end() : after.start() if after is not None else None]
        if speaker.lower() != "assistant":
            for sentence in sentences(_AFTER.sub("", said.strip())):
                if (parts := _parted(sentence)) is not None:
                    yield _Ending(int(mark[1]), speaker, *parts)


def _parted(sentence: str) -> tuple[str, str] | None:
    """Part a sentence behind its last word of no content, where what follows is short and new."""
    words = sentence.split()
    if sentence.endswith("?") or not FEWEST_WORDS <= len(words) <= MOST_WORDS:
        return None
    small = [place for place, word in enumerate(words[:-1]) if _bare(word) in STOP_WORDS]
    if not small or len(words) - 1 - small[-1] > MOST_ANSWER:
        return None
    head, tail = " ".join(words[: small[-1] + 1]), " ".join(words[small[-1] + 1 :]).strip(" .,;:!\"'()")
    new = set(stems(tail)) - set(stems(head))
    return (head, tail) if new and stems(head) else None


def _bare(word: str) -> str:
    return word.lower().strip(".,;:!?\"'()").replace("\u2019", "'")
