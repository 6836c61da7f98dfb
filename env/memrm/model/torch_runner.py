"""Runners that need torch: our own Qwen3, and any causal model of transformers with or without an adapter."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file

from .checkpoint import ADAPTER, ADAPTER_CONFIG, CONFIG, WEIGHTS, CheckpointError, check_safetensors, read_config
from .qwen3 import Qwen3, Qwen3Config
from .runner import CPU_BATCH_TOKENS, GPU_BATCH_TOKENS, Logits, Padded, Runner
from .tokens import Tokens

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
"""Where models are loaded to."""
PRECISION = torch.bfloat16 if DEVICE == "cuda" else torch.float32
"""Of a base model's weights: many CPUs take more than ten times as long in 16 bits."""


class TorchRunner:
    """Runs our own Qwen3, in fp32."""

    def __init__(self, model: Qwen3) -> None:
        """Run a model where it is."""
        self._model = model.eval()
        self.batch_tokens = _batch_tokens(next(model.parameters()).device)

    @torch.inference_mode()
    def read(self, prefixes: Padded) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the keys and values of prefixes, and their lengths."""
        ids, length = _tensors(prefixes, next(self._model.parameters()).device)
        config, batch = self._model.config, len(ids)
        empty = ids.new_zeros((config.num_hidden_layers, 2, batch, config.num_key_value_heads, 0, config.head_dim))
        return self._model.extend(ids, length, empty.float(), length.new_zeros(batch))[1], length

    @torch.inference_mode()
    def answer(self, suffixes: Padded, past: Any = None, rows: NDArray[np.int64] | None = None) -> Logits:
        """Return the logits after suffixes; suffix i follows row ``rows[i]`` of ``past``, or nothing."""
        ids, length = _tensors(suffixes, next(self._model.parameters()).device)
        if past is None or rows is None:
            logits = self._model(ids, length)
        else:
            chosen = torch.from_numpy(rows).to(ids.device)
            logits, _ = self._model.extend(ids, length, past[0].index_select(2, chosen), past[1][chosen])
        return cast(Logits, logits.float().cpu().numpy())


class TransformersRunner:
    """Runs a causal language model of transformers; what it keeps of a prefix are its layers' keys and values."""

    def __init__(self, model: Any, answers: tuple[int, int]) -> None:
        """Run a model where it is; ``answers`` are the ids of safe and harmful."""
        self._model, self._answers = model.eval(), list(answers)
        self._body, self._head = body_and_head(model)
        self.batch_tokens = _batch_tokens(model.device)

    @torch.inference_mode()
    def read(self, prefixes: Padded) -> tuple[list[tuple[torch.Tensor, torch.Tensor]], torch.Tensor]:
        """Return each layer's keys and values of prefixes, and the prefixes' lengths."""
        ids, length = _tensors(prefixes, self._model.device)
        # Padding is on the right and the model is causal, so that nothing real sees it and no mask is needed.
        cache = self._body(input_ids=ids, use_cache=True).past_key_values
        return [(layer.keys, layer.values) for layer in cache.layers], length

    @torch.inference_mode()
    def answer(self, suffixes: Padded, past: Any = None, rows: NDArray[np.int64] | None = None) -> Logits:
        """Return the logits after suffixes; suffix i follows row ``rows[i]`` of ``past``, or nothing."""
        ids, length = _tensors(suffixes, self._model.device)
        if past is None or rows is None:
            states = self._body(input_ids=ids, use_cache=False).last_hidden_state
        else:
            states = self._after(ids, past, torch.from_numpy(rows).to(ids.device))
        logits = self._head(states[torch.arange(len(ids), device=ids.device), length - 1])
        return cast(Logits, logits[:, self._answers].float().cpu().numpy())

    def _after(self, ids: torch.Tensor, past: Any, rows: torch.Tensor) -> torch.Tensor:
        from transformers import DynamicCache

        layers, length = past
        cache = DynamicCache()
        for i, (keys, values) in enumerate(layers):
            cache.update(keys[rows], values[rows], i)
        start, new, old = length[rows], ids.shape[1], layers[0][0].shape[2]
        step = torch.arange(new, device=ids.device)
        real = (torch.arange(old, device=ids.device)[None] < start[:, None])[:, None].expand(-1, new, -1)
        causal = (step[None] <= step[:, None])[None].expand(len(ids), -1, -1)
        seen = torch.cat([real, causal], dim=2)[:, None]
        mask = torch.zeros(seen.shape, dtype=layers[0][0].dtype, device=ids.device)
        mask = mask.masked_fill(~seen, torch.finfo(mask.dtype).min)
        out = self._body(
            input_ids=ids,
            attention_mask=mask,
            position_ids=start[:, None] + step[None],
            past_key_values=cache,
        )
        return cast(torch.Tensor, out.last_hidden_state)


def body_and_head(model: Any) -> tuple[Any, Any]:
    """Return what gives a causal model's last states, and what makes logits of a state.

    Apart they make logits of the states that are asked for alone: a vocabulary is a hundred times as wide as a state.
    """
    causal = model.get_base_model() if hasattr(model, "get_base_model") else model
    return causal.get_decoder(), causal.get_output_embeddings()


def _batch_tokens(device: torch.device) -> int:
    return GPU_BATCH_TOKENS if device.type == "cuda" else CPU_BATCH_TOKENS


def _tensors(given: Padded, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(given.ids).to(device), torch.from_numpy(given.length).to(device)


def load_runner(folder: Path, tokens: Tokens) -> Runner:
    """Load a checkpoint's model, on the GPU where there is one. Raises CheckpointError when it cannot be used."""
    if (folder / ADAPTER_CONFIG).is_file():
        return TransformersRunner(load_adapter(folder), (tokens.safe, tokens.harmful))
    return TorchRunner(load_qwen3(folder, tokens).to(DEVICE))


def load_qwen3(folder: Path, tokens: Tokens) -> Qwen3:
    """Load our own Qwen3. Raises CheckpointError when the files are corrupt or do not belong together."""
    check_safetensors(folder / WEIGHTS)
    config = read_qwen3_config(folder / CONFIG)
    if config.vocab_size < tokens.size:
        raise CheckpointError(f"{folder}: the tokenizer has {tokens.size:,} tokens, the model {config.vocab_size:,}")
    model = Qwen3(config, (tokens.safe, tokens.harmful))
    try:
        model.load_state_dict(load_file(folder / WEIGHTS))
    except Exception as error:  # noqa: BLE001 - safetensors and torch raise types of their own
        first = str(error).strip().splitlines()[-1].strip()
        raise CheckpointError(f"{folder / WEIGHTS}: does not fit {CONFIG}: {first}") from None
    if not all(bool(torch.isfinite(weight).all()) for weight in model.parameters()):
        raise CheckpointError(f"{folder / WEIGHTS}: holds weights that are not finite")
    return model


def read_qwen3_config(path: Path) -> Qwen3Config:
    """Read the sizes of a Qwen3 with tied embeddings. Raises CheckpointError for another architecture."""
    config = read_config(path)
    if config.get("model_type") != "qwen3" or not config.get("tie_word_embeddings"):
        raise CheckpointError(f"{path}: is no Qwen3 with tied embeddings, but {config.get('model_type')!r}")
    try:
        return Qwen3Config(**{name: config[name] for name in Qwen3Config.__dataclass_fields__})  # type: ignore[arg-type]
    except KeyError as error:
        raise CheckpointError(f"{path}: lacks {error}") from None


def load_adapter(folder: Path, *, base: str | None = None) -> Any:
    """Load a PEFT adapter on its base model, or on ``base``, to the GPU where there is one.

    Raises CheckpointError when either cannot be had.
    """
    check_safetensors(folder / ADAPTER)
    base = base or str(read_config(folder / ADAPTER_CONFIG).get("base_model_name_or_path"))
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    try:
        model = AutoModelForCausalLM.from_pretrained(base, dtype=PRECISION, use_safetensors=True)
        return PeftModel.from_pretrained(model, str(folder)).to(DEVICE)
    except Exception as error:  # noqa: BLE001 - transformers, peft and the hub raise many types
        raise CheckpointError(f"{folder}: cannot load the adapter on {base!r}: {str(error).splitlines()[0]}") from None
