"""The gepa library as a proposer: its engine picks parents and minibatches and decides what is worth a whole race."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextvars import copy_context
from importlib import import_module
from types import SimpleNamespace
from typing import Any, TypeVar

from ...env.statistics import nan_mean
from ...policies.lm import BudgetExhausted, EndpointDown
from ...policies.policy import MemoryPolicy
from ..study import Played, Trial
from .proposer import BaseProposer, Candidate, Means, candidate, policy_of
from .reflective import improve

MINIBATCH = 3
"""Train users that gepa looks at before it decides on a new prompt, its own default."""
NAME = "gepa"
"""Under which a study knows its candidates."""
ENDLESS = 10**9
"""Metric calls: the budget ends the search, not gepa."""
PATIENCE = 10
"""Reflections after which a proposal is given up, where none was worth a whole race."""
WORST = -1e6
"""The score that gepa gets for prompts without a score; a memory score may be below 0."""

Prompts = dict[str, str]
Failures = Mapping[str, Sequence[Mapping[str, str]]]
"""By prompt, as records of a dataset."""
T = TypeVar("T")


class _Stopped(BaseException):
    """Ends gepa's thread; no handler of gepa's catches it."""


class Gepa(BaseProposer):
    """gepa's engine (2025) on the same users, with the same language model as prompt engineer.

    The engine runs in a thread of its own, from the seed policy's prompts; this object is its adapter. Minibatches are
    played when the engine asks for them. A prompt that it wants scored on all train users is the next candidate; the
    engine goes on when the race is over.
    """

    alone = True

    def __init__(self, means: Means) -> None:
        """Start with the first proposal."""
        super().__init__(means)
        self._thread = threading.Thread(target=self._run, name="gepa", daemon=True)
        self._trials: Sequence[Trial] = ()
        self._parents: dict[MemoryPolicy, MemoryPolicy] = {}
        self._wholes: set[MemoryPolicy] = set()
        self._judged: Future[None] = Future()
        self._waits_for: Future[Any] = self._judged
        self._ended: BaseException | None = None
        self._closed = False
        self._fruitless = 0
        self._problem = ""
        self._gave_up = 0

    def ready(self, trials: Sequence[Trial]) -> bool:
        """Tell whether the seed policy has prompts that may change, and users for a minibatch besides the whole."""
        return bool(self.slots_of(policy_of(trials[0]))) and len(trials[0].train) > 1

    async def propose(self, trials: Sequence[Trial], rng: random.Random) -> Candidate:
        """Tell gepa what became of its last candidate; return the next policy that it wants scored on all users."""
        if self._ended is not None:
            raise self._ended
        self._loop = asyncio.get_running_loop()
        self._trials, self._context = trials, copy_context()
        self._wanted: asyncio.Future[Candidate] = self._loop.create_future()
        if self._thread.ident is None:
            self._seed, self._users = policy_of(trials[0]), sorted(trials[0].train)
            self._slots = self.slots_of(self._seed)
            self._gave_up = sum(trial.proposer == NAME and trial.policy is None for trial in trials)
            self._thread.start()
        else:
            self._judged.set_result(None)
        return await self._wanted

    def close(self) -> None:
        """End gepa's thread, whatever it waits for."""
        self._closed = True
        self._waits_for.cancel()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        texts = self._seed.prompts.model_dump()
        try:
            import_module("gepa").optimize(  # late: only searches that use it need it
                seed_candidate={slot: texts[slot] for slot in self._slots},
                trainset=self._users,
                valset=self._users,
                adapter=self,
                reflection_minibatch_size=min(MINIBATCH, len(self._users) - 1),
                max_metric_calls=ENDLESS,
                seed=self.search.seed,
                logger=SimpleNamespace(log=logging.getLogger(__name__).debug),  # gepa would print what it does
                skip_perfect_score=False,
            )
        except _Stopped as stop:
            self._end(stop.__cause__ or RuntimeError("gepa was stopped"))
        except BaseException as error:  # noqa: BLE001 - the search that waits must hear of whatever ended the thread
            self._end(error)
        else:
            self._end(RuntimeError("gepa ended by itself"))

    def _end(self, error: BaseException) -> None:
        self._ended = error
        self._loop.call_soon_threadsafe(self._give, error)

    def evaluate(self, batch: list[str], candidate: Prompts, capture_traces: bool = False) -> Any:
        """Score prompts on users, as gepa's adapters do."""
        policy = self._policy(candidate)
        played: list[Played | None] = [None] * len(batch)
        if policy is None:
            scores = [WORST] * len(batch)
        elif len(batch) == len(self._users):  # a minibatch is smaller
            scores = self._whole(policy, candidate, batch)
        else:
            by_user = self._known(policy) or self._await(self.means.arena.play(policy, batch))
            played = [by_user[user] for user in batch]
            scores = _filled({user: play.score for user, play in by_user.items()}, batch)
        batch_of = import_module("gepa").EvaluationBatch
        return batch_of(outputs=played, scores=scores, trajectories=played if capture_traces else None)

    def make_reflective_dataset(self, candidate: Prompts, eval_batch: Any, components_to_update: list[str]) -> Failures:
        """Return the failures of a minibatch's users, for each prompt."""
        failures = [e for play in eval_batch.trajectories if play is not None for e in play.evidence]
        return {name: [{"failure": evidence.labelled} for evidence in failures] for name in components_to_update}

    def propose_new_texts(
        self, candidate: Prompts, reflective_dataset: Failures, components_to_update: list[str]
    ) -> Prompts:
        """Let the prompt engineer of the search edit the prompts that gepa has chosen."""
        if self._fruitless == PATIENCE:
            self._fruitless = 0
            problem = f"nothing new was better on its minibatch in {PATIENCE} attempts"
            problem += f"; the last that was refused: {self._problem}" if self._problem else ""
            self._hand_over(Candidate(self._trials[0].number, "gepa: no prompt changed", None, problem))
        self._fruitless += 1
        policy, new = self._policy(candidate), dict(candidate)
        if policy is None:
            return new
        for name in components_to_update:
            failures = [record["failure"] for record in reflective_dataset[name]][: self.search.failures_shown]
            edit = improve(
                policy, slots=[name], numbers=[], space=self.search.space, failures=failures, model=self.means.model
            )
            new |= self._await(edit).prompts
        changed = self._policy(new)
        if changed is not None:
            self._parents.setdefault(changed, policy)
        return {name: new[name] for name in components_to_update}

    def _whole(self, policy: MemoryPolicy, texts: Prompts, users: Sequence[str]) -> list[float]:
        """Return a policy's scores on all users; wait for its race unless it was raced before."""
        trial = self._trial(policy)
        if policy not in self._wholes:
            self._wholes.add(policy)
            self._fruitless = 0
        if trial is None:
            parent = self._origin(self._parents.get(policy, self._seed))
            changed = [slot for slot in self._slots if texts[slot] != policy_of(parent).prompts.model_dump()[slot]]
            change = f"gepa: {', '.join(changed) or 'no'} prompt changed"
            self._hand_over(Candidate(parent.number, change, policy))
            trial = self._trial(policy)
        series = {} if trial is None else trial.series
        return _filled({user: nan_mean(scores) for user, scores in series.items()}, users)

    def _hand_over(self, new: Candidate) -> None:
        """Give the search a candidate, and wait until it comes back for another."""
        if new.policy is None and self._gave_up:  # a resumed study has it already
            self._gave_up -= 1
            return
        self._judged = Future()
        self._loop.call_soon_threadsafe(self._give, new)
        self._wait(self._judged)

    def _give(self, new: Candidate | BaseException) -> None:
        """Give the search what it waits for, in its own thread."""
        if self._wanted.done():
            return
        if isinstance(new, Candidate):
            self._wanted.set_result(new)
        else:
            self._wanted.set_exception(new)

    def _known(self, policy: MemoryPolicy) -> Mapping[str, Played]:
        """Return how a policy did in its whole race, which saves its minibatches; empty without a finished race."""
        trial = self._trial(policy)
        if trial is None or not trial.finished_race:
            return {}
        return {u: Played(score, tuple(e for e in trial.evidence if e.group == u)) for u, score in trial.train.items()}

    def _trial(self, policy: MemoryPolicy) -> Trial | None:
        return next((trial for trial in self._trials if trial.policy == policy and trial.series), None)

    def _origin(self, policy: MemoryPolicy) -> Trial:
        """Return the trial of a policy, or its nearest ancestor that finished its race."""
        trial = self._trial(policy) or self._trials[0]
        while not trial.finished_race and trial.parent is not None:
            trial = self._trials[trial.parent]
        return trial

    def _policy(self, texts: Prompts) -> MemoryPolicy | None:
        """Return the seed policy with these prompts; None when they are refused."""
        values = self._seed.model_dump()
        values["prompts"] |= texts
        proposal = candidate(self._trials[0], "", values, longest_prompt=self.search.longest_prompt)
        self._problem = proposal.problem or self._problem
        return proposal.policy

    def _await(self, work: Coroutine[Any, Any, T]) -> T:
        """Let the search's own thread do something, and wait for it."""
        try:
            return self._wait(self._context.run(asyncio.run_coroutine_threadsafe, work, self._loop))
        except (BudgetExhausted, EndpointDown) as error:
            raise _Stopped from error

    def _wait(self, future: Future[T]) -> T:
        """Wait for the search; ``close`` ends the wait."""
        self._waits_for = future
        if self._closed:
            future.cancel()
        try:
            return future.result()
        except CancelledError:
            raise _Stopped from None


def _filled(scores: Mapping[str, float], users: Sequence[str]) -> list[float]:
    """Return users' scores; a user without a score, or whose episode failed, gets the others' mean."""
    known = {user: score for user, score in scores.items() if not math.isnan(score)}
    usual = sum(known.values()) / len(known) if known else WORST
    return [known.get(user, usual) for user in users]
