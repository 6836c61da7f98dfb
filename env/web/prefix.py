"""Beginnings of recorded episodes, from which an agent goes on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Self

from ...data.task import Task
from ..episode import HEARD, Episode, RecordError, read_heard
from .action import Action


@dataclass(frozen=True, slots=True)
class Prefix:
    """The first recorded actions of each task."""

    share: int | float
    """How many actions, where it is a whole number; else the share of them, up to 1."""
    folder: Path
    """It has the ``episodes.jsonl`` of an evaluation."""

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self | None:
        """Return what a config's ``track_options`` say; None where they say nothing. Raises ValueError."""
        share, folder = options.get("prefix"), options.get("from")
        if share is None and folder is None:
            return None
        most = 1.0 if isinstance(share, float) else math.inf
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= most:
            raise ValueError(f"prefix is {share!r}: write how many actions, or a share of them up to 1.0")
        if not isinstance(folder, str) or not Path(folder).is_dir():
            raise ValueError(f"from is {folder!r}: name a folder with the episodes.jsonl of an evaluation")
        return cls(share, Path(folder))

    def actions(self, task: Task) -> list[Action]:
        """Return the actions of a task with which its episode begins; what has ended it is none of them.

        Raises RecordError where there is no record of the task.
        """
        episode = _recorded(self.folder).get(task.id)
        if episode is None:
            raise RecordError(f"{self.folder}: has no episode of {task.id} that ended well")
        made = [*map(_read, _acts(episode))]
        return made[: self.share if isinstance(self.share, int) else round(self.share * len(made))]


def _acts(episode: Episode) -> list[str]:
    """Return what was done, as it was observed: whatever a page was seen after."""
    heard = [event for stage in episode.stages for event in stage.events if event.kind in HEARD]
    groups = [(kind, [*events]) for kind, events in groupby(heard, key=lambda event: event.kind)]
    acts = (events for (kind, events), (after, _) in pairwise(groups) if (kind, after) == ("act", "observe"))
    return ["".join(message.content for event in events for message in event.seen) for events in acts]


def _read(line: str) -> Action:
    try:
        return Action.read(line)
    except ValueError as error:
        raise RecordError(f"{error}: it was recorded by something else than the web track") from None


@lru_cache(maxsize=4)
def _recorded(folder: Path) -> Mapping[str, Episode]:
    return read_heard(folder)
