"""The rehearsal: a few policies play one train task with the embedded model, for free, to show what episodes cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...data import Splits
from ...data.task import Task
from ...env import Cast, Evaluator, Track
from ...policies.assistant import ContextUse
from ...policies.lm import (
    CALL_ROLES,
    Budget,
    Charges,
    Embedding,
    LanguageModelError,
    Ledger,
    Limits,
    Metered,
    Usage,
)
from ...policies.lm.base import CHARACTERS_PER_TOKEN, Bill
from ...policies.lm.embedded import EmbeddedModel
from ...policies.lm.lexical import LexicalEmbedder
from ...policies.policy import MemoryPolicy
from ..config import Config
from ..models import track_of
from ..proposers.numbers import NumberSampler
from ..proposers.proposer import moved
from .arena import first_look

DRAWN = 4
"""Policies drawn for each write mode; they stand for the first candidates of the search."""
STAGES_WITH_ASK = 2
"""Stages that a model behind an endpoint is asked for: enough to see how long its messages are."""

Taken = NDArray[np.float64]
"""Calls, input and output tokens by role: shape ``(len(CALL_ROLES), 3)``."""
NOTHING: Taken = np.zeros((len(CALL_ROLES), 3))


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What episodes cost, judged by those of one task."""

    track: Track
    task: Task
    episodes: Mapping[MemoryPolicy, Taken]
    """Cost of an episode of the task, by policy."""
    beginnings: Mapping[MemoryPolicy, Taken]
    """The same, up to the first look at a race."""
    bound: Taken
    broad: tuple[MemoryPolicy, ...]
    """Policies within the space that stand for the first candidates of a search, the best first."""
    fresh: Taken
    """Share of a later policy's calls that no policy before it made, by role: shape ``(len(CALL_ROLES), 1)``. The
    others are not charged."""
    seconds: float
    """Of a call that is charged, on this machine, on the average."""

    def takes(self, policy: MemoryPolicy, tasks: Sequence[Task], *, begun: bool = False) -> Taken:
        """Return the cost of a policy's episodes, whole or up to the first look, in proportion to their calls."""
        calls = sum(self.track.most_calls(task, policy) for task in tasks)
        played = (self.beginnings if begun else self.episodes)[policy]
        return played * (calls / self.track.most_calls(self.task, policy))

    def mean(self, policies: Sequence[MemoryPolicy], tasks: Sequence[Task], *, begun: bool = False) -> Taken:
        """Return the mean cost over policies."""
        return sum((self.takes(policy, tasks, begun=begun) for policy in policies), NOTHING) / len(policies)

    def read_a_call(self, policies: Sequence[MemoryPolicy]) -> float:
        """Return the mean input tokens of a language model's call, over whole episodes under these policies."""
        played = np.delete(sum(self.episodes[policy] for policy in policies), CALL_ROLES.index("embed"), axis=0)
        calls, tokens = played[:, :2].sum(axis=0)
        return float(tokens / calls)

    def bounds(self, tasks: Sequence[Task]) -> Taken:
        """Return the cost of the bounds; zero for a track whose bounds take no calls."""
        calls, here = sum(self.track.bound_calls(task) for task in tasks), self.track.bound_calls(self.task)
        return self.bound * (calls / here) if here else NOTHING


async def rehearse(config: Config, splits: Splits, *, clock: Callable[[], float]) -> Rehearsal:
    """Play seed policy, baselines and a few policies of the space on one train task; ``clock`` is in seconds."""
    track, task = track_of(config), splits.train[0].tasks[0]
    free, budget = free_cast(config), Budget(Limits(), charges=Charges())
    assistant = Metered(free.assistant, budget=budget)
    evaluator = Evaluator(track, replace(free, assistant=assistant, user=assistant))
    baselines = list(config.compared.values())
    broad = [config.seed_policy]
    if config.search.changes_numbers:
        findable = [policy for policy in baselines if not policy.oracle and policy.evolution is None]
        broad = list(dict.fromkeys([*findable, *_drawn(config)]))
    bound = (await evaluator.evaluate(config.seed_policy, [task], stages=0)).ledger
    taken, begun, scores, charged = {}, {}, {}, list[Taken]()
    bounded, start = budget.ledger.total.calls, clock()
    for policy in dict.fromkeys([config.seed_policy, *baselines, *broad]):
        first = await evaluator.evaluate(policy, [task], stages=first_look(task.stages))
        whole = await evaluator.evaluate(policy, [task])
        begun[policy], taken[policy] = taken_of(first.ledger), taken_of(whole.ledger)
        scores[policy] = whole.memory_score.mean
        charged.append(taken_of(budget.ledger))
    seconds = (clock() - start) / max(1, budget.ledger.total.calls - bounded)
    ranked = sorted(broad, key=lambda policy: math.inf if math.isnan(scores[policy]) else -scores[policy])
    made = sum(list(taken.values())[1:], NOTHING)[:, :1]
    fresh = np.divide((charged[-1] - charged[0])[:, :1], made, out=np.ones_like(made), where=made > 0)
    fresh[CALL_ROLES.index("embed")] = 1.0
    return Rehearsal(track, task, taken, begun, taken_of(bound), broad=tuple(ranked), fresh=fresh, seconds=seconds)


def free_cast(config: Config) -> Cast:
    """Return the embedded model in all roles, with the config's embedder or a free one in place of one elsewhere."""
    provided = config.provided_embedder
    embedder = _Counting() if provided.remote else provided.make(config.reach_of_embedder, None)
    return Cast(EmbeddedModel(), EmbeddedModel(), embedder, config.context_tokens)


async def context_use_of(
    policies: Mapping[str, MemoryPolicy], track: Track, task: Task, cast: Cast, *, stages: int | None = None
) -> dict[str, ContextUse]:
    """Play one task under each policy without a budget; return what memory put before the replies, by name.

    Where nobody replies, it is what memory put before the answers. Raises LanguageModelError when an episode fails.
    """
    uses = {}
    for name, policy in policies.items():
        async with aclosing(track.begin(task, policy, replace(cast, context_tokens=None))) as rollout:
            episode = await rollout.run(stages)
        if episode.failure is not None:
            raise LanguageModelError(f"{name}: {episode.failure}")
        uses[name] = episode.uses.get("reply") or episode.uses.get("answer", ContextUse())
    return uses


class _Counting(LexicalEmbedder):
    """Counts what an embedder behind an endpoint would cost."""

    def worst_case(self, texts: Sequence[str]) -> Usage:
        return Usage(sum(len(text) for text in texts) // CHARACTERS_PER_TOKEN, 0)

    async def embed(self, texts: Sequence[str], *, bill: Bill | None = None) -> Embedding:
        return replace(await super().embed(texts), usage=self.worst_case(texts))


def taken_of(ledger: Ledger) -> Taken:
    """Return a ledger's calls and tokens."""
    spends = [ledger.by_role.get(role) for role in CALL_ROLES]
    return np.array([(0, 0, 0) if s is None else (s.calls, s.input_tokens, s.output_tokens) for s in spends], float)


def _drawn(config: Config) -> list[MemoryPolicy]:
    """Draw as many policies of the space for each write mode, with the seed policy's prompts where they fit."""
    space, seed = config.search.space, 0
    drawn: dict[str, list[MemoryPolicy]] = {mode: [] for mode in space.limits["modes"]}
    while any(len(policies) < DRAWN for policies in drawn.values()):
        point = NumberSampler(space, [], seed=seed).jump()
        seed += 1
        if len(drawn[point["mode"]]) < DRAWN:
            values = moved(config.seed_policy, point, space, config.templates)
            drawn[point["mode"]].append(MemoryPolicy.model_validate(values))
    return [policy for policies in drawn.values() for policy in policies]
