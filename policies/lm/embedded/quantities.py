"""Numbers in running text and in names such as ``500_1500_sqft``: quantities with a unit, and what they agree with."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

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


_TABLES = json.loads(files(__package__).joinpath("quantities.json").read_text(encoding="utf-8"))
LEVELS: Mapping[str, Sequence[str]] = _TABLES["levels"]
"""Groups of kindred words for little, some and much of what is counted."""
DEGREES = ("degree_little", "degree_some", "degree_much")
"""The same whatever is counted."""

WORDS: Mapping[str, float] = _TABLES["words"]
UNITS: Mapping[str, tuple[str, float]] = {
    word: (unit, scale) for unit, words in _TABLES["units"].items() for word, scale in words.items()
}
"""By the stem of what follows a number: the unit, and how many of it that is."""


def levels(quantity: Quantity) -> tuple[str, ...]:
    """Return the groups of kindred words that a range belongs to: open ones are little or much; none for a number."""
    if quantity.low == quantity.high:
        return ()
    rank = 2 if math.isinf(quantity.high) else 0 if quantity.low == 0 else 1
    of_unit = LEVELS.get(quantity.unit)
    return (DEGREES[rank],) if of_unit is None else (DEGREES[rank], of_unit[rank])


_NUMBER = r"(?:\d[\d,]*(?:\.\d+)?k?|" + "|".join(WORDS) + ")"
_CURRENCY = r"[$\u00a3\u20ac]"
_ANY_NUMBER = re.compile(rf"\b{_NUMBER}\b")
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
    if _ANY_NUMBER.search(text) is None:  # most texts have none, and to look for a whole quantity takes longer
        return
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
