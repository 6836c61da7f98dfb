"""The runner that needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from .checkpoint import CheckpointError
from .runner import CPU_BATCH_TOKENS, Logits, Padded

INPUTS, OUTPUTS = ("ids", "length", "past", "past_length"), ("logits", "made")


class OnnxRunner:
    """Runs ``model.onnx``; what it keeps of a prefix is one array of all layers' keys and values."""

    batch_tokens = CPU_BATCH_TOKENS

    def __init__(self, path: Path) -> None:
        """Load a graph. Raises CheckpointError when it is none of ours."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(path.read_bytes(), options, ["CPUExecutionProvider"])
        except Exception as error:  # noqa: BLE001 - onnxruntime raises types of its own
            raise CheckpointError(f"{path}: onnxruntime cannot load it: {str(error).splitlines()[0]}") from None
        inputs = self._session.get_inputs()
        names = tuple(node.name for node in inputs), tuple(node.name for node in self._session.get_outputs())
        if names != (INPUTS, OUTPUTS):
            raise CheckpointError(f"{path}: is not a graph of `mnemotune memrm train`: it takes and gives {names}")
        layers, two, _, groups, _, head = inputs[2].shape
        self._empty = np.zeros((layers, two, 1, groups, 0, head), dtype=np.float32)

    def read(self, prefixes: Padded) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the keys and values of prefixes, and their lengths."""
        return self._run(prefixes, *self._nothing(len(prefixes.length)))[1], prefixes.length

    def answer(self, suffixes: Padded, past: Any = None, rows: NDArray[np.int64] | None = None) -> Logits:
        """Return the logits after suffixes; suffix i follows row ``rows[i]`` of ``past``, or nothing."""
        before = self._nothing(len(suffixes.length)) if past is None else (past[0][:, :, rows], past[1][rows])
        logits: Logits = self._run(suffixes, *before)[0]
        return logits

    def _nothing(self, batch: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        return self._empty.repeat(batch, axis=2), np.zeros(batch, dtype=np.int64)

    def _run(self, new: Padded, past: NDArray[np.float32], past_length: NDArray[np.int64]) -> Any:
        given = dict(zip(INPUTS, (new.ids, new.length, past, past_length), strict=True))
        return self._session.run(OUTPUTS, given)
