"""Labels of writes, with the embedded model and short lives.

A memory that did not change loses nothing of what it held.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from mnemotune.data import Scenario
from mnemotune.data.dialogue.generator import generate_scenarios
from mnemotune.env import Cast, DialogueTrack, Episode
from mnemotune.env.episode import Event, StageRecord
from mnemotune.env.memrm.collection.labels import EpisodeLabels, Labeller
from mnemotune.env.memrm.collection.reading import FactReader
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm import Message
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory import MemoryEvent

Label = Callable[[Sequence[MemoryEvent]], EpisodeLabels]


@pytest.fixture(scope="module")
def life() -> Scenario:
    return generate_scenarios(users=1, seed=3)[0]


@pytest.fixture(scope="module")
def reader(life: Scenario) -> FactReader:
    return FactReader(DialogueTrack(), life, EmbeddedModel())


@pytest.fixture
def label(life: Scenario, run_virtually: Callable[..., tuple[EpisodeLabels, float]]) -> Label:
    """Label writes as if an episode had made them."""

    def labelled(writes: Sequence[MemoryEvent]) -> EpisodeLabels:
        record = StageRecord(tuple(Event(0, "write", write=write) for write in writes))
        labeller = Labeller(life, FactReader(DialogueTrack(), life, EmbeddedModel()))
        episode = Episode(life.id, "key", (record,))
        return run_virtually(labeller.label(episode, load_policy("awi"), rng=random.Random(0)))[0]

    return labelled


@pytest.fixture
def told(life: Scenario, reader: FactReader, run_virtually: Callable[..., tuple[str, float]]) -> Message:
    """The opening of the first session that tells one state only, which is needed and can be read."""
    needed = {fact for check in life.checks.values() for fact in check.needs}
    for session in life.periods[0].sessions:
        facts = [fact for fact in life.facts.values() if fact.since == 0 and session.opening in fact.sources]
        message = Message("user", session.opening)
        alone = [fact.id in needed for fact in facts] == [True]
        if alone and run_virtually(reader.from_messages(facts[0], [message]))[0] == "yes":
            return message
    raise AssertionError("no such session")


@pytest.fixture
def unreadable(life: Scenario, reader: FactReader, run_virtually: Callable[..., tuple[str, float]]) -> Message:
    """An opening that tells one needed fact only, which the model cannot read in it."""
    needed = {fact for check in life.checks.values() for fact in check.needs}
    for period, stage in zip(life.periods, range(len(life.periods)), strict=True):
        for session in period.sessions:
            facts = [f for f in life.facts.values() if f.since == stage and session.opening in f.sources]
            message = Message("user", session.opening)
            alone = [fact.id in needed for fact in facts] == [True]
            if alone and run_virtually(reader.from_messages(facts[0], [message]))[0] != "yes":
                return message
    raise AssertionError("no such session")


def write(
    evicted: Sequence[Message], before: Sequence[str], after: Sequence[str], error: str | None = None
) -> MemoryEvent:
    return MemoryEvent(tuple(evicted), tuple(before), tuple(after), (), error)


def test_a_write_that_keeps_all_that_was_told_is_safe(label: Label, told: Message) -> None:
    [row] = label([write([told], [], [f"user: {told.content}"])]).rows
    assert row.label == "SAFE"
    assert [(fact.lost, fact.message) for fact in row.facts] == [(False, 0)]


@pytest.mark.parametrize("after", [(), ("weather: It rained all week",)])
def test_a_write_that_keeps_nothing_of_what_was_told_is_harmful(
    label: Label, told: Message, after: tuple[str, ...]
) -> None:
    [row] = label([write([told], [], after)]).rows
    assert row.label == "HARMFUL"
    assert [(fact.lost, fact.message) for fact in row.facts] == [(True, 0)]


def test_a_write_is_left_out_where_the_model_cannot_read_in_the_message_itself_what_it_tells(
    label: Label, unreadable: Message
) -> None:
    found = label([write([unreadable], [], [f"user: {unreadable.content}"])])
    assert (found.rows, found.undecided) == ((), 1)


def test_a_write_that_keeps_no_word_of_what_was_told_is_harmful_whatever_the_model_can_read(
    label: Label, unreadable: Message
) -> None:
    [row] = label([write([unreadable], [], ["zzz"])]).rows
    assert [(fact.lost, fact.message) for fact in row.facts] == [(True, 0)]


def test_a_write_that_overwrites_what_was_known_is_harmful(label: Label, told: Message) -> None:
    known, talk = f"user: {told.content}", Message("user", "It rained all week.")
    first, second = label([write([told], [], [known]), write([talk], [known], ["weather: It rained"])]).rows
    assert first.label == "SAFE"
    assert second.label == "HARMFUL"
    assert [(fact.lost, fact.message) for fact in second.facts] == [(True, None)]


def test_a_write_with_nothing_at_stake_is_safe(label: Label, told: Message) -> None:
    known, talk = f"user: {told.content}", Message("user", "It rained all week.")
    _, row = label([write([told], [], [known]), write([talk], [known], [known, "weather: It rained"])]).rows
    assert row.label == "SAFE"
    assert row.facts == []


def test_what_a_tool_returned_is_told(label: Label, told: Message) -> None:
    [row] = label([write([Message("tool", told.content, tool_call_id="1")], [], [])]).rows
    assert [(fact.lost, fact.message) for fact in row.facts] == [(True, 0)]
    assert row.event.evicted == (told,)


def test_what_the_assistant_said_is_not_told(label: Label, told: Message) -> None:
    [row] = label([write([Message("assistant", told.content)], [], [])]).rows
    assert row.facts == []


def test_a_write_that_failed_is_labelled_by_what_it_left(label: Label, told: Message) -> None:
    found = label([write([told], [], [], error="no JSON")])
    assert found.failed == 1
    assert [row.label for row in found.rows] == ["HARMFUL"]


def test_a_new_value_must_be_known_and_not_the_old_one(life: Scenario, label: Label) -> None:
    openings = [
        (info, update.old, session.opening)
        for period in life.periods[1:]
        for session in period.sessions
        for info, update in period.updates.items()
        if info in session.exposed_states and update.old is not None
    ]
    checked = 0
    for info, old, opening in openings[:6]:
        first = next(s.opening for p in life.periods for s in p.sessions if s.exposed_states.get(info) == old)
        known = f"user: {first}"
        rows = label(
            [
                write([Message("user", first)], [], [known]),
                write([Message("user", opening)], [known], [known]),
            ]
        ).rows
        lost = [fact.lost for row in rows if row.write == 1 for fact in row.facts if fact.key == info]
        assert lost in ([True], [])
        checked += len(lost)
    assert checked > 0


def test_a_memory_that_stayed_as_it_was_loses_nothing(
    life: Scenario, run_virtually: Callable[..., tuple[EpisodeLabels, float]]
) -> None:
    model = EmbeddedModel()
    cast = Cast(model, model, LexicalEmbedder())
    policy = load_policy("awi")
    short = life.model_copy(update={"periods": life.periods[:3]})
    episode = run_virtually(DialogueTrack().begin(short, policy, cast).run())[0]
    labeller = Labeller(life, FactReader(DialogueTrack(), life, model))
    found = run_virtually(labeller.label(episode, policy, rng=random.Random(0)))[0]
    assert len(found.rows) + found.undecided == found.writes
    assert {row.label for row in found.rows} == {"SAFE", "HARMFUL"}
    for row in found.rows:
        assert row.label == ("HARMFUL" if any(fact.lost for fact in row.facts) else "SAFE")
        if set(row.before) <= set(row.after):
            assert not any(fact.lost and fact.message is None for fact in row.facts)
