"""Train an adapter on a quantised base model with TRL, PEFT and bitsandbytes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer
from torch.nn import functional
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BitsAndBytesConfig,
    PreTrainedTokenizerFast,
    PrinterCallback,
    TrainerCallback,
)
from transformers.trainer_utils import get_last_checkpoint
from trl import SFTConfig, SFTTrainer

from ..model.checkpoint import TOKENIZER, ModelCard, write_model_card
from ..model.scoring import MemRM
from ..model.tokens import Tokens
from ..model.torch_runner import TransformersRunner
from .examples import Example, Examples, card_before_calibration
from .recipe import Adapter, RecipeError, TrainingRecipe
from .scratch import Log, calibrated, held_out_figures


class _Trainer(SFTTrainer):
    """Weighs the completion's loss by its class; logits are made at the answers' places alone."""

    def __init__(self, *args: Any, class_weights: dict[int, float], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._class_weights = class_weights

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return the mean loss of the answer tokens."""
        rows, places = (inputs["labels"] != -100).nonzero(as_tuple=True)
        labels = inputs["labels"][rows, places]
        wanted, where = torch.unique(places - 1, return_inverse=True)
        outputs = model(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            use_cache=False,
            logits_to_keep=wanted,
        )
        weights = torch.tensor([self._class_weights[int(label)] for label in labels], device=labels.device)
        losses = functional.cross_entropy(outputs.logits[rows, where].float(), labels, reduction="none")
        count = len(labels) if num_items_in_batch is None else num_items_in_batch
        loss = (losses * weights).sum() / count
        return (loss, outputs) if return_outputs else loss


class _Logging(TrainerCallback):
    """Passes the trainer's figures on."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Log what is a number."""
        self._log({name: float(v) for name, v in (logs or {}).items() if isinstance(v, int | float)}, state.global_step)


def train_adapter(recipe: TrainingRecipe, examples: Examples, out: Path, *, resume: bool, log: Log) -> ModelCard:
    """Train, calibrate, and write an adapter with tokenizer and card; return the card.

    Checkpoints lie in ``out/checkpoints`` until the end; ``resume`` goes on from the last one. A CPU computes in 32
    bits: many take more than ten times as long in 16. Raises RecipeError when the base model cannot be used.
    """
    spec = recipe.model
    if not isinstance(spec, Adapter):
        raise RecipeError("model.kind: is not qlora")
    gpu = torch.cuda.is_available()
    precision = torch.bfloat16 if gpu else torch.float32
    tokenizer, tokens = _tokenizer(spec.base)
    quantised = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=precision,
    )
    try:
        model = AutoModelForCausalLM.from_pretrained(
            spec.base,
            quantization_config=quantised,
            dtype=precision,
            use_safetensors=True,
            device_map={"": 0} if gpu else {"": "cpu"},
        )
    except OSError as error:
        raise RecipeError(f"model.base: {spec.base!r} cannot be loaded: {str(error).splitlines()[0]}") from None
    schedule, folder = recipe.schedule, out / "checkpoints"
    weights = examples.weights(schedule.class_weight_cap)
    rows = max(1, schedule.batch_tokens // recipe.window)
    data = _dataset(examples.train, tokens, recipe.window)
    steps = schedule.epochs * -(-len(data) // rows)
    trainer = _Trainer(
        model=model,
        class_weights={tokens.safe: weights[0], tokens.harmful: weights[1]},
        args=SFTConfig(
            output_dir=str(folder),
            num_train_epochs=schedule.epochs,
            per_device_train_batch_size=rows,
            learning_rate=schedule.learning_rate,
            lr_scheduler_type="cosine",
            warmup_steps=max(1, round(schedule.warmup * steps)),
            weight_decay=schedule.weight_decay,
            max_length=None,
            completion_only_loss=True,
            train_sampling_strategy="group_by_length",
            bf16=gpu,
            use_cpu=not gpu,
            gradient_checkpointing=gpu,
            save_strategy="steps",
            save_steps=schedule.checkpoint_every,
            save_total_limit=2,
            logging_steps=max(1, min(10, steps // 10)),
            seed=recipe.seed,
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=data,
        processing_class=tokenizer,
        peft_config=LoraConfig(
            r=spec.rank,
            lora_alpha=spec.alpha,
            lora_dropout=spec.dropout,
            target_modules=list(spec.targets),
            bias="none",
            task_type="CAUSAL_LM",
        ),
        callbacks=[_Logging(log)],
    )
    trainer.remove_callback(PrinterCallback)
    last = get_last_checkpoint(str(folder)) if resume and folder.is_dir() else None
    trainer.train(resume_from_checkpoint=last)
    runner = TransformersRunner(trainer.model, (tokens.safe, tokens.harmful))
    card = calibrated(MemRM(runner, tokens, card_before_calibration(recipe, examples, tokens)), examples.held_out)
    log(held_out_figures(MemRM(runner, tokens, card), examples.held_out), trainer.state.global_step)
    trainer.model.save_pretrained(str(out), safe_serialization=True)
    tokens.tokenizer.save(str(out / TOKENIZER))
    write_model_card(out, card)
    shutil.rmtree(folder, ignore_errors=True)
    return card


def _tokenizer(base: str) -> tuple[PreTrainedTokenizerFast, Tokens]:
    try:
        tokenizer = AutoTokenizer.from_pretrained(base)
    except (OSError, ValueError) as error:
        raise RecipeError(f"model.base: {base!r} has no tokenizer: {str(error).splitlines()[0]}") from None
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)
    try:
        return tokenizer, Tokens(Tokenizer.from_str(tokenizer.backend_tokenizer.to_str()))
    except ValueError as error:
        raise RecipeError(f"model.base: {base!r}: {error}") from None


def _dataset(examples: tuple[Example, ...], tokens: Tokens, window: int) -> Dataset:
    encoded = tokens.encode(example.prompt for example in examples)
    rows = [
        {
            "input_ids": [*ids.whole, tokens.safe if example.safe else tokens.harmful],
            "completion_mask": [0] * len(ids.whole) + [1],
        }
        for ids, example in zip(encoded, examples, strict=True)
        if len(ids.whole) <= window
    ]
    return Dataset.from_list(rows)
