"""Proposers by name: what each may change, and how it is made. What they are is in ``proposers/proposer.py``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ..data.registry import Registry


@dataclass(frozen=True, slots=True)
class ProposerKind:
    """A kind of proposer that a config can name."""

    make: Callable[[Any], Any]
    """Makes a ``Proposer`` from its ``Means``."""
    numbers: bool = True
    """Whether it changes numbers and structure; a proposer that changes nothing else rests where they are to stay."""
    prompts: bool = True
    """The same of prompts."""
    spreads: bool = False
    """Whether it makes the candidates of a broad start: any number of them, from all over the space."""


def _shipped(file: str, name: str) -> Callable[[Any], Any]:
    """Return a maker that imports a proposer's class when it is needed."""
    return lambda means: getattr(import_module(f"..proposers.{file}", __name__), name)(means)


SHIPPED = {
    "known": ProposerKind(_shipped("known", "Known"), prompts=False),
    "spread": ProposerKind(_shipped("sampled", "Spread"), prompts=False, spreads=True),
    "reflective": ProposerKind(_shipped("reflective", "Reflective")),
    "merge": ProposerKind(_shipped("merge", "Merge")),
    "gp": ProposerKind(_shipped("sampled", "Gp"), prompts=False),
    "tpe": ProposerKind(_shipped("sampled", "Tpe"), prompts=False),
    "random": ProposerKind(_shipped("sampled", "Random"), prompts=False),
    "amemgym": ProposerKind(_shipped("amemgym", "AMemGym"), numbers=False),
    "gepa": ProposerKind(_shipped("gepa", "Gepa"), numbers=False),
}
PROPOSERS: Registry[ProposerKind] = Registry("proposer", "mnemotune.proposers", SHIPPED)
