"""Messages kept as notes, with links.

Invariant: a note's text is the message and never changes; what describes it does.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from mnemotune.policies.deploy.stating import forget_fact
from mnemotune.policies.lm import Completion, Message, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory import dump_memory, open_memory
from mnemotune.policies.memory.conformance import Make, MemoryConformance, Scribe, observe
from remembering import preset

if TYPE_CHECKING:
    from ..conftest import MakeModel, Pair


policy = partial(preset, "a-mem", top_k=1, buffer_size=0)


def describe(**words: Any) -> str:
    """What a model says of a pair: of the user's message these words, of the assistant's nothing."""
    return json.dumps({"notes": [{"message": "1", **words}]})


def linked(links: list[dict[str, Any]], changes: list[dict[str, Any]] | None = None) -> str:
    return json.dumps({"links": links, "changes": changes or []})


class Linker(Scribe):
    """Describes messages by their first words; links each new note to all known ones, whose keywords then change."""

    async def complete(self, request: Request) -> Completion:
        completion, prompt = await super().complete(request), request.messages[-1].content
        if "New notes" not in prompt:
            said = json.loads(prompt.split("Conversation:\n")[1])
            told = [{"message": m["number"], "keywords": m["content"].split()[:2]} for m in said]
            return Completion(json.dumps({"notes": told}), completion.usage)
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


COOK = "Bo cooks on Sundays."
OVEN = "The oven is broken."
COOKING = {"keywords": ["cooking"], "tags": ["food"], "context": "Bo at home."}


@pytest.mark.asyncio
async def test_links_are_followed_both_ways(make_model: MakeModel) -> None:
    model = make_model(describe(**COOKING), describe(context="A repair."), linked([{"note": "1", "to": ["0"]}]))
    memory = open_memory(policy(update_every=1), model, LexicalEmbedder())
    await observe(memory, [[Message("user", COOK)], [Message("user", OVEN)]])
    for query in ("Who cooks on Sundays?", "Is the oven broken?"):
        assert len((await memory.context(query, tokens=None)).items) == 2
    await memory.forget(lambda text: "oven" in text)
    assert [item.text for item in (await memory.context("oven", tokens=None)).items] == [
        "user: Bo cooks on Sundays. (Bo at home. Keywords: cooking, food.)"
    ]


@pytest.mark.asyncio
async def test_a_note_is_forgotten_by_its_message_whatever_describes_it(make_model: MakeModel) -> None:
    told = describe(context="The user talks about a car.", keywords=["gloom", "night"])
    memory = open_memory(policy(update_every=1), make_model(told), LexicalEmbedder())
    await memory.observe([Message("user", "Bo parks by the third pillar")])
    gone = await forget_fact(memory, "Bo parks by the third pillar, where it rains.")
    assert gone == ["user: Bo parks by the third pillar"]
    assert await memory.listing() == []


@pytest.mark.asyncio
async def test_a_new_note_describes_a_known_one_anew(make_model: MakeModel) -> None:
    change = {"id": "0", "keywords": ["cold food"], "context": "Bo, who has no oven."}
    model = make_model(describe(**COOKING), describe(), linked([], [change]))
    memory = open_memory(policy(update_every=1), model, LexicalEmbedder())
    _, event = await observe(memory, [[Message("user", COOK)], [Message("user", OVEN)]])
    assert event.after[0] == "user: Bo cooks on Sundays. (Bo, who has no oven. Keywords: cold food, food.)"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "reply", ["no object", '{"notes": 3}', json.dumps({"notes": [{"message": "9", "context": "What?"}]})]
)
async def test_a_message_of_which_nothing_of_use_is_said_is_kept_as_it_is(
    make_model: MakeModel, pair: Pair, reply: str
) -> None:
    memory = open_memory(policy(), make_model(reply), LexicalEmbedder())
    (event,) = await memory.observe(pair("Dinner?"))
    assert event.after == ("user: Dinner?", f"assistant: {pair('Dinner?')[1].content}")
    assert event.error is not None


@pytest.mark.asyncio
async def test_a_description_of_no_message_costs_no_other_one(make_model: MakeModel, pair: Pair) -> None:
    told = [{"message": "9", "context": "What?"}, {"message": 1, "context": "A meal."}]
    memory = open_memory(policy(), make_model(json.dumps({"notes": told})), LexicalEmbedder())
    (event,) = await memory.observe(pair("Dinner?"))
    assert event.after[0] == "user: Dinner? (A meal.)"
    assert event.error is not None


@pytest.mark.asyncio
async def test_a_message_as_long_as_a_file_is_kept_whole_and_shown_in_part_to_link_it(make_model: MakeModel) -> None:
    model, long = make_model(describe(), describe(), linked([])), "word " * 1000
    memory = open_memory(policy(update_every=1), model, LexicalEmbedder())
    _, event = await observe(memory, [[Message("user", long)], [Message("user", OVEN)]])
    assert event.after[0] == f"user: {long}"
    assert len(model.requests[-1].messages[-1].content) < 3000


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
async def test_a_link_to_what_was_not_shown_costs_the_links_and_no_note(make_model: MakeModel, reply: str) -> None:
    memory = open_memory(
        policy(update_every=1), make_model(describe(), describe(context="A repair."), reply), LexicalEmbedder()
    )
    _, event = await observe(memory, [[Message("user", COOK)], [Message("user", OVEN)]])
    assert event.after == (*event.before, "user: The oven is broken. (A repair.)")
    assert event.error is not None
    assert "links" not in await dump_memory(memory)


@pytest.mark.asyncio
async def test_a_step_of_no_use_costs_no_other_link_or_change(make_model: MakeModel, pair: Pair) -> None:
    links = [{"note": "1", "to": ["0"]}, {"note": "2", "to": None}, {"note": "2", "to": ["9"]}]
    reply = linked(links, [{"id": 8}, {"id": "0", "context": "A cook."}])
    model = make_model(describe(), describe(), reply)
    memory = open_memory(policy(update_every=2), model, LexicalEmbedder())
    await memory.observe(pair(COOK))
    (event,) = await memory.observe(pair(OVEN))
    saved = json.loads(await dump_memory(memory))
    assert event.error is not None
    assert event.after[0] == f"user: {COOK} (A cook.)"
    assert [entry.get("links") for entry in saved["state"]["entries"]] == [None, None, [0], None]


@pytest.mark.asyncio
async def test_the_embedded_model_describes_and_links_notes(pair: Pair) -> None:
    model = EmbeddedModel()
    memory = open_memory(policy(), model, LexicalEmbedder())
    await observe(memory, [pair("I have a new job at the harbour in Lisbon."), pair("My job at the harbour is hard.")])
    entries = json.loads(await dump_memory(memory))["state"]["entries"]
    assert entries[2]["links"][0] == entries[0]["id"]
    assert all({"keywords", "tags", "context"} <= {*entry} for entry in entries)
    await model.aclose()
