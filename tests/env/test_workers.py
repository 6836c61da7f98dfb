"""Episodes in other processes.

Invariants:

1. The result is that of one process, whatever the number of processes; only the time differs.
2. A worker that is lost is replaced, and nothing else changes.
3. No limit of a budget is passed, and what is charged is what one process would be charged.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from odd_tracks import Deadly

from mnemotune.env import Cast, DialogueTrack, Evaluation, Evaluator, Protocol, Summary
from mnemotune.env.episode import RecordError
from mnemotune.env.workers import Pool, WorkersLost, processes
from mnemotune.optimizer.workers import given
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm import Budget, BudgetExhausted, Charges, Ledger, Limits, Metered, on_account
from mnemotune.policies.lm.chain import NO_CALLS
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from people import lives

MODEL = EmbeddedModel()
CAST = Cast(MODEL, MODEL, LexicalEmbedder())
TRACK = DialogueTrack()
AWI, RAG = load_policy("awi"), load_policy("rag")


def pool(workers: int = 2, track: DialogueTrack = TRACK) -> Pool:
    return Pool(processes(partial(given, track, CAST), most=64), workers=workers, each=1)


def timeless(evaluation: Evaluation) -> Summary:
    return replace(Summary.of(evaluation, name="awi"), wall_s=0.0, critical_path=NO_CALLS)


def evaluated(
    users: Sequence[Any], workers: Pool, *, budget: Budget | None = None, track: DialogueTrack = TRACK, **more: Any
) -> list[Evaluation]:
    """Evaluate up to two stages, and then the rest; then another policy, which asks much of the same."""

    async def run() -> list[Evaluation]:
        async with aclosing(workers):
            return await both_of(Evaluator(track, CAST, runner=workers.runner(track, budget=budget)), users, **more)

    return asyncio.run(run())


def alone(users: Sequence[Any], track: DialogueTrack = TRACK, cast: Cast = CAST) -> list[Evaluation]:
    async def run() -> list[Evaluation]:
        return await both_of(Evaluator(track, cast), users)

    return asyncio.run(run())


async def both_of(evaluator: Evaluator, users: Sequence[Any], **more: Any) -> list[Evaluation]:
    first = await evaluator.evaluate(AWI, users, stages=2)
    return [first, await evaluator.evaluate(AWI, users, **more), await evaluator.evaluate(RAG, users, stages=1)]


def test_users_dealt_to_workers_score_as_in_one_process_and_go_on_where_they_stopped_invariant_1() -> None:
    users = lives(users=3)
    heard: list[str] = []
    first, whole, _ = evaluated(users, pool(), done=lambda episode: heard.append(episode.task))
    twin, one, _ = alone(users)
    assert (timeless(first), timeless(whole)) == (timeless(twin), timeless(one))
    assert [episode.task for episode in whole.episodes] == [user.id for user in users]
    assert one.critical_path.calls == whole.critical_path.calls
    assert sorted(heard) == sorted(user.id for user in users)


def test_more_work_than_may_look_for_a_worker_waits_in_line_invariant_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mnemotune.env.workers.pool.MOST_WAITING", 1)
    users = lives(users=4)
    assert [*map(timeless, evaluated(users, pool()))] == [*map(timeless, alone(users))]


@pytest.mark.exhaustive("defect")
@pytest.mark.parametrize("defect", ["guessed_answers", "unread_evolved_probes"])
def test_users_that_go_on_from_each_other_do_so_in_workers_too_invariant_1(defect: Any) -> None:
    track = DialogueTrack(Protocol(compat=frozenset({defect})))
    users = lives(users=2)
    assert timeless(evaluated(users, pool(track=track), track=track)[1]) == timeless(alone(users, track)[1])


def test_a_problem_in_a_worker_is_the_problem_of_the_evaluation() -> None:
    with pytest.raises(RecordError):
        evaluated(lives(users=2), pool(), replays={})


def test_a_worker_that_is_killed_is_replaced_and_changes_nothing_invariant_2() -> None:
    users = lives(users=3)
    workers = pool()

    async def run() -> Evaluation:
        async with aclosing(workers):
            evaluator = Evaluator(TRACK, CAST, runner=workers.runner(TRACK, budget=None))
            await evaluator.evaluate(AWI, users, stages=2)
            going_on = asyncio.create_task(evaluator.evaluate(AWI, users))
            await asyncio.sleep(0.05)
            assert not going_on.done()
            killed = workers.places[0]
            killed.link._process.kill()  # type: ignore[attr-defined]
            evaluation = await going_on
            assert killed not in workers.places
            return evaluation

    assert timeless(asyncio.run(run())) == timeless(alone(users)[1])


def test_calls_are_recorded_in_workers_for_the_groups_of_the_phase_invariant_1() -> None:
    users = lives(users=2)

    async def run(workers: Pool) -> Evaluation:
        async with aclosing(workers):
            runner = workers.runner(TRACK, budget=None, recorded=frozenset([users[1].group]))
            return await Evaluator(TRACK, CAST, runner=runner).evaluate(AWI, users, stages=1)

    first, second = (episode.stages[0] for episode in asyncio.run(run(pool(workers=1))).episodes)
    assert not any(part.calls for part in (*first.events, *first.marks))
    assert all(mark.calls[0].reply.content == mark.raw for mark in second.marks)


HELD = """
import asyncio
from odd_tracks import Masked
from test_workers import evaluated, lives, pool
if __name__ == "__main__":
    evaluated(lives(users=1), pool(track=Masked()))
"""


INTERRUPTED = """
import os, signal, sys, threading, time
from mnemotune.policies.lm import Budget, Charges, Limits
from test_workers import evaluated, lives, pool

def interrupt(budget):
    while budget.charged < 100:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    budget = Budget(Limits(calls=100_000), charges=Charges(), phase="search")
    threading.Thread(target=interrupt, args=[budget], daemon=True).start()
    try:
        evaluated(lives(users=6), pool(), budget=budget)
    except KeyboardInterrupt:
        sys.exit(7)
"""


def ended(script: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run a script until it and its workers have ended."""
    script.write_text(text)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in [str(Path(__file__).parent), *sys.path])}
    return subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_worker_never_hears_ctrl_c_not_even_the_first_of_a_process(tmp_path: Path) -> None:
    """The process of the run hears it, and ends its workers."""
    assert "held: [<Signals.SIGINT: 2>]" in ended(tmp_path / "held.py", HELD).stderr


def test_workers_whose_coordinator_is_interrupted_end_without_a_word(tmp_path: Path) -> None:
    process = ended(tmp_path / "interrupted.py", INTERRUPTED)
    assert (process.returncode, process.stderr) == (7, "")


def test_work_that_kills_one_worker_after_another_ends_the_run_with_a_message_invariant_2() -> None:
    users = lives(users=1)
    with pytest.raises(WorkersLost, match="3 workers ended without a word"):
        evaluated(users, pool(track=Deadly()))


def test_what_workers_spend_is_charged_as_in_one_process_invariant_3() -> None:
    users = lives(users=3)
    budgets = [Budget(Limits(calls=100_000, tokens=10**9), charges=Charges(), phase="search") for _ in range(2)]
    accounts = [Ledger(), Ledger()]
    with on_account(accounts[0]):
        evaluated(users, pool(), budget=budgets[0])
    metered = Metered(MODEL, budget=budgets[1])
    with on_account(accounts[1]):
        alone(users, cast=replace(CAST, assistant=metered, user=metered))
    assert budgets[0].ledger == budgets[1].ledger
    assert budgets[0].calls < accounts[0].total.calls, "some requests are repeated"
    assert (budgets[0].calls, budgets[0].tokens) == (budgets[1].calls, budgets[1].tokens)
    assert accounts[0] == accounts[1]


@pytest.mark.exhaustive("short_of")
@pytest.mark.parametrize("short_of", [1, 60])
def test_a_budget_ends_workers_where_it_ends_one_process_invariant_3(short_of: int) -> None:
    users = lives(users=2)
    whole = Budget(Limits(), charges=Charges(), phase="search")
    evaluated(users, pool(), budget=whole)
    budget = Budget(Limits(calls=whole.calls - short_of), charges=Charges(), phase="search")
    with pytest.raises(BudgetExhausted, match="calls is spent"):
        evaluated(users, pool(), budget=budget)
    assert budget.calls == whole.calls - short_of
