"""A bench: studies to propose from, and proposers around an arena of real parts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import nan
from typing import Any

import pytest

from mnemotune.optimizer.config import SearchConfig
from mnemotune.optimizer.proposers.mix import open_proposers
from mnemotune.optimizer.proposers.proposer import Candidate, Means, Proposer
from mnemotune.optimizer.search.arena import Arena
from mnemotune.optimizer.study import Evidence, Trial
from mnemotune.policies.policy import MemoryPolicy
from mnemotune.policies.prompts import Templates

FAILURES = tuple(
    Evidence(
        stage,
        f'Question: Which {word}?\nThe user said: "I like {word}."\nMemory held:\n- {word}',
        user,
    )
    for stage in ("write", "read", "utilisation")
    for word, user in (("tea", "train0"), ("rain", "train1"), ("jazz", "train1"))
)


@dataclass(frozen=True, repr=False)
class Bench:
    """Makes trials, and lets proposers propose from them; their users are ``train0`` and ``train1``."""

    kit: Any

    def facts(self, care: int = 30, **numbers: Any) -> MemoryPolicy:
        given = {"update_every": 2, "buffer_size": 4, "store": "external", "top_k": 30} | numbers
        policy: MemoryPolicy = self.kit.policy(care, mode="facts", **given)
        return policy

    def trial(self, number: int = 0, **values: Any) -> Trial:
        """Make a raced trial with failures of each stage."""
        trial: Trial = self.kit.trial(number, **{"evidence": FAILURES} | values)
        return trial

    def study(self) -> list[Trial]:
        """Make a study with every kind of trial; 0, 1, 6 and 7 were raced, 0, 1 and 7 are best for some user."""
        kit, odd = self.kit, {"train": {}, "summary": None}
        return [
            self.trial(),
            self.trial(1, policy=self.facts(), train={"train0": 0.5, "train1": 0.1}),
            kit.trial(2, policy=None, decided_at="check", **odd),
            kit.trial(3, policy=kit.policy(31), decided_at="check", **odd),
            kit.trial(4, policy=kit.policy(32), decided_at="screen", **odd),
            kit.trial(5, policy=kit.policy(33), summary=None, train={"train0": 0.9}),
            kit.trial(6, policy=kit.policy(34), train={"train0": nan, "train1": nan}),
            self.trial(7, policy=kit.policy(35), decided_at="validate", accepted=True),
        ]

    def arena(self, model: Any, *, users: int = 2, **parts: Any) -> Arena:
        return Arena(self.kit.splits(train=users), self.kit.evaluator(model), seed=0, block=4, **parts)

    @contextmanager
    def opened(
        self, name: str, *, model: Any = None, arena: Any = None, templates: Templates | None = None, **search: Any
    ) -> Iterator[Proposer]:
        """Open one proposer; its model and the arena's is a pupil, unless told otherwise."""
        model = self.kit.pupil() if model is None else model
        config = SearchConfig(proposers=(name,), **search)  # type: ignore[arg-type]
        means = Means(config, templates or Templates.bundled(), model, arena or self.arena(model))
        with open_proposers(means) as proposers:
            yield proposers[name]

    def propose(self, name: str, trials: Sequence[Trial], *, seed: int = 0, **parts: Any) -> Candidate:
        """Let a proposer make one candidate."""

        async def once() -> Candidate:
            with self.opened(name, **parts) as proposer:
                return await proposer.propose(trials, random.Random(seed))

        return asyncio.run(once())

    def ready(self, name: str, trials: Sequence[Trial], **parts: Any) -> bool:
        with self.opened(name, **parts) as proposer:
            return proposer.ready(trials)


@pytest.fixture(scope="session")
def bench(kit: Any) -> Bench:
    return Bench(kit)
