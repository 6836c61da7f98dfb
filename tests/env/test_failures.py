"""What fails in an evaluation, and what does not fail along with it.

Invariants:

1. One task's failure touches no other group's score.
2. A spent budget ends the whole evaluation: no call too many, nothing left behind.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import toy
from mnemotune import env
from mnemotune.policies import MemoryPolicy, load_policy
from mnemotune.policies.lm import Budget, BudgetExhausted, LanguageModelError, Ledger, Limits, Metered, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory import MemoryFault, Savable, open_memory
from mnemotune.policies.memory.packages.process import process_of
from mnemotune.policies.prompts import Templates
from staged import evaluator

if TYPE_CHECKING:
    from .conftest import MakeCast, MakeModel, MakeScenario, RunVirtually

NATIVE = load_policy("native")
AWI = load_policy("awi")


def unless(when: str, error: type[Exception] = LanguageModelError, *, says: str) -> Callable[[Request], str]:
    """Say something, but raise for requests whose text holds ``when``."""

    def said(request: Request) -> str:
        if any(when in message.content for message in request.messages):
            raise error(f"no reply about {when}")
        return says

    return said


def calls(ledger: Ledger) -> dict[str, int]:
    return {role: spend.calls for role, spend in ledger.by_role.items()}


@pytest.mark.parametrize("role", ["reply", "user", "write", "answer", "probe"])
async def test_a_failed_episode_is_kept_and_its_user_goes_unscored(
    role: str, make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    says = {"reply": "fine", "user": "fine", "write": "{}", "answer": '{"answer": 1}', "probe": "{}"}
    lives = [make_scenario(user=name, sessions=(4, 1)) for name in ("ann", "ben", "cem")]
    model = make_model(**{role: unless("ben in period", says=says[role])})
    evaluation = await evaluator(make_cast(model)).evaluate(AWI, lives)
    others = await evaluator(make_cast(make_model(**{role: says[role]}))).evaluate(AWI, [lives[0], lives[2]])
    assert evaluation.failures == {"ben": "no reply about ben in period"}
    assert [episode.task for episode in evaluation.episodes] == ["ann", "ben", "cem"]
    assert evaluation.groups == others.groups
    assert list(evaluation.by_group) == ["ann", "cem"]


async def test_one_failed_task_takes_its_group_along_and_no_other_invariant_1(
    make_model: MakeModel, make_cast: MakeCast
) -> None:
    """Of four letter writers only the last one comes to speak of a ladder."""
    stages = {"ann-0": 1, "ann-1": 1, "ben-0": 1, "ben-1": 2}
    tasks = [toy.Letters(name, name.split("-")[0], count) for name, count in stages.items()]
    model = make_model(answer=unless("ladder", says='{"answer": 1}'), upper_bound='{"answer": 1}')
    evaluation = await env.Evaluator(toy.LettersTrack(Templates.bundled()), make_cast(model)).evaluate(NATIVE, tasks)
    assert [score.group for score in evaluation.groups] == ["ann"]
    assert evaluation.failures == {"ben": "no reply about ladder"}
    assert [episode.failure is None for episode in evaluation.episodes] == [True, True, True, False]
    assert [len(episode.stages) for episode in evaluation.episodes] == [1, 1, 1, 1]


async def test_the_calls_of_a_failed_episode_are_billed(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    """Period 0 is complete: 2 replies, 2 answers, 2 probes; the first reply of period 1 fails."""
    model = make_model(reply=unless("in period 1", says="fine"))
    evaluation = await evaluator(make_cast(model)).evaluate(NATIVE, [make_scenario()])
    assert calls(evaluation.ledger) == {"upper_bound": 8, "reply": 2, "answer": 2, "probe": 2}


async def test_when_every_episode_fails_the_result_says_so_and_scores_nothing(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    lives = [make_scenario(user=name) for name in ("ann", "ben")]
    model = make_model(reply=unless("period 0", says="fine"))
    evaluation = await evaluator(make_cast(model)).evaluate(NATIVE, lives)
    assert (evaluation.groups, evaluation.by_group, evaluation.stage_means("accuracy")) == ((), {}, [])
    names = ("accuracy", "floor", "ceiling", "write", "read", "utilisation")
    assert all(math.isnan(evaluation.mean(name)) for name in names)
    score = evaluation.memory_score
    assert all(math.isnan(value) for value in (score.mean, score.low, score.high))
    assert set(evaluation.failures) == {"ann", "ben"}


async def test_a_user_whose_upper_bound_cannot_be_found_goes_unscored(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model = make_model(upper_bound=unless("ben asks", says='{"answer": 1}'))
    lives = [make_scenario(user=name) for name in ("ann", "ben")]
    evaluation = await evaluator(make_cast(model)).evaluate(NATIVE, lives)
    assert evaluation.failures == {"ben": "bounds: no reply about ben asks"}
    assert [score.group for score in evaluation.groups] == ["ann"]
    assert [len(episode.stages) for episode in evaluation.episodes] == [3, 3]
    assert list(evaluation.bounds) == ["ann"]


async def test_an_episodes_own_failure_is_told_before_that_of_its_upper_bound(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model = make_model(upper_bound=unless("asks", says=""), reply=unless("in period 0", says=""))
    evaluation = await evaluator(make_cast(model)).evaluate(NATIVE, [make_scenario()])
    assert evaluation.failures == {"ann": "no reply about in period 0"}


@pytest.mark.parametrize("role", ["reply", "upper_bound"])
def test_an_error_of_the_program_ends_the_evaluation_and_leaves_no_task(
    role: str,
    make_scenario: MakeScenario,
    make_model: MakeModel,
    make_cast: MakeCast,
    run_virtually: RunVirtually[Any],
) -> None:
    lives = [make_scenario(user=name) for name in ("ann", "ben")]
    model = make_model(**{role: unless("ben", ZeroDivisionError, says="{}")}, delay=lambda _: 1.0)

    async def run() -> None:
        with pytest.raises(ZeroDivisionError):
            await evaluator(make_cast(model)).evaluate(NATIVE, lives)

    run_virtually(run())
    assert model.under_way == []


@pytest.mark.parametrize("preset", ["native", "awi"])
def test_a_spent_budget_ends_everything_at_the_call_that_does_not_fit(
    preset: str,
    make_scenario: MakeScenario,
    make_model: MakeModel,
    make_cast: MakeCast,
    run_virtually: RunVirtually[Any],
    random_delays: Any,
) -> None:
    lives = [make_scenario(user=name, sessions=(3, 1), questions=1) for name in ("ann", "ben")]
    policy = load_policy(preset)
    whole = make_model()
    run_virtually(evaluator(make_cast(whole)).evaluate(policy, lives))
    needed = len(whole.requests)
    for allowed in range(needed + 1):
        model = make_model(delay=random_delays(allowed))
        metered = Metered(model, budget=Budget(Limits(calls=allowed)))

        async def run(metered: Metered = metered, allowed: int = allowed) -> None:
            if allowed < needed:
                with pytest.raises(BudgetExhausted):
                    await evaluator(make_cast(metered)).evaluate(policy, lives)
            else:
                assert len((await evaluator(make_cast(metered)).evaluate(policy, lives)).groups) == 2

        run_virtually(run())
        assert len(model.requests) == allowed
        assert model.under_way == []


async def test_an_evaluation_that_the_budget_ended_can_be_taken_up_again(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    """What the ended evaluation had found of the upper bound is not taken for the whole."""
    broke = [True]

    def bound(request: Request) -> str:
        prompt = request.messages[-1].content
        if broke[0] and "question 1" in prompt:
            raise BudgetExhausted("spent")
        return '{"answer": 1}'

    known = evaluator(make_cast(make_model(upper_bound=bound)))
    with pytest.raises(BudgetExhausted):
        await known.evaluate(NATIVE, [make_scenario()])
    broke[0] = False
    evaluation = await known.evaluate(NATIVE, [make_scenario()])
    assert calls(evaluation.ledger)["upper_bound"] == 8
    assert evaluation.mean("ceiling") == 1.0


@pytest.fixture
def hollow_python(tmp_path: Path) -> str:
    """Return an interpreter whose LangMem can be loaded, and has nothing in it."""
    for module in ("langmem", "langgraph/store/memory", "langchain_openai"):
        folder = tmp_path / module
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
    file = tmp_path / "python"
    file.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}" exec "{sys.executable}" -S "$@"\n', encoding="utf-8")
    file.chmod(0o755)
    return str(file)


async def test_a_memory_that_fails_ends_its_episode_alone_and_what_is_missing_counts_as_wrong_invariant_1(
    hollow_python: str,
    monkeypatch: pytest.MonkeyPatch,
    make_scenario: MakeScenario,
    make_model: MakeModel,
    make_cast: MakeCast,
) -> None:
    monkeypatch.setenv("MNEMOTUNE_LANGMEM_PYTHON", hollow_python)
    shared = {"write": {"mode": "verbatim"}, "update_every": 2, "store": "external", "top_k": 3}
    policy = MemoryPolicy.model_validate({"backend": "langmem", "buffer_size": 4, **shared})
    lives = [make_scenario(user="ann", sessions=(1,)), make_scenario(user="ben", sessions=(4, 1))]
    model = make_model(reply="fine", user="fine", answer='{"answer": 1}', probe="{}")
    evaluation = await evaluator(make_cast(model)).evaluate(policy, lives)
    assert [*evaluation.failures] == ["ben"]
    assert "langmem: ImportError" in evaluation.failures["ben"]
    assert [*evaluation.by_group] == ["ann", "ben"]


async def test_a_package_whose_process_has_ended_is_started_again(
    hollow_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMOTUNE_LANGMEM_PYTHON", hollow_python)
    first = process_of("langmem")
    assert process_of("langmem") is first
    first.end()
    with pytest.raises(MemoryFault, match="langmem: its process ended"):
        await first.ask("copies")
    second = process_of("langmem")
    assert await second.ask("copies") == []
    second.end()


async def test_what_a_package_cannot_load_is_a_damaged_file(
    hollow_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMOTUNE_LANGMEM_PYTHON", hollow_python)
    shared = {"write": {"mode": "verbatim"}, "update_every": 2, "buffer_size": 0, "store": "external", "top_k": 3}
    policy = MemoryPolicy.model_validate({"backend": "langmem", **shared})
    memory = open_memory(policy, EmbeddedModel(), LexicalEmbedder())
    assert isinstance(memory, Savable)
    entries = [{"id": 0, "text": "The user is a nurse."}]
    with pytest.raises(ValueError, match="store: langmem: "):
        await memory.load({"entries": entries, "next_id": 1, "names": ["a"], "store": {}})
    await memory.aclose()
