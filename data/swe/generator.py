"""Make tasks: the variants of each bug, drawn from a seed."""

from __future__ import annotations

from collections.abc import Iterator

from .bug import Bug
from .bugs import BUGS
from .builder import build
from .task import SweTask
from .variant import variant_of

SHIPPED = 4
"""Variants of each bug that ship."""


def each_task(variants: int, seed: int) -> Iterator[SweTask]:
    """Yield so many variants of every bug."""
    return (task_of(bug, number=number, seed=seed) for bug in BUGS for number in range(variants))


def task_of(bug: Bug, *, number: int, seed: int) -> SweTask:
    """Return a variant of a bug."""
    name = f"{bug.name}-{number + 1}" if seed == 0 else f"{bug.name}-{seed}-{number + 1}"
    return build(variant_of(bug, f"swe:{bug.name}:{seed}:{number}"), name=name, group=bug.name)
