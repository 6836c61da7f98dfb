"""The dialogue's bounds: a blind choice, and the assistant's model with the states given."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mnemotune.env.dialogue.bounds import bounds_of, find_bounds
from mnemotune.env.dialogue.compat import NONE
from mnemotune.env.dialogue.protocol import Protocol, upper_bound_prompt
from mnemotune.policies import load_policy
from mnemotune.policies.lm import Request
from mnemotune.policies.prompts import Templates
from staged import evaluator

if TYPE_CHECKING:
    from ..conftest import MakeCast, MakeModel, MakeScenario

NATIVE = load_policy("native")
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


async def test_the_upper_bound_gives_each_choices_states_once(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model, life = make_model(), make_scenario()
    await evaluator(make_cast(model)).evaluate(NATIVE, [life])
    wanted = [
        upper_bound_prompt(TEXTS.upper_bound, question, dict(zip(question.required_info, choice.state, strict=True)))
        for question in life.qas
        for choice in question.answer_choices
    ]
    assert model.prompts("upper_bound") == wanted
    for request in model.asked("upper_bound"):
        assert [message.role for message in request.messages] == ["user"]
        assert (request.form is not None, request.temperature) == (True, 0.0)


async def test_the_assistants_model_finds_its_own_upper_bound(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    assistant, user = make_model(), make_model()
    await evaluator(make_cast(assistant, user=user)).evaluate(NATIVE, [make_scenario()])
    assert len(assistant.asked("upper_bound")) == 8
    assert not user.asked("upper_bound")


async def test_equal_states_of_two_questions_have_upper_bounds_of_their_own(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    """AMemGym keeps one figure for each tuple of values, whichever question it belongs to."""

    def bound(request: Request) -> str:
        prompt = request.messages[-1].content
        return right_choice(prompt) if "question 0" in prompt else "dunno"

    evaluation = await evaluator(make_cast(make_model(upper_bound=bound))).evaluate(NATIVE, [make_scenario()])
    assert evaluation.stage_means("ceiling") == [0.5] * 3


async def test_the_upper_bound_moves_with_the_state(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    """Only "low" is understood: as soon as a state is "mid", its question is beyond reach."""

    def bound(request: Request) -> str:
        prompt = request.messages[-1].content
        return right_choice(prompt) if "mid" not in given_state(prompt).values() else '{"answer": 1}'

    life = make_scenario(changes={1: {"pet_0": "mid"}, 2: {"flat_1": "mid"}})
    evaluation = await evaluator(make_cast(make_model(upper_bound=bound))).evaluate(NATIVE, [life])
    assert evaluation.stage_means("ceiling") == [1.0, 0.5, 0.0]


async def test_another_choice_for_the_given_states_reaches_the_upper_bound_too(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    life = make_scenario(sessions=(1,), questions=1)
    choices = life.qas[0].answer_choices
    twice = life.qas[0].model_copy(update={"answer_choices": [*choices, choices[0]]})
    model = make_model(upper_bound='{"answer": 5}')
    evaluation = await evaluator(make_cast(model)).evaluate(NATIVE, [life.model_copy(update={"qas": [twice]})])
    assert evaluation.mean("ceiling") == 1.0


async def test_each_check_has_chance_as_its_floor_and_the_answer_to_its_right_choices_states_as_its_ceiling(
    make_scenario: MakeScenario, make_model: MakeModel
) -> None:
    """Pet 0 is low, then mid, then high, which no choice suits; only states with "low" alone are understood."""

    def bound(request: Request) -> str:
        prompt = request.messages[-1].content
        return right_choice(prompt) if "mid" not in given_state(prompt).values() else "dunno"

    life = make_scenario(questions=1, changes={1: {"pet_0": "mid"}, 2: {"pet_0": "high"}})
    bounds = await find_bounds(life, make_model(upper_bound=bound), Protocol())
    assert list(bounds.floor) == list(bounds.ceiling) == ["0.0", "1.0", "2.0"]
    assert [mark.score for mark in bounds.floor.values()] == [0.25, 0.25, 0.0]
    low, mid, high = bounds.ceiling.values()
    assert (low.score, low.raw, low.readable) == (1.0, '{"answer": 1}', True)
    assert (mid.score, mid.raw, mid.readable) == (0.0, "dunno", False)
    assert high.raw == low.raw, "without a right choice it is the first one's, and unscored in an episode"
    assert low.recalled == {"pet_0@0": True, "flat_0@0": True}
    assert [[answer.choice for answer in choices] for choices in bounds.choices] == [[0, None, None, None]]
    assert bounds_of(life, bounds.choices, NONE) == bounds
