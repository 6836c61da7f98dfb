"""A policy's scores on several users.

Invariants:

1. A scenario's upper bound is found once, and billed to the evaluation that needed it first.
2. Users go their ways side by side, and one user's failure touches no other user's score.
3. A spent budget ends the whole evaluation: no call too many, no task left behind.
4. The result is strict JSON whatever happened: what is unscored is null.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from mnemotune.data import Scenario
from mnemotune.env import Episode, Evaluation, Evaluator, Protocol, Summary, rollout
from mnemotune.env.dialogue.protocol import upper_bound_prompt
from mnemotune.env.dialogue.scoring import Diagnosis, PeriodScore, UserScore
from mnemotune.policies import load_policy, presets
from mnemotune.policies.lm import (
    Budget,
    BudgetExhausted,
    LanguageModelError,
    Ledger,
    Limits,
    Metered,
    Request,
    Spend,
    Usage,
)
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.prompts import default_templates

if TYPE_CHECKING:
    from .conftest import MakeCast, MakeModel, MakeScenario, RunVirtually

NAN = math.nan
NATIVE = load_policy("native")
RAG = load_policy("rag")
AWI = load_policy("awi")
TEXTS = default_templates()

FIELDS = {
    *("policy", "key", "oracle", "compat", "groups", "accuracy", "floor", "ceiling", "memory_score", "interval"),
    *(
        "shares",
        "stages",
        "by_group",
        "unparsable",
        "failed_writes",
        "failed_rewrites",
        "spend",
        "per_turn",
        "cost_usd",
    ),
    *("wall_s", "critical_path", "failures", "extras"),
}


def given_state(prompt: str) -> dict[str, str]:
    """Return the states that an upper-bound prompt of a made-up life gives."""
    start = prompt.index("{\n")
    value: dict[str, str] = json.JSONDecoder().raw_decode(prompt, start)[0]
    return value


def right_choice(prompt: str) -> str:
    """Answer an upper-bound prompt of a made-up life; its choices are all combinations, the first info slowest."""
    values = list(given_state(prompt).values())
    return json.dumps({"answer": 1 + sum(2**i for i, value in enumerate(reversed(values)) if value == "mid")})


def unless(when: str, error: type[Exception] = LanguageModelError, *, says: str) -> Callable[[Request], str]:
    """Say something, but raise for requests whose text holds ``when``."""

    def said(request: Request) -> str:
        if any(when in message.content for message in request.messages):
            raise error(f"no reply about {when}")
        return says

    return said


def strictly_read(evaluation: Evaluation) -> Any:
    """Write as strict JSON and read back."""
    return json.loads(json.dumps(Summary.of(evaluation, name="some").as_json(), allow_nan=False))


def calls(ledger: Ledger) -> dict[str, int]:
    return {role: spend.calls for role, spend in ledger.by_role.items()}


# Scores


async def test_a_perfect_reader_is_at_the_upper_bound(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    life = make_scenario(changes={1: {"pet_0": "mid"}, 2: {"flat_1": "mid", "pet_0": "low"}})
    evaluation = await Evaluator(make_cast(make_model())).evaluate(NATIVE, [life])
    means = [evaluation.mean(name) for name in ("accuracy", "random", "upper_bound", "write", "read", "utilisation")]
    assert means == [1.0, 0.25, 1.0, 0.0, 0.0, 0.0]
    assert evaluation.memory_score.mean == 1.0
    assert evaluation.by_user == {"ann": 1.0}


async def test_scores_of_a_fixed_answer_by_hand(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    """Choice 1 suits low and low: both questions in period 0, one of them in period 1, none in period 2.

    The probes read perfectly, so that whatever is wrong is a matter of utilisation. The upper bound is 1.
    """
    life = make_scenario(changes={1: {"pet_0": "mid"}, 2: {"flat_1": "mid"}})
    evaluation = await Evaluator(make_cast(make_model(answer='{"answer": 1}'))).evaluate(NATIVE, [life])
    assert evaluation.period_means("accuracy") == [1.0, 0.5, 0.0]
    assert evaluation.period_means("memory_score") == pytest.approx([1, 1 / 3, -1 / 3])
    assert evaluation.period_means("utilisation") == [0.0, 0.5, 1.0]
    assert evaluation.period_means("write") == evaluation.period_means("read") == [0.0] * 3
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
    evaluation = await Evaluator(make_cast(model)).evaluate(NATIVE, [make_scenario()])
    assert evaluation.period_means("write") == [0.5, 0.5, 0.5]
    assert evaluation.period_means("read") == [0.0, 0.5, 0.5]
    assert evaluation.period_means("utilisation") == [0.5, 0.0, 0.0]
    assert strictly_read(evaluation)["unparsable"] == 2 * 3


def user_score(user: str, *periods: tuple[float, float, float]) -> UserScore:
    """Make a user's score from (accuracy, random, upper bound) of each period; what is lost is lost in writing."""
    return UserScore(
        user,
        tuple(
            PeriodScore(chance, bound, Diagnosis(right, 1 - right, 0 * right, 0 * right, 4), unparsable=0)
            for right, chance, bound in periods
        ),
    )


def test_means_are_over_users_of_their_means_over_periods() -> None:
    """Ann .5 and .7 (one period unscored), Ben .2 and nothing else: (.6 + .2) / 2, not (.5 + .7 + .2) / 3."""
    unscored = (NAN, NAN, NAN)
    users = (
        user_score("ann", (0.5, 0.25, 0.75), unscored, (0.7, 0.25, 1.0)),
        user_score("ben", (0.2, 0.2, 0.6), unscored, unscored),
    )
    evaluation = Evaluation(NATIVE, users)
    assert evaluation.mean("accuracy") == pytest.approx(0.4)
    assert evaluation.mean("write") == pytest.approx(0.6)
    assert evaluation.mean("random") == pytest.approx((0.25 + 0.2) / 2)
    assert evaluation.mean("upper_bound") == pytest.approx((0.875 + 0.6) / 2)
    assert evaluation.by_user == pytest.approx({"ann": (0.5 + 0.6) / 2, "ben": 0.0})
    assert evaluation.period_means("accuracy") == pytest.approx([0.35, NAN, 0.7], nan_ok=True)
    assert evaluation.period_means("memory_score") == pytest.approx([0.25, NAN, 0.6], nan_ok=True)


def test_the_interval_is_over_users_and_not_over_periods() -> None:
    """Scores .5 and .7: mean .6, standard deviation .1414, t(.975; 1) = 12.7062, so .6 plus or minus 1.27062."""
    users = tuple(user_score(name, *[(score, 0.0, 1.0)] * 11) for name, score in (("ann", 0.5), ("ben", 0.7)))
    score = Evaluation(NATIVE, users).memory_score
    assert (score.mean, score.low, score.high) == pytest.approx((0.6, 0.6 - 1.27062, 0.6 + 1.27062), abs=1e-5)
    assert score.users == 2


def test_users_without_a_score_have_no_say_in_the_interval() -> None:
    scored = (user_score("ann", (0.5, 0.25, 1.0)), user_score("ben", (0.6, 0.25, 1.0)))
    flat = user_score("cem", (0.25, 0.25, 0.25))
    assert Evaluation(NATIVE, (*scored, flat)).memory_score == Evaluation(NATIVE, scored).memory_score


async def test_periods_that_some_users_lack_are_averaged_over_the_others(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    lives = [make_scenario(user="ann", sessions=(1,)), make_scenario(user="ben", changes={1: {"pet_0": "mid"}})]
    evaluation = await Evaluator(make_cast(make_model(answer='{"answer": 1}'))).evaluate(NATIVE, lives)
    assert evaluation.period_means("accuracy") == [1.0, 0.5, 0.5]


async def test_an_evaluation_can_be_repeated(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    lives = [make_scenario(user=name) for name in ("ann", "ben")]
    results = [
        strictly_read(await Evaluator(make_cast(make_model()), clock=lambda: 0.0).evaluate(AWI, lives))
        for _ in range(2)
    ]
    assert results[0] == results[1]


# The upper bound


async def test_the_upper_bound_gives_each_choices_states_once(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model, life = make_model(), make_scenario()
    await Evaluator(make_cast(model)).evaluate(NATIVE, [life])
    wanted = [
        upper_bound_prompt(TEXTS.upper_bound, question, dict(zip(question.required_info, choice.state, strict=True)))
        for question in life.qas
        for choice in question.answer_choices
    ]
    assert model.prompts("upper_bound") == wanted
    for request in model.asked("upper_bound"):
        assert [message.role for message in request.messages] == ["user"]
        assert (request.json_mode, request.temperature) == (True, 0.0)


async def test_the_assistants_model_finds_its_own_upper_bound(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    assistant, user = make_model(), make_model()
    await Evaluator(make_cast(assistant, user=user)).evaluate(NATIVE, [make_scenario()])
    assert len(assistant.asked("upper_bound")) == 8
    assert not user.asked("upper_bound")


async def test_the_upper_bound_is_found_once_and_billed_to_the_first_evaluation(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model, life = make_model(), make_scenario()
    evaluator = Evaluator(make_cast(model))
    first = await evaluator.evaluate(NATIVE, [life])
    asked = len(model.requests)
    second = await evaluator.evaluate(RAG, [life])
    assert calls(first.ledger)["upper_bound"] == 2 * 4
    assert sum(calls(first.ledger).values()) == asked
    assert "upper_bound" not in calls(second.ledger)
    assert sum(calls(second.ledger).values()) == len(model.requests) - asked
    assert first.mean("upper_bound") == second.mean("upper_bound") == 1.0


async def test_only_new_users_have_their_upper_bound_found(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model = make_model()
    ann, ben, cem = (make_scenario(user=name) for name in ("ann", "ben", "cem"))
    evaluator = Evaluator(make_cast(model))
    await evaluator.evaluate(NATIVE, [ann, ben])
    known = len(model.asked("upper_bound"))
    await evaluator.evaluate(NATIVE, [ben, cem, ann])
    assert known == 16
    assert all("cem" in prompt for prompt in model.prompts("upper_bound")[known:])
    assert len(model.asked("upper_bound")) == 24


async def test_equal_states_of_two_questions_have_upper_bounds_of_their_own(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    """AMemGym keeps one figure for each tuple of values, whichever question it belongs to."""

    def bound(request: Request) -> str:
        prompt = request.messages[-1].content
        return right_choice(prompt) if "question 0" in prompt else "dunno"

    evaluation = await Evaluator(make_cast(make_model(upper_bound=bound))).evaluate(NATIVE, [make_scenario()])
    assert evaluation.period_means("upper_bound") == [0.5] * 3


async def test_the_upper_bound_moves_with_the_state(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    """Only "low" is understood: as soon as a state is "mid", its question is beyond reach."""

    def bound(request: Request) -> str:
        prompt = request.messages[-1].content
        return right_choice(prompt) if "mid" not in given_state(prompt).values() else '{"answer": 1}'

    life = make_scenario(changes={1: {"pet_0": "mid"}, 2: {"flat_1": "mid"}})
    evaluation = await Evaluator(make_cast(make_model(upper_bound=bound))).evaluate(NATIVE, [life])
    assert evaluation.period_means("upper_bound") == [1.0, 0.5, 0.0]


async def test_another_choice_for_the_given_states_reaches_the_upper_bound_too(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    life = make_scenario(sessions=(1,), questions=1)
    choices = life.qas[0].answer_choices
    twice = life.qas[0].model_copy(update={"answer_choices": [*choices, choices[0]]})
    model = make_model(upper_bound='{"answer": 5}')
    evaluation = await Evaluator(make_cast(model)).evaluate(NATIVE, [life.model_copy(update={"qas": [twice]})])
    assert evaluation.mean("upper_bound") == 1.0


# Side by side


def test_an_evaluation_lasts_as_long_as_its_longest_life(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast, run_virtually: RunVirtually[Any]
) -> None:
    """Ann's three replies, a follow-up and her last questions are a chain of five; all else fits in between."""
    lives = [make_scenario(user="ann", sessions=(1, 1)), make_scenario(user="ben", sessions=(1,), questions=9)]
    model = make_model(delay=lambda _: 1.0)
    _, seconds = run_virtually(Evaluator(make_cast(model)).evaluate(NATIVE, lives))
    assert seconds == pytest.approx(3 + 1 + 1)
    assert model.peak["reply"] == 2


def test_each_episode_is_heard_of_as_it_ends_and_kept_in_the_order_asked_for(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast, run_virtually: RunVirtually[Any]
) -> None:
    lives = [make_scenario(user=name, sessions=(n,)) for name, n in (("ann", 3), ("ben", 1), ("cem", 2))]
    heard: list[Episode] = []
    evaluator = Evaluator(make_cast(make_model(delay=lambda _: 1.0)))
    evaluation, _ = run_virtually(evaluator.evaluate(NATIVE, lives, done=heard.append))
    assert [episode.user for episode in heard] == ["ben", "cem", "ann"]
    assert [episode.user for episode in evaluation.episodes] == ["ann", "ben", "cem"]
    assert [user.user for user in evaluation.users] == ["ann", "ben", "cem"]


def test_the_wall_time_is_the_clocks(make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast) -> None:
    ticks = count(100.0, 2.5)
    evaluator = Evaluator(make_cast(make_model()), clock=lambda: next(ticks))
    evaluation = asyncio.run(evaluator.evaluate(NATIVE, [make_scenario()]))
    assert evaluation.wall_s == strictly_read(evaluation)["wall_s"] == 2.5


# Failures


@pytest.mark.parametrize("role", ["reply", "user", "write", "answer", "probe"])
async def test_a_failed_episode_is_kept_and_its_user_goes_unscored(
    role: str, make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    says = {"reply": "fine", "user": "fine", "write": "{}", "answer": '{"answer": 1}', "probe": "{}"}
    lives = [make_scenario(user=name, sessions=(4, 1)) for name in ("ann", "ben", "cem")]
    model = make_model(**{role: unless("ben in period", says=says[role])})
    evaluation = await Evaluator(make_cast(model)).evaluate(AWI, lives)
    others = await Evaluator(make_cast(make_model(**{role: says[role]}))).evaluate(AWI, [lives[0], lives[2]])
    assert evaluation.failures == {"ben": "no reply about ben in period"}
    assert [episode.user for episode in evaluation.episodes] == ["ann", "ben", "cem"]
    assert evaluation.users == others.users
    result = strictly_read(evaluation)
    assert result["groups"] == 2
    assert list(result["by_group"]) == ["ann", "cem"]
    assert result["failures"] == {"ben": "no reply about ben in period"}


async def test_the_calls_of_a_failed_episode_are_billed(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    """Period 0 is complete: 2 replies, 2 answers, 2 probes; the first reply of period 1 fails."""
    model = make_model(reply=unless("in period 1", says="fine"))
    evaluation = await Evaluator(make_cast(model)).evaluate(NATIVE, [make_scenario()])
    assert calls(evaluation.ledger) == {"upper_bound": 8, "reply": 2, "answer": 2, "probe": 2}


async def test_when_every_episode_fails_the_result_says_so_and_scores_nothing(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    lives = [make_scenario(user=name) for name in ("ann", "ben")]
    model = make_model(reply=unless("period 0", says="fine"))
    evaluation = await Evaluator(make_cast(model)).evaluate(NATIVE, lives)
    result = strictly_read(evaluation)
    assert (result["groups"], result["stages"]["accuracy"], result["by_group"]) == (0, [], {})
    assert [result[name] for name in ("accuracy", "floor", "ceiling", "memory_score")] == [None] * 4
    assert result["interval"] == [None, None]
    assert result["shares"] == {"write": None, "read": None, "utilisation": None}
    assert list(result["failures"]) == ["ann", "ben"]


async def test_a_user_whose_upper_bound_cannot_be_found_goes_unscored(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model = make_model(upper_bound=unless("ben asks", says='{"answer": 1}'))
    lives = [make_scenario(user=name) for name in ("ann", "ben")]
    evaluation = await Evaluator(make_cast(model)).evaluate(NATIVE, lives)
    assert evaluation.failures == {"ben": "upper bound: no reply about ben asks"}
    assert [user.user for user in evaluation.users] == ["ann"]
    assert [len(episode.periods) for episode in evaluation.episodes] == [3, 3]
    assert strictly_read(evaluation)["groups"] == 1


async def test_an_episodes_own_failure_is_told_before_that_of_its_upper_bound(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model = make_model(upper_bound=unless("asks", says=""), reply=unless("in period 0", says=""))
    evaluation = await Evaluator(make_cast(model)).evaluate(NATIVE, [make_scenario()])
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
            await Evaluator(make_cast(model)).evaluate(NATIVE, lives)

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
    run_virtually(Evaluator(make_cast(whole)).evaluate(policy, lives))
    needed = len(whole.requests)
    for allowed in range(needed + 1):
        model = make_model(delay=random_delays(allowed))
        metered = Metered(model, budget=Budget(Limits(calls=allowed)))

        async def run(metered: Metered = metered, allowed: int = allowed) -> None:
            if allowed < needed:
                with pytest.raises(BudgetExhausted):
                    await Evaluator(make_cast(metered)).evaluate(policy, lives)
            else:
                assert len((await Evaluator(make_cast(metered)).evaluate(policy, lives)).users) == 2

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
        return right_choice(prompt)

    evaluator = Evaluator(make_cast(make_model(upper_bound=bound)))
    with pytest.raises(BudgetExhausted):
        await evaluator.evaluate(NATIVE, [make_scenario()])
    broke[0] = False
    evaluation = await evaluator.evaluate(NATIVE, [make_scenario()])
    assert calls(evaluation.ledger)["upper_bound"] == 8
    assert evaluation.mean("upper_bound") == 1.0


# The result


async def test_the_result_has_the_fields_of_the_contract(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    lives = [make_scenario(user="ann"), make_scenario(user="ben", changes={1: {"pet_0": "mid"}})]
    evaluation = await Evaluator(make_cast(make_model(answer='{"answer": 1}'))).evaluate(AWI, lives)
    result = strictly_read(evaluation)
    assert result.keys() == FIELDS
    assert (result["policy"], result["key"], result["groups"]) == ("some", AWI.key, 2)
    assert result["shares"].keys() == {"write", "read", "utilisation"}
    names = ("accuracy", "memory_score", "write", "read", "utilisation")
    assert {name: len(series) for name, series in result["stages"].items()} == dict.fromkeys(names, 3)
    low, high = result["interval"]
    assert low < result["memory_score"] < high
    roles = {"reply", "user", "write", "answer", "probe", "upper_bound"}
    assert result["spend"].keys() == roles
    counts = {"calls", "cached", "input_tokens", "output_tokens", "cost_usd"}
    assert all(spend.keys() == counts for spend in result["spend"].values())
    assert result["failures"] == {}


async def test_the_results_figures_are_the_evaluations(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    lives = [make_scenario(user="ann"), make_scenario(user="ben", changes={1: {"pet_0": "mid"}})]
    evaluation = await Evaluator(make_cast(make_model(answer='{"answer": 1}'))).evaluate(AWI, lives)
    result, score = strictly_read(evaluation), evaluation.memory_score
    for name, own in (("accuracy", "accuracy"), ("floor", "random"), ("ceiling", "upper_bound")):
        assert result[name] == pytest.approx(evaluation.mean(own), abs=1e-6)
    for name in ("write", "read", "utilisation"):
        assert result["shares"][name] == pytest.approx(evaluation.mean(name), abs=1e-6)
    for name in ("accuracy", "memory_score", "write", "read", "utilisation"):
        assert result["stages"][name] == pytest.approx(evaluation.period_means(name), abs=1e-6)
    assert [result["memory_score"], *result["interval"]] == pytest.approx([score.mean, score.low, score.high], abs=1e-6)
    assert result["by_group"] == pytest.approx({"ann": 1.0, "ben": 5 / 9}, abs=1e-6)


async def test_one_user_has_no_interval_in_the_result(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    evaluation = await Evaluator(make_cast(make_model())).evaluate(NATIVE, [make_scenario()])
    result = strictly_read(evaluation)
    assert (result["memory_score"], result["interval"]) == (1.0, [None, None])


async def test_unscored_periods_and_users_are_null_in_the_result(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    """From period 1 on no answer suits Ann's pet; given the states, Ben's model does no better than chance."""

    def bound(request: Request) -> str:
        prompt = request.messages[-1].content
        return '{"answer": 2}' if "ben" in prompt else right_choice(prompt)

    ann = make_scenario(user="ann", questions=1, changes={1: {"pet_0": "high"}})
    ben = make_scenario(user="ben", questions=4, changes={0: {"flat_0": "mid"}})
    evaluation = await Evaluator(make_cast(make_model(upper_bound=bound))).evaluate(NATIVE, [ann, ben])
    result = strictly_read(evaluation)
    assert result["by_group"] == {"ann": 1.0, "ben": None}
    assert result["interval"] == [None, None]
    assert (result["groups"], result["memory_score"], result["accuracy"]) == (2, 1.0, 1.0)
    assert result["stages"]["memory_score"] == [1.0, None, None]
    alone = strictly_read(await Evaluator(make_cast(make_model())).evaluate(NATIVE, [ann]))
    assert [series[1] for series in alone["stages"].values()] == [None] * 5


async def test_spend_is_told_by_role(make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast) -> None:
    """Per user 2 + 2 x 2 replies, 2 follow-ups, 3 x 2 answers and probes, and 2 x 4 upper bounds."""
    assistant = make_model(usage=Usage(100, 10, cost_usd=0.5))
    user = make_model(usage=Usage(3, 2, cost_usd=0.25, cached=True))
    lives = [make_scenario(user=name) for name in ("ann", "ben")]
    result = strictly_read(await Evaluator(make_cast(assistant, user=user)).evaluate(NATIVE, lives))
    assert result["spend"] == {
        "upper_bound": asdict(Spend(16, 0, 1600, 160, 8.0)),
        "reply": asdict(Spend(12, 0, 1200, 120, 6.0)),
        "user": asdict(Spend(4, 4, 12, 8, 1.0)),
        "answer": asdict(Spend(12, 0, 1200, 120, 6.0)),
        "probe": asdict(Spend(12, 0, 1200, 120, 6.0)),
    }
    assert result["cost_usd"] == (16 + 12 + 12 + 12) * 0.5 + 4 * 0.25


async def test_a_cost_that_is_not_known_is_null_and_not_zero(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    user = make_model(usage=Usage(3, 2, cost_usd=None))
    evaluation = await Evaluator(make_cast(make_model(), user=user)).evaluate(NATIVE, [make_scenario()])
    assert strictly_read(evaluation)["cost_usd"] is None


async def test_writes_that_came_to_nothing_are_counted(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    """Five rounds of AWI-(2,4) make three writes; the second reply is no JSON."""
    writes = iter(["{}", "I would rather not.", "{}"])
    life = make_scenario(sessions=(5,))
    evaluation = await Evaluator(make_cast(make_model(write=lambda _: next(writes)))).evaluate(AWI, [life])
    assert strictly_read(evaluation)["failed_writes"] == 1
    assert evaluation.failures == {}


# Calls


@pytest.mark.parametrize(
    ("preset", "writes"), [("native", {}), ("rag", {}), ("awi", {"write": 48}), ("awe", {"write": 95})]
)
async def test_a_life_of_v1_base_takes_its_known_calls_and_one_for_each_choice(
    preset: str, writes: Mapping[str, int], base_life: Scenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    """AWI writes in all rounds but the first two; AWE extracts as often, and merges each time but the first."""
    model = make_model()
    evaluation = await Evaluator(make_cast(model)).evaluate(load_policy(preset), [base_life])
    wanted = {"reply": 50, "user": 20, "answer": 110, "probe": 110, "upper_bound": 40, **writes}
    assert calls(evaluation.ledger) == wanted
    assert Counter(request.role for request in model.requests) == Counter(wanted)


@pytest.mark.parametrize("preset", presets())
async def test_calls_stay_within_what_the_protocol_foretells(
    preset: str, generated: list[Scenario], make_cast: MakeCast
) -> None:
    policy, life = load_policy(preset), generated[0]
    episode = await rollout(life, policy, make_cast(EmbeddedModel()))
    most = Protocol().episode_calls(life, policy)
    assert episode.ledger.total.calls <= most
    if preset != "awe":  # how often facts need merging is not known beforehand
        assert episode.ledger.total.calls == most


# From end to end


async def test_the_embedded_model_on_a_real_user_is_neither_blind_nor_perfect(
    sample: list[Scenario], make_cast: MakeCast
) -> None:
    evaluation = await Evaluator(make_cast(EmbeddedModel())).evaluate(AWI, sample)
    result = strictly_read(evaluation)
    assert result["failures"] == {}
    assert 0 < result["accuracy"] < result["ceiling"] <= 1
    assert result["accuracy"] + sum(result["shares"].values()) == pytest.approx(1, abs=1e-5)
    assert all(share > 0 for share in result["shares"].values())
    stages = result["stages"]
    parts = zip(*(stages[name] for name in ("accuracy", "write", "read", "utilisation")), strict=True)
    assert [sum(shares) for shares in parts] == pytest.approx([1] * 11, abs=1e-5)
    assert stages["read"][0] == 0
    assert calls(evaluation.ledger) == {
        "reply": 94,
        "user": 37,
        "write": 92,
        "answer": 110,
        "probe": 110,
        "upper_bound": 44,
    }
    assert (result["cost_usd"], result["unparsable"], result["failed_writes"]) == (0.0, 0, 0)
