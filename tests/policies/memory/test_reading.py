"""What comes back for a query, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from mnemotune.policies.lm import Message
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory import open_memory
from remembering import facts, observe_all, shown, steps

if TYPE_CHECKING:
    from ..conftest import MakeEmbedder, MakeModel, MakePolicy, Pair

Rounds = Callable[[int], Sequence[list[Message]]]

# Reading


async def test_with_store_context_all_memories_come_back_oldest_first_before_the_buffer(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds
) -> None:
    memory = open_memory(make_policy("verbatim"), make_model(), LexicalEmbedder())
    await observe_all(memory, rounds(3))
    assert await shown(memory, "Anything?") == [
        Message(
            "system",
            "I know:\n- user: I say 0.\n- assistant: You said 0.\n- user: I say 1.\n- assistant: You said 1.",
        ),
        Message("user", "I say 2."),
        Message("assistant", "You said 2."),
    ]


async def test_a_memory_without_memories_says_so_by_an_empty_list(
    make_model: MakeModel, make_policy: MakePolicy
) -> None:
    for store in ({"store": "context"}, {"store": "external", "top_k": 3}):
        memory = open_memory(make_policy("verbatim", **store), make_model(), LexicalEmbedder())
        assert await shown(memory, "Anything?") == [Message("system", "I know:\n")]


async def test_braces_in_a_memory_are_not_read_as_slots(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair
) -> None:
    memory = open_memory(make_policy("verbatim", buffer_size=0), make_model(), LexicalEmbedder())
    await memory.observe(pair("{memories} {0} {x!r}", "}{"))
    (system,) = await shown(memory, "{memories}")
    assert system.content == "I know:\n- user: {memories} {0} {x!r}\n- assistant: }{"


VECTORS = {
    "user: old": (0.9, 0.1),
    "assistant: far": (0.0, 1.0),
    "user: new": (1.0, 0.0),
    "assistant: same": (0.9, 0.1),
    "q": (1.0, 0.0),
}


@pytest.mark.parametrize(
    ("top_k", "order", "expected"),
    [
        (1, "time", ["user: new"]),
        (2, "time", ["user: new", "assistant: same"]),
        (2, "relevance", ["user: new", "assistant: same"]),
        (3, "time", ["user: old", "user: new", "assistant: same"]),
        (3, "relevance", ["user: new", "assistant: same", "user: old"]),
        (9, "time", ["user: old", "assistant: far", "user: new", "assistant: same"]),
        (9, "relevance", ["user: new", "assistant: same", "user: old", "assistant: far"]),
    ],
)
async def test_the_most_similar_memories_come_back_in_the_order_that_the_policy_says(
    make_model: MakeModel,
    make_policy: MakePolicy,
    make_embedder: MakeEmbedder,
    pair: Pair,
    top_k: int,
    order: str,
    expected: list[str],
) -> None:
    policy = make_policy("verbatim", buffer_size=0, store="external", top_k=top_k, read={"order": order})
    memory = open_memory(policy, make_model(), make_embedder(VECTORS))
    await observe_all(memory, [pair("old", "far"), pair("new", "same")])
    (system,) = await shown(memory, "q")
    assert system.content.splitlines()[1:] == [f"- {line}" for line in expected]


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        ({}, ["user: old", "user: new"]),
        ({"recency": 100}, ["user: new", "assistant: same"]),
        ({"diversity": 90}, ["user: new", "assistant: same"]),
    ],
)
async def test_what_a_budget_leaves_out_is_what_ranks_low_by_likeness_age_and_likeness_to_newer(
    make_model: MakeModel,
    make_policy: MakePolicy,
    make_embedder: MakeEmbedder,
    pair: Pair,
    read: dict[str, int],
    expected: list[str],
) -> None:
    policy = make_policy("verbatim", buffer_size=0, store="external", top_k=4, read=read)
    memory = open_memory(policy, make_model(), make_embedder({**VECTORS, "user: old": (0.95, 0.1)}))
    await observe_all(memory, [pair("old", "far"), pair("new", "same")])
    context = await memory.context(
        "q", tokens=sum(map(len, ["I know:", *(f"\n- {line}" for line in expected)])) // 4 + 1
    )
    assert [item.text for item in context.items] == expected
    assert context.left_out == 2


async def test_a_fact_that_was_updated_is_the_newest(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds
) -> None:
    model = make_model(facts("a", "b"), facts("c"), steps({"event": "UPDATE", "id": 0, "text": "a2"}))
    memory = open_memory(make_policy("facts", buffer_size=0, store="external", top_k=9), model, LexicalEmbedder())
    await observe_all(memory, rounds(2))
    (system,) = await shown(memory, "Anything?")
    assert system.content == "I know:\n- b\n- a2"


async def test_asking_for_context_changes_nothing(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds
) -> None:
    memory = open_memory(make_policy("verbatim", store="external", top_k=2), make_model(), LexicalEmbedder())
    await observe_all(memory, rounds(4))
    before = await memory.snapshot()
    first = await shown(memory, "What did I say 1?")
    assert await memory.snapshot() == before
    assert await shown(memory, "What did I say 1?") == first
