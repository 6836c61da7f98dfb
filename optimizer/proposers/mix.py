"""Which proposer makes which candidate: those whose candidates come further get more of them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from ...env.concurrency import side_by_side
from ...policies.lm import Ledger
from ...policies.lm.budget import on_account
from ...policies.policy import MemoryPolicy
from ..study import Trial
from .proposer import Candidate, Proposer

ATTEMPTS = 3
"""Proposals that are made for a slot before one that the study knows already is let through, to be dropped."""


async def propose(
    proposers: Mapping[str, Proposer],
    trials: Sequence[Trial],
    *,
    generation: int,
    count: int,
    seed: int,
    broad: bool = False,
) -> list[tuple[str, Candidate]]:
    """Make a generation's candidates, each with its proposer's name; fewer where proposers make one at a time.

    Those of a ``broad`` one are made by proposers that look everywhere. Each slot goes to the proposer that comes out
    best of a draw from what is known of it (Thompson sampling). The same trials, seed and replies give the same
    candidates. Raises BudgetExhausted or EndpointDown.
    """
    rng = random.Random(f"propose:{seed}:{generation}")
    if broad:
        return await _spread_out(proposers, trials, count, rng)
    known = {trial.policy for trial in trials}
    made: list[tuple[str, Candidate] | None] = [None] * count
    took = [Ledger() for _ in range(count)]
    able = {name: proposer for name, proposer in proposers.items() if proposer.ready(trials)}
    for _ in range(ATTEMPTS):
        plans: list[tuple[int, str, random.Random]] = []
        for slot in _stale(made, known):
            if not able:
                break
            name = pick_proposer(sorted(able), trials, rng)
            plans.append((slot, name, random.Random(rng.getrandbits(32))))
            if proposers[name].alone:
                del able[name]
        found = await side_by_side(_ask(proposers[name], trials, own, took[slot]) for slot, name, own in plans)
        for (slot, name, _), candidate in zip(plans, found, strict=True):
            made[slot] = (name, candidate)
    return [(one[0], replace(one[1], took=spent)) for one, spent in zip(made, took, strict=True) if one is not None]


async def _spread_out(
    proposers: Mapping[str, Proposer], trials: Sequence[Trial], count: int, rng: random.Random
) -> list[tuple[str, Candidate]]:
    """Let the proposers that look everywhere make one candidate after another, in sight of those before."""
    made: list[tuple[str, Candidate]] = []
    seen = list(trials)
    for _ in range(count):
        name = next(name for name, proposer in proposers.items() if proposer.explores and proposer.ready(seen))
        took = Ledger()
        candidate = replace(await _ask(proposers[name], seen, rng, took), took=took)
        made.append((name, candidate))
        seen.append(_pending(candidate, number=len(seen)))
    return made


def _pending(candidate: Candidate, *, number: int) -> Trial:
    """Return a candidate as a trial of which nothing is known yet."""
    return Trial(number, 1, candidate.policy, candidate.parent, candidate.change, "check", accepted=False, reason="")


async def _ask(proposer: Proposer, trials: Sequence[Trial], rng: random.Random, account: Ledger) -> Candidate:
    with on_account(account):
        return await proposer.propose(trials, rng)


def pick_proposer(names: Sequence[str], trials: Sequence[Trial], rng: random.Random) -> str:
    """Draw how many successes each proposer brings for what its candidates take in calls; return the highest.

    A success is a candidate that was clearly better than all before it on train users. Its share has a Beta posterior.
    What was refused, or known before, took no calls; it fails, and tells nothing of what a candidate takes.
    """
    every = [trial.calls for trial in trials if trial.calls]
    usual = sum(every) / len(every) if every else 1.0
    drawn = {}
    for name in names:
        of_it = [trial for trial in trials if trial.proposer == name]
        won = sum(trial.led for trial in of_it)
        took = [trial.calls for trial in of_it if trial.calls]
        calls = (usual + sum(took)) / (1 + len(took))
        drawn[name] = rng.betavariate(1 + won, 1 + len(of_it) - won) / calls
    return max(drawn, key=drawn.__getitem__)


def _stale(made: Sequence[tuple[str, Candidate] | None], known: Set[MemoryPolicy | None]) -> list[int]:
    """Return the slots without a candidate, or with a policy that was tried or proposed before."""
    seen, stale = set(known), []
    for slot, one in enumerate(made):
        if one is None or (one[1].policy is not None and one[1].policy in seen):
            stale.append(slot)
        else:
            seen.add(one[1].policy)
    return stale
