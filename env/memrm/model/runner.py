"""What runs a causal language model: the protocol, and the arrays that it takes and gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]
"""Shape ``(prompts, 2)``: safe, harmful."""
CPU_BATCH_TOKENS, GPU_BATCH_TOKENS = 2048, 32_768
"""Of a batch, padding included: larger ones outgrow a CPU's caches, smaller ones leave a GPU idle."""


@dataclass(frozen=True, slots=True)
class Padded:
    """Token ids padded on the right with 0."""

    ids: NDArray[np.int64]
    """Shape ``(rows, longest)``."""
    length: NDArray[np.int64]
    """Real tokens of each row."""


class Runner(Protocol):
    """A causal language model; what it makes of prefixes is its own."""

    @property
    def batch_tokens(self) -> int:
        """Tokens of a batch, padding included, that suit where it runs."""

    def read(self, prefixes: Padded) -> Any:
        """Return the keys and values of prefixes."""

    def answer(self, suffixes: Padded, past: Any = None, rows: NDArray[np.int64] | None = None) -> Logits:
        """Return the logits after suffixes; suffix i follows row ``rows[i]`` of ``past``, or nothing."""


def padded(ids: Sequence[Sequence[int]]) -> Padded:
    """Pad ids to the longest."""
    length = np.array([len(row) for row in ids], dtype=np.int64)
    table = np.zeros((len(ids), int(length.max())), dtype=np.int64)
    for row, given in zip(table, ids, strict=True):
        row[: len(given)] = given
    return Padded(table, length)
