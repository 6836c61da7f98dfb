"""An embedder's calls are in the same budget as a language model's."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import pytest

from loopback import PATIENCE_SECONDS
from mnemotune.policies.lm import (
    Budget,
    BudgetExhausted,
    Embedder,
    Embedding,
    Ledger,
    Limits,
    MeteredEmbedder,
    Spend,
    Usage,
)
from mnemotune.policies.lm.base import MOST_TEXTS, Bill
from mnemotune.policies.lm.budget import Consumed, on_account
from mnemotune.policies.lm.cache import ResponseCache
from mnemotune.policies.lm.charges import Charges
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.lm.openai import OpenAIEmbedder

if TYPE_CHECKING:
    from .conftest import ScriptedServer


class Vectors(Embedder):
    """Takes a token for each text, and remembers how many texts came in each call."""

    name = "vectors"

    def __init__(self) -> None:
        self.asked: list[int] = []

    def worst_case(self, texts: Sequence[str]) -> Usage:
        return Usage(2 * len(texts), 0, 0.25)

    async def embed(self, texts: Sequence[str], *, bill: Bill | None = None) -> Embedding:
        self.asked.append(len(texts))
        if bill is not None:
            await bill.sending()
            await bill.unanswered()
        return Embedding(np.ones((len(texts), 1), dtype=np.float32), Usage(len(texts), 0, 0.125))

    async def aclose(self) -> None:
        """Nothing to release."""


async def test_an_embedders_calls_are_counted_and_an_attempt_without_an_answer_at_its_worst() -> None:
    inner, budget, ledger = Vectors(), Budget(Limits(calls=2)), Ledger()
    embedder = MeteredEmbedder(MeteredEmbedder(inner, budget=budget))
    with on_account(ledger):
        found = await embedder.embed(["text"] * (MOST_TEXTS + 2))
    assert inner.asked == [MOST_TEXTS, 2]
    assert found.vectors.shape == (MOST_TEXTS + 2, 1)
    texts = MOST_TEXTS + 2
    assert embedder.ledger.by_role == ledger.by_role == {"embed": Spend(2, 0, texts, 0, 0.25)}
    assert (budget.calls, budget.tokens, budget.usd) == (2, 3 * texts, 0.75)
    with pytest.raises(BudgetExhausted, match="2 calls"):
        await embedder.embed(["text"])
    assert len(inner.asked) == 2
    assert (await embedder.embed([])).vectors.shape == (0, 1)


async def test_an_embedder_of_this_machine_costs_no_call() -> None:
    embedder = MeteredEmbedder(LexicalEmbedder(), budget=Budget(Limits(calls=0)))
    assert (await embedder.embed(["a cat"])).vectors.any()
    assert embedder.ledger.total.calls == 0


@pytest.mark.parametrize("order", ["pq", "qp"])
async def test_calls_that_share_texts_do_not_wait_for_each_other_at_the_end_of_a_budget(
    server: ScriptedServer, order: str
) -> None:
    """One is charged already and sent again, and holds a text; the other has the last reserve, and waits for it."""
    one, other = order
    for count in (1, 1, 2, 1):
        server.answer({"data": [{"index": place, "embedding": [1.0]} for place in range(count)]})
    charges = Charges()
    before = OpenAIEmbedder("e", base_url=server.url)
    await MeteredEmbedder(before, budget=Budget(Limits(calls=3), charges=charges)).embed([other])
    with closing(ResponseCache(":memory:")) as cache:
        embedder = OpenAIEmbedder("e", base_url=server.url, cache=cache)
        budget = Budget(Limits(calls=3), earlier=Consumed(calls=1), charges=charges)
        metered = MeteredEmbedder(embedder, budget=budget)
        server.hold()
        calls = [asyncio.create_task(metered.embed([one]))]
        await server.has_been_asked(2)
        for texts in ([one, other], [other]):
            calls.append(asyncio.create_task(metered.embed(texts)))
            await asyncio.sleep(0.05)
        server.release()
        ends = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), PATIENCE_SECONDS)
        await embedder.aclose()
    await before.aclose()
    assert [isinstance(end, Embedding) for end in ends] == [True, True, True], "what is on its way needs no reserve"
    assert budget.charged <= 3
