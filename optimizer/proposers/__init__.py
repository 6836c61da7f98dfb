"""Where new memory policies come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ...policies.lm import LanguageModel
from ...policies.prompts import Templates
from ..config import SearchConfig
from .proposer import Means, Playing, Proposer


@contextmanager
def open_proposers(
    search: SearchConfig, *, model: LanguageModel, templates: Templates, arena: Playing
) -> Iterator[Mapping[str, Proposer]]:
    """Make the proposers that a search names and that have something to change, by name."""
    means = Means(search, templates, model, arena)
    proposers: dict[str, Proposer] = {name: kind.make(means) for name, kind in search.at_work.items()}
    try:
        yield proposers
    finally:
        for proposer in proposers.values():
            proposer.close()
