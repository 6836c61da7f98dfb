"""Notes with links.

Invariant: a note's text never changes; what describes it does.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from mnemotune.policies.deploy.stating import forget_fact
from mnemotune.policies.lm import Completion, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory import dump_memory, open_memory
from mnemotune.policies.memory.conformance import Make, MemoryConformance, Scribe, observe
from remembering import preset

if TYPE_CHECKING:
    from ..conftest import MakeModel, Pair


policy = partial(preset, "a-mem", top_k=1, buffer_size=0)


def note(text: str, context: str = "", **words: list[str]) -> dict[str, Any]:
    return {"text": text, "context": context, **words}


def notes(*told: dict[str, Any]) -> str:
    return json.dumps({"facts": told})


def linked(links: list[dict[str, Any]], changes: list[dict[str, Any]] | None = None) -> str:
    return json.dumps({"links": links, "changes": changes or []})


class Linker(Scribe):
    """Links each new note to all known ones, whose keywords are then the new notes' texts."""

    async def complete(self, request: Request) -> Completion:
        completion, prompt = await super().complete(request), request.messages[-1].content
        if "New notes" not in prompt:
            return completion
        parts = prompt.split("New notes, by number:\n")
        known = json.loads(parts[0].split("by id:\n")[1])
        new = json.loads(parts[1].split("\n\nReturn")[0])
        changes = [{"id": key, "keywords": [note["text"] for note in new.values()]} for key in known]
        links = [{"note": number, "to": [*known]} for number in new]
        return Completion(linked(links, changes), completion.usage)


class TestNoteMemory(MemoryConformance):
    @pytest.fixture
    def make(self) -> Make:
        under = policy(top_k=5, buffer_size=4)
        return lambda model: open_memory(under, model, LexicalEmbedder())


class TestLinkedNotes(MemoryConformance):
    @pytest.fixture
    def model(self) -> Linker:
        return Linker()

    @pytest.fixture
    def make(self) -> Make:
        under = policy(top_k=2, buffer_size=4, knobs={"links": 3, "neighbours": 2})
        return lambda model: open_memory(under, model, LexicalEmbedder())


COOK = note("Bo cooks on Sundays.", "Bo at home.", keywords=["cooking"], tags=["food"])
OVEN = note("The oven is broken.", "A repair.")


@pytest.mark.asyncio
async def test_links_are_followed_both_ways(make_model: MakeModel, pair: Pair) -> None:
    model = make_model(notes(COOK), notes(OVEN), linked([{"note": "1", "to": ["0"]}]))
    memory = open_memory(policy(), model, LexicalEmbedder())
    await observe(memory, [pair("Dinner?"), pair("Oh.")])
    for query in ("Who cooks on Sundays?", "Is the oven broken?"):
        assert len((await memory.context(query, tokens=None)).items) == 2
    await memory.forget(lambda text: "oven" in text)
    assert [item.text for item in (await memory.context("oven", tokens=None)).items] == [
        "Bo cooks on Sundays. (Bo at home. Keywords: cooking, food.)"
    ]


@pytest.mark.asyncio
async def test_a_note_that_was_cut_short_is_forgotten_whatever_describes_it(make_model: MakeModel, pair: Pair) -> None:
    told = note("Bo parks by the third pillar", "The user talks about a car.", keywords=["gloom", "night"])
    memory = open_memory(policy(), make_model(notes(told)), LexicalEmbedder())
    await memory.observe(pair("Where?"))
    gone = await forget_fact(memory, "Bo parks by the third pillar, where it rains.")
    assert gone == ["Bo parks by the third pillar"]
    assert await memory.listing() == []


@pytest.mark.asyncio
async def test_a_new_note_describes_a_known_one_anew(make_model: MakeModel, pair: Pair) -> None:
    change = {"id": "0", "keywords": ["cold food"], "context": "Bo, who has no oven."}
    memory = open_memory(policy(), make_model(notes(COOK), notes(OVEN), linked([], [change])), LexicalEmbedder())
    _, event = await observe(memory, [pair("Dinner?"), pair("Oh.")])
    assert event.after[0] == "Bo cooks on Sundays. (Bo, who has no oven. Keywords: cold food, food.)"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "reply",
    [
        '{"links": 3}',
        linked([{"note": "9", "to": ["0"]}]),
        linked([{"note": "1", "to": ["7"]}]),
        linked([], [{"id": 8}]),
    ],
)
async def test_a_link_to_what_was_not_shown_costs_the_links_and_no_note(
    make_model: MakeModel, pair: Pair, reply: str
) -> None:
    memory = open_memory(policy(), make_model(notes(COOK), notes(OVEN), reply), LexicalEmbedder())
    _, event = await observe(memory, [pair("Dinner?"), pair("Oh.")])
    assert event.after == (*event.before, "The oven is broken. (A repair.)")
    assert event.error is not None
    assert "links" not in await dump_memory(memory)


@pytest.mark.asyncio
async def test_the_embedded_model_describes_and_links_notes(pair: Pair) -> None:
    model = EmbeddedModel()
    memory = open_memory(policy(), model, LexicalEmbedder())
    await observe(memory, [pair("I have a new job at the harbour in Lisbon."), pair("My job at the harbour is hard.")])
    first, second = json.loads(await dump_memory(memory))["state"]["entries"]
    assert second["links"] == [first["id"]]
    assert {"keywords", "tags", "context"} <= {*first} & {*second}
    await model.aclose()
