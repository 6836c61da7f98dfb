"""Names that nothing has: drawn from a seed, all different, and none of them a word of the material."""

from __future__ import annotations

import random
from collections.abc import Collection

_STARTS = "b br d dr f g gr h j k kl l m n p pr q r s st t tr v w z".split()
_MIDDLES = "a e i o u ae ia or al en ir um".split()
_ENDS = "bek dal din fen gor lan lin mar nok ran rel rin sel tan ther vak vel vin xar zem".split()

FORMS = {
    "package": (
        "{name} Quill",
        "{name} Ember",
        "{name} Harbor",
        "{name} Lantern",
        "{name} Onyx",
        "{name} Prism",
        "{name} Thistle",
        "{name} Zephyr",
    ),
    "person": (
        "Ilva {name}",
        "Oren {name}",
        "Mirel {name}",
        "Tamsin {name}",
        "Joska {name}",
        "Brandt {name}",
        "Sefa {name}",
        "Ludo {name}",
    ),
    "institute": (
        "{name} Institute",
        "{name} College",
        "{name} Academy",
        "{name} Foundation",
        "{name} Observatory",
        "{name} Laboratory",
        "{name} Workshop",
        "{name} Guild",
    ),
    "town": (
        "Port {name}",
        "Upper {name}",
        "Lower {name}",
        "New {name}",
        "East {name}",
        "West {name}",
        "Fort {name}",
        "Mount {name}",
    ),
}
"""By kind of thing, how a name and those that are nearly the same look."""
_MONTHS = "January February March April May June July August September October November December".split()
FIRST_YEAR, LAST_YEAR = 1971, 2024
DAYS = 28
"""Of each month."""


class Names:
    """Draws names; what was drawn once is not drawn again."""

    def __init__(self, rng: random.Random, taken: Collection[str]) -> None:
        """``taken`` are words in lower case that no name may be."""
        self._rng, self._taken, self._drawn = rng, taken, set[str]()

    def family(self, kind: str, count: int) -> list[str]:
        """Return names of a kind that are nearly the same, all different, as many as are wanted, at most 8."""
        if kind == "day":
            return self._days(count)
        name = self._name()
        return [form.format(name=name) for form in self._rng.sample(FORMS[kind], count)]

    def _days(self, count: int) -> list[str]:
        """Return days of one year."""
        while True:
            year = self._rng.randint(FIRST_YEAR, LAST_YEAR)
            days = [f"{day} {month} {year}" for month in _MONTHS for day in range(1, DAYS + 1)]
            days = self._rng.sample(days, count)
            if self._drawn.isdisjoint(days):
                self._drawn.update(days)
                return days

    def _name(self) -> str:
        for parts in range(2, 10):
            for _ in range(20):
                middle = "".join(self._rng.choice(_MIDDLES) + self._rng.choice("lmnrstv") for _ in range(parts - 2))
                name = self._rng.choice(_STARTS) + middle + self._rng.choice(_MIDDLES) + self._rng.choice(_ENDS)
                if name not in self._drawn and name not in self._taken:
                    self._drawn.add(name)
                    return name.capitalize()
        raise AssertionError("names of ten syllables cannot all be taken")
