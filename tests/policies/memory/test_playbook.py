"""A playbook of numbered items.

Invariant: what no step names stays word for word.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from mnemotune.policies import load_policy
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory import open_memory
from mnemotune.policies.memory.conformance import Make, MemoryConformance, observe

if TYPE_CHECKING:
    from ..conftest import MakeModel, Pair

POLICY = load_policy("ace").model_copy(update={"buffer_size": 0})


class TestPlaybookMemory(MemoryConformance):
    @pytest.fixture
    def make(self) -> Make:
        return lambda model: open_memory(load_policy("ace"), model, LexicalEmbedder())


@pytest.mark.asyncio
async def test_the_whole_playbook_is_shown_and_changed_by_number(make_model: MakeModel, pair: Pair) -> None:
    items = [f"Item {i}." for i in range(8)]
    steps = [{"event": "UPDATE", "id": "3", "text": "New."}, {"event": "DELETE", "id": "5"}]
    replies = [{"facts": items}, {"facts": ["Some."]}, {"memory": [*steps, {"event": "ADD", "text": "Last."}]}]
    model = make_model(*map(json.dumps, replies))
    memory = open_memory(POLICY, model, LexicalEmbedder())
    await observe(memory, [pair("One."), pair("Two.")])
    assert all(item in model.prompts[-1] for item in items)
    shown = {item.id: item.text for item in await memory.listing()}
    kept = {str(i): f"Item {i}." for i in range(8) if i not in (3, 5)}
    assert shown == kept | {"3": "New.", "8": "Last."}


@pytest.mark.asyncio
async def test_the_embedded_model_edits_a_playbook(pair: Pair) -> None:
    model = EmbeddedModel()
    memory = open_memory(POLICY, model, LexicalEmbedder())
    await observe(memory, [pair("I have a dog that barks all night."), pair("My dog no longer barks all night.")])
    assert [item.text for item in await memory.listing()] == ["My dog no longer barks all night."]
    await model.aclose()
