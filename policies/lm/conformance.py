"""Tests that every embedder passes.

The test module of an implementation inherits them, and gives a fixture ``make``::

    class TestMyEmbedder(EmbedderConformance):
        @pytest.fixture
        def make(self) -> Make:
            return MyEmbedder

They need pytest and hypothesis, which nothing else in this folder imports.

Invariants:

1. There is one row for each text, of length 1; of length 0 at most where a text has no words.
2. A row depends on its text alone.
3. Like texts are more similar than unlike ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .base import Embedder, Vectors

Make = Callable[[], Embedder]


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

    @settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(texts=st.lists(st.text(st.characters()), max_size=5))
    def test_any_texts_have_rows_invariant_1(self, make: Make, texts: list[str]) -> None:
        vectors = _embed(make, *texts)
        assert len(vectors) == len(texts)
        assert np.isfinite(vectors).all()
        assert (np.linalg.norm(vectors, axis=1) < 1.0001).all()


def _embed(make: Make, *texts: str) -> Vectors:
    return asyncio.run(make().embed(list(texts))).vectors
