"""The table of forecasts beside evaluations."""

from __future__ import annotations

import pytest

from mnemotune.experiments.memrm.ranking import HEARD, Compared, table


def policies(*forecasts: float) -> list[Compared]:
    """Make policies with the memory scores 0, .1, .2 ..., each with one forecast whatever is heard."""
    return [
        Compared(
            name=f"policy-{number}",
            policy="",
            memory_score=number / 10,
            forecasts=(forecast,) * len(HEARD),
            calls=1000 + 1000 * (number % 2),
            seconds=3.0,
            forecast_calls=(10, 20, 0),
            forecast_seconds=(0.1, 0.5, 3.0),
        )
        for number, forecast in enumerate(forecasts)
    ]


def test_each_number_of_users_heard_has_a_row_with_what_an_evaluation_takes_per_forecast() -> None:
    _, _, *rows = table(policies(0.1, 0.2, 0.3, 0.4)).splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [row[0] for row in cells] == [str(heard) for heard in HEARD]
    assert [row[2] for row in cells] == ["150", "75", "6000"], "4 policies take 6,000 calls; without any, per call"
    assert [row[3] for row in cells] == ["30", "6", "1"]


@pytest.mark.parametrize(("forecasts", "told"), [((0.1, 0.2, 0.3), "1.000"), ((0.3, 0.2, 0.1), "-1.000")])
def test_forecasts_are_ranked_against_memory_scores(forecasts: tuple[float, ...], told: str) -> None:
    assert f"| 1 | {told} [" in table(policies(*forecasts))
