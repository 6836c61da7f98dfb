"""A core that is always shown, and an archive that is searched.

Invariant: the core takes at most its tokens, and what it has no room for is in the archive.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import pytest

from mnemotune.policies.lm import Completion, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory import dump_memory, open_memory
from mnemotune.policies.memory.conformance import Make, MemoryConformance, Scribe, observe
from remembering import preset

if TYPE_CHECKING:
    from ..conftest import MakeModel, Pair


policy = partial(preset, "letta", top_k=1, buffer_size=0)


def steps(*given: dict[str, str]) -> str:
    return json.dumps({"core": given})


def append(text: str) -> dict[str, str]:
    return {"event": "APPEND", "text": text}


class Editor(Scribe):
    """Appends what it reads, and replaces the core's first line by the last of that."""

    async def complete(self, request: Request) -> Completion:
        completion, prompt = await super().complete(request), request.messages[-1].content
        notes = json.loads(completion.text)["facts"]
        core = json.loads(prompt.split("by number:\n")[1].split("\n\nReturn")[0])
        edits = [append(note) for note in notes]
        if core and len(edits) > 1:
            edits[-1] = {"event": "REPLACE", "id": next(iter(core)), "text": notes[-1]}
        return Completion(steps(*edits), completion.usage)


class TestCoreMemory(MemoryConformance):
    @pytest.fixture
    def model(self) -> Editor:
        return Editor()

    @pytest.fixture(params=[0, 32, 512])
    def make(self, request: pytest.FixtureRequest) -> Make:
        under = policy(top_k=5, buffer_size=4, knobs={"core_tokens": request.param})
        return lambda model: open_memory(under, model, LexicalEmbedder())


@pytest.mark.asyncio
async def test_the_core_is_always_shown_and_the_archive_is_searched(make_model: MakeModel, pair: Pair) -> None:
    archived = [{"event": "ARCHIVE", "text": text} for text in ("The oven is red.", "Tam is a cat.")]
    model = make_model(steps(append("Bo cooks."), *archived), steps())
    memory = open_memory(policy(), model, LexicalEmbedder())
    await observe(memory, [pair("Dinner?"), pair("And?")])
    for query, found in (("Is the oven red?", "The oven is red."), ("Who is the cat Tam?", "Tam is a cat.")):
        items = (await memory.context(query, tokens=None)).items
        assert [(item.text, item.pinned) for item in items] == [("Bo cooks.", True), (found, False)]
    assert [item.text for item in (await memory.context("The oven?", tokens=30)).items] == ["Bo cooks."]
    assert "Bo cooks." in model.prompts[-1]
    assert "oven" not in model.prompts[-1]


@pytest.mark.asyncio
async def test_what_the_core_has_no_room_for_moves_to_the_archive(make_model: MakeModel, pair: Pair) -> None:
    lines = [append(f"Bo has told me of place number {i} today.") for i in range(6)]
    memory = open_memory(policy(knobs={"core_tokens": 30}), make_model(steps(*lines)), LexicalEmbedder())
    await observe(memory, [pair("Dinner?")])
    core = [item.text for item in await memory.listing() if item.pinned]
    assert core == [line["text"] for line in lines[-len(core) :]]
    assert 0 < len(core) < 6
    assert len(await memory.listing()) == 6


@pytest.mark.asyncio
async def test_a_line_that_is_too_long_for_the_core_moves_alone(make_model: MakeModel, pair: Pair) -> None:
    long = "Bo has told me of many places. " * 9
    model = make_model(steps(append("Bo cooks."), append(long), append("Tam is a cat.")))
    memory = open_memory(policy(knobs={"core_tokens": 30}), model, LexicalEmbedder())
    await observe(memory, [pair("Dinner?")])
    pinned = {item.text: item.pinned for item in await memory.listing()}
    assert pinned == {"Bo cooks.": True, long.strip(): False, "Tam is a cat.": True}


@pytest.mark.asyncio
async def test_a_line_is_replaced_by_its_number_and_removed_by_nothing(make_model: MakeModel, pair: Pair) -> None:
    first = steps(append("Bo cooks."), append("Tam is a cat."))
    then = steps({"event": "REPLACE", "id": "0", "text": "Bo bakes."}, {"event": "REPLACE", "id": "1", "text": ""})
    memory = open_memory(policy(), make_model(first, then), LexicalEmbedder())
    await observe(memory, [pair("Dinner?"), pair("And?")])
    assert [(item.id, item.text) for item in await memory.listing()] == [("0", "Bo bakes.")]
    assert "cooks" not in await dump_memory(memory)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "step",
    [
        "Bo.",
        {"event": "REPLACE", "id": "1", "text": "In the archive."},
        {"event": "REPLACE", "id": "9", "text": "Not shown."},
        {"event": "APPEND"},
        {"event": "DROP", "id": "0"},
    ],
)
async def test_a_step_that_makes_no_sense_leaves_it_as_it_was(make_model: MakeModel, pair: Pair, step: object) -> None:
    first = steps(append("Bo cooks."), {"event": "ARCHIVE", "text": "The oven is red."})
    memory = open_memory(policy(), make_model(first, json.dumps({"core": [append("New."), step]})), LexicalEmbedder())
    _, event = await observe(memory, [pair("Dinner?"), pair("And?")])
    assert event.after == event.before
    assert event.error is not None


@pytest.mark.asyncio
async def test_the_embedded_model_edits_the_core(pair: Pair) -> None:
    model = EmbeddedModel()
    memory = open_memory(policy(), model, LexicalEmbedder())
    said = ["I have a dog that barks all night.", "I work at the harbour.", "My dog no longer barks all night."]
    await observe(memory, [pair(text) for text in said])
    assert [item.text for item in await memory.listing()] == ["I work at the harbour.", said[-1]]
    assert all(item.pinned for item in await memory.listing())
    await model.aclose()
