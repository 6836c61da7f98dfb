"""Screens: what every screen promises the loop.

Invariants of the protocol ``Screen``, for any candidates:
1. One verdict per candidate, in their order; none for none.
2. Every verdict says why.
3. The same candidates get the same verdicts: a resumed generation must not be judged otherwise.
4. A verdict is about a candidate, not about its place: equal candidates get equal verdicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mnemotune.optimizer.screen import KeepAll, Screen, Verdict
from mnemotune.policies.policy import MemoryPolicy


class ScreenConformance:
    """What every screen promises; a subclass says in ``screen`` which one is meant."""

    @pytest.fixture
    def screen(self) -> Screen:
        raise NotImplementedError

    @pytest.fixture
    def candidates(self, kit: Any) -> list[MemoryPolicy]:
        numbers = {"update_every": 2, "buffer_size": 4}
        return [
            kit.policy(10),
            kit.policy(90),
            kit.policy(20, mode="verbatim", store="external", top_k=5, **numbers),
            kit.policy(20, mode="profile", store="context", **numbers),
            kit.policy(20, mode="facts", store="external", top_k=9, **numbers),
        ]

    async def test_there_is_one_verdict_for_each_candidate(
        self, screen: Screen, candidates: list[MemoryPolicy]
    ) -> None:
        for count in range(len(candidates) + 1):
            verdicts = await screen.screen(candidates[:count])
            assert len(verdicts) == count
            assert all(isinstance(verdict, Verdict) for verdict in verdicts)

    async def test_every_verdict_says_why(self, screen: Screen, candidates: list[MemoryPolicy]) -> None:
        assert all(verdict.reason.strip() for verdict in await screen.screen(candidates))

    async def test_the_same_candidates_get_the_same_verdicts(
        self, screen: Screen, candidates: list[MemoryPolicy]
    ) -> None:
        assert await screen.screen(candidates) == await screen.screen(candidates)

    async def test_equal_candidates_get_equal_verdicts(self, screen: Screen, candidates: list[MemoryPolicy]) -> None:
        twice = await screen.screen([*candidates, *candidates])
        assert twice[: len(candidates)] == twice[len(candidates) :]

    async def test_verdicts_stand_in_the_order_of_their_candidates(
        self, screen: Screen, candidates: list[MemoryPolicy]
    ) -> None:
        forwards, backwards = await screen.screen(candidates), await screen.screen(candidates[::-1])
        assert forwards == backwards[::-1]

    async def test_the_candidates_are_left_as_they_are(self, screen: Screen, candidates: list[MemoryPolicy]) -> None:
        before = [policy.key for policy in candidates]
        await screen.screen(tuple(candidates))
        assert [policy.key for policy in candidates] == before


class TestKeepAll(ScreenConformance):
    @pytest.fixture
    def screen(self) -> Screen:
        return KeepAll()

    async def test_it_keeps_everything(self, screen: Screen, candidates: list[MemoryPolicy]) -> None:
        assert all(verdict.keep for verdict in await screen.screen(candidates))


class DropWriters:
    """Drops what writes; shows that the suite fits a screen that drops."""

    async def screen(self, candidates: Sequence[MemoryPolicy]) -> list[Verdict]:
        return [
            Verdict(keep=True, reason="writes nothing") if c.write.mode == "none" else Verdict(False, "it writes")
            for c in candidates
        ]


class TestDropWriters(ScreenConformance):
    @pytest.fixture
    def screen(self) -> Screen:
        return DropWriters()
