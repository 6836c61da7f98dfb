"""A checkpoint folder.

It has ``model.safetensors``, ``config.json``, ``tokenizer.json``, ``memrm.json``; after an export, ``model.onnx`` too.
An adapter has ``adapter_model.safetensors`` and ``adapter_config.json`` in place of a model's. Nothing is unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError
from tokenizers import Tokenizer

from ....data.errors import MnemotuneError
from ....data.record import Record, first_problem
from .render import TEMPLATE
from .tokens import Tokens

WEIGHTS, CONFIG, TOKENIZER = "model.safetensors", "config.json", "tokenizer.json"
CARD, ONNX = "memrm.json", "model.onnx"
ADAPTER, ADAPTER_CONFIG = "adapter_model.safetensors", "adapter_config.json"
FORMAT = "mnemotune-memrm"
FOREIGN = 1.5
"""How many times the usual tokens a word takes in texts that are foreign to a model."""


class CheckpointError(MnemotuneError, ValueError):
    """Say why a checkpoint cannot be used, naming the file."""


class ModelCard(Record):
    """How the model reads prompts, and what it was trained on."""

    format: str = FORMAT
    template: int = TEMPLATE
    window: Annotated[int, Field(ge=1)]
    """Tokens of the longest prompt that is scored."""
    temperature: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """Divides the logits' difference, less the bias; fitted on held-out users."""
    bias: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    """Of the logits' difference: what classes that weigh alike add to it."""
    tokens_per_word: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Of what users said in the training rows: texts that take many more are foreign to the model."""
    language_model: str | None = None
    """It wrote and read the memories of the training rows, such as ``embedded``; None where that is not known."""


def write_model_card(folder: Path, card: ModelCard) -> None:
    """Write ``memrm.json``."""
    (folder / CARD).write_text(card.model_dump_json(indent=2) + "\n", encoding="utf-8")


def read_model_card(folder: Path) -> ModelCard:
    """Read ``memrm.json``. Raises CheckpointError when it is missing, foreign, or of another template."""
    path = folder / CARD
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: there is no such folder; name one that `mnemotune memrm train` made")
    if not path.is_file():
        raise CheckpointError(f"{folder}: holds no {CARD}, so it is no checkpoint of `mnemotune memrm train`")
    try:
        card = ModelCard.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise CheckpointError(f"{path}: {first_problem(error)}") from None
    if card.format != FORMAT:
        raise CheckpointError(f"{path}: the format is {card.format!r}, not {FORMAT!r}")
    if card.template != TEMPLATE:
        raise CheckpointError(
            f"{path}: was trained on template {card.template}; this version's is {TEMPLATE}: train it anew"
        )
    return card


def is_foreign(texts: Iterable[str], tokens: Tokens, card: ModelCard) -> bool:
    """Tell whether texts are unlike those that a model learned from: another language, code, or no text."""
    usual = card.tokens_per_word
    return usual is not None and tokens.per_word(texts) > FOREIGN * usual


def read_tokens(path: Path) -> Tokens:
    """Read a ``tokenizer.json``. Raises CheckpointError when it cannot be used."""
    try:
        return Tokens(Tokenizer.from_file(str(path)))
    except Exception as error:  # noqa: BLE001 - tokenizers raises plain Exception
        problem = str(error) if isinstance(error, ValueError) else f"is not a tokenizer: {error}"
        raise CheckpointError(f"{path}: {problem}") from None


def read_config(path: Path) -> dict[str, object]:
    """Read a JSON object. Raises CheckpointError when there is none."""
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from None
    if not isinstance(values, dict):
        raise CheckpointError(f"{path}: holds no JSON object")
    return values


def check_safetensors(path: Path) -> None:
    """Raise CheckpointError unless a file is a whole safetensors file: its header must account for every byte."""
    from safetensors import SafetensorError, safe_open  # of the extra `memrm`, which ONNX graphs do without

    try:
        safe_open(path, "numpy")
    except FileNotFoundError:
        raise CheckpointError(f"{path}: is missing") from None
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: is no safetensors file, or it was cut short or changed: {error}") from None
