"""A run's folder in which checks of the sealed test failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mnemotune.env.calls import Call
from mnemotune.env.episode import Episode, Event, Mark, StageRecord, write_episodes
from mnemotune.env.failed_checks import FailedCheck, Needed, write_calls, write_failed_checks
from mnemotune.policies.lm import Message, ToolCall, Usage
from mnemotune.policies.memory import MemoryEvent

TOLD = (Message("user", "I run at dawn. " + "and on " * 1000), Message("assistant", "Noted."))
NOON = 1_770_000_000.0
"""When the talk began, in seconds since 1970."""
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


def call(role: Any, *, began: float, seconds: float = 0.5) -> Call:
    """Return a call that was made so many seconds after noon."""
    usage = Usage(100, 20)
    sent = (Message("system", "Be kind. " * 1000), Message("user", "When do I run?"))
    reply = Message("assistant", f"a {role}", (ToolCall("c1", "look", '{"day": 1}'),) if role == "reply" else ())
    return Call("small", role, sent, ("look",) if role == "reply" else (), reply, usage, NOON + began, seconds)


def recorded(played: Episode) -> Episode:
    """Return the episode with its calls: those of the talk are made at noon, those of the check an hour later."""
    told, between, asked = played.stages
    say, write = told.events
    met = replace(say, calls=(call("reply", began=0),)), replace(write, calls=(call("write", began=1.5, seconds=2),))
    marks = (replace(asked.marks[0], calls=(call("answer", began=3600), call("probe", began=3600.25))),)
    return replace(played, stages=(replace(told, events=met), between, replace(asked, marks=marks)))


def write_failures(
    folder: Path, *, account: str = "Right answer: at dawn", with_calls: Sequence[str] | None = None
) -> None:
    """Write that the seed policy failed with all groups, the evolved one with the first four.

    Calls of some groups are recorded; None: of a run that knows of no calls.
    """
    for name, groups in (("seed", GROUPS), ("evolved", GROUPS[:4])):
        (folder / "test" / name).mkdir(parents=True)
        failures = [failure(group, account=account) for group in groups]
        write_episodes(folder / "test" / name, [episode(group) for group in GROUPS])
        write_failed_checks(folder / "test" / name, failures)
        if with_calls is not None:
            played = [recorded(episode(group)) if group in with_calls else episode(group) for group in GROUPS]
            write_calls(folder / "test" / name, failures, played)
