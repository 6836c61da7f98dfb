"""Screens: what every screen promises the loop.

Invariants of the protocol ``Screen``, for any candidates:
1. One verdict per candidate, in their order; none for none.
2. Every verdict says why.
3. The same candidates get the same verdicts: a resumed generation must not be judged otherwise.
4. A verdict is about a candidate, not about its place: equal candidates get equal verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from mnemotune.optimizer.search.screen import MEASURED, ForecastScreen, KeepAll, Screen, Verdict, rank_correlation
from mnemotune.optimizer.study import Trial
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
            verdicts = await screen.screen(candidates[:count], (), generation=1)
            assert len(verdicts) == count
            assert all(isinstance(verdict, Verdict) for verdict in verdicts)

    async def test_every_verdict_says_why(self, screen: Screen, candidates: list[MemoryPolicy]) -> None:
        assert all(verdict.reason.strip() for verdict in await screen.screen(candidates, (), generation=1))

    async def test_the_same_candidates_get_the_same_verdicts(
        self, screen: Screen, candidates: list[MemoryPolicy]
    ) -> None:
        assert await screen.screen(candidates, (), generation=1) == await screen.screen(candidates, (), generation=1)

    async def test_equal_candidates_get_equal_verdicts(self, screen: Screen, candidates: list[MemoryPolicy]) -> None:
        twice = await screen.screen([*candidates, *candidates], (), generation=1)
        assert twice[: len(candidates)] == twice[len(candidates) :]

    async def test_verdicts_stand_in_the_order_of_their_candidates(
        self, screen: Screen, candidates: list[MemoryPolicy]
    ) -> None:
        forwards, backwards = (
            await screen.screen(candidates, (), generation=1),
            await screen.screen(candidates[::-1], (), generation=1),
        )
        assert forwards == backwards[::-1]

    async def test_the_candidates_are_left_as_they_are(self, screen: Screen, candidates: list[MemoryPolicy]) -> None:
        before = [policy.key for policy in candidates]
        await screen.screen(tuple(candidates), (), generation=1)
        assert [policy.key for policy in candidates] == before


class TestKeepAll(ScreenConformance):
    @pytest.fixture
    def screen(self) -> Screen:
        return KeepAll()

    async def test_it_keeps_everything(self, screen: Screen, candidates: list[MemoryPolicy]) -> None:
        assert all(verdict.keep for verdict in await screen.screen(candidates, (), generation=1))


class DropWriters:
    """Drops what writes; shows that the suite fits a screen that drops."""

    async def screen(
        self, candidates: Sequence[MemoryPolicy], trials: Sequence[Trial], *, generation: int
    ) -> list[Verdict]:
        return [
            Verdict(keep=True, reason="writes nothing") if c.write.mode == "none" else Verdict(False, "it writes")
            for c in candidates
        ]


class TestDropWriters(ScreenConformance):
    @pytest.fixture
    def screen(self) -> Screen:
        return DropWriters()


@dataclass
class Known:
    """Forecasts by what a policy's reply prompt asks for; NaN for some."""

    unknown: tuple[str, ...] = ()
    asked: list[str] = field(default_factory=list)

    async def forecast(self, policy: MemoryPolicy) -> float:
        self.asked.append(policy.key)
        if policy.write.mode in self.unknown:
            return float("nan")
        return int("".join(filter(str.isdigit, (policy.prompts.reply or "").split(".")[0]))) / 100


@pytest.fixture
def nobody_promoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mnemotune.optimizer.search.screen.PROMOTED", 0.0)


def screening(known: Known | None = None, *, drop: float = 0.5, least: float = 0.2, seed: int = 0) -> ForecastScreen:
    return ForecastScreen((known or Known()).forecast, drop, least, seed)


class TestForecastScreen(ScreenConformance):
    @pytest.fixture
    def screen(self) -> Screen:
        return screening(Known(unknown=("profile",)))

    @pytest.mark.usefixtures("nobody_promoted")
    async def test_the_worst_are_dropped_and_told_their_place(self, kit: Any) -> None:
        screen, policies = screening(), [kit.policy(care) for care in (40, 10, 90, 20)]
        verdicts = await screen.screen(policies, (), generation=1)
        assert [verdict.keep for verdict in verdicts] == [True, False, True, False]
        assert verdicts[1].reason == "forecast 0.100, 4 of 4"
        assert verdicts[2].forecast == 0.9

    @pytest.mark.usefixtures("nobody_promoted")
    async def test_what_has_no_forecast_is_kept(self, kit: Any) -> None:
        policies = [
            kit.policy(50),
            kit.policy(60),
            kit.policy(5, mode="profile", store="context", update_every=2, buffer_size=4),
        ]
        verdicts = await screening(Known(unknown=("profile",))).screen(policies, (), generation=1)
        assert [verdict.keep for verdict in verdicts] == [False, True, True]
        assert (verdicts[2].reason, math.isnan(verdicts[2].forecast)) == ("no forecast", True)

    async def test_about_a_tenth_of_what_would_be_dropped_races_all_the_same(self, kit: Any) -> None:
        policies = [kit.policy(care) for care in range(100)]
        kept = 0
        for seed in range(10):
            verdicts = await screening(seed=seed).screen(policies, (), generation=1)
            kept += sum("to measure the screen" in verdict.reason for verdict in verdicts if verdict.keep)
            assert all(verdict.keep for verdict in verdicts[50:])
        assert 25 < kept < 75, "50 are expected of 500"

    async def test_a_forecast_is_made_once(self, kit: Any) -> None:
        known = Known()
        trials = [raced(kit, number=1, care=30, forecast=0.77, score=0.5)]
        verdicts = await screening(known).screen([kit.policy(30), kit.policy(40)], trials, generation=1)
        assert known.asked == [kit.policy(40).key]
        assert [verdict.forecast for verdict in verdicts] == [0.77, 0.4]

    @pytest.mark.usefixtures("nobody_promoted")
    @pytest.mark.parametrize(("sign", "on"), [(1, True), (-1, False)])
    async def test_it_switches_itself_off_when_it_ranks_badly(self, kit: Any, sign: int, on: bool) -> None:
        trials = [
            raced(kit, number=i, care=i, forecast=i / 100, score=0.5 + sign * i / 100) for i in range(1, MEASURED + 1)
        ]
        known = Known()
        verdicts = await screening(known).screen([kit.policy(80), kit.policy(90)], trials, generation=2)
        assert [verdict.keep for verdict in verdicts] == [not on, True]
        assert bool(known.asked) == on
        if not on:
            assert verdicts[0].reason == "screening is off: its rank correlation is -1.00, below 0.2"

    @pytest.mark.usefixtures("nobody_promoted")
    async def test_its_own_generation_says_nothing_of_it_yet(self, kit: Any) -> None:
        trials = [raced(kit, number=i, care=i, forecast=i / 100, score=-i / 100) for i in range(1, MEASURED + 1)]
        verdicts = await screening().screen([kit.policy(80), kit.policy(90)], trials, generation=1)
        assert [verdict.keep for verdict in verdicts] == [False, True]


def raced(kit: Any, *, number: int, care: int, forecast: float, score: float, periods: int = 2) -> Trial:
    return Trial(
        number=number,
        generation=1,
        policy=kit.policy(care),
        parent=0,
        change="care",
        decided_at="race",
        accepted=False,
        reason="",
        series={"a": (score,) * periods, **({"b": (99.0,)} if periods > 2 else {})},
        forecast=forecast,
        proposer="random",
    )


def test_the_rank_correlation_is_of_what_all_candidates_played(kit: Any) -> None:
    """Some went further in their races, and what they scored there is another matter."""
    trials = [raced(kit, number=i, care=i, forecast=i / 10, score=i / 10, periods=2 + i % 2) for i in range(MEASURED)]
    assert rank_correlation(trials) == pytest.approx(1)
    assert math.isnan(rank_correlation(trials[1:])), "too few to tell"
    lost = replace(trials[0], series={"a": (), "b": (0.0,)})
    assert rank_correlation([*trials, lost]) == pytest.approx(1), "an episode was lost"
