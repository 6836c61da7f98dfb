"""What the searches of an ablation will spend, before they spend anything."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...policies.lm import Consumed
from ..config import Config
from ..models import priced
from .ablation import Run
from .estimate import CostEstimate, estimate
from .outcome import holds_run, open_run
from .rehearsal import Rehearsal, rehearse
from .searches import Deal, at_once, is_done


@dataclass(frozen=True, slots=True)
class VariantPlan:
    """What one variant's searches take on the average, and what is left of them."""

    name: str
    searches: int
    done: int
    each: CostEstimate
    """Of one search from its beginning to its end."""
    spent: Consumed
    """By its searches that have begun and are not done."""

    @property
    def left(self) -> Consumed:
        """What its searches that are not done will still spend; seconds are those of one after another."""
        total, again = self.each.total, self.searches - self.done
        whole = again * float(total[:, 0].sum()), again * float(total[:, 1:].sum())
        gone = self.spent.calls, self.spent.tokens
        calls, tokens = (round(max(0.0, most - spent)) for most, spent in zip(whole, gone, strict=True))
        usd, seconds = self.each.total_usd, again * (self.each.seconds or 0.0)
        return Consumed(
            calls,
            tokens,
            None if usd is None or self.spent.usd is None else max(0.0, again * usd - self.spent.usd),
            max(0.0, seconds - self.spent.seconds),
        )


@dataclass(frozen=True, slots=True)
class AblationPlan:
    """What an ablation takes."""

    searches: int
    done: int
    variants: tuple[VariantPlan, ...]
    """Those that have something left."""
    limit: int | None
    """Calls that all its searches together may make; None where one of them has no limit."""
    beside: int
    """Searches that run at the same time."""

    @property
    def left(self) -> Consumed:
        """What is still to be spent; seconds are those until the end, 0 where they are not known."""
        total = summed([variant.left for variant in self.variants])
        return replace(total, seconds=total.seconds / max(1, self.beside))

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        left = self.left
        return {
            "searches": self.searches,
            "done": self.done,
            "limit_calls": self.limit,
            "left": {
                "calls": left.calls,
                "tokens": left.tokens,
                "usd": left.usd,
                "seconds": round(left.seconds) or None,
            },
            "variants": {variant.name: variant.each.as_json() for variant in self.variants},
        }


def plan(runs: Sequence[Run], deal: Deal) -> AblationPlan:
    """Estimate what these ``ready`` runs take; where variants play the same policies, these rehearse once.

    ``deal`` is what a ``dealer`` returns.
    """
    rehearsals: dict[str, Rehearsal] = {}
    by_variant: dict[str, list[Run]] = {}
    for run in runs:
        by_variant.setdefault(run.variant, []).append(run)
    left = {run.folder for run in runs if not is_done(run)}
    variants = []
    for name, own in by_variant.items():
        open_ = [run for run in own if run.folder in left]
        if not open_:
            continue
        config, splits = priced(own[0].config), deal(own[0].config)
        same = _played(config)
        if same not in rehearsals:
            rehearsals[same] = asyncio.run(rehearse(config, splits, clock=time.process_time))
        each = estimate(config, splits, rehearsals[same])
        spent = summed([open_run(run.folder).consumed for run in open_ if holds_run(run.folder)])
        variants.append(VariantPlan(name, len(own), len(own) - len(open_), each, spent))
    limits = [run.config.search.budget.calls for run in runs]
    known = [limit for limit in limits if limit is not None]
    return AblationPlan(
        len(runs),
        len(runs) - len(left),
        tuple(variants),
        sum(known) if len(known) == len(limits) else None,
        at_once([run for run in runs if run.folder in left]),
    )


def summed(parts: Sequence[Consumed]) -> Consumed:
    """Return what several runs consumed together; no dollars where those of one are not known."""
    usd = [part.usd for part in parts if part.usd is not None]
    return Consumed(
        sum(part.calls for part in parts),
        sum(part.tokens for part in parts),
        sum(usd) if len(usd) == len(parts) else None,
        sum(part.seconds for part in parts),
    )


def _played(config: Config) -> str:
    """Return what the rehearsal of a config depends on."""
    space = config.search.space.limits if config.search.changes_numbers else None
    return f"{config.model_dump_json(exclude={'search'})} {space}"
