"""Train an adapter on a base model with TRL, PEFT and bitsandbytes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer
from torch.nn import functional
from torch.utils.data import DataLoader
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
from ..model.torch_runner import DEVICE, PRECISION, body_and_head, load_runner
from .examples import Example, Examples, card_before_calibration, shuffled_batches
from .recipe import Adapter, RecipeError, TrainingRecipe
from .scratch import Log, calibrated, held_out_figures


class _Trainer(SFTTrainer):
    """Takes batches as they are given, and weighs the loss of a prompt's last token, the answer, by its class.

    Nothing here waits for the GPU.
    """

    def __init__(
        self, *args: Any, batches: list[list[int]], harmful: int, weights: tuple[float, float], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._batches, self._harmful, self._weights = batches, harmful, weights
        for weight in self.model.parameters():
            if weight.requires_grad:  # TRL makes them bfloat16, which loses steps below a 512th of a weight
                weight.data = weight.data.float()

    def get_train_dataloader(self) -> Any:
        """Return the batches of all epochs, one after the other."""
        data = self._remove_unused_columns(self.train_dataset, description="training")
        loader = DataLoader(
            data, batch_sampler=self._batches, collate_fn=self.data_collator, pin_memory=DEVICE == "cuda"
        )
        return self.accelerator.prepare(loader)

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return the mean loss of the answer tokens."""
        ids = inputs["input_ids"]
        rows, answer = torch.arange(len(ids), device=ids.device), inputs["attention_mask"].sum(dim=1) - 1
        labels = ids[rows, answer]
        body, head = body_and_head(self.model)
        with self.accelerator.autocast():
            # Padding is on the right and the model is causal, so that nothing real sees it and no mask is needed.
            states = body(input_ids=ids, use_cache=False).last_hidden_state
            logits = head(states[rows, answer - 1])
        losses = functional.cross_entropy(logits.float(), labels, reduction="none")
        loss = (losses * torch.where(labels == self._harmful, self._weights[1], self._weights[0])).mean()
        return (loss, {"logits": logits}) if return_outputs else loss


class _Logging(TrainerCallback):
    """Passes the trainer's figures on."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Log what is a number."""
        self._log({name: float(v) for name, v in (logs or {}).items() if isinstance(v, int | float)}, state.global_step)


def train_adapter(recipe: TrainingRecipe, examples: Examples, out: Path, *, resume: bool, log: Log) -> ModelCard:
    """Train, calibrate, and write an adapter with tokenizer and card; return the card.

    Checkpoints lie in ``out/checkpoints`` until the end; ``resume`` goes on from the last one. What is calibrated is
    the adapter as it is loaded to score: on the base model that is not quantised. Raises RecipeError when the base
    model cannot be used.
    """
    spec = recipe.model
    if not isinstance(spec, Adapter):
        raise RecipeError("model.kind: is neither qlora nor lora")
    gpu = DEVICE == "cuda"
    tokenizer, tokens = _tokenizer(spec.base)
    model = _base(spec)
    schedule, folder = recipe.schedule, out / "checkpoints"
    data = _dataset(examples.train, tokens, recipe.window)
    lengths = [len(ids) for ids in data["input_ids"]]
    batches = [batch for epoch in range(schedule.epochs) for batch in shuffled_batches(lengths, recipe, epoch=epoch)]
    steps = len(batches)
    trainer = _Trainer(
        model=model,
        batches=batches,
        harmful=tokens.harmful,
        weights=examples.weights(schedule.class_weight_cap),
        args=SFTConfig(
            output_dir=str(folder),
            num_train_epochs=1,
            learning_rate=schedule.learning_rate,
            lr_scheduler_type="cosine",
            warmup_steps=max(1, round(schedule.warmup * steps)),
            weight_decay=schedule.weight_decay,
            max_length=None,
            completion_only_loss=True,
            bf16=gpu,
            use_cpu=not gpu,
            gradient_checkpointing=gpu and spec.recompute,
            save_strategy="steps",
            save_steps=schedule.checkpoint_every,
            save_total_limit=2,
            logging_steps=max(1, min(10, steps // 10)),
            logging_nan_inf_filter=False,
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
    trainer.model.save_pretrained(str(out), safe_serialization=True)
    tokens.tokenizer.save(str(out / TOKENIZER))
    reward = MemRM(load_runner(out, tokens), tokens, card_before_calibration(recipe, examples, tokens))
    reward.card = calibrated(reward, examples.held_out)
    log(held_out_figures(reward, examples.held_out), trainer.state.global_step)
    write_model_card(out, reward.card)
    shutil.rmtree(folder, ignore_errors=True)
    return reward.card


def _base(spec: Adapter) -> Any:
    """Load the base model. Raises RecipeError when that fails."""
    quantised = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=PRECISION,
    )
    try:
        return AutoModelForCausalLM.from_pretrained(
            spec.base,
            quantization_config=quantised if spec.kind == "qlora" else None,
            dtype=PRECISION,
            use_safetensors=True,
            device_map={"": 0 if DEVICE == "cuda" else "cpu"},
        )
    except OSError as error:
        raise RecipeError(f"model.base: {spec.base!r} cannot be loaded: {str(error).splitlines()[0]}") from None


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
