"""A policy's scores on several tasks.

Invariants:

1. A task's bounds are found once, and billed to the evaluation that needed them first.
2. Tasks go their ways side by side, and those of one group are scored together.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

import toy
from mnemotune import env
from mnemotune.data import Scenario
from mnemotune.env import Episode, Evaluation
from mnemotune.env.scoring import Diagnosis, GroupScore, StageScore
from mnemotune.policies import load_policy
from mnemotune.policies.lm import (
    LanguageModelError,
    Ledger,
    Refused,
    Request,
    Usage,
)
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory import MemoryFault, open_memory
from mnemotune.policies.prompts import Templates
from staged import evaluator

if TYPE_CHECKING:
    from .conftest import MakeCast, MakeModel, MakeScenario, RunVirtually

NAN = math.nan
NATIVE = load_policy("native")
RAG = load_policy("rag")
AWI = load_policy("awi")
TEXTS = Templates.bundled()


def given_state(prompt: str) -> dict[str, str]:
    """Return the states that an upper-bound prompt of a made-up life gives."""
    start = prompt.index("{\n")
    value: dict[str, str] = json.JSONDecoder().raw_decode(prompt, start)[0]
    return value


def right_choice(prompt: str) -> str:
    """Answer an upper-bound prompt of a made-up life; its choices are all combinations, the first info slowest."""
    values = list(given_state(prompt).values())
    return json.dumps({"answer": 1 + sum(2**i for i, value in enumerate(reversed(values)) if value == "mid")})


def calls(ledger: Ledger) -> dict[str, int]:
    return {role: spend.calls for role, spend in ledger.by_role.items()}


# Scores


async def test_a_perfect_reader_is_at_the_upper_bound(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    life = make_scenario(changes={1: {"pet_0": "mid"}, 2: {"flat_1": "mid", "pet_0": "low"}})
    evaluation = await evaluator(make_cast(make_model())).evaluate(NATIVE, [life])
    means = [evaluation.mean(name) for name in ("accuracy", "floor", "ceiling", "write", "read", "utilisation")]
    assert means == [1.0, 0.25, 1.0, 0.0, 0.0, 0.0]
    assert evaluation.memory_score.mean == 1.0
    assert evaluation.by_group == {"ann": 1.0}


async def test_scores_of_a_fixed_answer_by_hand(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    """Choice 1 suits low and low: both questions in period 0, one of them in period 1, none in period 2.

    The probes read perfectly, so that whatever is wrong is a matter of utilisation. The upper bound is 1.
    """
    life = make_scenario(changes={1: {"pet_0": "mid"}, 2: {"flat_1": "mid"}})
    evaluation = await evaluator(make_cast(make_model(answer='{"answer": 1}'))).evaluate(NATIVE, [life])
    assert evaluation.stage_means("accuracy") == [1.0, 0.5, 0.0]
    assert evaluation.stage_means("memory_score") == pytest.approx([1, 1 / 3, -1 / 3])
    assert evaluation.stage_means("utilisation") == [0.0, 0.5, 1.0]
    assert evaluation.stage_means("write") == evaluation.stage_means("read") == [0.0] * 3
    assert evaluation.mean("accuracy") == 0.5
    assert evaluation.memory_score.mean == pytest.approx(1 / 3)


async def test_what_is_lost_in_reading_is_told_from_what_was_never_written(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    """The probe of question 0 knows both in period 0 and nothing later; that of question 1 never knows anything."""

    def probe(request: Request) -> str:
        prompt, history = request.messages[-1].content, request.messages[:-1]
        first = not any("in period 1" in message.content for message in history)
        return json.dumps({"pet_0": "low", "flat_0": "low"} if "question 0" in prompt and first else {})

    model = make_model(answer="dunno", probe=probe)
    evaluation = await evaluator(make_cast(model)).evaluate(NATIVE, [make_scenario()])
    assert evaluation.stage_means("write") == [0.5, 0.5, 0.5]
    assert evaluation.stage_means("read") == [0.0, 0.5, 0.5]
    assert evaluation.stage_means("utilisation") == [0.5, 0.0, 0.0]
    assert [stage.unparsable for stage in evaluation.groups[0].stages] == [2, 2, 2]


def refuses(when: str, *, error: type[LanguageModelError] = Refused, says: str = '{"answer": 1}') -> Any:
    def said(request: Request) -> str:
        if any(when in message.content for message in request.messages):
            raise error("too long")
        return says

    return said


async def test_what_is_missing_since_memory_failed_was_not_recalled(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each state is told in period 0 or 1; memory fails at the first question of period 1."""

    async def context(self: Any, query: str, **given: Any) -> Any:
        if any("in period 1" in message.content for message in (await self.snapshot()).buffer):
            raise MemoryFault("its process ended")
        return await remembers(self, query, **given)

    memory = type(open_memory(NATIVE, EmbeddedModel(), LexicalEmbedder()))
    remembers = memory.context
    monkeypatch.setattr(memory, "context", context)
    model = make_model(answer='{"answer": 1}', probe=json.dumps({"pet_0": "low", "flat_0": "low"}))
    evaluation = await evaluator(make_cast(model)).evaluate(NATIVE, [make_scenario()])
    [episode] = evaluation.episodes
    assert (episode.failure, episode.refused, episode.memory_failed) == ("its process ended", True, True)
    assert evaluation.stage_means("utilisation")[1:] == [0.0, 0.0]
    assert [w + r for w, r in zip(*map(evaluation.stage_means, ("write", "read")), strict=True)][1:] == [1.0, 1.0]


@pytest.mark.parametrize("stages", [2, None])
async def test_what_an_episode_that_was_refused_did_not_come_to_counts_as_wrong(
    stages: int | None, make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    """It fails in period 1 of three; no other period is asked, nor played again by a later rung."""
    model = make_model(reply=refuses("in period 1", says="fine"), answer='{"answer": 1}')
    runs = evaluator(replace(make_cast(model), reworded=True))
    life = make_scenario()
    for upto in (stages, None):
        evaluation = await runs.evaluate(NATIVE, [life], stages=upto)
        asked = upto or 3
        assert evaluation.stage_means("accuracy") == [1.0, 0.0, 0.0][:asked]
        assert evaluation.stage_means("utilisation") == [0.0, 1.0, 1.0][:asked]
        assert evaluation.stage_means("evidence") == [1.0, 0.0, 0.0][:asked]
        assert evaluation.failures == {"ann": "too long"}
        assert [len(group.stages) for group in (*evaluation.groups, *evaluation.reworded)] == [asked, asked]
        assert len(evaluation.episodes[0].stages) == 1, "what is recorded is what was played"


async def test_a_user_whose_ceiling_is_refused_is_lost(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model = make_model(upper_bound=refuses("pet_0"), answer='{"answer": 1}')
    evaluation = await evaluator(make_cast(model)).evaluate(NATIVE, [make_scenario()])
    assert evaluation.groups == ()
    assert evaluation.failures == {"ann": "bounds: too long"}


def group_score(group: str, *stages: tuple[float, float, float]) -> GroupScore:
    """Make a group's score from (accuracy, floor, ceiling) of each stage; what is lost is lost in writing."""
    return GroupScore(
        group,
        tuple(
            StageScore(floor, ceiling, Diagnosis(right, 1 - right, 0 * right, 0 * right, 4), unparsable=0)
            for right, floor, ceiling in stages
        ),
    )


def test_means_are_over_groups_of_their_means_over_stages() -> None:
    """Ann .5 and .7 (one stage unscored), Ben .2 and nothing else: (.6 + .2) / 2, not (.5 + .7 + .2) / 3."""
    unscored = (NAN, NAN, NAN)
    groups = (
        group_score("ann", (0.5, 0.25, 0.75), unscored, (0.7, 0.25, 1.0)),
        group_score("ben", (0.2, 0.2, 0.6), unscored, unscored),
    )
    evaluation = Evaluation(NATIVE, groups)
    assert evaluation.mean("accuracy") == pytest.approx(0.4)
    assert evaluation.mean("write") == pytest.approx(0.6)
    assert evaluation.mean("floor") == pytest.approx((0.25 + 0.2) / 2)
    assert evaluation.mean("ceiling") == pytest.approx((0.875 + 0.6) / 2)
    assert evaluation.by_group == pytest.approx({"ann": (0.5 + 0.6) / 2, "ben": 0.0})
    assert evaluation.stage_means("accuracy") == pytest.approx([0.35, NAN, 0.7], nan_ok=True)
    assert evaluation.stage_means("memory_score") == pytest.approx([0.25, NAN, 0.6], nan_ok=True)


def test_the_interval_is_over_groups_and_not_over_stages() -> None:
    """Scores .5 and .7: mean .6, standard deviation .1414, t(.975; 1) = 12.7062, so .6 plus or minus 1.27062."""
    groups = tuple(group_score(name, *[(score, 0.0, 1.0)] * 11) for name, score in (("ann", 0.5), ("ben", 0.7)))
    score = Evaluation(NATIVE, groups).memory_score
    assert (score.mean, score.low, score.high) == pytest.approx((0.6, 0.6 - 1.27062, 0.6 + 1.27062), abs=1e-5)
    assert score.users == 2


def test_groups_without_a_score_have_no_say_in_the_interval() -> None:
    scored = (group_score("ann", (0.5, 0.25, 1.0)), group_score("ben", (0.6, 0.25, 1.0)))
    flat = group_score("cem", (0.25, 0.25, 0.25), (0.9, 0.25, 0.29))
    evaluation = Evaluation(NATIVE, (*scored, flat))
    assert evaluation.memory_score == Evaluation(NATIVE, scored).memory_score
    assert evaluation.without_headroom == {"cem": (0, 1)}


def test_an_unguarded_group_without_a_score_makes_the_whole_unknown() -> None:
    scored = group_score("ann", (0.5, 0.25, 1.0))
    flat = replace(group_score("ben", (0.25, 0.25, 0.25)), guarded=False)
    score = Evaluation(NATIVE, (scored, flat)).memory_score
    assert [math.isnan(value) for value in (score.mean, score.low, score.high)] == [True] * 3


async def test_periods_that_some_users_lack_are_averaged_over_the_others(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    lives = [make_scenario(user="ann", sessions=(1,)), make_scenario(user="ben", changes={1: {"pet_0": "mid"}})]
    evaluation = await evaluator(make_cast(make_model(answer='{"answer": 1}'))).evaluate(NATIVE, lives)
    assert evaluation.stage_means("accuracy") == [1.0, 0.5, 0.5]


async def test_an_evaluation_can_be_repeated(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    lives = [make_scenario(user=name) for name in ("ann", "ben")]
    first, second = [await evaluator(make_cast(make_model()), clock=lambda: 0.0).evaluate(AWI, lives) for _ in range(2)]
    assert replace(first, critical_path=second.critical_path) == second


async def test_one_user_has_no_interval(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    score = (await evaluator(make_cast(make_model())).evaluate(NATIVE, [make_scenario()])).memory_score
    assert score.mean == 1.0
    assert math.isnan(score.low)
    assert math.isnan(score.high)


async def test_what_was_scored_of_two_users_by_hand(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    lives = [make_scenario(user="ann"), make_scenario(user="ben", changes={1: {"pet_0": "mid"}})]
    evaluation = await evaluator(make_cast(make_model(answer='{"answer": 1}'))).evaluate(AWI, lives)
    assert evaluation.by_group == pytest.approx({"ann": 1.0, "ben": 5 / 9})
    assert evaluation.memory_score.low < evaluation.memory_score.mean == pytest.approx(7 / 9)
    assert evaluation.group_of == {"ann": "ann", "ben": "ben"}


async def test_unscored_periods_and_users_are_not_zero(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    """From period 1 on no answer suits Ann's pet; given the states, Ben's model does no better than chance."""

    def bound(request: Request) -> str:
        prompt = request.messages[-1].content
        return '{"answer": 2}' if "ben" in prompt else right_choice(prompt)

    ann = make_scenario(user="ann", questions=1, changes={1: {"pet_0": "high"}})
    ben = make_scenario(user="ben", questions=4, changes={0: {"flat_0": "mid"}})
    evaluation = await evaluator(make_cast(make_model(upper_bound=bound))).evaluate(NATIVE, [ann, ben])
    assert evaluation.by_group == pytest.approx({"ann": 1.0, "ben": NAN}, nan_ok=True)
    assert (len(evaluation.groups), evaluation.memory_score.mean, evaluation.mean("accuracy")) == (2, 1.0, 1.0)
    assert evaluation.stage_means("memory_score") == pytest.approx([1.0, NAN, NAN], nan_ok=True)
    assert evaluation.without_headroom == {"ben": (0, 1, 2)}, "nothing was asked of Ann that could be scored"
    alone = await evaluator(make_cast(make_model())).evaluate(NATIVE, [ann])
    for name in ("accuracy", "memory_score", "write", "read", "utilisation"):
        assert math.isnan(alone.stage_means(name)[1])


# Groups of several tasks


def letters(sizes: Mapping[str, Sequence[int]]) -> list[toy.Letters]:
    """Make tasks of these many stages, by group."""
    return [
        toy.Letters(f"{group}-{i}", group, stages) for group, many in sizes.items() for i, stages in enumerate(many)
    ]


async def test_tasks_of_a_group_are_scored_together_and_count_as_one(make_cast: MakeCast) -> None:
    tasks, track = letters({"ann": (1, 3), "ben": (2,)}), toy.LettersTrack(TEXTS)
    evaluation = await env.Evaluator(track, make_cast(EmbeddedModel())).evaluate(NATIVE, tasks)
    assert [score.group for score in evaluation.groups] == ["ann", "ben"]
    assert [[stage.diagnosis.checks for stage in score.stages] for score in evaluation.groups] == [[2, 2, 3], [1, 2]]
    assert evaluation.memory_score.users == 2
    assert [episode.task for episode in evaluation.episodes] == [task.id for task in tasks]
    assert evaluation.group_of == {"ann-0": "ann", "ann-1": "ann", "ben-0": "ben"}
    assert set(evaluation.bounds) == set(evaluation.group_of)


# The bounds


async def test_the_upper_bound_is_found_once_and_billed_to_the_first_evaluation(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model, life = make_model(), make_scenario()
    known = evaluator(make_cast(model))
    first = await known.evaluate(NATIVE, [life])
    asked = len(model.requests)
    second = await known.evaluate(RAG, [life])
    assert calls(first.ledger)["upper_bound"] == 2 * 4
    assert sum(calls(first.ledger).values()) == asked
    assert "upper_bound" not in calls(second.ledger)
    assert sum(calls(second.ledger).values()) == len(model.requests) - asked
    assert first.mean("ceiling") == second.mean("ceiling") == 1.0


async def test_only_new_users_have_their_upper_bound_found(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model = make_model()
    ann, ben, cem = (make_scenario(user=name) for name in ("ann", "ben", "cem"))
    known = evaluator(make_cast(model))
    await known.evaluate(NATIVE, [ann, ben])
    before = len(model.asked("upper_bound"))
    await known.evaluate(NATIVE, [ben, cem, ann])
    assert before == 16
    assert all("cem" in prompt for prompt in model.prompts("upper_bound")[before:])
    assert len(model.asked("upper_bound")) == 24


# Side by side


def test_an_evaluation_lasts_as_long_as_its_longest_life(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast, run_virtually: RunVirtually[Any]
) -> None:
    """Ann's three replies, a follow-up and her last questions are a chain of five; all else fits in between."""
    lives = [make_scenario(user="ann", sessions=(1, 1)), make_scenario(user="ben", sessions=(1,), questions=9)]
    model = make_model(delay=lambda _: 1.0)
    _, seconds = run_virtually(evaluator(make_cast(model)).evaluate(NATIVE, lives))
    assert seconds == pytest.approx(3 + 1 + 1)
    assert model.peak["reply"] == 2


def test_each_episode_is_heard_of_as_it_ends_and_kept_in_the_order_asked_for(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast, run_virtually: RunVirtually[Any]
) -> None:
    lives = [make_scenario(user=name, sessions=(n,)) for name, n in (("ann", 3), ("ben", 1), ("cem", 2))]
    heard: list[Episode] = []
    known = evaluator(make_cast(make_model(delay=lambda _: 1.0)))
    evaluation, _ = run_virtually(known.evaluate(NATIVE, lives, done=heard.append))
    assert [episode.task for episode in heard] == ["ben", "cem", "ann"]
    assert [episode.task for episode in evaluation.episodes] == ["ann", "ben", "cem"]
    assert [score.group for score in evaluation.groups] == ["ann", "ben", "cem"]


def test_the_wall_time_is_the_clocks(make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast) -> None:
    ticks = count(100.0, 2.5)
    known = evaluator(make_cast(make_model()), clock=lambda: next(ticks))
    evaluation = asyncio.run(known.evaluate(NATIVE, [make_scenario()]))
    assert evaluation.wall_s == 2.5


# From end to end


async def test_spend_is_told_by_role(make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast) -> None:
    """Per user 2 + 2 x 2 replies, 2 follow-ups, 3 x 2 answers and probes, and 2 x 4 upper bounds."""
    assistant = make_model(usage=Usage(100, 10, cost_usd=0.5))
    user = make_model(usage=Usage(3, 2, cost_usd=0.25, cached=True))
    lives = [make_scenario(user=name) for name in ("ann", "ben")]
    ledger = (await evaluator(make_cast(assistant, user=user)).evaluate(NATIVE, lives)).ledger
    assert calls(ledger) == {"upper_bound": 16, "reply": 12, "user": 4, "answer": 12, "probe": 12}
    assert {role: spend.cached for role, spend in ledger.by_role.items() if spend.cached} == {"user": 4}
    tokens = {role: (spend.input_tokens, spend.output_tokens) for role, spend in ledger.by_role.items()}
    assert (tokens["reply"], tokens["user"], tokens["upper_bound"]) == ((1200, 120), (12, 8), (1600, 160))
    assert ledger.total.cost_usd == (16 + 12 + 12 + 12) * 0.5 + 4 * 0.25


async def test_the_embedded_model_on_a_real_user_is_neither_blind_nor_perfect(
    sample: list[Scenario], make_cast: MakeCast
) -> None:
    evaluation = await evaluator(make_cast(EmbeddedModel())).evaluate(AWI, sample)
    assert evaluation.failures == {}
    assert 0 < evaluation.mean("accuracy") < evaluation.mean("ceiling") <= 1
    shares = [evaluation.mean(name) for name in ("write", "read", "utilisation")]
    assert evaluation.mean("accuracy") + sum(shares) == pytest.approx(1, abs=1e-5)
    assert all(share > 0 for share in shares)
    series = [evaluation.stage_means(name) for name in ("accuracy", "write", "read", "utilisation")]
    assert [len(values) for values in series] == [11] * 4
    for parts in zip(*series, strict=True):
        assert sum(parts) == pytest.approx(1, abs=1e-5)
    assert series[2][0] == 0
    assert calls(evaluation.ledger) == {
        "reply": 94,
        "user": 37,
        "write": 92,
        "answer": 110,
        "probe": 110,
        "upper_bound": 44,
    }
    assert evaluation.ledger.total.cost_usd == 0.0
    assert sum(stage.unparsable for score in evaluation.groups for stage in score.stages) == 0
    assert all(write.error is None for stage in evaluation.episodes[0].stages for write in stage.writes)
