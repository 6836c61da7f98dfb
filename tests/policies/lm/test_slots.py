"""A limit on calls under way.

Invariants:

1. No more than the places there are is ever taken, and none is lost, whoever is cancelled whenever.
2. A free place goes to the most urgent who waits, the earliest of equals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.policies.lm.slots import Slots


async def test_whoever_is_most_urgent_comes_next_and_the_earliest_of_equals_invariant_2() -> None:
    slots, order = Slots(1), list[str]()

    async def work(name: str, urgency: int) -> None:
        async with slots.taken(urgency):
            order.append(name)
            await asyncio.sleep(0)

    names = [("first", 1), ("late", 1), ("later", 1), ("urgent", 0), ("also urgent", 0)]
    await asyncio.gather(*(work(*name) for name in names))
    assert order == ["first", "urgent", "also urgent", "late", "later"]


async def test_an_error_inside_gives_the_place_back() -> None:
    slots = Slots(1)
    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            async with slots.taken(0):
                raise ValueError("no")


Plan = tuple[int, int, int, int | None]
"""Urgency, turn of the loop at which the call comes, turns that it lasts, turn at which it is cancelled."""


@given(
    places=st.integers(1, 3),
    plans=st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 4), st.integers(0, 3), st.none() | st.integers(0, 8)), max_size=12
    ),
)
def test_no_place_is_taken_twice_or_lost_invariant_1(places: int, plans: Sequence[Plan]) -> None:
    slots, inside, most = Slots(places), 0, 0

    async def work(urgency: int, comes: int, lasts: int) -> None:
        nonlocal inside, most
        for _ in range(comes):
            await asyncio.sleep(0)
        async with slots.taken(urgency):
            inside += 1
            most = max(most, inside)
            try:
                for _ in range(lasts):
                    await asyncio.sleep(0)
            finally:
                inside -= 1

    async def run() -> None:
        tasks = [asyncio.create_task(work(*plan[:3])) for plan in plans]
        for turn in range(9):
            for task, plan in zip(tasks, plans, strict=True):
                if plan[3] == turn:
                    task.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.wait_for(asyncio.gather(*(work(0, 0, 1) for _ in range(2 * places))), 5)

    asyncio.run(run())
    assert inside == 0
    assert most <= places
    assert slots._free == places
