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


def _shipped(file: str, name: str, *needs: str) -> Callable[[Any], Any]:
    """Return a maker that imports a proposer's class when it is needed, and gives it the means that it needs."""

    def make(means: Any) -> Any:
        proposer = getattr(import_module(f"..proposers.{file}", __name__), name)
        return proposer(**{need: getattr(means, need) for need in needs})

    return make


PROPOSERS: Registry[ProposerKind] = Registry(
    "proposer",
    "mnemotune.proposers",
    {
        "known": ProposerKind(_shipped("known", "Known", "search", "templates"), prompts=False),
        "spread": ProposerKind(_shipped("sampled", "Spread", "search", "templates"), prompts=False, spreads=True),
        "reflective": ProposerKind(_shipped("reflective", "Reflective", "search", "model")),
        "merge": ProposerKind(_shipped("merge", "Merge", "search")),
        "gp": ProposerKind(_shipped("sampled", "Gp", "search", "templates"), prompts=False),
        "tpe": ProposerKind(_shipped("sampled", "Tpe", "search", "templates"), prompts=False),
        "random": ProposerKind(_shipped("sampled", "Random", "search", "templates"), prompts=False),
        "amemgym": ProposerKind(_shipped("amemgym", "AMemGym", "search", "arena"), numbers=False),
        "gepa": ProposerKind(_shipped("gepa", "Gepa", "search", "model", "arena"), numbers=False),
    },
)
