"""Train a small Qwen3 from scratch on a CPU."""

from __future__ import annotations

import io
import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from ..evaluation.metrics import auroc, expected_calibration_error
from ..evaluation.quality import harmful_rows
from ..model.checkpoint import (
    CONFIG,
    ONNX,
    TOKENIZER,
    WEIGHTS,
    CheckpointError,
    ModelCard,
    check_safetensors,
    read_tokens,
    write_model_card,
)
from ..model.onnx_runner import INPUTS, OUTPUTS
from ..model.qwen3 import Qwen3, Qwen3Config
from ..model.runner import padded
from ..model.scoring import MemRM, fit_calibration
from ..model.tokens import Tokens, train_tokens
from ..model.torch_runner import TorchRunner
from ..rows.row import Row
from .examples import Example, Examples, card_before_calibration, shuffled_batches
from .recipe import RecipeError, Scratch, TrainingRecipe

STATE = "state.safetensors"
"""What ``--resume`` goes on from: weights, both moments of the optimiser, and the step."""
MOMENTS = ("exp_avg", "exp_avg_sq")
Log = Callable[[Mapping[str, float], int], None]
"""Hears figures at a step."""


@dataclass(frozen=True, slots=True)
class _Encoded:
    """An example as the model reads it."""

    ids: tuple[int, ...]
    safe: bool
    worth: float
    """How much it counts in the loss: prompts that occur often, more, but not as often as they occur."""


class _Training:
    """A model under training."""

    def __init__(self, recipe: TrainingRecipe, spec: Scratch, tokens: Tokens) -> None:
        torch.manual_seed(recipe.seed)
        config = Qwen3Config(
            vocab_size=tokens.size,
            hidden_size=spec.hidden,
            intermediate_size=spec.intermediate,
            num_hidden_layers=spec.layers,
            num_attention_heads=spec.heads,
            num_key_value_heads=spec.groups,
            head_dim=spec.hidden // spec.heads,
        )
        self.model = Qwen3(config, (tokens.safe, tokens.harmful))
        schedule = recipe.schedule
        self.names = dict(self.model.named_parameters())
        matrices = [w for w in self.names.values() if w.dim() > 1]
        gains = [w for w in self.names.values() if w.dim() == 1]
        groups = [{"params": matrices, "weight_decay": schedule.weight_decay}, {"params": gains, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=schedule.learning_rate, betas=(0.9, 0.98))

    def step(self, batch: Sequence[_Encoded], weights: torch.Tensor, rate: float) -> float:
        """Take one step; return the loss."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        given = padded([example.ids for example in batch])
        right = torch.tensor([0 if example.safe else 1 for example in batch])
        worth = torch.tensor([example.worth for example in batch])
        logits = self.model(torch.from_numpy(given.ids), torch.from_numpy(given.length))
        losses = functional.cross_entropy(logits, right, weight=weights, reduction="none")
        loss = (worth * losses).sum() / worth.sum()
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return float(loss.detach())

    def save(self, folder: Path, step: int) -> None:
        """Write what ``load`` needs; a reader never sees half of it."""
        tensors = {f"weight.{name}": weight.detach() for name, weight in self.names.items()}
        for name, weight in self.names.items():
            tensors |= {f"{moment}.{name}": self.optimizer.state[weight][moment] for moment in MOMENTS}
        new = folder / f"{STATE}.new"
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, new, metadata={"step": str(step)})
        new.replace(folder / STATE)

    def load(self, folder: Path) -> int:
        """Go back to a state; return its step."""
        check_safetensors(folder / STATE)
        with safe_open(folder / STATE, "pt") as file:
            step, tensors = int(file.metadata()["step"]), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        try:
            with torch.no_grad():
                for name, weight in self.names.items():
                    weight.copy_(tensors[f"weight.{name}"])
                    moments = {moment: tensors[f"{moment}.{name}"] for moment in MOMENTS}
                    self.optimizer.state[weight] = {"step": torch.tensor(float(step)), **moments}
        except (KeyError, RuntimeError) as error:
            raise CheckpointError(
                f"{folder / STATE}: is of another recipe: {error}; train into another folder"
            ) from None
        return step


def train_scratch(recipe: TrainingRecipe, examples: Examples, out: Path, *, resume: bool, log: Log) -> ModelCard:
    """Train, calibrate, and write a checkpoint with its ONNX graph; return its card.

    ``resume`` goes on from the last state in ``out``, if there is one; the result is that of a run that never stopped,
    but for the order of floating-point sums. ``log`` hears loss and held-out figures.
    """
    spec = recipe.model
    if not isinstance(spec, Scratch):
        raise RecipeError("model.kind: is not scratch")
    if recipe.schedule.threads:
        torch.set_num_threads(recipe.schedule.threads)
    out.mkdir(parents=True, exist_ok=True)
    goes_on = resume and (out / STATE).is_file()
    if goes_on:
        tokens = read_tokens(out / TOKENIZER)
    else:
        tokens = train_tokens((example.prompt.text for example in examples.train), size=spec.vocabulary)
        tokens.tokenizer.save(str(out / TOKENIZER))
    given = _fitting(examples.train, tokens, recipe.window)
    training = _Training(recipe, spec, tokens)
    done = training.load(out) if goes_on else 0
    lengths = [len(example.ids) for example in given]
    epochs = [shuffled_batches(lengths, recipe, epoch=epoch) for epoch in range(recipe.schedule.epochs)]
    steps = sum(map(len, epochs))
    weights = torch.tensor(examples.weights(recipe.schedule.class_weight_cap))
    card = card_before_calibration(recipe, examples, tokens)
    step = 0
    for batches in epochs:
        losses = []
        for batch in batches:
            step += 1
            if step <= done:
                continue
            losses.append(training.step([given[i] for i in batch], weights, _rate(recipe, step, steps)))
            if step % recipe.schedule.checkpoint_every == 0:
                training.save(out, step)
        if losses:
            figures = held_out_figures(MemRM(TorchRunner(training.model), tokens, card), examples.held_out)
            log({"loss": float(np.mean(losses)), **figures}, step)
            training.model.train()
    card = calibrated(MemRM(TorchRunner(training.model), tokens, card), examples.held_out)
    save_qwen3(training.model, out)
    export_onnx(training.model, out / ONNX)
    write_model_card(out, card)
    (out / STATE).unlink(missing_ok=True)
    return card


def save_qwen3(model: Qwen3, folder: Path) -> None:
    """Write weights and config as transformers reads them."""
    weights = {name: weight.detach().cpu().contiguous() for name, weight in model.state_dict().items()}
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "tie_word_embeddings": True,
        "attention_bias": False,
        "hidden_act": "silu",
        "max_position_embeddings": 32768,
        "dtype": "float32",
        **asdict(model.config),
    }
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


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


def held_out_figures(model: MemRM, rows: Sequence[Row]) -> dict[str, float]:
    """Return a model's accuracy, AUROC (HARMFUL positive) and calibration error; NaN scores do not count."""
    p_safe = model.score([row.event for row in rows])
    known = ~np.isnan(p_safe)
    scored, harmful = p_safe[known], harmful_rows(rows)[known]
    right = (scored < 0.5) == harmful
    return {
        "held_out/accuracy": float(right.mean()) if len(right) else math.nan,
        "held_out/auroc": auroc(scored, harmful),
        "held_out/ece": expected_calibration_error(scored, harmful),
    }


def calibrated(model: MemRM, rows: Sequence[Row]) -> ModelCard:
    """Return the model's card with the temperature and the bias that suit held-out rows."""
    encoded = model.encode([row.event for row in rows])
    calibration = fit_calibration(model.differences(encoded), encoded, ~harmful_rows(rows))
    return model.card.model_copy(update=calibration._asdict())


def _fitting(examples: Sequence[Example], tokens: Tokens, window: int) -> list[_Encoded]:
    encoded = tokens.encode(example.prompt for example in examples)
    given = (_Encoded(ids.whole, e.safe, e.count**0.5) for ids, e in zip(encoded, examples, strict=True))
    return [example for example in given if len(example.ids) <= window]


def _rate(recipe: TrainingRecipe, step: int, steps: int) -> float:
    rise = max(1.0, recipe.schedule.warmup * steps)
    fall = 0.5 * (1 + math.cos(math.pi * step / steps))
    return recipe.schedule.learning_rate * min(1.0, step / rise) * fall
