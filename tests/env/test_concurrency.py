"""Side by side means: everything that waits for nothing starts at once, and nothing is left running.

Invariants:

1. Results come in the order asked for, whatever the order of their ends.
2. When one raises, the others are ended before the error goes on.
3. An evaluation takes as long as its longest chain of dependent calls, and no longer.
"""

from __future__ import annotations

import asyncio
import gc
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import pytest

from mnemotune.data import Scenario
from mnemotune.env.concurrency import Running, both, end, side_by_side, start, unwatched
from mnemotune.policies import load_policy, presets
from mnemotune.policies.lm.chain import Chain, add_call, chain
from staged import evaluator, rollout

if TYPE_CHECKING:
    from .conftest import MakeCast, MakeModel, MakeScenario, RunVirtually


class Worker:
    """Works for some time, and tells how it ended."""

    def __init__(self) -> None:
        self.log: list[str] = []

    async def work(self, name: str, seconds: float, *, error: BaseException | None = None) -> str:
        self.log.append(f"{name} begins")
        try:
            await asyncio.sleep(seconds)
            if error is not None:
                raise error
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # cleaning up takes a moment
            self.log.append(f"{name} is ended")
            raise
        self.log.append(f"{name} is done")
        return name


# The helpers


def test_results_come_in_the_order_asked_for(run_virtually: RunVirtually[Any]) -> None:
    worker = Worker()
    results, seconds = run_virtually(side_by_side(worker.work(name, wait) for name, wait in [("a", 3), ("b", 1)]))
    assert results == ["a", "b"]
    assert worker.log == ["a begins", "b begins", "b is done", "a is done"]
    assert seconds == pytest.approx(3)


def test_nothing_to_do_is_done_at_once(run_virtually: RunVirtually[Any]) -> None:
    assert run_virtually(side_by_side([])) == ([], 0.0)


@pytest.mark.parametrize("error", [ValueError("no"), KeyError("k")])
def test_the_first_error_ends_the_others_and_goes_on(error: Exception, run_virtually: RunVirtually[Any]) -> None:
    worker = Worker()

    async def run() -> None:
        with pytest.raises(type(error)) as raised:
            await side_by_side([worker.work("a", 9), worker.work("b", 1, error=error), worker.work("c", 5)])
        assert raised.value is error

    _, seconds = run_virtually(run())
    assert worker.log[3:] == ["a is ended", "c is ended"]
    assert seconds == pytest.approx(1)


def test_of_two_errors_at_once_one_goes_on_and_none_is_lost_in_the_background(
    run_virtually: RunVirtually[Any], caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker()

    async def run() -> None:
        with pytest.raises(ValueError, match=r"^[ab]$"):
            await side_by_side([worker.work(name, 1, error=ValueError(name)) for name in ("a", "b")])

    run_virtually(run())
    assert not caplog.records


def test_whoever_ends_the_whole_ends_every_part(run_virtually: RunVirtually[Any]) -> None:
    worker = Worker()

    async def run() -> None:
        whole = asyncio.create_task(side_by_side([worker.work("a", 9), worker.work("b", 9)]))
        await asyncio.sleep(1)
        whole.cancel()
        with pytest.raises(asyncio.CancelledError):
            await whole

    _, seconds = run_virtually(run())
    assert worker.log[2:] == ["a is ended", "b is ended"]
    assert seconds == pytest.approx(1)


def test_both_results_keep_their_places(run_virtually: RunVirtually[Any]) -> None:
    worker = Worker()
    results, seconds = run_virtually(both(worker.work("a", 2), worker.work("b", 1)))
    assert results == ("a", "b")
    assert seconds == pytest.approx(2)


@pytest.mark.parametrize("bad", [0, 1])
def test_either_of_both_ends_the_other_by_its_error(bad: int, run_virtually: RunVirtually[Any]) -> None:
    worker = Worker()
    work = [worker.work(str(i), 1 if i == bad else 9, error=ValueError("no") if i == bad else None) for i in range(2)]

    async def run() -> None:
        with pytest.raises(ValueError, match="no"):
            await both(work[0], work[1])

    _, seconds = run_virtually(run())
    assert worker.log[-1] == f"{1 - bad} is ended"
    assert seconds == pytest.approx(1)


def test_ending_waits_until_the_tasks_are_gone(run_virtually: RunVirtually[Any]) -> None:
    worker = Worker()

    async def run() -> None:
        running = [start(worker.work(name, 9)) for name in ("a", "b")]
        await asyncio.sleep(1)
        await end(running)
        assert worker.log[2:] == ["a is ended", "b is ended"]

    run_virtually(run())


def test_ending_what_is_over_does_no_harm(run_virtually: RunVirtually[Any]) -> None:
    worker = Worker()

    async def run() -> None:
        running = [start(worker.work("a", 1)), start(worker.work("b", 1, error=ValueError("no")))]
        await asyncio.sleep(2)
        await end(running)
        await end([])
        assert await running[0].result() == "a"

    run_virtually(run())


@pytest.mark.parametrize("cancelled", [1, 2])
def test_what_fails_after_all_who_waited_were_ended_is_no_news(cancelled: int) -> None:
    news: list[Any] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: news.append(context))
        for future in (unwatched(loop.create_future()), loop.create_future()):
            for _ in range(cancelled):
                waiting = asyncio.ensure_future(asyncio.shield(future))
                await asyncio.sleep(0)
                await end([Running(waiting, copy_context())])
            future.set_exception(ValueError("no"))
        await asyncio.sleep(0)

    asyncio.run(run())
    gc.collect()
    assert len(news) == 1


# The longest chain


@pytest.mark.parametrize("together", [both, lambda *calls: side_by_side(calls)])
def test_of_calls_side_by_side_the_longest_counts(together: Any, run_virtually: RunVirtually[Any]) -> None:
    async def call(*seconds: float) -> None:
        for one in seconds:
            add_call(one)

    async def run() -> Chain:
        add_call(1.0)
        await together(call(0.5, 0.25, 0.25), call(3.0))
        await together(call(), call(0.5))
        return chain()

    assert run_virtually(run())[0] == Chain(4.5, 3)


def test_a_chain_goes_on_where_a_result_is_waited_for(run_virtually: RunVirtually[Any]) -> None:
    async def call() -> str:
        add_call(2.0)
        return "done"

    async def run() -> tuple[Chain, Chain]:
        running = start(call())
        await asyncio.sleep(1)
        before = chain()
        assert await running.result() == "done"
        return before, chain()

    assert run_virtually(run())[0] == (Chain(), Chain(2.0, 1))


def test_the_critical_path_of_an_evaluation_is_its_time_when_nothing_else_takes_any(
    base_life: Scenario, make_model: MakeModel, make_cast: MakeCast, run_virtually: RunVirtually[Any]
) -> None:
    model = make_model(delay=lambda request: 2.0 if request.role == "write" else 1.0)
    evaluation, seconds = run_virtually(evaluator(make_cast(model)).evaluate(load_policy("awi"), [base_life]))
    assert evaluation.critical_path.seconds == pytest.approx(seconds)
    assert evaluation.critical_path.calls == 50 + 48 + 1, "the user thinks while memories are written"


# The environment


def test_questions_and_probes_of_a_period_are_asked_all_at_once(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast, run_virtually: RunVirtually[Any]
) -> None:
    model = make_model(delay=lambda _: 1.0)
    run_virtually(rollout(make_scenario(sessions=(1,), questions=5), load_policy("native"), make_cast(model)))
    assert (model.peak["answer"], model.peak["probe"], model.peak[""]) == (5, 5, 10)


def test_one_user_talks_to_one_assistant_at_a_time(
    base_life: Scenario, make_model: MakeModel, make_cast: MakeCast, run_virtually: RunVirtually[Any]
) -> None:
    model = make_model(delay=lambda _: 1.0)
    run_virtually(rollout(base_life, load_policy("awi"), make_cast(model)))
    assert [model.peak[role] for role in ("reply", "user", "write")] == [1, 1, 1]


def test_users_talk_side_by_side(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast, run_virtually: RunVirtually[Any]
) -> None:
    model = make_model(delay=lambda _: 1.0)
    lives = [make_scenario(user=name) for name in ("ann", "ben", "cem")]
    run_virtually(evaluator(make_cast(model)).evaluate(load_policy("native"), lives))
    assert model.peak["reply"] == 3


def test_all_upper_bounds_are_asked_at_once(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast, run_virtually: RunVirtually[Any]
) -> None:
    model = make_model(delay=lambda _: 1.0)
    lives = [make_scenario(user=name, questions=2) for name in ("ann", "ben")]
    run_virtually(evaluator(make_cast(model)).evaluate(load_policy("native"), lives))
    assert model.peak["upper_bound"] == 2 * 2 * 4


@pytest.mark.parametrize(("preset", "waited_for"), [("native", 0), ("rag", 0), ("awi", 48 - 20)])
def test_an_episode_lasts_as_long_as_its_longest_chain_of_dependent_calls(
    preset: str,
    waited_for: int,
    base_life: Scenario,
    make_model: MakeModel,
    make_cast: MakeCast,
    run_virtually: RunVirtually[Any],
) -> None:
    model = make_model(delay=lambda _: 1.0)
    _, seconds = run_virtually(rollout(base_life, load_policy(preset), make_cast(model)))
    assert seconds == pytest.approx(50 + 20 + waited_for + 1), "20 writes are done while the user thinks"


def test_more_users_take_no_longer_than_one(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast, run_virtually: RunVirtually[Any]
) -> None:
    lasted = []
    for users in (1, 8):
        model = make_model(delay=lambda _: 1.0)
        lives = [make_scenario(user=f"user {i}") for i in range(users)]
        lasted.append(run_virtually(evaluator(make_cast(model)).evaluate(load_policy("awi"), lives))[1])
    assert lasted[0] == pytest.approx(lasted[1])


@pytest.mark.exhaustive("preset")
@pytest.mark.parametrize("preset", presets())
def test_scores_and_transcripts_do_not_depend_on_who_is_faster(
    preset: str,
    make_scenario: MakeScenario,
    make_model: MakeModel,
    make_cast: MakeCast,
    run_virtually: RunVirtually[Any],
    random_delays: Any,
    slow_embedder: Any,
) -> None:
    changes = {1: {"pet_0": "mid", "flat_1": "high"}, 2: {"pet_0": "low"}, 3: {"flat_0": "mid"}}
    lives = [make_scenario(user=name, sessions=(3, 2, 2, 1), changes=changes) for name in ("ann", "ben")]

    def evaluated(delay: Any) -> tuple[Any, Any]:
        cast = make_cast(make_model(delay=delay), embedder=slow_embedder)
        known = evaluator(cast, clock=lambda: 0.0)
        evaluation, _ = run_virtually(known.evaluate(load_policy(preset), lives))
        scores = evaluation.groups, evaluation.memory_score, evaluation.extras, evaluation.ledger
        return scores, [episode.as_json() for episode in evaluation.episodes]

    even = evaluated(lambda _: 0.0)
    for seed in range(5):
        assert evaluated(random_delays(seed)) == even
