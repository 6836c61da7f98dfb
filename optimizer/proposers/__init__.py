"""Where new memory policies come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ...policies.lm import LanguageModel
from ...policies.prompts import Templates
from ..config import SearchConfig
from .amemgym import AMemGym
from .gepa import Gepa
from .known import Known
from .merge import Merge
from .proposer import Playing, Proposer
from .reflective import Reflective
from .sampled import Gp, Random, Spread, Tpe


@contextmanager
def open_proposers(
    search: SearchConfig, *, model: LanguageModel, templates: Templates, arena: Playing
) -> Iterator[Mapping[str, Proposer]]:
    """Make the proposers that a search names, by name."""
    gepa = Gepa(search, model=model, arena=arena)
    every: dict[str, Proposer] = {
        "reflective": Reflective(search, model),
        "merge": Merge(search),
        "gp": Gp(search, templates),
        "tpe": Tpe(search, templates),
        "known": Known(search, templates),
        "random": Random(search, templates),
        "spread": Spread(search, templates),
        "amemgym": AMemGym(search, arena),
        "gepa": gepa,
    }
    try:
        yield {name: every[name] for name in search.at_work}
    finally:
        gepa.close()
