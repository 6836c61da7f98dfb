"""Recorded talks, to be replayed: what an off-policy evaluation listens to instead of talking itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...data.dialogue.scenario import Scenario
from ..episode import EPISODES, Episode, RecordError, StageRecord, read_heard
from .protocol import Protocol
from .record import Turn, events_of, sessions_of


def read_transcripts(folder: Path) -> dict[str, Episode]:
    """Read the talks of a finished evaluation by user: ours (``episodes.jsonl``) or AMemGym's (``ID/interactions``).

    Raises RecordError when there are none, or they cannot be read.
    """
    if (folder / EPISODES).is_file():
        return read_heard(folder)
    talks = dict(_amemgym(folder))
    if not talks:
        raise RecordError(
            f"{folder}: has no recorded talks: neither {EPISODES}, as `evaluate --out` writes it, "
            "nor USER/interactions/period_00.json, as AMemGym does"
        )
    return talks


def check_talk(episode: Episode, scenario: Scenario, protocol: Protocol) -> None:
    """Raise RecordError unless a recorded talk is the scenario's, session by session."""
    if len(episode.stages) != len(scenario.periods):
        raise RecordError(
            f"user {scenario.id}: {len(episode.stages)} periods are recorded, "
            f"and the scenario has {len(scenario.periods)}"
        )
    for p, (period, stage) in enumerate(zip(scenario.periods, episode.stages, strict=True)):
        where = f"user {scenario.id}, period {p}"
        if any(len(event.seen) != 2 for event in stage.events if event.kind == "say"):
            raise RecordError(f"{where}: a round is recorded that is not what the user said and what was replied")
        sessions = sessions_of(stage)
        if len(sessions) != len(period.sessions):
            raise RecordError(f"{where}: {len(sessions)} sessions are recorded, not {len(period.sessions)}")
        for s, (session, turns) in enumerate(zip(period.sessions, sessions, strict=True)):
            if len(turns) != protocol.rounds(p):
                raise RecordError(f"{where}, session {s}: {len(turns)} rounds are recorded, not {protocol.rounds(p)}")
            if turns[0].user != session.opening:
                raise RecordError(f"{where}, session {s}: another opening is recorded: {turns[0].user[:80]!r}")


def _amemgym(folder: Path) -> Iterator[tuple[str, Episode]]:
    for interactions in sorted(folder.glob("*/interactions")):
        user, files = interactions.parent.name, sorted(interactions.glob("period_*.json"), key=_number)
        yield user, Episode(user, "", tuple(StageRecord(events_of(_period(file))) for file in files))


def _number(file: Path) -> tuple[int, str]:
    digits = file.stem.removeprefix("period_")
    return (int(digits) if digits.isdecimal() else 0), file.stem


def _period(file: Path) -> tuple[tuple[Turn, ...], ...]:
    try:
        sessions = json.loads(file.read_text(encoding="utf-8"))
        return tuple(_pairs(session) for session in sessions)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RecordError(f"{file}: is no period of AMemGym's interactions: {error}") from None


def _pairs(messages: Sequence[Mapping[str, Any]]) -> tuple[Turn, ...]:
    roles = [message["role"] for message in messages]
    if roles != ["user", "assistant"] * (len(roles) // 2):
        raise ValueError(f"a session's roles are {', '.join(roles)}")
    return tuple(Turn(u["content"], a["content"]) for u, a in zip(messages[::2], messages[1::2], strict=True))
