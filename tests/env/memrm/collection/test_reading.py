"""Which facts the embedded model reads from texts. Nothing is known of an empty memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import toy
from mnemotune.data import Fact, Scenario
from mnemotune.data.dialogue.generator import generate_scenarios
from mnemotune.env import DialogueTrack
from mnemotune.env.memrm.collection.reading import FactReader
from mnemotune.policies.lm import Message
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.prompts import Templates

Run = Callable[..., tuple[str, float]]


@pytest.fixture(scope="module")
def life() -> Scenario:
    return generate_scenarios(users=1, seed=3)[0]


@pytest.fixture(scope="module")
def reader(life: Scenario) -> FactReader:
    return FactReader(DialogueTrack(), life, EmbeddedModel())


def test_an_empty_memory_tells_nothing(life: Scenario, reader: FactReader, run_virtually: Run) -> None:
    needed = {fact for check in life.checks.values() for fact in check.needs}
    for fact in sorted(needed):
        assert run_virtually(reader.from_lines(life.facts[fact], []))[0] == "no"
        assert run_virtually(reader.from_messages(life.facts[fact], []))[0] == "no"


def test_lines_about_other_topics_are_rarely_taken_for_an_answer(
    life: Scenario, reader: FactReader, run_virtually: Run
) -> None:
    sessions = [session for period in life.periods for session in period.sessions]
    needed = sorted({fact for check in life.checks.values() for fact in check.needs})
    lucky = 0
    for fact in map(life.facts.__getitem__, needed):
        others = [s.query for s in sessions if fact.topic not in str(s.exposed_states)][:5]
        lucky += run_virtually(reader.from_lines(fact, others))[0] == "yes"
    assert lucky <= 0.1 * len(needed)


def test_a_reply_is_kept(life: Scenario, run_virtually: Run) -> None:
    reader = FactReader(DialogueTrack(), life, EmbeddedModel())
    fact = life.facts[next(iter(life.checks.values())).needs[0]]
    line = " ".join(fact.text.split("_")[:1])
    for _ in range(2):
        run_virtually(reader.from_lines(fact, [line]))
        assert reader.calls == 4


def test_no_model_is_asked_where_words_show_what_a_line_entails(life: Scenario, run_virtually: Run) -> None:
    reader = FactReader(DialogueTrack(), life, EmbeddedModel())
    fact = life.facts[next(iter(life.checks.values())).needs[0]]
    assert run_virtually(reader.from_lines(fact, [fact.sources[0]]))[0] == "yes"
    assert run_virtually(reader.from_lines(fact, ["zzz"]))[0] == "no"
    assert reader.calls == 0


class Literal(toy.LettersTrack):
    """Its facts are the very sentences that tell them."""

    def states(self, task: toy.Letters, fact: Fact, text: str) -> bool | None:
        return fact.text in text


async def test_no_model_is_asked_where_words_alone_show_a_fact() -> None:
    task = toy.Letters("letters", "writer", 1)
    reader, fact = FactReader(Literal(Templates.bundled()), task, EmbeddedModel()), task.facts["lantern"]
    assert await reader.from_lines(fact, ["user: Hello.", fact.text]) == "yes"
    assert await reader.from_messages(fact, [Message("user", "Hello.")]) == "no"
    assert reader.calls == 0


async def test_a_fact_for_which_a_track_has_no_prompt_is_not_known() -> None:
    task = toy.Letters("letters", "writer", 1)
    reader = FactReader(toy.LettersTrack(Templates.bundled()), task, EmbeddedModel())
    unneeded = Fact("piano", "piano", "things", "I keep my piano in the attic.", 0)
    assert await reader.from_messages(unneeded, [Message("user", unneeded.text)]) == "no"
