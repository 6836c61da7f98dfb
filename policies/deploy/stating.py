"""Which texts state a fact, for forgetting it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from ..memory.protocol import Memory
from ..text import stems

_LABEL = re.compile(r"^[^:\n]{1,60}: ")
_SIGNED = re.compile(r"\w+[+#]+")
"""Words whose signs belong to them, such as C++ and C#."""


def stating(fact: str) -> Callable[[str], bool]:
    """Return what tells whether a text states a fact: it has all words and pictures of the fact that carry meaning.

    Neither endings nor the order count. So does a note that was cut short: its words, but for a label, are those with
    which the fact begins, and more than half of them. A fact without such words is stated where it stands letter by
    letter, upper case or lower. Raises ValueError for an empty fact.
    """
    words, letters = stems(fact), " ".join(fact.casefold().split())
    wanted = frozenset(words)
    if not letters:
        raise ValueError("the fact to forget is empty")

    signs = [*_SIGNED.findall(letters), *(sign for sign in letters if unicodedata.category(sign) == "So")]

    def states(text: str) -> bool:
        said = " ".join(text.casefold().split())
        if not wanted:
            return letters in said
        if not all(sign in said for sign in signs):
            return False
        note = stems(_LABEL.sub("", text))
        return wanted <= {*stems(text)} or (words[: len(note)] == note and 2 * len(note) > len(words))

    return states


async def forget_fact(memory: Memory, fact: str) -> list[str]:
    """Remove every memory and message that states a fact; return their texts, each once.

    Raises ValueError for an empty fact.
    """
    states, gone = stating(fact), dict[str, None]()

    def what(text: str) -> bool:
        if states(text):
            gone[text] = None
            return True
        return False

    return [*gone] if await memory.forget(what) else []
