"""The clauses of a sentence: what is turned in one of them is not turned in the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from ...text import STOP_WORDS
from .wording import STOPS, Hit, vocabulary

STARTS = frozenset({"not", "no", "weak_not", "drop", "keep", "use", "prefer", "focus", "contrast"})
"""Groups that an order starts with."""
TURNS = frozenset({"not", "no", "weak_not", "drop"})
"""Groups that turn what they stand by."""
_OPENS = frozenset(";:()\u2013\u2014-")
_LEADS = frozenset(
    {"to", "be", "is", "are", "was", "been", "or", "and", "not", "the", "a", "if", "when", "two", "that"}
)
"""Words after which an act is no order."""
_WEIGHS = frozenset({"light", "strong", "want", "more", "passing"})
"""Groups that may stand between a word that turns and what it turns."""
_BACK = frozenset({"it", "them", "that", "those"})
"""Words for what was named before."""


@dataclass(slots=True)
class Clause:
    """A part of a sentence."""

    hits: list[Hit]
    conditional: bool = False
    """Whether it is what an order depends on."""


def clauses_of(hits: Sequence[Hit]) -> list[Clause]:
    """Split a sentence where what is turned in one part is not turned in the next."""
    clauses = [Clause([])]
    for i, hit in enumerate(hits):
        clause = clauses[-1]
        conditional = "condition" in hit.groups and i + 1 < len(hits) and hits[i + 1].words not in STOPS
        if conditional or (_ends(clause, hits, i) and not _is_open(clause)):
            clause = Clause([], conditional)
            clauses.append(clause)
        clause.hits.append(hit)
    return [clause for clause in clauses if any(hit.words not in STOPS for hit in clause.hits)]


def _ends(clause: Clause, hits: Sequence[Hit], i: int) -> bool:
    """Tell whether a clause ends before a hit."""
    hit = hits[i]
    if hit.words in _OPENS or "but" in hit.groups:
        return True
    if hit.words == "," or ("and" in hit.groups and clause.hits):
        only = hit.words == "," and i + 1 < len(hits) and "only" in hits[i + 1].groups
        return starts_order(hits[i + 1 :]) or only or (hit.words == "," and clause.conditional)
    return clause.conditional and i > 0 and _is_order(hit, hits[i - 1])


def _is_open(clause: Clause) -> bool:
    """Tell whether a clause turns what is yet to be named: "Ignore:", "Do not, ever,"."""
    turning = [hit for hit in clause.hits if hit.groups & TURNS]
    named = [hit for hit in clause.hits if not (hit.words in STOPS | STOP_WORDS or hit.groups & (TURNS | _WEIGHS))]
    return bool(turning) and not named and not clause.conditional


def starts_order(hits: Sequence[Hit]) -> bool:
    """Tell whether the first of the hits, light words left aside, is one that an order starts with."""
    first = next((hit for hit in hits if hit.groups - {"light"} or not hit.groups), None)
    return first is not None and not first.groups.isdisjoint(STARTS | verbs())


def _is_order(hit: Hit, before: Hit) -> bool:
    """Tell whether an act stands where an order starts within a clause."""
    return bool(hit.groups & {"keep", "use", "drop", "prefer"}) and before.words not in _LEADS


@cache
def verbs() -> frozenset[str]:
    """Return the groups of verbs that speak for a pole by themselves, such as "shorten"."""
    return frozenset(name for name, thing in vocabulary().things.items() if thing.how == "verb")


def points_back(hits: Sequence[Hit]) -> bool:
    """Tell whether a clause leaves out what was named before it: "remove it"."""
    drops = next((i for i, hit in enumerate(hits) if "drop" in hit.groups), len(hits))
    return any(hit.words in _BACK for hit in hits[drops + 1 : drops + 3])
