"""A policy that rewrites its own prompts.

Invariants:

1. Every user starts from the policy's own prompts, and nothing is passed on to another.
2. A reply that is of no use leaves the prompt as it was, and is told; a call that fails ends the user's episode alone.
3. A rewritten prompt always has the slots that it needs, and never gets the schema.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.env import Protocol
from mnemotune.env.dialogue.compat import DEFECTS
from mnemotune.env.dialogue.evolution import NEW_TYPES, Exam, tell, with_lost_slots
from mnemotune.env.dialogue.record import Answer, period_of
from mnemotune.policies import MemoryPolicy, load_policy
from mnemotune.policies.lm import LanguageModelError, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.policy import Evolution
from mnemotune.policies.prompts import Templates
from staged import evaluator, rollout

if TYPE_CHECKING:
    from ..conftest import MakeCast, MakeModel, MakeScenario, RunVirtually

TEXTS = Templates.bundled()
AWI = {"write": {"mode": "profile"}, "update_every": 2, "buffer_size": 0, "store": "context"}
AWE = {"write": {"mode": "facts"}, "update_every": 2, "buffer_size": 0, "store": "external", "top_k": 3}


def evolving(shape: Any = AWI, **evolution: Any) -> MemoryPolicy:
    return MemoryPolicy.model_validate({**shape, "evolution": evolution})


def types_told(request: Request) -> str:
    """Return the types of information that a write prompt asks for."""
    before, after = TEXTS.write_profile.split("{info_types}")
    start = request.messages[-1].content.removeprefix(before)
    return start[: start.index(after.split("{memories}")[0])]


def numbered() -> Any:
    """Rewrite the types to ``types 1``, ``types 2``, ... in the order of calls."""
    count = iter(range(1, 1000))
    return lambda _: json.dumps({"new_types": f"types {next(count)}", "changes": ["renumbered"]})


# Feedback


def exam(scenario: Any, *answers: Answer) -> Exam:
    return Exam(scenario.qas, answers, [f"- memory {i}" for i in range(len(answers))])


@pytest.fixture
def asked(make_scenario: MakeScenario) -> tuple[Any, Exam]:
    life = make_scenario(sessions=(1,), questions=2)
    return life, exam(life, Answer('{"answer": 2}', 1, 0, 0.0), Answer("dunno", None, 3, 0.0))


def test_feedback_on_questions_only_by_hand(asked: tuple[Any, Exam]) -> None:
    life, found = asked
    assert tell(Evolution(feedback="question_only"), life.periods[0], found, compat=frozenset()) == [
        {"question": "Question: ann asks question 0?;", "retrieved_memories": "- memory 0"},
        {"question": "Question: ann asks question 1?;", "retrieved_memories": "- memory 1"},
    ]


def test_complete_feedback_with_everything_by_hand(asked: tuple[Any, Exam]) -> None:
    life, found = asked
    everything = Evolution(feedback="complete", ground_truth=True, exposed_states=True)
    told = tell(everything, life.periods[0], found, compat=frozenset())
    assert told["user_information_updates"] == dict.fromkeys(("pet_0", "flat_0", "pet_1", "flat_1"), "low")
    first, second = told["question_answer_history"]
    assert first == {
        "question": "Question: ann asks question 0?;\n(A) Fit for pet_0 at low, flat_0 at low;\n"
        "(B) Fit for pet_0 at low, flat_0 at mid;\n(C) Fit for pet_0 at mid, flat_0 at low;\n"
        "(D) Fit for pet_0 at mid, flat_0 at mid;",
        "assistant_response": "B",
        "retrieved_memories": "- memory 0",
        "ground_truth": "A",
    }
    assert (second["assistant_response"], second["ground_truth"]) == (None, "D")


def test_without_ground_truth_nothing_says_what_was_right(asked: tuple[Any, Exam]) -> None:
    life, found = asked
    assert "ground_truth" not in json.dumps(tell(Evolution(), life.periods[0], found, compat=frozenset()))


@pytest.mark.parametrize(
    ("raw", "choice", "guessed", "letter"),
    [
        ('{"answer": 1}', 0, False, "B"),
        ('{"answer": 4}', 3, False, "E"),
        ('{"answer": 0}', 3, False, "A"),
        ('{"answer": -1}', 2, False, "Z"),
        ("dunno", 2, True, "D"),
        ('{"answer": 9}', 0, True, "B"),
    ],
)
def test_amemgyms_letters_are_one_off(
    raw: str, choice: int, guessed: bool, letter: str, make_scenario: MakeScenario
) -> None:
    life = make_scenario(sessions=(1,), questions=1)
    found = exam(life, Answer(raw, choice, 0, 0.0, guessed))
    (told,) = tell(Evolution(), life.periods[0], found, compat=frozenset({"shifted_letters"}))
    assert told["assistant_response"] == letter


# Rewriting


async def test_a_rewritten_prompt_serves_from_the_next_period_on(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model = make_model(propose=numbered())
    episode = await rollout(make_scenario(sessions=(1, 2, 1)), evolving(), make_cast(model))
    told = [types_told(request) for request in model.asked("write")]
    assert told == [TEXTS.info_types, *["types 1"] * 4, *["types 2"] * 2]
    revisions = [[(r.target, r.text, r.changes, r.error) for r in stage.revisions] for stage in episode.stages]
    assert revisions == [
        [("info_types", "types 1", ("renumbered",), None)],
        [("info_types", "types 2", ("renumbered",), None)],
        [],
    ]
    assert episode.policy_key == evolving().key


async def test_each_rewriting_is_asked_about_the_present_text_and_the_periods_answers(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model = make_model(propose=numbered(), answer='{"answer": 3}')
    await rollout(make_scenario(sessions=(1, 1, 1), questions=1), evolving(ground_truth=True), make_cast(model))
    first, second = model.asked("propose")
    assert [m.role for m in first.messages] == ["system", "user"]
    assert first.messages[0].content == TEXTS.evolve_info_types_system
    assert TEXTS.info_types in first.messages[1].content
    assert "types 1" in second.messages[1].content
    assert '"assistant_response": "C"' in second.messages[1].content
    assert '"ground_truth": "A"' in second.messages[1].content
    assert (first.temperature, first.form) == (0.0, NEW_TYPES)


async def test_guided_the_model_sees_what_other_questions_need(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model = make_model()
    await rollout(make_scenario(sessions=(1, 1)), evolving(guided=True), make_cast(model))
    assert [r.messages[0].content for r in model.asked("propose")] == [TEXTS.evolve_info_types_guided]


async def test_every_user_starts_from_the_policys_prompts_invariant_1(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    lives = [make_scenario(user=name, sessions=(1, 1)) for name in ("ann", "ben", "cleo")]
    model = make_model()
    await evaluator(make_cast(model)).evaluate(evolving(), lives)
    started = [r for r in model.asked("write") if "in period 0" in r.messages[-1].content]
    assert [types_told(request) for request in started] == [TEXTS.info_types] * 3


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("I would rather not.", "no JSON object"),
        ('{"changes": []}', 'no text "new_types"'),
        ('{"new_types": "  "}', 'no text "new_types"'),
        ('{"new_types": 3}', 'no text "new_types"'),
        ("[1]", "not an object"),
    ],
)
async def test_a_reply_of_no_use_leaves_the_prompt_as_it_was_invariant_2(
    reply: str, said: str, make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model = make_model(propose=reply)
    episode = await rollout(make_scenario(sessions=(1, 1)), evolving(), make_cast(model))
    assert episode.failure is None
    assert [types_told(request) for request in model.asked("write")] == [TEXTS.info_types] * 3
    (revision,) = episode.stages[0].revisions
    assert (revision.text, revision.raw) == (None, reply)
    assert said in (revision.error or "")


async def test_a_call_that_fails_ends_the_users_episode_alone_invariant_2(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    def propose(request: Request) -> str:
        if "ann asks" in request.messages[-1].content:
            raise LanguageModelError("too long")
        return '{"new_types": "all"}'

    lives = [make_scenario(user=name, sessions=(1, 1)) for name in ("ann", "ben")]
    evaluation = await evaluator(make_cast(make_model(propose=propose))).evaluate(evolving(), lives)
    assert evaluation.failures == {"ann": "too long"}
    assert [score.group for score in evaluation.groups] == ["ben"]
    assert len(evaluation.episodes[0].stages) == 1


async def test_types_may_come_as_a_list(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model = make_model(propose='{"new_types": ["1. Pets", "2. Flats"], "changes": "both"}')
    episode = await rollout(make_scenario(sessions=(1, 1)), evolving(), make_cast(model))
    (revision,) = episode.stages[0].revisions
    assert (revision.text, revision.changes) == ("1. Pets\n2. Flats", ("both",))


@pytest.mark.parametrize("text", ['{x} "a": {} {{b}}', "{conversation} {memories} {schema_names} {schema_list}", "{"])
async def test_braces_in_rewritten_types_are_plain_text_invariant_3(
    text: str, make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model = make_model(propose=json.dumps({"new_types": text}))
    await rollout(make_scenario(sessions=(1, 1)), evolving(), make_cast(model))
    assert types_told(model.asked("write")[-1]) == text


async def test_a_whole_prompt_is_rewritten_and_gets_back_the_slots_it_lost_invariant_3(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model = make_model(propose='{"new_prompt": "Note all of {conversation} as JSON."}')
    episode = await rollout(make_scenario(sessions=(1, 1)), evolving(targets=["write"]), make_cast(model))
    asked = model.asked("propose")[0].messages[-1].content
    assert TEXTS.starting("write_profile") in asked
    (revision,) = episode.stages[0].revisions
    assert revision.text == "Note all of {conversation} as JSON.\n\nWhat is known about the user:\n{memories}"
    assert "What is known about the user:\n{" in model.prompts("write")[-1]


async def test_two_prompts_are_rewritten_side_by_side(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model = make_model(delay=lambda _: 0.001, propose=lambda r: json.dumps({"new_prompt": r.messages[-1].content}))
    policy = evolving(AWE, targets=["write", "merge"])
    episode = await rollout(make_scenario(sessions=(1, 1)), policy, make_cast(model))
    assert [revision.target for revision in episode.stages[0].revisions] == ["write", "merge"]
    assert model.peak["propose"] == 2
    assert episode.failure is None


@given(kind=st.sampled_from(["write_profile", "write_facts", "merge"]), text=st.text())
def test_whatever_it_says_a_mended_prompt_has_its_slots_invariant_3(kind: str, text: str) -> None:
    mended = with_lost_slots(kind, text, TEXTS)
    assert mended.startswith(text)
    assert Templates.missing_slots(kind, mended) == []
    assert "json" in mended.lower()
    assert with_lost_slots(kind, mended, TEXTS) == mended


def test_the_next_talk_waits_for_the_answers_and_not_for_the_probes(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast, run_virtually: RunVirtually[Any]
) -> None:
    model = make_model(delay=lambda request: {"answer": 10.0, "propose": 5.0, "probe": 100.0}.get(request.role, 0.0))
    _, seconds = run_virtually(rollout(make_scenario(sessions=(1, 1)), evolving(), make_cast(model)))
    assert seconds == pytest.approx(115)


# The oracle


async def test_an_oracle_is_told_the_names_of_the_states_and_only_them(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model, life = make_model(), make_scenario(sessions=(4,), questions=1)
    await rollout(life, load_policy("awi_oracle"), make_cast(model))
    told = {types_told(request) for request in model.asked("write")}
    assert told == {"- pet_0\n- flat_0"}


async def test_amemgyms_oracle_is_told_them_as_a_list(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    policy = MemoryPolicy.model_validate({**AWI, "prompts": {"info_types": "{schema_list}"}})
    model = make_model()
    await rollout(make_scenario(sessions=(1,), questions=1), policy, make_cast(model))
    assert {types_told(request) for request in model.asked("write")} == {"['pet_0', 'flat_0']"}


# AMemGym's defects


async def test_after_the_last_period_nothing_is_rewritten_unless_amemgyms_way_is_asked_for(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    life = make_scenario(sessions=(1, 1, 1))
    for compat, count in ((frozenset[Any](), 2), (frozenset({"evolution_after_the_end"}), 3)):
        model = make_model()
        protocol = Protocol(compat=compat)
        await rollout(life, evolving(), make_cast(model, protocol=protocol))
        assert len(model.asked("propose")) == count
        assert protocol.episode_calls(life, evolving()) == len(model.requests)


async def test_amemgyms_unguided_rewriting_has_an_empty_system_prompt(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    protocol = Protocol(compat=frozenset({"lost_evolution_system"}))
    for guided, system in ((False, ""), (True, TEXTS.evolve_info_types_guided)):
        model = make_model()
        await rollout(make_scenario(sessions=(1, 1)), evolving(guided=guided), make_cast(model, protocol=protocol))
        assert model.asked("propose")[0].messages[0].content == system


async def test_amemgym_shows_a_prompt_with_doubled_braces_and_takes_them_back(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    reply = json.dumps({"new_prompt": 'Return {{}} or {"a": 1} as JSON. {memories} {conversation}'})
    model = make_model(propose=reply)
    protocol = Protocol(compat=frozenset({"doubled_braces"}))
    policy = evolving({**AWI, "initial": "minimal"}, targets=["write"])
    episode = await rollout(make_scenario(sessions=(1, 1)), policy, make_cast(model, protocol=protocol))
    assert "return {{}} when" in model.asked("propose")[0].messages[-1].content
    assert "{memories}" in model.asked("propose")[0].messages[-1].content
    assert episode.stages[0].revisions[0].text == 'Return {} or {"a": 1} as JSON. {memories} {conversation}'


async def test_amemgym_cannot_read_an_evolving_policys_probes(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    protocol = Protocol(compat=frozenset({"unread_evolved_probes"}))
    for policy, right in ((evolving(), {False}), (load_policy("awi"), {True})):
        episode = await rollout(make_scenario(sessions=(2, 1)), policy, make_cast(make_model(), protocol=protocol))
        periods = [period_of(episode, p) for p in range(2)]
        assert {all(probe.right.values()) for period in periods for probe in period.probes} == right


async def test_amemgyms_guesses_are_in_the_feedback_and_go_on_from_user_to_user(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    """The same guesses come out as where they are drawn afterwards, in the order of users, periods and questions."""
    lives = [make_scenario(user=name, sessions=(1, 1)) for name in ("ann", "ben")]
    cast = make_cast(make_model(answer="dunno"), protocol=Protocol(compat=frozenset(DEFECTS)))
    found = await evaluator(cast).evaluate(evolving(), lives)
    plain = await evaluator(cast).evaluate(load_policy("awi"), lives)
    choices, plain_choices = (
        [[[a.choice for a in period_of(e, p).answers] for p in range(2)] for e in evaluation.episodes]
        for evaluation in (found, plain)
    )
    assert choices == plain_choices
    letters = [
        re.findall(r'"assistant_response": "(\w)"', prompt)
        for prompt in cast.assistant.prompts("propose")  # type: ignore[attr-defined]
    ]
    shifted = [["ABCDE"[choice + 1] for choice in period if choice is not None] for user in choices for period in user]
    assert letters == shifted


# With the embedded model


async def test_the_embedded_model_rewrites_its_types_from_what_it_was_asked(
    generated: list[Any], make_cast: MakeCast
) -> None:
    life = generated[0]
    episode = await rollout(life, load_policy("awi_complete"), make_cast(EmbeddedModel()))
    revisions = [revision for stage in episode.stages for revision in stage.revisions]
    assert len(revisions) == len(life.periods) - 1
    assert all(revision.error is None for revision in revisions)
    first = revisions[0].text or ""
    assert first.startswith(TEXTS.info_types)
    assert len(first.splitlines()) > len(TEXTS.info_types.splitlines())
