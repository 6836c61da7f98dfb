"""A run's folder in which checks of the sealed test failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mnemotune.env.episode import Episode, Event, Mark, StageRecord, write_episodes
from mnemotune.env.failed_checks import FailedCheck, Needed, write_failed_checks
from mnemotune.policies.lm import Message
from mnemotune.policies.memory import MemoryEvent

TOLD = (Message("user", "I run at dawn. " + "and on " * 1000), Message("assistant", "Noted."))
GROUPS = [f"g{number}" for number in range(8)]


def episode(group: str) -> Episode:
    """Return a life of three periods; the first tells something, the last asks for it."""
    write = MemoryEvent(TOLD, (), ("- runs at dawn",), ("raw",), None)
    told = StageRecord((Event(0, "say", TOLD), Event(0, "write", write=write)))
    between = StageRecord((Event(0, "say", (Message("user", "Never mind."),)),))
    asked = StageRecord((Event(0, "read", shown_tokens=12),), (Mark("2.0", '{"answer": 3}', 0.0),))
    return Episode(group, "key", (told, between, asked))


def failure(group: str, *, account: str, kind: Any = "read") -> FailedCheck:
    need = Needed("running_time", "running", 0, known_then=True, known=True, shown=False, held_then=())
    return FailedCheck(
        group,
        group,
        2,
        "2.0",
        0.0,
        kind,
        "When do I run?",
        account,
        ("- naps", "Never\nmind."),
        (need,),
    )


def write_failures(folder: Path, *, account: str = "Right answer: at dawn") -> None:
    """Write that the seed policy failed with all groups, the evolved one with the first four."""
    for name, groups in (("seed", GROUPS), ("evolved", GROUPS[:4])):
        (folder / "test" / name).mkdir(parents=True)
        write_episodes(folder / "test" / name, [episode(group) for group in GROUPS])
        write_failed_checks(folder / "test" / name, [failure(group, account=account) for group in groups])
