"""Recorded talks, to be replayed: what an off-policy evaluation listens to instead of talking itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...data.dialogue.scenario import Scenario
from ..episode import EPISODES, Episode, Turn
from .protocol import Protocol

Transcript = tuple[tuple[tuple[Turn, ...], ...], ...]
"""The rounds of each session of each period."""


class TranscriptError(ValueError):
    """Say what is wrong with a recorded talk, naming the file, the user, the period and the session."""


def read_transcripts(folder: Path) -> dict[str, Transcript]:
    """Read the talks of a finished evaluation by user: ours (``episodes.jsonl``) or AMemGym's (``ID/interactions``).

    Raises TranscriptError when there are none, or they cannot be read.
    """
    if (folder / EPISODES).is_file():
        return dict(_ours(folder / EPISODES))
    found = dict(_theirs(folder))
    if not found:
        raise TranscriptError(
            f"{folder}: has no recorded talks: neither {EPISODES}, as `evaluate --out` writes it, "
            "nor USER/interactions/period_00.json, as AMemGym does"
        )
    return found


def talks_of(episodes: Sequence[Episode]) -> dict[str, Transcript]:
    """Return what was said in complete episodes, by user."""
    complete = [episode for episode in episodes if episode.failure is None]
    return {episode.user: tuple(period.sessions for period in episode.periods) for episode in complete}


def transcript_of(transcripts: Mapping[str, Transcript], scenario: Scenario, protocol: Protocol) -> Transcript:
    """Return a user's talk. Raises TranscriptError unless it is the scenario's, session by session."""
    transcript = transcripts.get(scenario.id)
    if transcript is None:
        raise TranscriptError(f"user {scenario.id}: no talk is recorded; there are {len(transcripts)} other users'")
    if len(transcript) != len(scenario.periods):
        raise TranscriptError(
            f"user {scenario.id}: {len(transcript)} periods are recorded, and the scenario has {len(scenario.periods)}"
        )
    for p, (period, sessions) in enumerate(zip(scenario.periods, transcript, strict=True)):
        where = f"user {scenario.id}, period {p}"
        if len(sessions) != len(period.sessions):
            raise TranscriptError(f"{where}: {len(sessions)} sessions are recorded, not {len(period.sessions)}")
        for s, (session, turns) in enumerate(zip(period.sessions, sessions, strict=True)):
            if len(turns) != protocol.rounds(p):
                raise TranscriptError(
                    f"{where}, session {s}: {len(turns)} rounds are recorded, not {protocol.rounds(p)}"
                )
            if turns[0].user != session.opening:
                raise TranscriptError(f"{where}, session {s}: another opening is recorded: {turns[0].user[:80]!r}")
    return transcript


def _ours(file: Path) -> Iterator[tuple[str, Transcript]]:
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            episode = json.loads(line)
            periods = [[_turns(session) for session in period["sessions"]] for period in episode["periods"]]
            yield episode["user"], tuple(map(tuple, periods))
        except (ValueError, KeyError, TypeError) as error:
            raise TranscriptError(f"{file}, line {number}: is no episode: {error!r}") from None


def _turns(session: Sequence[Mapping[str, str]]) -> tuple[Turn, ...]:
    return tuple(Turn(turn["user"], turn["assistant"]) for turn in session)


def _theirs(folder: Path) -> Iterator[tuple[str, Transcript]]:
    for interactions in sorted(folder.glob("*/interactions")):
        files = sorted(interactions.glob("period_*.json"))
        yield interactions.parent.name, tuple(_period(file) for file in files)


def _period(file: Path) -> tuple[tuple[Turn, ...], ...]:
    try:
        sessions = json.loads(file.read_text(encoding="utf-8"))
        return tuple(_pairs(session) for session in sessions)
    except (ValueError, KeyError, TypeError) as error:
        raise TranscriptError(f"{file}: is no period of AMemGym's interactions: {error}") from None


def _pairs(messages: Sequence[Mapping[str, Any]]) -> tuple[Turn, ...]:
    roles = [message["role"] for message in messages]
    if roles != ["user", "assistant"] * (len(roles) // 2):
        raise ValueError(f"a session's roles are {', '.join(roles)}")
    return tuple(Turn(u["content"], a["content"]) for u, a in zip(messages[::2], messages[1::2], strict=True))
