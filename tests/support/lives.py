"""Lives made by hand, in which every value is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mnemotune.data.dialogue.scenario import Scenario


def life(
    user: str,
    *,
    sessions: Sequence[int],
    news: Sequence[Mapping[str, str]],
    says: Callable[[int, int], str],
    values: Sequence[str],
    qas: Sequence[Mapping[str, Any]],
    profile: str = "",
) -> Scenario:
    """Make a life with ``sessions[p]`` sessions in period p, whose first session tells ``news[p]``.

    A session begins with what ``says`` returns for period and session. Each kind of news has the same ``values``.
    """
    state: dict[str, str] = {}
    periods = []
    for p, (count, new) in enumerate(zip(sessions, news, strict=True)):
        updates = {info: {"old": state.get(info), "new": value} for info, value in new.items()}
        state = {**state, **new}
        day = f"{2021 + p:04d}-01-01"
        told = " ".join(f"{info} is {value}." for info, value in new.items())
        periods.append(
            {
                "period_start": None if p == 0 else f"{2020 + p:04d}-01-01",
                "period_end": day,
                "sessions": [
                    {
                        "exposed_states": dict(new) if s == 0 else {},
                        "query": f"{says(p, s)} {told if s == 0 else 'Nothing new.'}",
                        "session_time": f"{day} 20:00:{s:02d}",
                    }
                    for s in range(count)
                ],
                "state": state,
                "updates": updates,
            }
        )
    return Scenario.parse(
        {
            "id": user,
            "start_time": "2021-01-01",
            "user_profile": {"formatted_str": f"name: {user}{profile}"},
            "state_schema": {info: list(values) for info in news[0]},
            "periods": periods,
            "qas": list(qas),
        }
    )
