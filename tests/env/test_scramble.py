"""The embedded model is a reader: what it says depends on the messages of the call, and on nothing else.

A scrambled life is told in the very same words, but everything that is not a message is wrong: states, exposed states,
updates, events, summaries, and which answer suits which states.

Invariants:

1. In a life and in its scrambled twin every request, reply, write, answer and probe is the same under each preset.
2. The scores are not the same, so that the twins are no copies, and a model that peeked would have known.
3. What a call is billed as, and the policy that it is made under, are not messages either.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import grimp
import pytest

from mnemotune.data import Scenario
from mnemotune.data.dialogue.scenario import Question
from mnemotune.env import Episode, Protocol
from mnemotune.env.dialogue.bounds import bounds_of
from mnemotune.env.dialogue.compat import NONE
from mnemotune.env.dialogue.protocol import read_answer
from mnemotune.env.dialogue.record import PeriodRecord, answer_of, period_of
from mnemotune.env.scoring import score_group
from mnemotune.policies import load_policy, presets
from mnemotune.policies.forms import ANY_OBJECT
from mnemotune.policies.lm import CALL_ROLES, Completion, LanguageModel, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from staged import Cast, evaluator, rollout

if TYPE_CHECKING:
    from .conftest import MakeCast

Seen = list[dict[str, Any]]


class Recorded(LanguageModel):
    """The embedded model, and what it was asked."""

    name = "recorded"

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._inner = EmbeddedModel()

    async def complete(self, request: Request) -> Completion:
        self.requests.append(request)
        return await self._inner.complete(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


class Peeking(LanguageModel):
    """A model that cheats in one of three ways: it knows the life that it is asked about."""

    name = "peeking"

    def __init__(self, life: Scenario, at: str) -> None:
        self._life = life
        self._at = at
        self._inner = EmbeddedModel()

    async def complete(self, request: Request) -> Completion:
        completion = await self._inner.complete(request)
        return replace(completion, text=completion.text + self._known(request))

    def _known(self, request: Request) -> str:
        if self._at == "state" and request.role == "answer":
            return f"\n{max(self._life.periods[-1].state.items())}"
        if self._at == "exposed_states" and request.role == "reply":
            sessions = {s.opening: s for period in self._life.periods for s in period.sessions}
            session = sessions.get(request.messages[-1].content)
            return f"\n{session.exposed_states}" if session else ""
        if self._at == "choice" and request.role == "answer":
            asked = request.messages[-1].content
            question = next(q for q in self._life.qas if asked.startswith(q.query))
            return f"\n{question.gold(self._life.periods[0].state)}"
        return ""

    async def aclose(self) -> None:
        await self._inner.aclose()


def scramble(life: Scenario, *, seed: int) -> Scenario:
    """Return the same words with other facts behind them: every value that no message tells is another one."""
    rng = random.Random(f"scramble:{seed}")

    def other(info: str, value: str | None) -> str:
        return rng.choice([choice for choice in life.state_schema[info] if choice != value])

    def others(state: dict[str, str]) -> dict[str, str]:
        return {info: other(info, state[info]) for info in rng.sample(sorted(state), len(state))}

    row = life.model_dump(mode="json")
    for period in row["periods"]:
        period["state"] = others(period["state"])
        period["period_summary"] = f"summary {rng.random()}"
        period["update_cnts"] = {}
        told = rng.sample(sorted(life.state_schema), len(period["updates"]))
        period["updates"] = {info: {"old": None, "new": other(info, None)} for info in told}
        for session in period["sessions"]:
            session["event"] = f"event {rng.random()}"
            told = rng.sample(sorted(life.state_schema), len(session["exposed_states"]))
            session["exposed_states"] = {info: other(info, session["exposed_states"].get(info)) for info in told}
    for question in row["qas"]:
        choices = question["answer_choices"]
        states = [choice["state"] for choice in choices]
        for choice, state in zip(choices, [*states[1:], states[0]], strict=True):
            choice["state"] = state
            choice["type"] = "random" if choice["type"] == "experience" else "experience"
    return Scenario.parse(row)


def words(life: Scenario) -> tuple[Any, ...]:
    """Return all that a message may hold."""
    return (
        life.start_time,
        life.user_profile.formatted_str,
        life.state_schema,
        [(period.period_end, [session.opening for session in period.sessions]) for period in life.periods],
        [(q.query, q.required_info, [choice.answer for choice in q.answer_choices]) for q in life.qas],
    )


def facts(life: Scenario) -> list[Any]:
    """Return all that no message may hold, one part after another."""
    periods = [part for period in life.periods for part in (period.state, period.updates)]
    sessions = [session.exposed_states for period in life.periods for session in period.sessions]
    return [*periods, *sessions, *(choice.state for question in life.qas for choice in question.answer_choices)]


def periods_of(episode: Episode) -> list[PeriodRecord]:
    return [period_of(episode, p) for p in range(len(episode.stages))]


def seen(episode: Episode) -> Seen:
    """Return all that was said in an episode, period by period, without what the environment made of it."""
    return [
        {
            "events": period.events,
            "answers": [(answer.raw, answer.choice) for answer in period.answers],
            "probes": [(probe.raw, probe.values) for probe in period.probes],
        }
        for period in periods_of(episode)
    ]


def judged(episode: Episode, life: Scenario) -> tuple[list[float], list[dict[str, bool]], list[float]]:
    """Return what the environment made of it: scores of answers, probes that are right, shares of failures.

    What is unscored is -1, so that it equals itself.
    """
    bound = tuple(
        tuple(answer_of("", c, c, question) for c in range(len(question.answer_choices))) for question in life.qas
    )
    scores = score_group(life.group, [(life, episode, bounds_of(life, bound, NONE))])
    return (
        [-1.0 if answer.gold is None else answer.score for period in periods_of(episode) for answer in period.answers],
        [dict(probe.right) for period in periods_of(episode) for probe in period.probes],
        [
            -1.0 if math.isnan(share) else share
            for d in (stage.diagnosis for stage in scores.stages)
            for share in (d.write, d.read, d.utilisation)
        ],
    )


def cast_of(model: LanguageModel) -> Cast:
    return Cast(model, model, LexicalEmbedder(), protocol=Protocol())


async def twins(life: Scenario, preset: str, *, seed: int) -> list[tuple[Scenario, Episode, list[Request]]]:
    """Run a life and its scrambled twin, each with a model of its own."""
    runs = []
    for version in (life, scramble(life, seed=seed)):
        model = Recorded()
        runs.append((version, await rollout(version, load_policy(preset), cast_of(model)), model.requests))
    return runs


async def check_that_nothing_but_messages_matters(lives: Sequence[Scenario], preset: str) -> None:
    for seed, life in enumerate(lives):
        (_, episode, asked), (other, scrambled, asked_then) = await twins(life, preset, seed=seed)
        assert episode.failure is None
        assert asked == asked_then
        assert seen(episode) == seen(scrambled)
        assert episode.ledger == scrambled.ledger
        for mine, others in zip(judged(episode, life), judged(scrambled, other), strict=True):
            assert mine != others


# The twins


@pytest.mark.parametrize("lives", ["generated", "sample"])
@pytest.mark.parametrize("seed", range(3))
def test_a_scrambled_life_has_the_same_words_and_no_fact_in_common(
    seed: int, lives: str, request: pytest.FixtureRequest
) -> None:
    for life in request.getfixturevalue(lives):
        other = scramble(life, seed=seed)
        assert words(other) == words(life)
        assert all(a != b for a, b in zip(facts(life), facts(other), strict=True))
        for p, period in enumerate(life.periods):
            assert all(other.periods[p].state[info] != value for info, value in period.state.items())


def test_seeds_scramble_differently(generated: list[Scenario]) -> None:
    versions = [scramble(generated[0], seed=seed) for seed in range(3)]
    assert all(a != b for a, b in pairwise(versions))
    assert scramble(generated[0], seed=0) == versions[0]


# The proof


TOLD_FACTS = {"awi_complete"}
"""Presets whose feedback tells which answers were right: that is a message, and a fact."""
BLIND = sorted(set(presets()) - TOLD_FACTS)


@pytest.mark.exhaustive("preset")
@pytest.mark.parametrize("preset", BLIND)
async def test_with_every_fact_scrambled_generated_users_get_the_very_same_replies(
    preset: str, generated: list[Scenario]
) -> None:
    await check_that_nothing_but_messages_matters(generated, preset)


@pytest.mark.parametrize("preset", BLIND)
async def test_with_every_fact_scrambled_a_real_user_gets_the_very_same_replies(
    preset: str, sample: list[Scenario]
) -> None:
    await check_that_nothing_but_messages_matters(sample, preset)


async def test_told_what_was_right_a_policy_rewrites_its_prompts_otherwise(generated: list[Scenario]) -> None:
    (_, episode, _), (_, scrambled, _) = await twins(generated[0], "awi_complete", seed=0)
    assert episode.stages[0].revisions != scrambled.stages[0].revisions
    assert list(episode.stages[0].heard) == list(scrambled.stages[0].heard)


@pytest.mark.parametrize("preset", ["native", "awi"])
async def test_with_every_fact_scrambled_the_accuracy_falls(
    preset: str, generated: list[Scenario], make_cast: MakeCast
) -> None:
    """Reading serves nobody any more: answers that fitted the life fit its twin by chance at most."""
    scrambled = [scramble(life, seed=1) for life in generated]
    plain = await evaluator(make_cast(EmbeddedModel())).evaluate(load_policy(preset), generated)
    other = await evaluator(make_cast(EmbeddedModel())).evaluate(load_policy(preset), scrambled)
    assert other.mean("accuracy") < plain.mean("accuracy") - 0.05
    assert other.mean("ceiling") < plain.mean("ceiling") - 0.5


@pytest.mark.parametrize("at", ["state", "exposed_states", "choice"])
async def test_a_model_that_peeked_would_be_caught(at: str, generated: list[Scenario]) -> None:
    life = generated[0]
    runs = [
        await rollout(version, load_policy("native"), cast_of(Peeking(version, at)))
        for version in (life, scramble(life, seed=0))
    ]
    assert seen(runs[0]) != seen(runs[1])


async def test_only_the_upper_bound_shows_states(generated: list[Scenario]) -> None:
    """Nothing that is asked in an episode can give away which choice is right; the upper bound is meant to."""
    asked: dict[str, list[Request]] = {}
    life = generated[0]
    for name, version in (("plain", life), ("scrambled", scramble(life, seed=0))):
        model = Recorded()
        await evaluator(cast_of(model)).evaluate(load_policy("native"), [version])
        asked[name] = model.requests
    differ = {a.role for a, b in zip(asked["plain"], asked["scrambled"], strict=True) if a != b}
    assert differ == {"upper_bound"}


# What is no message


async def test_what_a_call_is_billed_as_changes_no_reply(generated: list[Scenario]) -> None:
    model = Recorded()
    await evaluator(cast_of(model)).evaluate(load_policy("awe"), [generated[0]])
    reader, rng = EmbeddedModel(), random.Random("roles")
    by_role: dict[str, list[Request]] = {}
    for request in model.requests:
        by_role.setdefault(request.role, []).append(request)
    assert by_role.keys() == {"reply", "user", "write", "answer", "probe", "upper_bound"}
    for request in (request for some in by_role.values() for request in rng.sample(some, 4)):
        said = (await reader.complete(request)).text
        for role in CALL_ROLES:
            disguised = replace(
                request, role=role, form=ANY_OBJECT if request.form is None else None, temperature=1.0, repeat=7
            )
            assert (await reader.complete(disguised)).text == said


async def test_a_model_that_has_talked_before_says_what_a_fresh_one_says(generated: list[Scenario]) -> None:
    """Nothing is carried over from call to call, in whatever order they come."""
    model = Recorded()
    await rollout(generated[0], load_policy("awi"), cast_of(model))
    requests = random.Random("order").sample(model.requests, 60)
    worn, replies = EmbeddedModel(), {}
    for request in requests:
        replies[request] = (await worn.complete(request)).text
    for request in reversed(requests):
        assert (await EmbeddedModel().complete(request)).text == replies[request]


def test_the_embedded_model_imports_nothing_that_knows_a_life_or_a_policy() -> None:
    graph = grimp.build_graph("mnemotune", cache_dir=None)
    needed = graph.find_upstream_modules("mnemotune.policies.lm.embedded", as_package=True)
    texts = {
        "mnemotune.policies.text",
        "mnemotune.policies.replies",
        "mnemotune.policies.lm.schemas",
        "mnemotune.policies.lm.tool_texts",
    }
    models = {"mnemotune.policies.lm.base", "mnemotune.policies.lm.lexical", "mnemotune.data.errors"}
    models |= {"mnemotune.policies.forms", "mnemotune.policies.lm.ledger"}
    frozen = {"mnemotune.data.record", "mnemotune.data.nearest", "mnemotune.data.values"}
    assert needed == models | texts | frozen, "a record is a frozen value of any kind, and so are values"


# The words decide


def moved(question: Question, by: int) -> Question:
    choices = question.answer_choices
    return question.model_copy(update={"answer_choices": [*choices[by:], *choices[:by]]})


@pytest.mark.parametrize("turn", [1, 2])
async def test_answers_follow_the_texts_of_the_choices_and_not_their_places(
    turn: int, generated: list[Scenario]
) -> None:
    life = generated[0]
    turned = life.model_copy(update={"qas": [moved(question, turn) for question in life.qas]})
    runs = [await rollout(version, load_policy("native"), cast_of(EmbeddedModel())) for version in (life, turned)]
    same = [
        chosen(life.qas[q], first.raw) == chosen(turned.qas[q], second.raw)
        for one, two in zip(periods_of(runs[0]), periods_of(runs[1]), strict=True)
        for q, (first, second) in enumerate(zip(one.answers, two.answers, strict=True))
    ]
    assert sum(same) / len(same) > 0.9


def chosen(question: Question, raw: str) -> str | None:
    choice = read_answer(raw, question)
    return None if choice is None else question.answer_choices[choice].answer


@pytest.mark.parametrize(
    "forget", [lambda query: "Hello again, just saying hi.", lambda query: query[:8]], ids=["chat", "cut"]
)
async def test_without_the_words_that_tell_them_states_are_not_known(
    forget: Callable[[str], str], generated: list[Scenario]
) -> None:
    """The facts stay as they are and only the sessions' texts go: what is known falls to about chance, 1 in 3."""
    life = generated[0]
    periods = [
        period.model_copy(
            update={"sessions": [s.model_copy(update={"query": forget(s.query)}) for s in period.sessions]}
        )
        for period in life.periods
    ]
    silent = life.model_copy(update={"periods": periods})
    known = []
    for version in (life, silent):
        episode = await rollout(version, load_policy("native"), cast_of(EmbeddedModel()))
        right = [
            is_right for period in periods_of(episode) for probe in period.probes for is_right in probe.right.values()
        ]
        known.append(sum(right) / len(right))
    assert known[1] < 0.45
    assert known[0] > known[1] + 0.1
