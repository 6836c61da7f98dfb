"""How a reward model is trained: YAML in, frozen values out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from ....data.errors import MnemotuneError
from ....data.record import Record, first_problem
from ....data.resources import resource
from ....data.yaml_texts import parse_yaml, read_utf8

Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, lt=1)]


class RecipeError(MnemotuneError, ValueError):
    """Say what is wrong with a recipe or with the rows that it names, naming the file and the key."""


class Scratch(Record):
    """A Qwen3 of its own with a tokenizer of its own, trained from scratch."""

    kind: Literal["scratch"]
    vocabulary: Annotated[int, Field(ge=300)] = 3000
    """Tokens of the tokenizer, trained on the training rows."""
    layers: Positive = 3
    hidden: Positive = 128
    heads: Positive = 2
    groups: Positive = 1
    """Heads of keys and values."""
    intermediate: Positive = 384

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
        if self.hidden % self.heads:
            raise ValueError(f"hidden: {self.hidden} is no multiple of the {self.heads} heads")
        if self.heads % self.groups:
            raise ValueError(f"heads: {self.heads} is no multiple of the {self.groups} groups")
        return self


class Adapter(Record):
    """A low-rank adapter on a base model."""

    kind: Literal["qlora", "lora"]
    """Whether the base model is in four bits while it is trained on, or in as many as the device computes in."""
    base: str
    """A folder, or a name on the hub."""
    rank: Positive = 16
    alpha: Positive = 32
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.05
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj")
    recompute: bool = True
    """On a GPU, whether a step of training computes its intermediate values twice, to hold fewer of them."""


class Schedule(Record):
    """The steps of training."""

    epochs: Positive = 4
    batch_tokens: Positive = 4096
    """Tokens of a batch, padding included."""
    learning_rate: Annotated[float, Field(gt=0)] = 2e-3
    """Its peak; it rises over ``warmup`` of the steps and falls to zero with a cosine."""
    warmup: Share = 0.05
    weight_decay: Annotated[float, Field(ge=0)] = 0.05
    class_weight_cap: Annotated[float, Field(ge=1)] = 3.0
    """The rarer class weighs more, so that both weigh the same, up to this."""
    checkpoint_every: Positive = 200
    """Steps between two checkpoints that ``--resume`` goes on from."""
    threads: Annotated[int, Field(ge=0)] = 0
    """Of the CPU; 0 leaves it to torch."""


def _as_list(given: object) -> object:
    return [given] if isinstance(given, str | Path) else given


class TrainingRecipe(Record):
    """Everything that makes a reward model from a file of rows."""

    rows: Annotated[tuple[Path, ...], Field(min_length=1), BeforeValidator(_as_list)]
    """Training rows, JSON lines."""
    splits: Path | None = None
    """A data card of the rows: of their splits, only ``train`` is trained on. None takes all rows."""
    held_out: Share = 0.1
    """Share of the users kept apart: to see how training goes, to find the temperature, to weigh words and shape."""
    apart: Annotated[tuple[Path, ...], BeforeValidator(_as_list)] = ()
    """Rows of other users that are kept apart instead of that share; best of texts in other words, since those that a
    model learned from flatter it."""
    seed: int = 0
    window: Positive = 768
    """Tokens of the longest prompt; longer ones are left out of training, and not scored."""
    model: Annotated[Scratch | Adapter, Field(discriminator="kind")]
    schedule: Schedule = Schedule()
    experiment: str = "memrm"
    """MLflow's experiment."""


def load_recipe(path: Path) -> TrainingRecipe:
    """Read a recipe, a bundled one of this name where there is no such file. Raises RecipeError."""
    bundled = resource("configs", "memrm", path.name)
    source = path if path.is_file() or not bundled.is_file() else bundled
    try:
        return TrainingRecipe.model_validate(parse_yaml(read_utf8(source)))
    except ValidationError as error:
        raise RecipeError(f"{path}: {first_problem(error)}") from None
    except ValueError as error:
        raise RecipeError(f"{path}: {error}") from None
