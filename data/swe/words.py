"""What is drawn for a variant: made-up names, numbers, and which of several wordings."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_ONSETS = tuple("b br d dr f g gl h k kr l m n p pl r s t tr v z".split())
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ou")
_CODAS = ("", "n", "l", "r", "m", "s", "k", "nd", "rt", "x")
_LAST_CODAS = ("n", "l", "r", "m", "k", "nd", "rt", "x", "v")
_NAME = re.compile(r"<<(\w+)>>")
_CHOICE = re.compile(r"\[\[(?:(\w+):)?([^\[\]]*\|[^\[\]]*)\]\]")


class Draw:
    """Draws from a seed, and keeps what it has drawn under a name."""

    def __init__(self, seed: str) -> None:
        """Begin; the same ``seed`` gives the same draws."""
        self.rng = random.Random(seed)
        self.names: dict[str, str] = {}
        self._used: set[str] = set()

    def word(self, name: str = "") -> str:
        """Return a made-up word of lower-case letters that was not drawn before; kept where it has a name."""
        if name in self.names:
            return self.names[name]
        while True:
            first = self.rng.choice(_ONSETS) + self.rng.choice(_VOWELS) + self.rng.choice(_CODAS)
            word = first + self.rng.choice(_ONSETS) + self.rng.choice(_VOWELS) + self.rng.choice(_LAST_CODAS)
            if word not in self._used:
                break
        self._used.add(word)
        if name:
            self.names[name] = word
        return word

    def words(self, count: int) -> list[str]:
        """Return made-up words."""
        return [self.word() for _ in range(count)]

    def proper(self, count: int) -> list[str]:
        """Return made-up names of people, firms and places."""
        return [word.capitalize() for word in self.words(count)]

    def codes(self, count: int) -> list[str]:
        """Return names with a number, such as nobody guesses."""
        return [f"{self.word()}_{self.number(11, 99)}" for _ in range(count)]

    def number(self, least: int, most: int) -> int:
        """Return a number that was not drawn before."""
        while True:
            number = self.rng.randint(least, most)
            if str(number) not in self._used:
                self._used.add(str(number))
                return number

    def numbers(self, count: int, least: int, most: int) -> list[int]:
        """Return distinct numbers that were not drawn before."""
        return [self.number(least, most) for _ in range(count)]

    def one_of(self, *values: T) -> T:
        """Return one of several."""
        return self.rng.choice(values)

    def mixed(self, values: Sequence[T]) -> list[T]:
        """Return values in another order."""
        return self.rng.sample(values, len(values))

    def set(self, **names: object) -> None:
        """Keep values under names."""
        self.names.update({name: str(value) for name, value in names.items()})

    def text(self, template: str, **names: object) -> str:
        """Fill a template: ``<<name>>`` is what is kept under a name, else a made-up word that is kept from then on.

        ``[[a|b|c]]`` is one of several wordings; that of ``[[name:a|b|c]]`` is kept under the name.
        """
        self.set(**names)

        def chosen(match: re.Match[str]) -> str:
            wording = self.rng.choice(match[2].split("|"))
            return self.names.setdefault(match[1], wording) if match[1] else wording

        return _NAME.sub(lambda match: self.word(match[1]), _CHOICE.sub(chosen, template.strip("\n") + "\n"))

    def line(self, template: str, **names: object) -> str:
        """Fill a template of one line."""
        return self.text(template, **names).strip()
