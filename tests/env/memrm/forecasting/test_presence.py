"""What of a message memory shows.

1. It is a share.
2. More lines never take any of it away.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.env.memrm.forecasting.presence import SharedWords
from mnemotune.policies.lm import Message
from mnemotune.policies.memory import MemoryEvent

SAID = "I moved to the coast. My neighbour has a pony."
lines = st.lists(st.sampled_from([SAID, "moved to the coast", "a pony", "rain", "", "\x00"]), max_size=4)


def present(*after: str, said: str = SAID) -> float:
    return float(SharedWords().score([MemoryEvent((Message("user", said),), (), after)])[0])


@pytest.mark.parametrize(
    ("after", "share"),
    [((SAID,), 1.0), (("I moved to the coast",), 0.5), (("pony", "neighbour"), 0.25), (("rain",), 0.0), ((), 0.0)],
)
def test_it_is_the_mean_over_sentences_of_what_one_line_has(after: tuple[str, ...], share: float) -> None:
    assert present(*after) == pytest.approx(share)


@pytest.mark.parametrize("said", ["", "?", "and then"])
def test_where_nothing_is_told_nothing_is_missing(said: str) -> None:
    assert present("rain", said=said) == 1.0


@given(lines, lines)
def test_more_lines_take_nothing_away_invariants_1_2(some: list[str], others: list[str]) -> None:
    assert 0.0 <= present(*some) <= present(*some, *others) <= 1.0
