"""Make tasks: the variants of each bug, drawn from a seed."""

from __future__ import annotations

from collections.abc import Iterator

from .bugs import BUGS
from .builder import build
from .task import SweTask
from .variant import variant_of

SHIPPED = 4
"""Variants of each bug that ship."""


def each_task(variants: int, seed: int) -> Iterator[SweTask]:
    """Yield so many variants of every bug."""
    for bug in BUGS:
        for number in range(variants):
            name = f"{bug.name}-{number + 1}" if seed == 0 else f"{bug.name}-{seed}-{number + 1}"
            yield build(variant_of(bug, f"swe:{bug.name}:{seed}:{number}"), name=name, group=bug.name)
