"""Numbers in running text and in names such as ``500_1500_sqft``: quantities with a unit, and what they agree with."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from ...text import stem


@dataclass(frozen=True, slots=True)
class Quantity:
    """A range of numbers; a single number is a range of one."""

    low: float
    """At least 0."""
    high: float
    """At least ``low``; may be infinite."""
    unit: str
    """What is counted, in a common measure; empty when the text does not say."""

    def within(self, other: Quantity) -> bool:
        """Tell whether this quantity's middle lies in the other one; units that are not said fit any."""
        if self.unit and other.unit and self.unit != other.unit:
            return False
        return other.low <= self.middle <= other.high

    @property
    def middle(self) -> float:
        """The middle of the range; a little beyond the end of one that is open."""
        return self.low * 1.01 if math.isinf(self.high) else (self.low + self.high) / 2


LEVELS = {
    "money": ("budget_low", "budget_middle", "budget_high"),
    "square feet": ("space_small", "space_medium", "space_large"),
    "minutes": ("time_little", "time_some", "time_plenty"),
    "kilometres": ("distance_near", "distance_regional", "distance_far"),
    "people": ("company_small_group", "company_small_group", "company_large_group"),
}
"""Groups of kindred words for little, some and much of what is counted."""
DEGREES = ("degree_little", "degree_some", "degree_much")
"""The same whatever is counted."""

WORDS = {
    "one": 1, "two": 2, "couple": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "dozen": 12, "fifteen": 15, "twenty": 20,
    "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "ninety": 90, "hundred": 100, "thousand": 1000, "half": 0.5,
}  # fmt: skip
UNITS = {
    "minut": ("minutes", 1), "min": ("minutes", 1), "hour": ("minutes", 60), "hr": ("minutes", 60),
    "hrs": ("minutes", 60),
    "day": ("days", 1), "week": ("days", 7), "month": ("days", 30), "year": ("days", 365),
    "mile": ("kilometres", 1.6), "km": ("kilometres", 1), "kilometr": ("kilometres", 1), "kilomet": ("kilometres", 1),
    "sqft": ("square feet", 1), "squar": ("square feet", 1), "sq": ("square feet", 1),
    "dollar": ("money", 1), "usd": ("money", 1), "buck": ("money", 1), "euro": ("money", 1), "eur": ("money", 1),
    "pound": ("money", 1), "gbp": ("money", 1),
    "peopl": ("people", 1), "person": ("people", 1), "guest": ("people", 1), "member": ("people", 1),
}  # fmt: skip


def levels(quantity: Quantity) -> tuple[str, ...]:
    """Return the groups of kindred words that a range belongs to: open ones are little or much; none for a number."""
    if quantity.low == quantity.high:
        return ()
    rank = 2 if math.isinf(quantity.high) else 0 if quantity.low == 0 else 1
    of_unit = LEVELS.get(quantity.unit)
    return (DEGREES[rank],) if of_unit is None else (DEGREES[rank], of_unit[rank])


_NUMBER = r"(?:\d[\d,]*(?:\.\d+)?k?|" + "|".join(WORDS) + ")"
_CURRENCY = r"[$\u00a3\u20ac]"
_QUANTITY = re.compile(
    rf"(?P<below>(?:less|fewer|lower) than |under |below |up to |at most |within |no more than )?"
    rf"(?P<above>(?:more|greater|longer) than |over |above |at least |beyond |well over )?"
    rf"(?:about |around |roughly |nearly |almost |some )?"
    rf"(?P<money>{_CURRENCY})?\b(?P<first>{_NUMBER})\b"
    rf"(?:(?: to | and | or |\s?[-\u2013]\s?| ){_CURRENCY}?(?P<second>\d[\d,]*(?:\.\d+)?k?)\b)?"
    rf"(?P<plus>\+| or more| plus)?(?: (?P<half>and a half))?[ -]?(?:an? |of |more )?(?P<unit>[a-z]+)?"
)


@lru_cache(maxsize=1 << 14)
def quantities(text: str) -> tuple[Quantity, ...]:
    """Return the quantities that a text or a name holds, in order."""
    return tuple(_quantities(text.lower().replace("_", " ").replace("\u2019", "'")))


def _quantities(text: str) -> Iterator[Quantity]:
    for match in _QUANTITY.finditer(text):
        spelled = match["first"] in WORDS
        unit, scale = ("money", 1.0) if match["money"] else UNITS.get(stem(match["unit"] or ""), ("", 1.0))
        if spelled and not unit:  # "one" is rarely a number where nothing is counted
            continue
        low = _number(match["first"]) * scale
        high = low if match["second"] is None else _number(match["second"]) * scale
        if not unit and match["second"] is None and 1900 <= low <= 2100:  # a year
            continue
        if match["below"]:
            low = 0.0
        elif match["above"] or match["plus"]:
            high = math.inf
        yield Quantity(min(low, high), max(low, high), unit)


def _number(text: str) -> float:
    if text in WORDS:
        return float(WORDS[text])
    thousands = text.endswith("k")
    return float(text.rstrip("k").replace(",", "")) * (1000 if thousands else 1)
