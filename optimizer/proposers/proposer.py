"""What every proposer is, and what a proposal is made of."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import ValidationError

from ...policies.files import policy_problems
from ...policies.knob import Point
from ...policies.lm import LanguageModel, Ledger
from ...policies.policy import MemoryPolicy, prompt_kinds
from ...policies.prompts import Templates
from ...policies.space import Space, nested
from ..config import SearchConfig
from ..study import Played, Trial, leader, raced, users_won


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy to try, or the reason why the proposal is none."""

    parent: int
    """The number of the trial that it was made from."""
    change: str
    """What was changed and why, in words."""
    policy: MemoryPolicy | None
    problem: str = ""
    """Why there is no policy."""
    ledger: Ledger = field(default_factory=Ledger, compare=False)
    """What proposing cost, proposals that it replaces included."""
    proposer: str = ""
    """The name of its proposer."""


class Proposer(Protocol):
    """Makes new policies from the study so far."""

    alone: bool = False
    """Whether it must see what became of its last candidate before it makes another."""
    explores: bool = False
    """Whether it looks everywhere, without regard to what was good so far."""
    edits_prompts: bool = False
    """Whether it edits a parent's prompts, so that a broad start has edits of the seed policy's too."""

    def ready(self, trials: Sequence[Trial]) -> bool:
        """Tell whether there is anything to make a candidate from."""
        ...

    async def propose(self, trials: Sequence[Trial], rng: random.Random) -> Candidate:
        """Make one candidate.

        ``trials`` are those of earlier generations, the seed policy's first. The same trials, state of ``rng`` and
        replies give the same candidate. Raises BudgetExhausted or EndpointDown.
        """
        ...

    def close(self) -> None:
        """Release what it holds; the search is over."""


class Playing(Protocol):
    """Where policies can be tried on train users."""

    async def play(self, policy: MemoryPolicy, users: Sequence[str]) -> Mapping[str, Played]:
        """Return how a policy does on these train users, by user; what was played before is not played again.

        Raises BudgetExhausted or EndpointDown.
        """
        ...


@dataclass(frozen=True, slots=True)
class Means:
    """What proposers are made of."""

    search: SearchConfig
    templates: Templates
    model: LanguageModel
    """Who edits prompts."""
    arena: Playing


class BaseProposer(Proposer):
    """What the proposers here share; unless one says otherwise, it can always propose."""

    def __init__(self, means: Means) -> None:
        """Propose with these means."""
        self.means = means
        self.search = means.search

    def ready(self, trials: Sequence[Trial]) -> bool:
        """Tell that it always is."""
        return True

    def slots_of(self, policy: MemoryPolicy) -> list[str]:
        """Return the slots of a policy's prompts that may change."""
        return [slot for slot in policy.prompt_kinds if slot in self.search.slots] if self.search.prompts else []


def pick_parent(
    trials: Sequence[Trial], rng: random.Random, *, fit: Callable[[Trial], object] = lambda _: True
) -> Trial:
    """Pick among the trials that are best for some user, the more users the likelier; the leader counts for all.

    Where the picked trial is not ``fit``, one is drawn from the raced trials that are.
    """
    weights = Counter({number: len(users) for number, users in users_won(raced(trials)).items()})
    first = leader(trials)
    weights[first.number] += len(first.train)
    numbers = sorted(weights)
    number = rng.choices(numbers, weights=[weights[n] for n in numbers])[0]
    parent = next(trial for trial in trials if trial.number == number)
    return parent if fit(parent) else rng.choice([trial for trial in raced(trials) if fit(trial)])


def policy_of(trial: Trial) -> MemoryPolicy:
    """Return a raced trial's policy."""
    if trial.policy is None:
        raise ValueError(f"trial {trial.number} has no policy")
    return trial.policy


def inherit(base: MemoryPolicy, kinds: Mapping[str, str], templates: Templates) -> dict[str, str]:
    """Return the parent's prompts where they are of the same kind, and those of ``templates`` elsewhere."""
    given = base.prompts.model_dump()
    return {
        slot: given[slot] if base.prompt_kinds.get(slot) == kind else templates.starting(kind)
        for slot, kind in kinds.items()
    }


def moved(base: MemoryPolicy, point: Point, space: Space, templates: Templates) -> dict[str, Any]:
    """Return what a policy says at another point of the space, with the prompts that it inherits."""
    values = {"backend": None} | nested(space.values_at(point, base.values))
    kinds = prompt_kinds(point["mode"], point.get("store"), values["backend"])
    return values | {"prompts": inherit(base, kinds, templates)}


def candidate(parent: Trial, change: str, values: Mapping[str, Any], *, longest_prompt: int | None) -> Candidate:
    """Make a candidate of a policy's values, or say why they are no policy to try.

    It has its parent's backend where the values do not say any. ``longest_prompt`` is in characters; None is no limit.
    """
    texts, inherited = values["prompts"], policy_of(parent).prompts.model_dump()
    new = {slot: text for slot, text in texts.items() if text is not None and text != inherited[slot]}
    long = [slot for slot, text in new.items() if longest_prompt is not None and len(text) > longest_prompt]
    if long:
        problem = f"prompts.{long[0]}: {len(texts[long[0]])} characters are above search.longest_prompt"
        return Candidate(parent.number, change, None, problem)
    try:
        policy = MemoryPolicy.model_validate({"backend": policy_of(parent).backend, **values})
    except ValidationError as error:
        return Candidate(parent.number, change, None, "; ".join(policy_problems(error)))
    if policy.oracle:
        return Candidate(parent.number, change, None, "prompts: ask for the names of the states, unfairly")
    return Candidate(parent.number, change, policy)
