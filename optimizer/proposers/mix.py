"""Which proposer makes which candidate: proposers whose candidates succeed make more of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from ...env.concurrency import side_by_side
from ...policies.lm import Ledger, on_account
from ..config import SearchConfig
from ..study import Trial
from .proposer import Candidate, Means, Proposer

ATTEMPTS = 3
"""Proposals for a slot, before a policy that the study knows already is let through to be dropped."""


@contextmanager
def open_proposers(means: Means) -> Iterator[Mapping[str, Proposer]]:
    """Make the proposers that a search names and that have something to change, by name."""
    proposers: dict[str, Proposer] = {name: kind.make(means) for name, kind in means.search.at_work.items()}
    try:
        yield proposers
    finally:
        for proposer in proposers.values():
            proposer.close()


async def propose(
    proposers: Mapping[str, Proposer],
    trials: Sequence[Trial],
    *,
    generation: int,
    count: int,
    seed: int,
    broad: bool = False,
    edited: int = 0,
) -> list[Candidate]:
    """Make a generation's candidates; fewer where proposers make a single candidate at a time.

    The candidates of a ``broad`` generation come from proposers that look everywhere, but for the last ``edited`` of
    them, which come from proposers that edit prompts, where there are any. Elsewhere each slot goes to the
    proposer with the best draw from what is known of it (Thompson sampling). The same trials, seed and replies give
    the same candidates. Raises BudgetExhausted or EndpointDown.
    """
    rng = random.Random(f"propose:{seed}:{generation}")
    able = {name: proposer for name, proposer in proposers.items() if proposer.ready(trials)}
    if not broad:
        return await _dealt(able, trials, count, rng)
    editors = _editors(able)
    places = edited if editors else 0
    spread = await _spread_out(proposers, trials, count - places, rng)
    return spread + await _dealt(editors, trials, places, rng)


def edits_in(search: SearchConfig, size: int) -> int:
    """Return how many of a broad start's candidates are edits of the seed policy's prompts, where they may change."""
    return min(search.candidates, size // 2) if search.prompts else 0


async def _dealt(
    able: Mapping[str, Proposer], trials: Sequence[Trial], count: int, rng: random.Random
) -> list[Candidate]:
    """Let those proposers make candidates that win the draw for a slot."""
    slots: list[Candidate | None] = [None] * count
    ledgers = [Ledger() for _ in range(count)]
    waiting, known = dict(able), _telling(able, trials)
    for _ in range(ATTEMPTS):
        plans: list[tuple[int, str, random.Random]] = []
        for slot in _stale(slots, trials):
            if not waiting:
                break
            name = pick_proposer(sorted(waiting), known, rng)
            plans.append((slot, name, random.Random(rng.getrandbits(32))))
            if able[name].alone:
                del waiting[name]
        asked = (_ask(name, able[name], trials, own, ledgers[slot]) for slot, name, own in plans)
        for (slot, _, _), candidate in zip(plans, await side_by_side(asked), strict=True):
            slots[slot] = candidate
    return [candidate for candidate in slots if candidate is not None]


def _editors(proposers: Mapping[str, Proposer]) -> dict[str, Proposer]:
    """Return the proposers that edit prompts; another package's proposer need not say whether it does."""
    return {name: proposer for name, proposer in proposers.items() if getattr(proposer, "edits_prompts", False)}


def _telling(proposers: Mapping[str, Proposer], trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials that tell what a proposer's next candidate is worth.

    A broad start's edits of the seed policy do not: they raced beside points far apart, and later edits are of leaders.
    """
    explorers = {name for name, proposer in proposers.items() if proposer.explores}
    editors = _editors(proposers)
    first = [trial for trial in trials if trial.generation == 1]
    if not any(trial.proposer in explorers for trial in first):
        return list(trials)
    return [trial for trial in trials if trial.generation != 1 or trial.proposer not in editors]


async def _spread_out(
    proposers: Mapping[str, Proposer], trials: Sequence[Trial], count: int, rng: random.Random
) -> list[Candidate]:
    """Let the proposers that look everywhere make one candidate after another, in sight of those before."""
    candidates, seen = list[Candidate](), list(trials)
    for _ in range(count):
        name = next(name for name, proposer in proposers.items() if proposer.explores and proposer.ready(seen))
        new = await _ask(name, proposers[name], seen, rng, Ledger())
        candidates.append(new)
        seen.append(Trial(len(seen), 1, new.policy, new.parent, new.change, "check"))  # nothing is known of it yet
    return candidates


async def _ask(name: str, proposer: Proposer, trials: Sequence[Trial], rng: random.Random, ledger: Ledger) -> Candidate:
    """Have a candidate made; the slot's ``ledger`` also holds what its earlier candidates cost."""
    with on_account(ledger):
        candidate = await proposer.propose(trials, rng)
    return replace(candidate, ledger=ledger, proposer=name)


def pick_proposer(names: Sequence[str], trials: Sequence[Trial], rng: random.Random) -> str:
    """Draw each proposer's successes per call of its candidates; return the proposer with the highest draw.

    A success is a candidate that was clearly better than all before it on train users. Its share has a Beta posterior.
    A candidate that was refused, or known before, took no calls: it counts as a failure, and not in the mean of calls.
    """
    every = [trial.calls for trial in trials if trial.calls]
    usual = sum(every) / len(every) if every else 1.0
    drawn = {}
    for name in names:
        of_it = [trial for trial in trials if trial.proposer == name]
        won = sum(trial.led for trial in of_it)
        known = [trial.calls for trial in of_it if trial.calls]
        calls = (usual + sum(known)) / (1 + len(known))
        drawn[name] = rng.betavariate(1 + won, 1 + len(of_it) - won) / calls
    return max(drawn, key=drawn.__getitem__)


def _stale(slots: Sequence[Candidate | None], trials: Sequence[Trial]) -> list[int]:
    """Return the slots without a candidate, or with a policy that was tried or proposed before."""
    seen, stale = {trial.policy for trial in trials}, []
    for slot, candidate in enumerate(slots):
        if candidate is None or (candidate.policy is not None and candidate.policy in seen):
            stale.append(slot)
        else:
            seen.add(candidate.policy)
    return stale
