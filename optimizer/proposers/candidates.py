"""Candidates: one proposal carries numbers from Optuna and prompts from the reflective proposer."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Literal

from optuna.distributions import BaseDistribution
from pydantic import ValidationError

from ...env.concurrency import side_by_side
from ...policies.lm import LanguageModel
from ...policies.policy import MemoryPolicy, policy_problems, prompt_kinds
from ...policies.prompts import Templates, default_templates
from ..config import SearchConfig
from ..study import Trial
from .numbers import Draw, NumberSampler, apply_point, point_of
from .reflective import Edit, edit_prompt, slot_for

Move = Literal["prompts", "numbers", "both"]
"""What a candidate changes of its parent."""

JUMPS = 1 / 3
"""Share of new numbers that are drawn anywhere in the space; the others stay near the parent's."""
TWEAKED = 2
"""Most parameters that a step near the parent draws anew."""
ATTEMPTS = 3
"""Proposals that are made for a slot before one that the study knows already is let through, to be dropped."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy to try, or the reason why the proposal is none."""

    parent: int
    change: str
    """What was changed, in words."""
    policy: MemoryPolicy | None
    problem: str = ""
    """Why there is no policy."""
    params: Mapping[str, Any] = field(default_factory=dict)
    distributions: Mapping[str, BaseDistribution] = field(default_factory=dict)


async def propose(
    trials: Sequence[Trial],
    *,
    generation: int,
    search: SearchConfig,
    model: LanguageModel,
    templates: Templates | None = None,
) -> list[Candidate]:
    """Propose a generation's candidates from the trials of earlier generations.

    ``templates`` are the texts that policies start from; without them the bundled ones. The same trials, config and
    replies give the same candidates. Raises BudgetExhausted.
    """
    rng = random.Random(f"propose:{search.seed}:{generation}")
    raced = [trial for trial in trials if trial.finished_race]
    sampler = NumberSampler(search.space, raced, seed=rng.randrange(2**31))
    known = {trial.policy for trial in trials}
    candidates: list[Candidate | None] = [None] * search.candidates
    for attempt in range(ATTEMPTS):
        stale = _stale(candidates, known)
        plans = [_plan(raced, sampler, search, rng, again=attempt > 0) for _ in stale]
        made = await side_by_side(_make(plan, search, model, templates) for plan in plans)
        for slot, candidate in zip(stale, made, strict=True):
            candidates[slot] = candidate
    return [candidate for candidate in candidates if candidate is not None]


def _stale(candidates: Sequence[Candidate | None], known: Set[MemoryPolicy | None]) -> list[int]:
    """Return the slots without a candidate, or with a policy that was tried or proposed before."""
    seen, stale = set(known), []
    for slot, candidate in enumerate(candidates):
        if candidate is None or (candidate.policy is not None and candidate.policy in seen):
            stale.append(slot)
        else:
            seen.add(candidate.policy)
    return stale


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a candidate is to be made of."""

    parent: Trial
    policy: MemoryPolicy
    """The parent's."""
    move: Move
    drawn: Draw | None
    """Its new numbers; None leaves the parent's."""
    rng: random.Random


def _plan(
    raced: Sequence[Trial], sampler: NumberSampler, search: SearchConfig, rng: random.Random, *, again: bool
) -> _Plan:
    parent = _pick_parent(raced, rng)
    move = _pick_move(search, rng, again=again)
    if parent.policy is None:
        raise ValueError(f"trial {parent.number} was raced without a policy")
    here = point_of(parent.policy, search.space)
    drawn = None
    if move != "prompts":
        jump = here is None or rng.random() < JUMPS
        drawn = sampler.jump() if jump or here is None else sampler.tweak(here, free=rng.randint(1, TWEAKED), rng=rng)
    return _Plan(parent, parent.policy, move, drawn, random.Random(rng.getrandbits(32)))


def _pick_parent(raced: Sequence[Trial], rng: random.Random) -> Trial:
    """Pick among the trials that are best for some user, the more users the likelier; the newest accepted leads."""
    users = raced[0].train
    wins: Counter[int] = Counter()
    for user in users:
        scores = {trial.number: trial.train.get(user, math.nan) for trial in raced}
        best = max((score for score in scores.values() if not math.isnan(score)), default=math.nan)
        wins.update(number for number, score in scores.items() if score == best)
    leader = next(trial for trial in reversed(raced) if trial.accepted)
    wins[leader.number] += len(users)
    numbers = sorted(wins)
    chosen = rng.choices(numbers, weights=[wins[n] for n in numbers])[0]
    return next(trial for trial in raced if trial.number == chosen)


def _pick_move(search: SearchConfig, rng: random.Random, *, again: bool) -> Move:
    """Pick what to change; once a proposal brought nothing new, numbers are always among it."""
    moves: list[Move] = []
    if search.prompts and search.numbers:
        moves = ["numbers", "both"] if again else ["prompts", "numbers", "both"]
    else:
        moves = ["prompts"] if search.prompts else ["numbers"]
    return rng.choice(moves)


async def _make(plan: _Plan, search: SearchConfig, model: LanguageModel, templates: Templates | None) -> Candidate:
    parent, base = plan.parent, plan.policy
    changes = [] if plan.drawn is None else [_tell_numbers(plan.drawn, base, search)]
    point: dict[str, Any] = {"mode": base.write.mode, "store": base.store} if plan.drawn is None else plan.drawn.point
    kinds = prompt_kinds(point["mode"], point.get("store"))
    prompts = _inherit(base, kinds, templates or default_templates())
    if plan.move != "numbers":
        edit = await _edit(parent, kinds, prompts, search, model, plan.rng)
        if edit is not None:
            changes.append(f"{edit.slot} prompt: {edit.reason}")
            if len(edit.text) > search.longest_prompt:
                problem = f"prompts.{edit.slot}: {len(edit.text)} characters are above search.longest_prompt"
                return Candidate(parent.number, "; ".join(changes), None, problem)
            prompts[edit.slot] = edit.text
    try:
        policy = _with(base, plan.drawn, prompts)
    except ValidationError as error:
        return Candidate(parent.number, "; ".join(changes), None, "; ".join(policy_problems(error)))
    if policy.oracle:
        return Candidate(parent.number, "; ".join(changes), None, "prompts: ask for the names of the states, unfairly")
    known = point_of(policy, search.space)
    params, distributions = ({}, {}) if known is None else (known.point, known.distributions)
    return Candidate(parent.number, "; ".join(changes) or "no change", policy, "", params, distributions)


def _with(base: MemoryPolicy, drawn: Draw | None, prompts: Mapping[str, str]) -> MemoryPolicy:
    """Return the parent's policy with new numbers, where there are any, and these prompts."""
    if drawn is None:
        return MemoryPolicy.model_validate({**base.model_dump(), "prompts": prompts})
    budget = base.read.budget_tokens if drawn.point["mode"] != "none" else None
    return apply_point(drawn.point, prompts, read_budget=budget)


def _inherit(base: MemoryPolicy, kinds: Mapping[str, str], templates: Templates) -> dict[str, str]:
    """Return the parent's prompts where they are of the same kind, and those of ``templates`` elsewhere."""
    given = base.prompts.model_dump()
    return {
        slot: given[slot] if base.prompt_kinds.get(slot) == kind else templates.starting(kind)
        for slot, kind in kinds.items()
    }


async def _edit(
    parent: Trial,
    kinds: Mapping[str, str],
    prompts: Mapping[str, str],
    search: SearchConfig,
    model: LanguageModel,
    rng: random.Random,
) -> Edit | None:
    """Edit the prompt that the parent's failures belong to, the more failures of a stage the likelier."""
    stages = sorted({e.stage for e in parent.evidence if slot_for(e.stage, kinds) in search.slots})
    if not stages:
        return None
    shares = {stage: parent.summary["shares"][stage] for stage in stages}
    stage = rng.choices(list(shares), weights=[max(share, 1e-9) for share in shares.values()])[0]
    of_stage = [evidence for evidence in parent.evidence if evidence.stage == stage]
    shown = rng.sample(of_stage, min(search.failures_shown, len(of_stage)))
    slot = slot_for(stage, kinds)
    return await edit_prompt(slot, prompts[slot], kind=kinds[slot], evidence=shown, model=model)


def _tell_numbers(drawn: Draw, base: MemoryPolicy, search: SearchConfig) -> str:
    """Say in which numbers a candidate differs from its parent."""
    here = point_of(base, search.space)
    before = {} if here is None else here.point
    changed = [f"{name} {value}" for name, value in drawn.point.items() if before.get(name) != value]
    return "numbers: " + (", ".join(changed) or "as they were")
