"""P(safe) for writes: prompts batched by length, and what several of them share read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ...policies.memory import MemoryEvent
from .checkpoint import ONNX, Card, CheckpointError, read_card, read_tokens
from .render import render, unreadable
from .tokens import Ids, Tokens

Scores = NDArray[np.float64]
"""P(safe) in [0, 1], aligned with the events; NaN is unscored."""
Logits = NDArray[np.float32]
"""Shape ``(prompts, 2)``: safe, harmful."""
BATCH_TOKENS = 8192
"""Of a batch, padding included."""
TINY = Path(__file__).parent / "tiny"
"""The bundled checkpoint."""

Item = TypeVar("Item")


class Calibration(NamedTuple):
    """How differences of logits become probabilities."""

    temperature: float
    bias: float


class RewardModel(Protocol):
    """Tells from a write alone whether memory lost what is asked for later."""

    def score(self, events: Sequence[MemoryEvent]) -> Scores:
        """Return P(safe) for each event; NaN for one that cannot be judged. Raises nothing for what an event holds."""
        ...


@dataclass(frozen=True, slots=True)
class Padded:
    """Token ids padded on the right with 0."""

    ids: NDArray[np.int64]
    """Shape ``(rows, longest)``."""
    length: NDArray[np.int64]
    """Real tokens of each row."""


class Runner(Protocol):
    """A causal language model; what it makes of prefixes is its own."""

    def read(self, prefixes: Padded) -> Any:
        """Return the keys and values of prefixes."""
        ...

    def answer(self, suffixes: Padded, past: Any = None, rows: NDArray[np.int64] | None = None) -> Logits:
        """Return the logits after suffixes; suffix i follows row ``rows[i]`` of ``past``, or nothing."""
        ...


class MemRM:
    """A reward model made of a language model that answers `` Y`` or `` N``."""

    def __init__(self, runner: Runner, tokens: Tokens, card: Card, *, batch_tokens: int = BATCH_TOKENS) -> None:
        """Score with a runner what a card says how to read."""
        self.card, self.tokens = card, tokens
        self._runner, self._batch_tokens = runner, batch_tokens

    def score(self, events: Sequence[MemoryEvent]) -> Scores:
        """Return P(safe) for each event; NaN for an empty one, one that is not text, and one beyond the window."""
        return self.calibrated(self.differences(self.encode(events)))

    def calibrated(self, differences: Scores) -> Scores:
        """Return P(safe) for differences of logits; NaN stays NaN."""
        return safe((differences - self.card.bias) / self.card.temperature)

    def encode(self, events: Sequence[MemoryEvent]) -> list[Ids | None]:
        """Return the events' prompts as ids; None for those that cannot be scored."""
        able = [i for i, event in enumerate(events) if unreadable(event) is None]
        found: list[Ids | None] = [None] * len(events)
        encoded = self.tokens.encode(render(events[i]) for i in able)
        for i, ids in zip(able, encoded, strict=True):
            found[i] = ids if len(ids.whole) <= self.card.window else None
        return found

    def differences(self, prompts: Sequence[Ids | None]) -> Scores:
        """Return the logit of safe minus that of harmful for each prompt; NaN for None."""
        found = np.full(len(prompts), np.nan)
        for i, logits in self._logits(prompts):
            found[i] = float(logits[0]) - float(logits[1])
        return found

    def _logits(self, prompts: Sequence[Ids | None]) -> Iterator[tuple[int, Logits]]:
        given = {i: ids for i, ids in enumerate(prompts) if ids is not None}
        groups: dict[tuple[int, ...], list[int]] = {}
        for i, ids in given.items():
            groups.setdefault(ids.prefix, []).append(i)
        shared = sorted((prefix for prefix, group in groups.items() if prefix and len(group) > 1), key=len)
        alone = {i: ids.whole for i, ids in given.items() if not ids.prefix or len(groups[ids.prefix]) == 1}
        for batch in self._batches(sorted(alone, key=lambda i: len(alone[i])), lambda i: len(alone[i])):
            yield from zip(batch, self._runner.answer(padded([alone[i] for i in batch])), strict=True)
        for prefixes in self._batches(shared, len):
            past = self._runner.read(padded(prefixes))
            longest = len(prefixes[-1])
            members = [(row, i) for row, prefix in enumerate(prefixes) for i in groups[prefix]]
            members.sort(key=lambda member: len(given[member[1]].suffix))
            for some in self._batches(members, lambda member: longest + len(given[member[1]].suffix)):  # noqa: B023
                rows = np.array([row for row, _ in some], dtype=np.int64)
                logits = self._runner.answer(padded([given[i].suffix for _, i in some]), past, rows)
                yield from zip((i for _, i in some), logits, strict=True)

    def _batches(self, items: Sequence[Item], size: Callable[[Item], int]) -> Iterator[list[Item]]:
        return batched(items, size, most=self._batch_tokens)


def batched(items: Sequence[Item], size: Callable[[Item], int], *, most: int) -> Iterator[list[Item]]:
    """Yield items of rising size in batches of at most ``most`` when padded to the largest, or of one item."""
    batch: list[Item] = []
    for item in items:
        if batch and size(item) * (len(batch) + 1) > most:
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def padded(ids: Sequence[Sequence[int]]) -> Padded:
    """Pad ids to the longest."""
    length = np.array([len(row) for row in ids], dtype=np.int64)
    table = np.zeros((len(ids), int(length.max())), dtype=np.int64)
    for row, given in zip(table, ids, strict=True):
        row[: len(given)] = given
    return Padded(table, length)


def safe(differences: Scores) -> Scores:
    """Return the probabilities of logit differences; NaN stays NaN."""
    found: Scores = np.full(differences.shape, np.nan)
    known = ~np.isnan(differences)
    found[known] = np.exp(-np.logaddexp(0.0, -differences[known]))
    return found


def fit_calibration(differences: Scores, safe_labels: Sequence[bool]) -> Calibration:
    """Return the temperature in [0.05, 20] and the bias that make labels likeliest.

    NaN scores do not count; where none is left, or labels are of one class, the differences are taken as they are.
    """
    known = ~np.isnan(differences)
    labels, given = np.asarray(safe_labels, dtype=bool)[known], differences[known]
    if labels.all() or not labels.any():
        return Calibration(1.0, 0.0)
    signs = np.where(labels, 1.0, -1.0)

    def loss(at: NDArray[np.float64]) -> float:
        return float(np.logaddexp(0.0, -signs * (given - at[1]) / np.exp(at[0])).mean())

    found = minimize(loss, np.zeros(2), method="L-BFGS-B", bounds=[(np.log(0.05), np.log(20.0)), (None, None)])
    return Calibration(float(np.exp(found.x[0])), float(found.x[1]))


def load_memrm(checkpoint: Path | str = "tiny", *, torch: bool = False) -> MemRM:
    """Load a checkpoint folder, or the bundled ``tiny``.

    ONNX runs it where the folder has it, unless ``torch`` is asked for. Raises CheckpointError when it cannot be used.
    """
    folder = TINY if str(checkpoint) == "tiny" else Path(checkpoint)
    card, tokens = read_card(folder), read_tokens(folder)
    if (folder / ONNX).is_file() and not torch:
        from .on_onnx import OnnxRunner  # imported late: onnxruntime takes a while

        return MemRM(OnnxRunner(folder / ONNX), tokens, card)
    try:
        from .on_torch import load_runner
    except ModuleNotFoundError as error:
        raise CheckpointError(
            f"{folder}: has no {ONNX}, and without one it needs {error.name}: pip install 'mnemotune[memrm]'"
        ) from None
    return MemRM(load_runner(folder, tokens), tokens, card)
