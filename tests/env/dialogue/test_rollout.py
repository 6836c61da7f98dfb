"""The protocol, message by message.

Invariants:

1. A user's own talk is serial, and nobody tells the assistant where a session or a period begins.
2. Questions and probes see the memory as it was at their period's end.
3. Asking changes nothing.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import pytest

from mnemotune.data import Scenario
from mnemotune.env import Episode, Protocol
from mnemotune.env.dialogue.protocol import answer_prompt, probe_prompt, user_prompt
from mnemotune.env.dialogue.record import PeriodRecord, period_of, sessions_of
from mnemotune.policies import Assistant, load_policy, presets
from mnemotune.policies.lm import (
    Message,
    Request,
)
from mnemotune.policies.prompts import Templates, render
from staged import rollout

if TYPE_CHECKING:
    from ..conftest import MakeCast, MakeModel, MakeScenario, RunVirtually

NATIVE = load_policy("native")
AWI = load_policy("awi")
TEXTS = Templates.bundled()
STEADY = [preset for preset in presets() if load_policy(preset).evolution is None]
"""The presets whose prompts stay as they are."""


def opening(scenario: Scenario, period: int, session: int) -> str:
    told = scenario.periods[period].sessions[session]
    return f"[Current Time: {told.session_time}]\n{told.query}"


def pairs(messages: tuple[Message, ...]) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in messages]


def periods_of(episode: Episode) -> list[PeriodRecord]:
    return [period_of(episode, p) for p in range(len(episode.stages))]


# Talk


async def test_a_session_opens_with_the_time_and_the_query_and_nothing_else(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    scenario, model = make_scenario(), make_model()
    episode = await rollout(scenario, NATIVE, make_cast(model))
    assert model.requests[0] == Request((Message("user", opening(scenario, 0, 0)),), role="reply")
    for p, stage in enumerate(episode.stages):
        assert [turns[0].user for turns in sessions_of(stage)] == [
            opening(scenario, p, s) for s in range(len(scenario.periods[p].sessions))
        ]


async def test_a_session_has_the_rounds_of_its_period(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    protocol = Protocol(rounds_init=2, rounds_update=3)
    episode = await rollout(make_scenario(), NATIVE, make_cast(make_model(), protocol=protocol))
    assert [[len(turns) for turns in sessions_of(stage)] for stage in episode.stages] == [[2, 2], [3], [3]]


async def test_the_user_is_called_after_every_round_of_a_session_but_the_last(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model = make_model()
    await rollout(
        make_scenario(sessions=(1, 2), questions=0), NATIVE, make_cast(model, protocol=Protocol(rounds_update=3))
    )
    roles = [request.role for request in model.requests]
    assert roles == ["reply", *(["reply", "user", "reply", "user", "reply"] * 2)]


async def test_the_user_follows_up_on_what_the_assistant_really_said(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    scenario = make_scenario(sessions=(0, 1), questions=1)
    replies, follow_ups = iter(["First.", "Second.", "Third."]), iter(["  And A?\n", "And B?"])
    model = make_model(reply=lambda _: next(replies), user=lambda _: next(follow_ups))
    episode = await rollout(scenario, NATIVE, make_cast(model, protocol=Protocol(rounds_update=3)))
    first = opening(scenario, 1, 0)
    assert [(turn.user, turn.assistant) for turn in sessions_of(episode.stages[1])[0]] == [
        (first, "First."),
        ("And A?", "Second."),
        ("And B?", "Third."),
    ]
    assert model.prompts("user") == [
        user_prompt(TEXTS.user, scenario, 1, first, (first, "First.")),
        user_prompt(TEXTS.user, scenario, 1, first, ("And A?", "Second.")),
    ]


async def test_the_user_is_asked_in_one_message_at_its_own_temperature(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    assistant, user = make_model(), make_model()
    await rollout(make_scenario(), NATIVE, make_cast(assistant, user=user))
    assert {request.role for request in user.requests} == {"user"}
    assert "user" not in {request.role for request in assistant.requests}
    for request in user.requests:
        assert [message.role for message in request.messages] == ["user"]
        assert (request.temperature, request.form) == (0.2, None)


@pytest.mark.parametrize("preset", presets())
async def test_the_assistant_is_asked_at_temperature_0_and_what_is_read_has_a_form(
    preset: str, make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model = make_model()
    await rollout(make_scenario(sessions=(3, 2)), load_policy(preset), make_cast(model, user=make_model()))
    assert {request.temperature for request in model.requests} == {0.0}
    structured = {request.role for request in model.requests if request.form is not None}
    assert structured == {request.role for request in model.requests} - {"reply"}
    assert all(request.form for role in structured for request in model.asked(role))


# What the assistant sees


async def test_native_sends_the_whole_history(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model = make_model()
    episode = await rollout(make_scenario(), NATIVE, make_cast(model))
    history: list[tuple[str, str]] = []
    sent = []
    for turn in (turn for stage in episode.stages for session in sessions_of(stage) for turn in session):
        sent.append([*history, ("user", turn.user)])
        history += [("user", turn.user), ("assistant", turn.assistant)]
    assert [pairs(request.messages) for request in model.asked("reply")] == sent
    assert [len(messages) for messages in sent] == [1, 3, 5, 7, 9, 11]


async def test_awi_sends_its_system_prompt_the_window_and_the_message(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    """AWI-(2,4) by hand: from the third round on, each round evicts the oldest round and writes it."""
    writes = iter(['{"pet": "calm", "flat": "small"}', '{"pet": "lively"}', '{"job": "none"}'])
    model = make_model(write=lambda _: next(writes))
    scenario = make_scenario(sessions=(5,), questions=0)
    await rollout(scenario, AWI, make_cast(model))
    said = [("user", opening(scenario, 0, s)) for s in range(5)]
    replied = [("assistant", f"I see: {scenario.periods[0].sessions[s].query}") for s in range(5)]
    talk = [message for both in zip(said, replied, strict=True) for message in both]
    memories = ["", "", "", "- pet: calm\n- flat: small", "- flat: small\n- pet: lively"]
    windows = [[], talk[:2], talk[:4], talk[2:6], talk[4:8]]
    assert [pairs(request.messages) for request in model.asked("reply")] == [
        [("system", render(TEXTS.reply_context, memories=memory)), *window, user]
        for memory, window, user in zip(memories, windows, said, strict=True)
    ]


async def test_awi_writes_the_evicted_messages_into_the_memories_it_has(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    writes = iter(['{"pet": "calm"}', "{}", "{}"])
    model = make_model(write=lambda _: next(writes))
    episode = await rollout(make_scenario(sessions=(5,), questions=0), AWI, make_cast(model))
    turns = [turn for session in sessions_of(episode.stages[0]) for turn in session]
    assert model.prompts("write") == [
        render(
            TEXTS.starting("write_profile"),
            memories=json.dumps(memories, indent=2),
            conversation=json.dumps(
                [{"role": "user", "content": turn.user}, {"role": "assistant", "content": turn.assistant}], indent=2
            ),
        )
        for memories, turn in zip([{}, {"pet": "calm"}, {"pet": "calm"}], turns, strict=False)
    ]


async def test_each_period_records_its_own_writes(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    writes = iter(['{"a": "1"}', "oh no", '{"a": "2"}', "{}", "{}"])
    model = make_model(write=lambda _: next(writes))
    episode = await rollout(make_scenario(sessions=(3, 1, 1), questions=0), AWI, make_cast(model))
    assert [[(write.before, write.after) for write in stage.writes] for stage in episode.stages] == [
        [((), ("a: 1",))],
        [(("a: 1",), ("a: 1",)), (("a: 1",), ("a: 2",))],
        [(("a: 2",), ("a: 2",)), (("a: 2",), ("a: 2",))],
    ]
    assert [[write.error is None for write in stage.writes] for stage in episode.stages] == [
        [True],
        [False, True],
        [True, True],
    ]


async def test_the_last_4_messages_of_a_period_are_still_in_their_own_words_for_awi(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    scenario, model = make_scenario(sessions=(4, 2), questions=1), make_model()
    episode = await rollout(scenario, AWI, make_cast(model))
    for stage, request in zip(episode.stages, model.asked("answer"), strict=True):
        last = [turn for session in sessions_of(stage) for turn in session][-2:]
        window = [m for turn in last for m in (("user", turn.user), ("assistant", turn.assistant))]
        assert [role for role, _ in pairs(request.messages)] == ["system", *["user", "assistant"] * 2, "user"]
        assert pairs(request.messages)[1:-1] == window


# Questions


@pytest.mark.parametrize("preset", presets())
async def test_every_question_and_every_probe_is_put_once_at_the_end_of_every_period(
    preset: str, make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    scenario, model = make_scenario(), make_model()
    await rollout(scenario, load_policy(preset), make_cast(model))
    questions = [answer_prompt(TEXTS.answer, question) for question in scenario.qas]
    probes = [probe_prompt(TEXTS.probe, question, scenario) for question in scenario.qas]
    assert Counter(model.prompts("answer")) == Counter(questions * 3)
    assert Counter(model.prompts("probe")) == Counter(probes * 3)


async def test_the_environment_puts_the_question_whatever_the_policy_and_a_template_may_put_it_another_way(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    templates = TEXTS.model_copy(update={"answer": "Think! {query}\n{choices}\nNow?"})
    scenario, model = make_scenario(sessions=(1,), questions=1), make_model()
    await rollout(scenario, NATIVE, make_cast(model, protocol=Protocol(templates=templates)))
    assert model.prompts("answer")[0].startswith("Think! ann asks question 0?\n1: ")
    assert model.prompts("probe") == [probe_prompt(TEXTS.probe, scenario.qas[0], scenario)]


async def test_a_perfect_reader_is_right_in_every_period(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    changes = {1: {"pet_0": "mid"}, 2: {"pet_0": "low", "flat_1": "mid"}}
    scenario = make_scenario(changes=changes)
    episode = await rollout(scenario, NATIVE, make_cast(make_model()))
    assert [[a.gold for a in period.answers] for period in periods_of(episode)] == [[0, 0], [2, 0], [0, 1]]
    for period in periods_of(episode):
        assert [answer.choice for answer in period.answers] == [answer.gold for answer in period.answers]
        assert [answer.score for answer in period.answers] == [1.0, 1.0]
        assert all(all(probe.right.values()) for probe in period.probes)


@pytest.mark.parametrize("preset", presets())
def test_a_question_sees_the_memory_as_it_was_at_the_end_of_its_period(
    preset: str,
    make_scenario: MakeScenario,
    make_model: MakeModel,
    make_cast: MakeCast,
    run_virtually: RunVirtually[Any],
    slow_embedder: Any,
) -> None:
    scenario = make_scenario(sessions=(4, 2, 2), questions=2, changes={1: {"pet_0": "mid"}, 2: {"pet_0": "high"}})
    slow = {"answer": 100.0, "probe": 90.0}
    overlapping = make_model(delay=lambda request: slow.get(request.role, 0.01))
    run_virtually(rollout(scenario, load_policy(preset), make_cast(overlapping, embedder=slow_embedder)))
    asked = [request for request in overlapping.requests if request.role in slow]
    for p in range(3):
        alone = make_model()
        until = scenario.model_copy(update={"periods": scenario.periods[: p + 1]})
        run_virtually(rollout(until, load_policy(preset), make_cast(alone)))
        wanted = [request for request in alone.requests if request.role in slow][-4:]
        begun = sorted(asked[4 * p : 4 * p + 4], key=repr)
        assert begun == sorted(wanted, key=repr)
        assert not any(f"in period {p + 1}" in message.content for request in begun for message in request.messages)


async def test_the_next_periods_talk_does_not_wait_for_the_questions(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast, run_virtually: RunVirtually[Any]
) -> None:
    model = make_model(delay=lambda request: 1000.0 if request.role in {"answer", "probe"} else 1.0)
    scenario = make_scenario(sessions=(1, 1), questions=1)

    def run() -> float:
        return run_virtually(rollout(scenario, NATIVE, make_cast(model)))[1]

    seconds = await asyncio.to_thread(run)
    assert seconds == pytest.approx(1004)
    ended = [request.role for request in model.ended]
    assert ended[:4] == ["reply", "reply", "user", "reply"]


async def test_a_copy_that_was_questioned_goes_while_the_talk_goes_on(
    make_scenario: MakeScenario,
    make_model: MakeModel,
    make_cast: MakeCast,
    run_virtually: RunVirtually[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A copy of another package's memory is a whole store."""
    copies, there, fork = WeakSet[Assistant](), list[int](), Assistant.fork

    async def counted(assistant: Assistant, *, memories: bool = True) -> Assistant:
        there.append(len(copies))
        copy = await fork(assistant, memories=memories)
        copies.add(copy)
        return copy

    monkeypatch.setattr(Assistant, "fork", counted)
    model = make_model(delay=lambda request: 1.0 if request.role in {"answer", "probe"} else 1000.0)
    scenario = make_scenario(sessions=(1, 1, 1, 1), questions=2)
    await asyncio.to_thread(lambda: run_virtually(rollout(scenario, AWI, make_cast(model))))
    assert there == [0, 0, 0, 0]


@pytest.mark.parametrize("preset", STEADY)
async def test_asking_leaves_the_memory_as_it_was(
    preset: str, make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    told = {"sessions": (4, 2, 1), "changes": {1: {"pet_0": "mid"}}}
    scenario = make_scenario(**told)
    asked, unasked = make_model(), make_model()
    quizzed = await rollout(scenario, load_policy(preset), make_cast(asked))
    left_alone = await rollout(scenario.model_copy(update={"qas": []}), load_policy(preset), make_cast(unasked))
    for role in ("reply", "user", "write"):
        assert asked.asked(role) == unasked.asked(role)
    assert [stage.events for stage in quizzed.stages] == [stage.events for stage in left_alone.stages]
    assert [(p.answers, p.probes) for p in periods_of(left_alone)] == [((), ())] * 3


@pytest.mark.parametrize("reply", ["dunno", '{"answer": 9}', '{"answer": "first"}', ""])
async def test_an_unreadable_answer_is_wrong_and_not_a_guess(
    reply: str, make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    episode = await rollout(make_scenario(), NATIVE, make_cast(make_model(answer=reply)))
    assert episode.failure is None
    for answer in (answer for period in periods_of(episode) for answer in period.answers):
        assert (answer.raw, answer.choice, answer.score) == (reply, None, 0.0)
        assert answer.gold == 0


async def test_a_question_without_a_right_answer_is_asked_and_left_unscored(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    scenario, model = make_scenario(changes={1: {"pet_0": "high"}}), make_model()
    episode = await rollout(scenario, NATIVE, make_cast(model))
    assert [[answer.gold for answer in period.answers] for period in periods_of(episode)] == [
        [0, 0],
        [None, 0],
        [None, 0],
    ]
    assert [math.isnan(period.answers[0].score) for period in periods_of(episode)] == [False, True, True]
    assert len(model.asked("answer")) == 6


async def test_another_choice_for_the_right_state_is_right(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    scenario = make_scenario(sessions=(1,), questions=1)
    choices = scenario.qas[0].answer_choices
    twice = scenario.qas[0].model_copy(update={"answer_choices": [*choices, choices[0]]})
    episode = await rollout(
        scenario.model_copy(update={"qas": [twice]}), NATIVE, make_cast(make_model(answer='{"answer": 5}'))
    )
    (answer,) = period_of(episode, 0).answers
    assert (answer.choice, answer.gold, answer.score) == (4, 0, 1.0)


@pytest.mark.parametrize(
    ("reply", "right"),
    [
        ('{"pet_0": "low", "flat_0": "low"}', [True, True]),
        ('{"pet_0": "low", "flat_0": "mid"}', [True, False]),
        ('{"pet_0": "Low", "flat_0": " low"}', [False, False]),
        ('{"flat_0": "low", "pet_1": "low"}', [False, True]),
        ('{"pet_0": ["low"], "flat_0": null}', [True, False]),
        ("low, low", [False, False]),
        ("{}", [False, False]),
    ],
)
async def test_a_probe_is_right_where_it_names_the_very_value(
    reply: str, right: list[bool], make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    episode = await rollout(make_scenario(sessions=(1,), questions=1), NATIVE, make_cast(make_model(probe=reply)))
    (probe,) = period_of(episode, 0).probes
    assert dict(probe.right) == dict(zip(["pet_0", "flat_0"], right, strict=True))
    assert (probe.values is None) == (reply == "low, low")
