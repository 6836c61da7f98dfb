"""What a write looks like to somebody who cannot read: lengths, counts, and shares that were kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....policies.memory import MemoryEvent
from ...episode import lines_beyond

FEATURES = 16


def shape_of(event: MemoryEvent) -> list[float]:
    """Return a write's lengths and counts, what it kept of what was there, and how long its messages and lines are.

    ``FEATURES`` numbers; no word is read.
    """
    return [*sizes_of(event), *_shares(event)]


def sizes_of(event: MemoryEvent) -> list[float]:
    """Return logarithms of lengths in characters, and of counts, of what was said, held, removed and added."""
    removed, added = lines_beyond(event.before, event.after), lines_beyond(event.after, event.before)
    sizes = [size(said(event)), size(event.before), size(event.after), size(removed), size(added)]
    counts = [len(event.evicted), len(event.before), len(removed), len(added)]
    return [*map(np.log1p, sizes), *map(np.log1p, counts)]


def said(event: MemoryEvent) -> list[str]:
    """Return the texts of the evicted messages."""
    return [message.content for message in event.evicted]


def size(texts: Sequence[str]) -> int:
    """Return the characters of texts."""
    return sum(map(len, texts))


def _shares(event: MemoryEvent) -> list[float]:
    removed, added = lines_beyond(event.before, event.after), lines_beyond(event.after, event.before)
    heard = [len(message.content) for message in event.evicted if message.role == "user"]
    return [
        size(event.after) / max(1, size(event.before) + size(said(event))),
        1 - size(removed) / max(1, size(event.before)),
        size(added) / max(1, sum(heard)),
        len(added) / max(1, len(event.evicted)),
        max(heard, default=0),
        max(map(len, added), default=0),
        max(map(len, removed), default=0),
    ]
