"""Tests that every embedder passes, and every cache.

The test module of an implementation inherits them, and gives a fixture ``make``; that of a cache opens the same one
each time::

    class TestMyEmbedder(EmbedderConformance):
        @pytest.fixture
        def make(self) -> Make:
            return MyEmbedder

They need pytest and hypothesis, which nothing else in this folder imports.

Invariants of an embedder:

1. There is one row for each text, of length 1; of length 0 at most where a text has no words.
2. A row depends on its text alone.
3. Like texts are more similar than unlike ones.

Invariants of a cache:

4. What was kept under a key comes back as it was, at no cost, also to others and to several threads; nothing else does.
5. The first answer under a key stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .base import Completion, Embedder, ToolCall, Vectors
from .cache import Cache
from .ledger import Usage

Make = Callable[[], Embedder]
MakeCache = Callable[[], Cache]
SHARED_BY_EXAMPLES = [HealthCheck.function_scoped_fixture, HealthCheck.differing_executors]


class EmbedderConformance:
    """What every embedder must do; a subclass makes one."""

    def test_there_is_a_row_of_length_one_for_each_text_invariant_1(self, make: Make) -> None:
        vectors = _embed(make, "I swim every day.", "Cats are great.", "I swim every day.")
        assert vectors.dtype == np.float32
        assert vectors.shape[0] == 3
        assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 1], abs=1e-5)
        assert np.allclose(vectors[0], vectors[2], atol=1e-6)
        assert not np.allclose(vectors[0], vectors[1], atol=1e-3)

    def test_a_text_without_words_has_length_zero_or_one_invariant_1(self, make: Make) -> None:
        for length in np.linalg.norm(_embed(make, "", "?!", "\n"), axis=1):
            assert float(length) == pytest.approx(0) or float(length) == pytest.approx(1, abs=1e-5)

    def test_no_texts_are_no_rows_invariant_1(self, make: Make) -> None:
        assert len(_embed(make)) == 0

    def test_a_row_depends_on_its_text_alone_invariant_2(self, make: Make) -> None:
        embedder = make()

        async def twice() -> None:
            first = (await embedder.embed(["a cat that sleeps", "a dog"])).vectors
            alone = (await embedder.embed(["a dog"])).vectors
            assert np.allclose(first[1], alone[0], atol=1e-5)

        asyncio.run(twice())

    def test_like_texts_are_more_similar_than_unlike_ones_invariant_3(self, make: Make) -> None:
        cat, cats, tax = _embed(make, "My cat sleeps.", "The cat is asleep, my cat.", "Income tax is due in May.")
        assert cat @ cats > cat @ tax

    @settings(deadline=None, suppress_health_check=SHARED_BY_EXAMPLES)
    @given(texts=st.lists(st.text(st.characters()), max_size=5))
    def test_any_texts_have_rows_invariant_1(self, make: Make, texts: list[str]) -> None:
        vectors = _embed(make, *texts)
        assert len(vectors) == len(texts)
        assert np.isfinite(vectors).all()
        assert (np.linalg.norm(vectors, axis=1) < 1.0001).all()


def _embed(make: Make, *texts: str) -> Vectors:
    return asyncio.run(make().embed(list(texts))).vectors


def _texts(cache: Cache, keys: Iterable[str]) -> dict[str, str]:
    return {key: kept.text for key in keys if (kept := cache.get(key)) is not None}


class CacheConformance:
    """What every cache must do; a subclass opens one."""

    @pytest.mark.parametrize("text", ["an answer\nof ünïcödé 🌱", "", "a\0b", "x" * 1_000_000])
    @pytest.mark.parametrize("cost", [0.5, None])
    @pytest.mark.parametrize("cut", [False, True])
    def test_an_answer_comes_back_with_its_tokens_and_at_no_cost_invariant_4(
        self, make: MakeCache, text: str, cost: float | None, cut: bool
    ) -> None:
        cache = make()
        cache.put("k", Completion(text, Usage(2**33, 34, cost_usd=cost, cut=cut)))
        assert cache.get("k") == Completion(text, Usage(2**33, 34, cost_usd=0.0, cached=True, cut=cut))
        assert cache.get("K") is None
        assert cache.get("") is None
        cache.close()

    @pytest.mark.parametrize("cut", [False, True])
    def test_tool_calls_come_back_with_the_answer_invariant_4(self, make: MakeCache, cut: bool) -> None:
        calls = ToolCall("c1", "search", '{"q": "猫"}'), ToolCall("c2", "end", "{}")
        cache = make()
        cache.put("calls", Completion("Let me look.", Usage(1, 2, cut=cut), calls))
        assert cache.get("calls") == Completion("Let me look.", Usage(1, 2, cached=True, cut=cut), calls)
        cache.close()

    @settings(deadline=None, suppress_health_check=SHARED_BY_EXAMPLES, max_examples=10)
    @given(answers=st.dictionaries(st.text("0123456789abcdef", min_size=1), st.text(), max_size=5))
    def test_any_answers_outlive_who_asked_invariant_4(self, make: MakeCache, answers: dict[str, str]) -> None:
        first = make()
        known = _texts(first, answers)
        for key, text in answers.items():
            first.put(key, Completion(text, Usage(1, 1)))
        first.close()
        second = make()
        assert _texts(second, answers) == answers | known
        second.close()

    def test_the_first_answer_under_a_key_stays_invariant_5(self, make: MakeCache) -> None:
        caches = make(), make()
        for cache, text in zip(caches, ("first", "second"), strict=True):
            cache.put("k", Completion(text, Usage(1, 1)))
        kept = [cache.get("k") for cache in caches]
        assert [answer.text for answer in kept if answer is not None] == ["first", "first"]
        for cache in caches:
            cache.close()

    def test_threads_may_share_a_cache_invariant_4(self, make: MakeCache) -> None:
        cache = make()

        def work(thread: int) -> None:
            for number in range(50):
                cache.put(f"{number}", Completion(f"{thread} {number}", Usage(number, thread)))
                kept = cache.get(f"{number}")
                assert kept is not None
                assert kept.text == f"{kept.usage.output_tokens} {kept.usage.input_tokens}"

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(work, range(4)))
        cache.close()

    def test_what_is_forgotten_is_gone_and_all_else_stays(self, make: MakeCache) -> None:
        cache, calls = make(), (ToolCall("c1", "search", '{"q": "heron"}'),)
        cache.put("told", Completion("A heron, said Ann.", Usage(1, 1)))
        cache.put("called", Completion("Let me look.", Usage(1, 1), calls))
        cache.put("other", Completion("A robin.", Usage(1, 1)))
        assert cache.forget(lambda text: "heron" in text) == 2
        assert [cache.get(key) is None for key in ("told", "called", "other")] == [True, True, False]
        assert cache.forget(lambda text: "heron" in text) == 0
        cache.close()

    def test_closing_twice_does_no_harm(self, make: MakeCache) -> None:
        cache = make()
        cache.close()
        cache.close()
