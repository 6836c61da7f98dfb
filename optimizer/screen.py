"""Screening: a cheap look at candidates that may rank and drop them, never accept one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..policies.policy import MemoryPolicy


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the screen says of one candidate."""

    keep: bool
    reason: str


class Screen(Protocol):
    """Looks at a generation's candidates before any episode is spent on them."""

    async def screen(self, candidates: Sequence[MemoryPolicy]) -> list[Verdict]:
        """Return one verdict per candidate, aligned."""
        ...


class KeepAll:
    """The screen that drops nothing."""

    async def screen(self, candidates: Sequence[MemoryPolicy]) -> list[Verdict]:
        """Keep every candidate."""
        return [Verdict(keep=True, reason="not screened") for _ in candidates]
