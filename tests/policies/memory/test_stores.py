"""Exact search.

Invariants:

1. The result is what sorting all texts by similarity gives, ties to the newer.
2. Each text is embedded once, however often and by however many it is searched.
3. The lines of a state are those of its entries.
4. Diversity takes from a text what a newer one is like it, and no more.
5. Recency changes the order of what is found, and not what is found.
"""

from __future__ import annotations

import asyncio
import gc
import math
import tracemalloc
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.policies.lm import Embedding, Message
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory.stores import ROWS_A_BLOCK, ROWS_A_THREAD, SPARE_ROWS, MemoryState, Ranking, VectorIndex

if TYPE_CHECKING:
    from ..conftest import MakeEmbedder

Vector = tuple[float, float]
VECTOR = st.tuples(st.integers(-3, 3).map(float), st.integers(-3, 3).map(float))


async def best(index: VectorIndex, query: str, texts: Sequence[str], top_k: int) -> list[int]:
    (places,) = await index.search([query], texts, top_k)
    return places


async def test_the_most_similar_come_first(make_embedder: MakeEmbedder) -> None:
    index = VectorIndex(make_embedder({"a": (0.1, 1), "b": (0.9, 0), "c": (0.5, 0), "q": (1, 0)}))
    assert await best(index, "q", ["a", "b", "c"], 3) == [1, 2, 0]
    assert await best(index, "q", ["a", "b", "c"], 2) == [1, 2]
    assert await best(index, "q", ["c", "b"], 9) == [1, 0]


async def test_of_equally_similar_texts_the_newer_comes_first(make_embedder: MakeEmbedder) -> None:
    index = VectorIndex(make_embedder({"a": (1, 0), "b": (1, 1), "c": (1, 2), "q": (1, 0)}))
    assert await best(index, "q", ["a", "b", "c", "a"], 3) == [3, 2, 1]


async def test_rounding_errors_make_no_difference(make_embedder: MakeEmbedder) -> None:
    """Sums in another order differ in the last digits, from machine to machine; ties must not."""
    index = VectorIndex(make_embedder({"a": (1 + 3e-8, 0), "b": (1, 0), "q": (1, 0)}))
    assert await best(index, "q", ["a", "b"], 2) == [1, 0]


async def test_nothing_is_found_in_nothing_and_nothing_is_embedded(make_embedder: MakeEmbedder) -> None:
    embedder = make_embedder({})
    assert await best(VectorIndex(embedder), "q", [], 5) == []
    assert embedder.asked == []


@settings(deadline=None)
@given(
    vectors=st.lists(VECTOR, min_size=1, max_size=12),
    query=VECTOR,
    top_k=st.integers(1, 15),
    picks=st.lists(st.integers(0, 11), max_size=20),
)
def test_the_result_is_that_of_sorting_all(
    make_embedder: MakeEmbedder, vectors: list[Vector], query: Vector, top_k: int, picks: list[int]
) -> None:
    known = {str(i): vector for i, vector in enumerate(vectors)}
    texts = [str(pick % len(vectors)) for pick in picks]
    index = VectorIndex(make_embedder({**known, "q": query}))

    def similarity(position: int) -> float:
        vector = known[texts[position]]
        return vector[0] * query[0] + vector[1] * query[1]

    expected = sorted(range(len(texts)), key=lambda i: (-similarity(i), -i))[:top_k]
    assert asyncio.run(best(index, "q", texts, top_k)) == expected


@settings(deadline=None)
@given(texts=st.lists(st.text(max_size=20), max_size=20), query=st.text(max_size=20))
def test_any_texts_can_be_searched_and_found_by_themselves(texts: list[str], query: str) -> None:
    index = VectorIndex(LexicalEmbedder())
    found = asyncio.run(best(index, query, texts, 5))
    assert len(found) == min(5, len(texts))
    assert len(set(found)) == len(found)


async def test_each_text_is_embedded_once(make_embedder: MakeEmbedder) -> None:
    embedder = make_embedder({"a": (1, 0), "b": (0, 1), "c": (1, 1), "q": (1, 0)})
    index = VectorIndex(embedder)
    await best(index, "q", ["a", "b", "a"], 1)
    await best(index, "q", ["a", "b", "a"], 1)
    await best(index, "q", ["b", "c"], 1)
    await best(index, "q", ["a", "b", "a"], 1)
    assert embedder.asked == [("a", "b", "q"), ("q",), ("c", "q"), ("q",)]


async def test_several_queries_and_what_is_new_are_one_call(make_embedder: MakeEmbedder) -> None:
    embedder = make_embedder({"a": (1, 0), "b": (0, 1), "p": (1, 0.1), "q": (0.1, 1)})
    index = VectorIndex(embedder)
    assert await index.search(["p", "q"], ["a", "b"], 1) == [[0], [1]]
    assert await index.search(["p", "q"], [], 1) == [[], []]
    assert embedder.asked == [("a", "b", "p", "q")]


async def test_texts_are_found_among_many_also_after_others_were_forgotten(make_embedder: MakeEmbedder) -> None:
    names = [str(i) for i in range(5 * ROWS_A_BLOCK)]
    angles = {name: (math.cos(int(name) / 200), math.sin(int(name) / 200)) for name in names}
    index = VectorIndex(make_embedder(angles))
    first = names[: 3 * ROWS_A_BLOCK + 5]
    for name in first:
        assert await best(index, name, first, 1) == [first.index(name)]
    index.forget({*first[::2]}.__contains__)
    left = [*first[1::2], *names[len(first) :]]
    for name in names:
        (found,) = await best(index, name, left, 1)
        assert abs(int(left[found]) - int(name)) <= 1
        assert left[found] == name or name not in left


async def test_what_is_forgotten_leaves_room_for_what_is_new(make_embedder: MakeEmbedder) -> None:
    names = [str(i) for i in range(10 * ROWS_A_BLOCK)]
    index = VectorIndex(make_embedder({name: (1.0, float(name)) for name in names} | {"q": (0.0, 1.0)}))
    tracemalloc.start()
    try:
        for name in names:
            assert await best(index, "q", [name], 1) == [0]
            index.forget(name.__eq__)
        assert sum(trace.size for trace in _of_vectors(tracemalloc.take_snapshot())) <= ROWS_A_BLOCK * 2 * 4
    finally:
        tracemalloc.stop()


async def test_vectors_of_what_was_overwritten_do_not_pile_up(make_embedder: MakeEmbedder) -> None:
    names = [str(i) for i in range(2 * SPARE_ROWS)]
    index = VectorIndex(make_embedder({name: (1.0, float(name)) for name in names} | {"q": (0.0, 1.0)}))
    for name in names:
        assert await best(index, "q", ["0", name], 1) == [1]
        index.shrink(["0", name])
    assert index.size <= SPARE_ROWS + 4
    assert await best(index, "q", ["0", "1", names[-1]], 3) == [2, 1, 0], "what was dropped is found again"


def _of_vectors(snapshot: tracemalloc.Snapshot) -> Sequence[tracemalloc.Statistic]:
    numpys = tracemalloc.DomainFilter(inclusive=True, domain=np.lib.tracemalloc_domain)
    return snapshot.filter_traces([numpys]).statistics("filename")


class Watched(LexicalEmbedder):
    """Tells whether somebody still holds the vectors that it made."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[weakref.ref[Any]] = []

    async def embed(self, texts: Sequence[str], **_: Any) -> Embedding:
        embedding = await super().embed(texts)
        vectors = embedding.vectors.copy()
        self.made.append(weakref.ref(vectors))
        return Embedding(vectors)


async def test_the_vectors_of_queries_are_not_kept_with_those_of_texts() -> None:
    embedder = Watched()
    index = VectorIndex(embedder)
    assert await best(index, "red plums", ["blue plums", "red plums"], 1) == [1]
    gc.collect()
    assert [ref() is None for ref in embedder.made] == [True]


class SlowVectors(LexicalEmbedder):
    """Vectors that take a while, so that searches overlap."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, ...]] = []

    async def embed(self, texts: Sequence[str], **_: Any) -> Embedding:
        self.asked.append(tuple(texts))
        await asyncio.sleep(0.001)
        return await super().embed(texts)


async def test_searches_that_overlap_find_the_same_as_one_by_one() -> None:
    index, texts = VectorIndex(SlowVectors()), ["red apples", "green pears", "blue plums", "red plums"]
    queries = ["apples", "pears", "red", "plums"]
    together = await asyncio.gather(
        *(best(index, query, texts[: 2 + i % 3], 2) for i, query in enumerate(queries)),
    )
    alone = [await best(VectorIndex(LexicalEmbedder()), q, texts[: 2 + i % 3], 2) for i, q in enumerate(queries)]
    assert together == alone


async def test_each_text_is_embedded_once_also_by_searches_that_overlap() -> None:
    """The questions of a period are asked together, of one index, right after a write."""
    embedder = SlowVectors()
    index, texts = VectorIndex(embedder), ["red apples", "green pears"]
    await asyncio.gather(*(best(index, f"query {i}", texts, 1) for i in range(10)))
    embedded = [text for asked in embedder.asked for text in asked]
    assert sorted(text for text in embedded if text in texts) == sorted(texts)


@pytest.mark.parametrize("known", [True, False])
async def test_what_is_forgotten_during_a_search_is_neither_found_nor_kept(known: bool) -> None:
    index, texts = VectorIndex(SlowVectors()), ["red apples", "green pears", "red plums"]
    if known:
        await best(index, "red", texts, 1)
    search = asyncio.create_task(best(index, "red apples", texts, 2))
    await asyncio.sleep(0)
    index.forget("red apples".__eq__)
    assert await search == [2, 1]
    assert "red apples" not in repr(vars(index))
    assert await best(index, "red apples", texts, 1) == [0], "a text that is searched again is found again"


async def test_what_an_index_returns_are_plain_numbers(make_embedder: MakeEmbedder) -> None:
    index = VectorIndex(make_embedder({"a": (1, 0), "q": (1, 0)}))
    (found,) = await best(index, "q", ["a"], 1)
    assert type(found) is int


@given(st.lists(st.lists(st.text(max_size=3), max_size=3), max_size=6))
def test_the_lines_of_a_state_are_those_of_its_entries_however_it_grew_invariant_3(writes: list[list[str]]) -> None:
    state = MemoryState()
    for texts in writes:
        state = replace(state.with_new(texts), buffer=(Message("user", "Hello."),))
    assert state.lines == tuple(text for texts in writes for text in texts)
    assert [entry.id for entry in state.entries] == list(range(state.next_id))
    shorter = replace(state, entries=state.entries[1:])
    assert shorter.lines == state.lines[1:]


def test_a_state_that_grows_does_not_list_its_entries_anew() -> None:
    state = MemoryState().with_new(["a"])
    assert replace(state, observed=7).lines is state.lines


# Diversity and recency

ALIKE = {"old boat": (1.0, 0.1), "new boat": (1.0, 0.0), "dog": (0.6, 0.8), "q": (1.0, 0.0)}
BOATS_AND_DOG = ["old boat", "new boat", "dog"]


async def ranked(index: VectorIndex, texts: Sequence[str], top_k: int, **ranking: float) -> list[int]:
    (places,) = await index.search(["q"], texts, top_k, Ranking(**ranking))
    return places


async def test_of_texts_that_are_alike_the_newest_stands_for_all_invariant_4(make_embedder: MakeEmbedder) -> None:
    index = VectorIndex(make_embedder(ALIKE))
    assert await ranked(index, BOATS_AND_DOG, 2) == [1, 0]
    assert await ranked(index, BOATS_AND_DOG, 2, diversity=0.7) == [2, 1]


async def test_a_text_that_nothing_newer_is_like_loses_nothing_invariant_4(make_embedder: MakeEmbedder) -> None:
    index = VectorIndex(
        make_embedder({"boat": (1.0, 0.0), "opposite": (-1.0, 0.0), "dog": (0.0, 0.5), "q": (1.0, 0.0)})
    )
    assert await ranked(index, ["boat", "dog", "opposite"], 3, diversity=1.0) == [0, 1, 2]


async def test_among_many_texts_each_is_compared_with_all_that_are_newer_invariant_4(
    make_embedder: MakeEmbedder,
) -> None:
    numbers = np.random.default_rng(0).integers(-3, 4, (3 * ROWS_A_THREAD + 5, 8)).astype(float)
    texts = [str(i) for i in range(len(numbers))]
    known = {text: tuple(row) for text, row in zip(texts, numbers, strict=True)}
    index = VectorIndex(make_embedder(known | {"q": tuple(numbers[7])}))
    newer = [max([0.0, *(float(row @ later) for later in numbers[i + 1 :])]) for i, row in enumerate(numbers)]
    worth = [float(row @ numbers[7]) - 0.5 * likeness for row, likeness in zip(numbers, newer, strict=True)]
    expected = sorted(range(len(texts)), key=lambda i: (-worth[i], -i))
    assert await ranked(index, texts, len(texts), diversity=0.5) == expected


async def test_what_is_forgotten_counts_against_nothing_any_more_invariant_4(make_embedder: MakeEmbedder) -> None:
    index = VectorIndex(make_embedder({**ALIKE, "foreign": (0.0, 0.5)}))
    assert await ranked(index, ["old boat", "new boat"], 2, diversity=1.0) == [1, 0]
    index.forget("new boat".__eq__)
    assert await ranked(index, ["old boat", "foreign"], 2, diversity=1.0) == [0, 1], "it has the other's row"


async def test_recency_ranks_what_was_found_and_finds_nothing_else_invariant_5(make_embedder: MakeEmbedder) -> None:
    vectors = {"best": (1.0, 0.0), "good": (0.8, 0.6), "fair": (0.6, 0.8), "foreign": (0.0, 1.0), "q": (1.0, 0.0)}
    index = VectorIndex(make_embedder(vectors))
    texts = ["best", "good", "fair", "foreign"]
    assert await ranked(index, texts, 3, recency=0.0) == [0, 1, 2]
    assert await ranked(index, texts, 3, recency=0.6) == [2, 1, 0]
    assert await ranked(index, texts, 3, recency=1.0) == [2, 1, 0]
    assert await ranked(index, texts, 1, recency=1.0) == [0]


@settings(deadline=None)
@given(
    vectors=st.lists(VECTOR, min_size=1, max_size=12),
    query=VECTOR,
    top_k=st.integers(1, 15),
    diversity=st.sampled_from([0.0, 0.5, 1.0]),
    recency=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_any_ranking_brings_back_as_many_each_once_invariants_4_5(
    make_embedder: MakeEmbedder,
    vectors: list[Vector],
    query: Vector,
    top_k: int,
    diversity: float,
    recency: float,
) -> None:
    texts = [str(i) for i in range(len(vectors))]
    index = VectorIndex(make_embedder({**dict(zip(texts, vectors, strict=True)), "q": query}))
    found = asyncio.run(ranked(index, texts, top_k, diversity=diversity, recency=recency))
    assert len(found) == len(set(found)) == min(top_k, len(texts))
    without_age = asyncio.run(ranked(index, texts, top_k, diversity=diversity))
    assert set(found) == set(without_age)
    if recency == 1.0:
        assert found == sorted(found, reverse=True)
