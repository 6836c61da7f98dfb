"""Embedding models that run on this machine with fastembed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .base import Bill, Embedder, Embedding, LanguageModelError

MODEL_FILES = ("model.onnx", "onnx/model.onnx", "model_optimized.onnx")
"""Where a folder has its model."""


class FastEmbedder(Embedder):
    """An ONNX model that fastembed knows by name and downloads, or in a folder with its tokenizer."""

    def __init__(self, name: str) -> None:
        """Load a model by name, or from a folder.

        A folder has ``model.onnx``, ``tokenizer.json`` and ``tokenizer_config.json``, as sentence-transformers exports
        them; tokens are pooled as its ``1_Pooling/config.json`` says, or else by their mean.
        Raises LanguageModelError when fastembed is not installed, or the model cannot be had.
        """
        self._name = name
        try:
            self._model = _load(name)
        except ImportError:
            raise LanguageModelError(f"fastembed:{name} needs fastembed: pip install 'mnemotune[embed]'") from None
        except Exception as error:  # what a download and a model can raise is listed nowhere
            advice = "write a name that fastembed lists, with a network, or a folder that holds the model"
            raise LanguageModelError(f"fastembed:{name} cannot be loaded: {error}; {advice}") from error

    @property
    def name(self) -> str:
        """The model's name, or its folder."""
        return self._name

    async def embed(self, texts: Sequence[str], *, bill: Bill | None = None) -> Embedding:
        """Return one row per text, of length 1. Raises LanguageModelError when the model cannot read one."""
        try:
            return Embedding(await asyncio.to_thread(self._rows, list(texts)))
        except Exception as error:
            raise LanguageModelError(f"fastembed:{self.name} failed: {error}; take another model") from error

    def _rows(self, texts: list[str]) -> Any:
        rows = np.array(list(self._model.embed(texts)), dtype=np.float32).reshape(len(texts), -1 if texts else 0)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.where(lengths > 0, lengths, 1)


def _load(name: str) -> Any:
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    folder = Path(name).expanduser().resolve()
    if not folder.is_dir():
        return TextEmbedding(name)
    if all(description["model"] != name for description in TextEmbedding.list_supported_models()):
        file = next((file for file in MODEL_FILES if (folder / file).is_file()), None)
        if file is None:
            raise FileNotFoundError(f"the folder has no {MODEL_FILES[0]}")
        pooling = folder / "1_Pooling" / "config.json"
        first = pooling.is_file() and json.loads(pooling.read_text(encoding="utf-8")).get("pooling_mode_cls_token")
        TextEmbedding.add_custom_model(
            model=name,
            pooling=PoolingType.CLS if first else PoolingType.MEAN,
            normalization=True,
            sources=ModelSource(url=folder.as_uri()),
            dim=1,  # fastembed asks for it and has no use for it
            model_file=file,
        )
    return TextEmbedding(name, specific_model_path=str(folder))
