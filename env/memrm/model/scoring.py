"""P(safe) of writes. Prompts are batched by length, and a shared beginning is read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ....policies.memory import MemoryEvent
from .checkpoint import ONNX, TOKENIZER, CheckpointError, ModelCard, read_model_card, read_tokens
from .render import statements, unreadable
from .runner import Logits, Runner, padded
from .tokens import Ids, Tokens

Prompts = Sequence[Sequence[Ids] | None]
"""The prompts of each event; None for an event that cannot be scored."""
Scores = NDArray[np.float64]
"""P(safe) in [0, 1], aligned with the events; NaN is unscored."""
MOST_KEPT = 1 << 18
"""Prompts whose answers are kept."""
TINY = Path(__file__).parents[1] / "tiny"
"""The bundled checkpoint."""

Item = TypeVar("Item")


class Calibration(NamedTuple):
    """How differences of logits become probabilities."""

    temperature: float
    bias: float


class RewardModel(Protocol):
    """Estimates from a write alone whether memory lost what is needed later."""

    def score(self, events: Sequence[MemoryEvent]) -> Scores:
        """Return P(safe) for each event; NaN for one that cannot be judged. Raises nothing for what an event holds."""


class MemRM:
    """A reward model made of a language model that answers `` Y`` or `` N``."""

    def __init__(self, runner: Runner, tokens: Tokens, card: ModelCard) -> None:
        """Score with a runner what a card says how to read."""
        self.card, self.tokens = card, tokens
        self._runner = runner
        self._read: dict[Ids, float] = {}
        """Differences by prompt: candidates of one search write much alike."""

    def score(self, events: Sequence[MemoryEvent]) -> Scores:
        """Return P(safe) for each event: that of all its statements together.

        An event that states nothing and takes nothing from the memory is safe. NaN for an empty one, one that is not
        text, and one with a statement beyond the window.
        """
        prompts = self.encode(events)
        return self.p_safe(self.differences(prompts), prompts)

    def p_safe(self, differences: Scores, prompts: Prompts) -> Scores:
        """Return P(safe) of events from the differences of all their prompts, in their order; None is NaN."""
        logs = log_safe(differences, Calibration(self.card.temperature, self.card.bias))
        return np.exp(summed(logs, prompts))

    def encode(self, events: Sequence[MemoryEvent]) -> list[list[Ids] | None]:
        """Return the prompts of each event as ids; None for an event that cannot be scored."""
        able = [i for i, event in enumerate(events) if unreadable(event) is None]
        prompts = [[statement.prompt for statement in statements(events[i])] for i in able]
        distinct = list(dict.fromkeys(prompt for own in prompts for prompt in own))
        encoded = dict(zip(distinct, self.tokens.encode(distinct), strict=True))
        by_event: list[list[Ids] | None] = [None] * len(events)
        for i, own in zip(able, prompts, strict=True):
            ids = [encoded[prompt] for prompt in own]
            by_event[i] = ids if all(len(prompt.whole) <= self.card.window for prompt in ids) else None
        return by_event

    def differences(self, prompts: Prompts) -> Scores:
        """Return the logit of safe minus that of harmful for each prompt of all events; equal ones are read once."""
        if len(self._read) > MOST_KEPT:
            self.forget()
        every = [ids for own in prompts if own is not None for ids in own]
        new = [ids for ids in dict.fromkeys(every) if ids not in self._read]
        for i, logits in self._logits(new):
            self._read[new[i]] = float(logits[0]) - float(logits[1])
        return np.array([self._read[ids] for ids in every], dtype=np.float64)

    def forget(self) -> None:
        """Read every prompt anew from now on."""
        self._read.clear()

    def _logits(self, prompts: Sequence[Ids]) -> Iterator[tuple[int, Logits]]:
        most = self._runner.batch_tokens
        groups: dict[tuple[int, ...], list[int]] = {}
        for i, ids in enumerate(prompts):
            groups.setdefault(ids.prefix, []).append(i)
        shared = sorted((prefix for prefix, group in groups.items() if prefix and len(group) > 1), key=len)
        alone = {i: ids.whole for i, ids in enumerate(prompts) if not ids.prefix or len(groups[ids.prefix]) == 1}
        for some in batched(sorted(alone, key=lambda i: len(alone[i])), lambda i: len(alone[i]), most=most):
            yield from zip(some, self._runner.answer(padded([alone[i] for i in some])), strict=True)
        for prefixes in batched(shared, len, most=most):
            past = self._runner.read(padded(prefixes))
            longest = len(prefixes[-1])
            members = [(row, i) for row, prefix in enumerate(prefixes) for i in groups[prefix]]
            members.sort(key=lambda member: len(prompts[member[1]].suffix))
            for batch in batched(members, lambda m: longest + len(prompts[m[1]].suffix), most=most):  # noqa: B023
                rows = np.array([row for row, _ in batch], dtype=np.int64)
                logits = self._runner.answer(padded([prompts[i].suffix for _, i in batch]), past, rows)
                yield from zip((i for _, i in batch), logits, strict=True)


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


def log_safe(differences: Scores, calibration: Calibration) -> Scores:
    """Return the logarithm of P(safe) of each difference of logits; NaN stays NaN."""
    return -np.logaddexp(0.0, -(differences - calibration.bias) / calibration.temperature)


def summed(values: Scores, prompts: Prompts) -> Scores:
    """Return the sum over each event's prompts; NaN for None."""
    counts = [0 if own is None else len(own) for own in prompts]
    owners = np.repeat(np.arange(len(prompts)), counts)
    sums = np.bincount(owners, weights=values, minlength=len(prompts)).astype(np.float64)
    sums[[own is None for own in prompts]] = np.nan
    return sums


def fit_calibration(
    differences: Scores, prompts: Prompts, safe_labels: Sequence[bool] | NDArray[np.bool_]
) -> Calibration:
    """Return the temperature in [0.05, 20] and the bias that make the events' labels likeliest.

    ``differences`` are those of all prompts of the events, in their order. Events that cannot be scored do not
    count; where labels are of one class, differences stay as they are.
    """
    from scipy.optimize import minimize  # imported late: SciPy takes a while that most commands do not need

    labels = np.asarray(safe_labels, dtype=bool)
    known = np.array([own is not None for own in prompts], dtype=bool)
    if len(set(labels[known].tolist())) < 2:
        return Calibration(1.0, 0.0)

    def loss(at: NDArray[np.float64]) -> float:
        logs = summed(log_safe(differences, Calibration(float(np.exp(at[0])), float(at[1]))), prompts)[known]
        harmful = np.log(-np.expm1(np.minimum(logs, -1e-9)))
        return -float(np.where(labels[known], logs, harmful).mean())

    bounds = [(np.log(0.05), np.log(20.0)), (None, None)]
    fit = minimize(loss, np.zeros(2), method="Nelder-Mead", bounds=bounds)
    return Calibration(float(np.exp(fit.x[0])), float(fit.x[1]))


def folder_of(checkpoint: Path | str) -> Path:
    """Return a checkpoint's folder: ``tiny`` is the bundled one."""
    return TINY if str(checkpoint) == "tiny" else Path(checkpoint)


def load_memrm(checkpoint: Path | str = "tiny", *, torch: bool = False) -> MemRM:
    """Load a checkpoint folder, or the bundled ``tiny``.

    ONNX runs it where the folder has it, unless ``torch`` is asked for. Raises CheckpointError when it cannot be used.
    """
    folder = folder_of(checkpoint)
    card, tokens = read_model_card(folder), read_tokens(folder / TOKENIZER)
    if (folder / ONNX).is_file() and not torch:
        from .onnx_runner import OnnxRunner  # imported late: onnxruntime takes a while

        return MemRM(OnnxRunner(folder / ONNX), tokens, card)
    try:
        from .torch_runner import load_runner
    except ModuleNotFoundError as error:
        raise CheckpointError(
            f"{folder}: has no {ONNX}, and without one it needs {error.name}: pip install 'mnemotune[memrm]'"
        ) from None
    return MemRM(load_runner(folder, tokens), tokens, card)
