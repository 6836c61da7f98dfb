"""A graph of relations.

Invariant: what was made obsolete is kept with what did so, and shown nowhere.
"""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import TYPE_CHECKING

import pytest

from mnemotune.policies.lm import Completion, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory import Memory, dump_memory, open_memory
from mnemotune.policies.memory.conformance import Make, MemoryConformance, Scribe, observe, talk
from remembering import preset

if TYPE_CHECKING:
    from ..conftest import MakeModel, Pair


policy = partial(preset, "mem0-g", top_k=1, buffer_size=0)


def relations(*told: tuple[str, str, str]) -> str:
    return json.dumps({"facts": [dict(zip(("source", "relation", "target"), each, strict=True)) for each in told]})


def outdated(*pairs: tuple[str, str]) -> str:
    return json.dumps({"outdated": [{"id": key, "by": by} for key, by in pairs]})


class Relator(Scribe):
    """Relates the user to what it reads; each new relation makes the nearest known one obsolete."""

    async def complete(self, request: Request) -> Completion:
        completion, prompt = await super().complete(request), request.messages[-1].content
        if "New relations" in prompt:
            known = json.loads(prompt.split("by id:\n")[1].split("\n\nNew")[0])
            return Completion(outdated((next(iter(known)), "1")), completion.usage)
        notes = json.loads(completion.text)["facts"]
        return Completion(relations(*(("user", "said", note) for note in notes)), completion.usage)


class TestPlainFacts(MemoryConformance):
    @pytest.fixture
    def make(self) -> Make:
        under = policy(top_k=5, buffer_size=4)
        return lambda model: open_memory(under, model, LexicalEmbedder())


class TestGraphMemory(MemoryConformance):
    @pytest.fixture
    def model(self) -> Relator:
        return Relator()

    @pytest.fixture
    def make(self) -> Make:
        under = policy(top_k=2, buffer_size=4, knobs={"links": 3, "neighbours": 2})
        return lambda model: open_memory(under, model, LexicalEmbedder())


async def shown(memory: Memory, query: str) -> list[str]:
    items = (await memory.context(query, tokens=None)).items
    return [item.text for item in sorted(items, key=lambda item: item.rank)]


FAMILY = relations(
    ("user", "has a sister named", "Ann"),
    ("Ann", "works at", "the harbour"),
    ("user", "cooks", "on Sundays"),
    ("user", "has", "a red oven"),
    ("user", "reads", "novels"),
)


@pytest.mark.asyncio
async def test_the_relations_of_a_thing_come_back_with_what_is_found(make_model: MakeModel, pair: Pair) -> None:
    memory = open_memory(policy(), make_model(FAMILY), LexicalEmbedder())
    await observe(memory, [pair("My family.")])
    found = await shown(memory, "Who works at the harbour?")
    assert found == ["Ann works at the harbour", "user has a sister named Ann"]
    assert await shown(memory, "Who cooks on Sundays?") == ["user cooks on Sundays"]
    await memory.adopt(policy(knobs={"links": 0}))
    assert await shown(memory, "Who works there?") == ["Ann works at the harbour"]


@pytest.mark.asyncio
async def test_a_thing_that_the_query_names_brings_its_relations(make_model: MakeModel, pair: Pair) -> None:
    memory = open_memory(policy(knobs={"links": 0}), make_model(FAMILY), LexicalEmbedder())
    await observe(memory, [pair("My family.")])
    assert {*await shown(memory, "Who is Ann?")} == {"Ann works at the harbour", "user has a sister named Ann"}


@pytest.mark.asyncio
async def test_an_obsolete_relation_is_kept_and_not_shown(make_model: MakeModel, pair: Pair) -> None:
    first, then = relations(("user", "lives in", "Porto")), relations(("user", "lives in", "Lisbon"))
    memory = open_memory(policy(), make_model(first, then, outdated(("0", "1"))), LexicalEmbedder())
    _, event = await observe(memory, [pair("Porto."), pair("Lisbon.")])
    assert event.after == ("user lives in Lisbon",)
    assert await shown(memory, "Do you live in Porto?") == ["user lives in Lisbon"]
    (entry,) = json.loads(await dump_memory(memory))["state"]["entries"]
    assert entry["outdated"] == ["user lives in Porto"]
    assert await memory.forget(lambda text: "Porto" in text) == 1
    assert "Porto" not in await dump_memory(memory)
    assert [item.text for item in await memory.listing()] == ["user lives in Lisbon"]


class Watched(Relator):
    """Remembers what the memory held at each call."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: Memory | None = None
        self.held: list[str] = []

    async def complete(self, request: Request) -> Completion:
        await asyncio.sleep(0)
        self.held += [await dump_memory(self.memory)] if self.memory else []
        return await super().complete(request)


@pytest.mark.asyncio
async def test_all_that_is_forgotten_goes_before_the_next_write() -> None:
    model = Watched()
    memory = open_memory(policy(), model, LexicalEmbedder())
    await observe(memory, talk("heron", 2))
    model.memory = memory
    (first,), (second,) = talk("robin", 1), talk("wren", 1)
    forgetting = memory.forget(lambda text: "heron" in text)
    await asyncio.gather(memory.observe(first), forgetting, memory.observe(second))
    assert "heron" in model.held[0]
    assert "heron" not in model.held[-1]


@pytest.mark.asyncio
async def test_a_relation_is_told_once(make_model: MakeModel, pair: Pair) -> None:
    told = relations(("user", "lives in", "Porto"))
    memory = open_memory(policy(), make_model(told, told), LexicalEmbedder())
    await observe(memory, [pair("Porto."), pair("Porto!")])
    assert len(await memory.listing()) == 1


@pytest.mark.asyncio
@pytest.mark.parametrize("reply", ['{"no": 1}', outdated(("7", "1")), outdated(("0", "4")), '{"outdated": ["0"]}'])
async def test_what_was_not_shown_cannot_be_obsolete_and_costs_no_relation(
    make_model: MakeModel, pair: Pair, reply: str
) -> None:
    first, then = relations(("user", "lives in", "Porto")), relations(("user", "lives in", "Lisbon"))
    memory = open_memory(policy(), make_model(first, then, reply), LexicalEmbedder())
    _, event = await observe(memory, [pair("Porto."), pair("Lisbon.")])
    assert event.after == ("user lives in Porto", "user lives in Lisbon")
    assert event.error is not None


@pytest.mark.asyncio
async def test_the_embedded_model_tells_relations_and_what_they_make_obsolete(pair: Pair) -> None:
    model = EmbeddedModel()
    memory = open_memory(policy(), model, LexicalEmbedder())
    said = ["I live in a flat in Porto.", "I work at the harbour.", "I no longer live in a flat in Porto."]
    await observe(memory, [pair(text) for text in said])
    work, moved = json.loads(await dump_memory(memory))["state"]["entries"]
    assert (work["source"], work["text"], work["target"]) == ("user", "work at", "the harbour")
    assert moved["outdated"] == ["user live in a flat in Porto"]
    await model.aclose()
