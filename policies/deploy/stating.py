"""Which texts state a fact, for forgetting it."""

from __future__ import annotations

from collections.abc import Callable

from ..memory.protocol import Memory
from ..text import stems


def stating(fact: str) -> Callable[[str], bool]:
    """Return what tells whether a text states a fact: it has all words of the fact that carry meaning.

    Endings do not count, nor does the order. A fact without such words is stated where it stands letter by letter,
    upper case or lower. Raises ValueError for an empty fact.
    """
    wanted, letters = frozenset(stems(fact)), " ".join(fact.casefold().split())
    if not letters:
        raise ValueError("the fact to forget is empty")

    def states(text: str) -> bool:
        return wanted <= {*stems(text)} if wanted else letters in " ".join(text.casefold().split())

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
