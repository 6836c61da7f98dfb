"""Facts that are only added, linked by the entities that they name.

Invariant: nothing that was written changes, but by being forgotten.
"""

from __future__ import annotations

import gc
import json
from functools import partial
from typing import TYPE_CHECKING

import pytest

from mnemotune.policies import MemoryPolicy
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory import Memory, dump_memory, open_memory
from mnemotune.policies.memory.conformance import Make, MemoryConformance, observe
from mnemotune.policies.memory.entities import EntityMemory, Fact
from mnemotune.policies.space import Space, nested
from remembering import preset

if TYPE_CHECKING:
    from ..conftest import MakeModel, Pair


policy = partial(preset, "mem0", top_k=1, buffer_size=0)


def facts(*told: tuple[str, list[str]]) -> str:
    return json.dumps({"facts": [{"text": text, "entities": entities} for text, entities in told]})


DINNER = facts(
    ("Bo cooks on Sundays.", ["Bo"]), ("The oven is broken.", ["oven"]), ("bo has a cat, Tam.", ["bo", "Tam"])
)


class TestEntityMemory(MemoryConformance):
    @pytest.fixture(params=[1, 5])
    def make(self, request: pytest.FixtureRequest) -> Make:
        under = policy(top_k=request.param, buffer_size=4)
        return lambda model: open_memory(under, model, LexicalEmbedder())


@pytest.mark.asyncio
async def test_facts_that_share_an_entity_come_back_with_what_is_found(make_model: MakeModel, pair: Pair) -> None:
    memory = open_memory(policy(), make_model(DINNER), LexicalEmbedder())
    await observe(memory, [pair("Dinner?")])
    context = await memory.context("Who cooks on Sundays?", tokens=None)
    assert [item.text for item in context.items] == ["Bo cooks on Sundays.", "bo has a cat, Tam."]
    assert [item.rank for item in context.items] == [0, 1]
    await memory.adopt(policy(knobs={"links": 0}))
    context = await memory.context("Who cooks on Sundays?", tokens=None)
    assert [item.text for item in context.items] == ["Bo cooks on Sundays."]


@pytest.mark.asyncio
async def test_a_fact_is_never_replaced_and_added_once(make_model: MakeModel, pair: Pair) -> None:
    later = facts(("Bo cooks on Sundays.", ["Bo"]), ("Bo no longer cooks.", ["Bo"]))
    model = make_model(DINNER, later)
    memory = open_memory(policy(), model, LexicalEmbedder())
    await observe(memory, [pair("Dinner?"), pair("Not any more.")])
    assert [item.text for item in await memory.listing()][-2:] == ["bo has a cat, Tam.", "Bo no longer cooks."]
    assert len(await memory.listing()) == 4
    assert "Bo cooks on Sundays." in model.prompts[-1]


@pytest.mark.asyncio
async def test_an_entity_that_the_fact_does_not_name_is_left_out(make_model: MakeModel, pair: Pair) -> None:
    memory = open_memory(policy(), make_model(facts(("Bo cooks.", ["Bo", "Ann"]))), LexicalEmbedder())
    await observe(memory, [pair("Dinner?")])
    assert "Ann" not in await dump_memory(memory)


@pytest.mark.asyncio
async def test_a_reply_without_entities_is_taken_and_one_without_facts_changes_nothing(
    make_model: MakeModel, pair: Pair
) -> None:
    memory = open_memory(policy(), make_model('{"facts": ["Bo cooks."]}', '{"no": 1}'), LexicalEmbedder())
    first, second = await observe(memory, [pair("Dinner?"), pair("And?")])
    assert (first.after, first.error) == (("Bo cooks.",), None)
    assert second.after == first.after
    assert second.error is not None


@pytest.mark.asyncio
async def test_the_embedded_model_names_entities(pair: Pair) -> None:
    model = EmbeddedModel()
    memory = open_memory(policy(), model, LexicalEmbedder())
    await observe(memory, [pair("I have a new job at Lisbon Harbour, and I like my colleagues there.")])
    assert isinstance(memory, EntityMemory)
    (entry,) = json.loads(await dump_memory(memory))["state"]["entries"]
    assert {"Lisbon", "Harbour"} <= {*entry["entities"]}
    await model.aclose()


def test_a_search_draws_links_where_a_limit_names_them_and_keeps_them_else() -> None:
    seed = policy(knobs={"links": 3}, top_k=5)
    for space, point in ((Space.within({"links": (0, 8)}), {"links": 3}), (Space(), {})):
        place = space.point_of(seed)
        assert place is not None
        assert {name: value for name, value in place.items() if name == "links"} == point
        values = {"backend": seed.backend, **nested(space.values_at(place, seed.values))}
        child = MemoryPolicy.model_validate(values)
        assert child.knob("links") == 3
        assert '"entities"' in (child.prompts.write or "")


@pytest.mark.asyncio
async def test_links_are_those_of_the_state_that_a_memory_is_in(make_model: MakeModel, pair: Pair) -> None:
    memory = open_memory(policy(), make_model(DINNER, facts(("Bo is a cook.", ["Bo"]))), LexicalEmbedder())
    await observe(memory, [pair("Dinner?")])
    saved, fork = await memory.snapshot(), await memory.fork()

    async def shown(of: Memory) -> set[str]:
        return {item.text for item in (await of.context("Who cooks on Sundays?", tokens=None)).items}

    before = await shown(memory)
    await observe(memory, [pair("What is he?")])
    assert await shown(memory) == {"Bo cooks on Sundays.", "Bo is a cook."}
    await memory.forget(lambda text: "is a cook" in text or "Tam" in text)
    assert await shown(memory) == {"Bo cooks on Sundays."}
    assert await shown(fork) == before
    await memory.restore(saved)
    assert await shown(memory) == before


@pytest.mark.asyncio
async def test_a_fact_that_is_forgotten_is_nowhere_in_the_process(make_model: MakeModel, pair: Pair) -> None:
    memory = open_memory(policy(), make_model(facts(("Bo sells zithers.", ["Bo"]))), LexicalEmbedder())
    await observe(memory, [pair("Dinner?")])
    await memory.context("zithers", tokens=None)
    assert await memory.forget(lambda text: "zithers" in text) == 1
    assert [fact for fact in gc.get_objects() if isinstance(fact, Fact) and "zithers" in fact.text] == []
