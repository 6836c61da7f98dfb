"""Language models and embedders whose calls are counted and admitted by a budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .base import Bill, Completion, Embedder, Embedding, LanguageModel, Request, Wrapper, identity, in_batches
from .budget import Budget
from .ledger import Ledger, Usage


class Metered(Wrapper):
    """A language model whose calls are counted in ``ledger`` and, where there is one, admitted by ``budget``."""

    def __init__(self, model: LanguageModel, *, budget: Budget | None = None) -> None:
        """Count the calls of ``model`` from now on."""
        super().__init__(model)
        self.budget = budget
        self.ledger = Ledger()

    async def complete(self, request: Request) -> Completion:
        """Ask the inner model.

        Raises BudgetExhausted before a call that could overshoot, and when time is up during one. What was sent and not
        answered counts against the budget as its worst case, since a server may bill it; ``ledger`` has what was
        answered.
        """
        if self.budget is None:
            completion = await self.model.complete(request)
        else:
            completion = await self.budget.spend(
                request.role,
                self.model.worst_case(request),
                lambda bill: self.model.complete(replace(request, bill=bill)),
                key=request.identity(self.model.name),
            )
        self.ledger.add(request.role, completion.usage)
        return completion


class MeteredEmbedder(Embedder):
    """An embedder whose calls are counted and admitted as a language model's are; without an endpoint it has none."""

    def __init__(self, embedder: Embedder, *, budget: Budget | None = None) -> None:
        """Count the calls of ``embedder`` from now on."""
        self.embedder = embedder
        self.budget = budget
        self.ledger = Ledger()

    @property
    def name(self) -> str:
        """The inner embedder's name."""
        return self.embedder.name

    def worst_case(self, texts: Sequence[str]) -> Usage | None:
        """Return the inner embedder's."""
        return self.embedder.worst_case(texts)

    async def embed(self, texts: Sequence[str], *, bill: Bill | None = None) -> Embedding:
        """Ask the inner embedder, MOST_TEXTS texts a call. Raises BudgetExhausted as ``Metered`` does."""
        if not texts or self.embedder.worst_case(texts) is None:
            return await self.embedder.embed(texts)
        return await in_batches(texts, lambda batch: self._call(batch, bill))

    async def aclose(self) -> None:
        """Close the inner embedder."""
        await self.embedder.aclose()

    async def _call(self, texts: Sequence[str], bill: Bill | None) -> Embedding:
        worst = self.embedder.worst_case(texts)
        if self.budget is None or worst is None:
            embedding = await self.embedder.embed(texts, bill=bill)
        else:
            embedding = await self.budget.spend(
                "embed",
                worst,
                lambda bill: self.embedder.embed(texts, bill=bill),
                key=identity(self.embedder.name, "embed", *texts),
            )
        if embedding.usage is not None:
            self.ledger.add("embed", embedding.usage)
        return embedding
