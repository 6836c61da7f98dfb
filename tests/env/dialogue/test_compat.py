"""AMemGym's defects are mended by default, and come back one by one where a config names them.

Invariants:

1. A defect that is not named changes nothing, and a named one changes just what its name says.
2. The same replies give the same scores under every defect, guesses included.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from mnemotune.data import Scenario
from mnemotune.env import Evaluation, Protocol, Summary
from mnemotune.env.dialogue.compat import DEFECTS, SEED, Defect, parse_strictly
from mnemotune.env.dialogue.protocol import answer_prompt, read_answer, read_probe
from mnemotune.optimizer.config import ConfigError, parse_config
from mnemotune.policies import load_policy
from mnemotune.policies.lm import Request
from staged import evaluator

if TYPE_CHECKING:
    from ..conftest import MakeCast, MakeModel, MakeScenario

NATIVE, RAG = load_policy("native"), load_policy("rag")
Evaluate = Callable[..., Any]


@pytest.fixture
def evaluate(make_model: MakeModel, make_cast: MakeCast) -> Evaluate:
    async def run(lives: list[Scenario], *defects: Defect, policy: Any = NATIVE, **says: Any) -> Evaluation:
        cast = make_cast(make_model(**says), protocol=Protocol(compat=frozenset(defects)))
        return await evaluator(cast, clock=lambda: 0.0).evaluate(policy, lives)

    return run


def figures(evaluation: Evaluation) -> Any:
    """Return all that an evaluation says of answers."""
    return evaluation.groups, evaluation.memory_score, evaluation.extras, evaluation.ledger


# Guesses


async def test_an_unreadable_answer_is_wrong_and_by_name_a_guess_that_may_be_right(
    evaluate: Evaluate, make_scenario: MakeScenario
) -> None:
    lives = [make_scenario(user=name, questions=4) for name in ("ann", "ben")]
    assert (await evaluate(lives, answer="dunno")).mean("accuracy") == 0
    guessed = await evaluate(lives, "guessed_answers", answer="dunno")
    rng = random.Random(SEED)
    by_hand = [rng.randint(1, 4) == 1 for _ in range(2 * 3 * 4)]
    assert 0 < guessed.mean("accuracy") == pytest.approx(sum(by_hand) / len(by_hand))
    assert sum(stage.unparsable for score in guessed.groups for stage in score.stages) == 24, "it is told all the same"
    assert figures(guessed) == figures(await evaluate(lives, "guessed_answers", answer="dunno"))


async def test_readable_answers_are_not_guessed(evaluate: Evaluate, make_scenario: MakeScenario) -> None:
    lives = [make_scenario(questions=2)]
    plain, compat = await evaluate(lives), await evaluate(lives, "guessed_answers")
    assert figures(compat) == figures(plain)
    assert (compat.compat, plain.compat) == ({"guessed_answers"}, frozenset())


async def test_the_upper_bounds_guesses_are_a_sequence_of_their_own(
    evaluate: Evaluate, make_scenario: MakeScenario
) -> None:
    found = await evaluate([make_scenario(sessions=(1,))], "guessed_answers", answer="dunno", upper_bound="dunno")
    rng = random.Random(SEED)
    first, _, _, _, second, *_ = [rng.randint(1, 4) - 1 for _ in range(8)]
    assert found.mean("ceiling") == ((first == 0) + (second == 0)) / 2


# Reading


@pytest.mark.parametrize(
    ("reply", "default", "strict"),
    [
        ('```json\n{"answer": 2}\n```', 1, 1),
        ('{"answer": 2}', 1, 1),
        ('```\n{"answer": 2}\n```', 1, None),
        ('It is {"answer": 2}', 1, None),
        ('{"answer": "2"}', 1, None),
        ('```json\n{"answer": 1}\n``` or ```json\n{"answer": 2}\n```', 1, 0),
        ('[{"answer": 2}]', None, None),
    ],
)
def test_by_name_only_a_json_fence_or_the_whole_reply_is_read(
    reply: str, default: int | None, strict: int | None, make_scenario: MakeScenario
) -> None:
    question = make_scenario().qas[0]
    assert read_answer(reply, question) == default
    assert read_answer(reply, question, compat={"strict_replies"}) == strict


@pytest.mark.parametrize("reply", ["", "{", "[" * 50_000, '{"a":' * 15_000, "```json\n```", "1" * 5000, "\ud83d"])
def test_no_reply_breaks_strict_reading(reply: str) -> None:
    parse_strictly(reply)
    assert read_probe(reply, compat={"strict_replies"}) is None


@pytest.mark.parametrize(("number", "choice"), [(0, 3), (-1, 2), (-3, 0), (-4, None), (5, None), (4, 3), (1, 0)])
def test_by_name_0_and_below_count_from_the_end(number: int, choice: int | None, make_scenario: MakeScenario) -> None:
    question, reply = make_scenario().qas[0], json.dumps({"answer": number})
    assert read_answer(reply, question, compat={"counted_from_the_end"}) == choice
    assert read_answer(reply, question) == (number - 1 if 1 <= number <= 4 else None)


def test_line_breaks_of_an_answer_are_spaces_and_by_name_stay(make_scenario: MakeScenario) -> None:
    question = make_scenario().qas[0]
    broken = question.answer_choices[0].model_copy(update={"answer": "one\n2: two"})
    question = question.model_copy(update={"answer_choices": [broken, *question.answer_choices[1:]]})
    assert "1: one 2: two\n2: Fit" in answer_prompt("{query}{choices}", question)
    assert "1: one\n2: two\n2: Fit" in answer_prompt("{query}{choices}", question, compat={"choices_with_line_breaks"})


# Scores


async def test_without_a_right_choice_nothing_is_scored_and_by_name_the_last_choice_is_right(
    evaluate: Evaluate, make_scenario: MakeScenario
) -> None:
    """From period 1 on the pet is "high", which no choice suits."""
    lives = [make_scenario(questions=1, changes={1: {"pet_0": "high"}})]
    plain = await evaluate(lives, answer='{"answer": 4}')
    compat = await evaluate(lives, "last_choice_gold", answer='{"answer": 4}')
    assert [math.isnan(value) for value in plain.stage_means("accuracy")] == [False, True, True]
    assert compat.stage_means("accuracy") == [0.0, 1.0, 1.0]
    assert compat.stage_means("floor") == [0.25, 0.0, 0.0], "no choice is like the present state"


async def test_each_question_has_its_own_upper_bound_and_by_name_the_last_of_equal_values_counts_for_all(
    evaluate: Evaluate, make_scenario: MakeScenario
) -> None:
    def bound(request: Request) -> str:
        return '{"answer": 1}' if "question 0" in request.messages[-1].content else "dunno"

    lives = [make_scenario(sessions=(1,), questions=2)]
    assert (await evaluate(lives, upper_bound=bound)).mean("ceiling") == 0.5
    assert (await evaluate(lives, "shared_upper_bound", upper_bound=bound)).mean("ceiling") == 0.0


async def test_a_period_without_headroom_is_left_out_and_by_name_makes_the_whole_score_unknown(
    evaluate: Evaluate, make_scenario: MakeScenario
) -> None:
    """Always choosing the first of four reaches chance wherever the first is right for one question in four."""
    lives = [
        make_scenario(
            user="ann", sessions=(1, 1), questions=4, changes={0: {"pet_1": "mid"}, 1: {"pet_2": "mid", "pet_3": "mid"}}
        )
    ]
    told = {"upper_bound": '{"answer": 1}'}
    plain = await evaluate(lives, **told)
    assert plain.stage_means("ceiling") == [0.75, 0.25]
    assert math.isnan(plain.stage_means("memory_score")[1])
    assert plain.memory_score.mean == pytest.approx(plain.stage_means("memory_score")[0])
    compat = await evaluate(lives, "unguarded_score", **told)
    assert math.isnan(compat.memory_score.mean)
    assert compat.mean("accuracy") == plain.mean("accuracy")
    assert [*plain.without_headroom.values()] == [*compat.without_headroom.values()] == [(1,)]


async def test_a_headroom_below_a_twentieth_is_left_out_and_by_name_is_amemgyms_own_division(
    evaluate: Evaluate, make_scenario: MakeScenario
) -> None:
    """Of 25 questions with four choices each 7 are right with the states given: .28, where chance is .25."""

    def bound(request: Request) -> str:
        asked = request.messages[-1].content
        return '{"answer": 1}' if any(f"question {q}?" in asked for q in range(7)) else "dunno"

    lives = [make_scenario(sessions=(1,), questions=25)]
    told = {"upper_bound": bound, "answer": '{"answer": 1}'}
    plain, compat = await evaluate(lives, **told), await evaluate(lives, "unguarded_score", **told)
    for evaluation in (plain, compat):
        assert [evaluation.mean(name) for name in ("floor", "ceiling", "accuracy")] == [0.25, 0.28, 1.0]
    assert math.isnan(plain.memory_score.mean)
    assert compat.memory_score.mean == pytest.approx((1.0 - 0.25) / (0.28 - 0.25))
    assert ([*plain.without_headroom.values()], compat.without_headroom) == ([(0,)], {})


async def test_probes_see_the_memories_and_by_name_those_of_an_external_store_are_lost(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    lives = [make_scenario(sessions=(5,))]

    async def known(*defects: Defect, policy: Any) -> bool:
        model = make_model()
        cast = make_cast(model, protocol=Protocol(compat=frozenset(defects)))
        await evaluator(cast).evaluate(policy, lives)
        asked = [" ".join(message.content for message in request.messages) for request in model.asked("probe")]
        assert all("session 4" in text for text in asked), "what is not written yet is always there"
        return all(re.search("pet_0(:| is) low", text) for text in asked)

    assert await known(policy=RAG)
    assert not await known("unread_external_probes", policy=RAG)
    assert await known("unread_external_probes", policy=load_policy("awi"))


# Names


def config(text: str) -> Any:
    least = "{data: base, splits: {train: 1, validation: 2, test: 2}, seed_policy: native}"
    return parse_config(least, where="my.yaml", overrides=[f"compat={text}"])


def test_a_config_names_defects_one_by_one_or_all_of_them() -> None:
    assert config("[]").compat == ()
    assert config("[last_choice_gold, strict_replies]").compat == ("last_choice_gold", "strict_replies")
    assert config("last_choice_gold").compat == ("last_choice_gold",)
    assert config("amemgym").compat == config("[amemgym]").compat == DEFECTS


async def test_output_tokens_count_the_input_too_by_name(evaluate: Evaluate, make_scenario: MakeScenario) -> None:
    lives = [make_scenario(sessions=(1,))]
    plain, compat = [
        Summary.of(found, name="native").as_json()["spend"]
        for found in (await evaluate(lives), await evaluate(lives, "total_output_tokens"))
    ]
    assert {r: s | {"output_tokens": s["input_tokens"] + s["output_tokens"]} for r, s in plain.items()} == compat


def test_a_defect_that_is_none_is_told_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"my\.yaml: compat\.0: .*'guessed_answers'.*'total_output_tokens'"):
        config("[typos]")


# Forms of replies


async def test_replies_are_asked_for_by_a_schema_and_by_name_as_amemgym_asks(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    for defects, forms in (
        ([], {"answer": "answer", "probe": "choices", "upper_bound": "answer", "write": "profile"}),
        (["replies_without_schema"], {"upper_bound": "object", "write": "object"}),
    ):
        model = make_model()
        cast = make_cast(model, protocol=Protocol(compat=frozenset(defects)))
        await evaluator(cast).evaluate(load_policy("awi"), [make_scenario(sessions=(5, 5))])
        assert {request.role: request.form.name for request in model.requests if request.form is not None} == forms
