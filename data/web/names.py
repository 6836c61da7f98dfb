"""Names and numbers that nothing else has, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable

_ONSETS = "b br d dr f fl g gr h j k kl l m n p pl r s sk t tr v w z".split()
_VOWELS = "a e i o u ae ia oi ou".split()
_CODAS = "bel dan dor fik gan lis lom mar nak nor rel rik san sel tav tin vek ven vik zan".split()
LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
"""Of which no word is made."""


class Names:
    """Draws names and numbers; what was drawn once is not drawn again."""

    def __init__(self, rng: random.Random) -> None:
        """Draw from ``rng``."""
        self.rng = rng
        self._drawn = set[str]()

    def name(self) -> str:
        """Return one word that looks like a name."""
        return self._new(self._word)

    def names(self, count: int) -> list[str]:
        """Return several such words."""
        return [self.name() for _ in range(count)]

    def person(self) -> str:
        """Return a first and a last name."""
        return f"{self.name()} {self.name()}"

    def people(self, count: int) -> list[str]:
        """Return several people."""
        return [self.person() for _ in range(count)]

    def code(self, prefix: str, digits: int = 5) -> str:
        """Return a number after a prefix, such as ``HX-48213``."""
        return self._new(lambda: f"{prefix}-{self.rng.randrange(10 ** (digits - 1), 10**digits)}")

    def codes(self, prefix: str, count: int, digits: int = 5) -> list[str]:
        """Return several numbers after one prefix."""
        return [self.code(prefix, digits) for _ in range(count)]

    def amount(self) -> str:
        """Return an amount of money, such as ``48.35``."""
        return self._new(lambda: f"{self.rng.randrange(11, 190)}.{self.rng.randrange(1, 100):02}")

    def prefix(self) -> str:
        """Return two letters."""
        return self._new(lambda: "".join(self.rng.sample(LETTERS, 2)))

    def _word(self) -> str:
        parts = (_ONSETS, _VOWELS, LETTERS.lower(), "aeiou", _CODAS)
        return "".join(map(self.rng.choice, parts)).capitalize()

    def _new(self, draw: Callable[[], str]) -> str:
        while (drawn := draw()) in self._drawn:
            pass
        self._drawn.add(drawn)
        return drawn
