"""A trained Qwen3 as an ONNX graph, for scoring without torch."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from .onnx_runner import INPUTS, OUTPUTS
from .qwen3 import Qwen3


class _Extend(nn.Module):
    def __init__(self, model: Qwen3) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, length: Tensor, past: Tensor, past_length: Tensor) -> tuple[Tensor, Tensor]:
        return self.model.extend(ids, length, past, past_length)


def export_onnx(model: Qwen3, path: Path) -> None:
    """Write a graph whose batch, new and past lengths are free; one graph reads prefixes and suffixes."""
    config = model.config
    ids, length = torch.ones((2, 5), dtype=torch.long), torch.tensor([5, 4])
    past = torch.zeros((config.num_hidden_layers, 2, 2, config.num_key_value_heads, 3, config.head_dim))
    free = {"ids": {0: "batch", 1: "new"}, "length": {0: "batch"}, "past": {2: "batch", 4: "old"}}
    free |= {"past_length": {0: "batch"}, "logits": {0: "batch"}, "made": {2: "batch", 4: "new"}}
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _Extend(model.cpu().eval()),
            (ids, length, past, torch.tensor([3, 2])),
            buffer,
            input_names=list(INPUTS),
            output_names=list(OUTPUTS),
            dynamic_axes=free,
            opset_version=17,
            dynamo=False,  # the other exporter needs onnxscript
        )
    path.write_bytes(buffer.getvalue())
