"""Vectors that an endpoint was asked for, kept beside the memories that they are of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ..lm.base import Bill, Embedder, Embedding, Vectors, identity
from ..lm.ledger import Usage
from .rows import Rows

MOST_FRESH = 4096
"""Vectors that wait to be kept; older ones are asked for again."""


class KeptVectors(Embedder):
    """An embedder that asks no endpoint twice for the texts of one user's memories, not even after a restart.

    Nothing is kept of an embedder that asks none.
    """

    def __init__(self, embedder: Embedder, rows: Rows, user: str) -> None:
        """Ask ``embedder`` for what is not kept."""
        self._embedder = embedder
        self._rows = rows
        self._user = user
        self.worth_keeping = embedder.worst_case(["text"]) is not None
        self._known: dict[bytes, Vectors] | None = None
        self._fresh: dict[bytes, Vectors] = {}

    @property
    def name(self) -> str:
        """The inner embedder's name."""
        return self._embedder.name

    def worst_case(self, texts: Sequence[str]) -> Usage | None:
        """Return the inner embedder's."""
        return self._embedder.worst_case(texts)

    async def embed(self, texts: Sequence[str], *, bill: Bill | None = None) -> Embedding:
        """Return the vectors of texts, from the file where they are kept."""
        if not self.worth_keeping or not texts:
            return await self._embedder.embed(texts, bill=bill)
        digests = [identity(text) for text in texts]
        known = {**self._read(), **self._fresh}
        new = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in known}
        usage = None
        if new:
            reply = await self._embedder.embed([*new.values()], bill=bill)
            usage = reply.usage
            fresh = dict(zip(new, reply.vectors, strict=True))
            if self._is_of_another_width(reply.vectors):
                self._fresh = fresh
                return await self.embed(texts, bill=bill)
            known |= fresh
            self._fresh |= fresh
            for digest in [*self._fresh][:-MOST_FRESH]:
                del self._fresh[digest]
        return Embedding(np.stack([known[digest] for digest in digests]), usage)

    def _is_of_another_width(self, vectors: Vectors) -> bool:
        """Drop all that is known where vectors have another width now: they are of another model, whatever its name."""
        known = {**self._read(), **self._fresh}
        if all(len(vector) == vectors.shape[1] for vector in known.values()):
            return False
        self._rows.drop_vectors(self._user, ())
        self._known, self._fresh = {}, {}
        return True

    def keep(self, texts: Iterable[str], *, version: int | None, anew: bool = False) -> None:
        """Keep the vectors of a memory's texts, those that are known, and of no others, if that version still holds.

        ``anew`` looks what is kept, where other processes may have kept more.
        """
        if not self.worth_keeping or version is None:
            return
        if anew:
            self._known = None
        wanted, known = {identity(text) for text in texts}, self._read()
        new = {digest: self._fresh[digest] for digest in wanted & self._fresh.keys() - known.keys()}
        gone = [*(known.keys() - wanted)]
        self._fresh = {}
        if not new and not gone:
            return
        as_bytes = {digest: vector.astype("<f4").tobytes() for digest, vector in new.items()}
        if self._rows.keep_vectors(self._user, self.name, as_bytes, gone, version=version):
            self._known = {digest: vector for digest, vector in known.items() if digest in wanted} | new

    def _read(self) -> dict[bytes, Vectors]:
        if self._known is None:
            kept = self._rows.vectors(self._user, self.name)
            self._known = {digest: np.frombuffer(vector, dtype="<f4") for digest, vector in kept.items()}
        return self._known
