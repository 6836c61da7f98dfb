"""What generated users are made from: the proportions of their lives, and the bundled sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Phrasing = Literal["a", "b"]
"""Whose words the users speak."""
HELD_OUT: Phrasing = "b"
"""What users of the bundled sets and of sealed tests speak."""
MOST_USERS = 100_000
"""Users that ``generated:`` makes at most: it takes a quarter of an hour."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The proportions of a scenario; the defaults are those of AMemGym's v1.base (env config)."""

    changed_periods: int = 10
    """Periods after the initial one."""
    months_per_period: int = 3
    questions: int = 10
    """Questions per user, each on a topic of its own."""
    states_per_question: int = 2
    """States that a question depends on, 2 or 3."""
    changes_per_period: int = 4
    """States that change in a period, give or take one."""
    changes_per_state: int = 3
    """How often one state may change in a life."""
    min_variants: int = 4
    """Answer choices a question has at least."""


BASE = Shape()


@dataclass(frozen=True, slots=True)
class Size:
    """What a bundled set is made from."""

    users: int
    seed: int
    shape: Shape = BASE
    phrasing: Phrasing = "a"


SIZES = {
    "small": Size(users=4, seed=41, phrasing=HELD_OUT),
    "base": Size(users=20, seed=42, phrasing=HELD_OUT),
    "extra": Size(users=20, seed=43, shape=Shape(changed_periods=20, states_per_question=3), phrasing=HELD_OUT),
}
"""By name; ``base`` and ``extra`` have the proportions of AMemGym's v1.base and v1.extra."""
