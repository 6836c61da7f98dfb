"""MemGym's reward model and the rows of its training set, read, scored and written.

The names of the fields and the frame of a prompt are those of its data card (``memgym-rm-train``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from ....data.hub import HubError, fetched
from ..rows.row import Row, read_records, write_rows
from .checkpoint import TOKENIZER, CheckpointError, ModelCard, read_tokens
from .render import unreadable, whole_prompt
from .scoring import MemRM, Scores
from .tokens import Ids

ADAPTER_FOLDER = "checkpoint-500"
"""Where the published repository keeps its adapter."""
WINDOW = 32_768
"""Tokens that it was trained with."""


class MemGymRow(BaseModel):
    """One row; fields that nothing here reads are kept as they are."""

    model_config = ConfigDict(frozen=True, extra="allow")

    prompt: str
    """What the model reads, up to and with ``Answer:``."""
    label: int = Field(ge=0, le=1)
    """1 is safe."""
    trajectory_id: str = ""
    instance_id: str = ""
    perturbation: str = ""
    recorded_action: str = ""
    predicted_action: str = ""
    split: str = ""

    @property
    def harmful(self) -> bool:
        """Whether the step is labelled unsafe."""
        return self.label == 0


def read_memgym(path: Path) -> Iterator[MemGymRow]:
    """Yield the rows of a JSON lines file. Raises RowError for a line that is none, and for an empty file."""
    return read_records(path, MemGymRow)


def is_memgym(path: Path) -> bool:
    """Tell whether a file's first line is a row of MemGym's."""
    with path.open("rb") as file:
        try:
            first = json.loads(file.readline())
        except (ValueError, RecursionError):
            return False
    return isinstance(first, dict) and {"prompt", "label"} <= first.keys()


def score_prompts(model: MemRM, prompts: Sequence[str]) -> Scores:
    """Return P(safe) for prompts as they stand, with any framing; NaN for empty ones and those beyond the window."""
    encoded: list[list[Ids] | None] = []
    for text in prompts:
        ids = tuple(model.tokens.tokenizer.encode(text, add_special_tokens=False).ids) if text.strip() else ()
        encoded.append([Ids((), ids)] if 0 < len(ids) <= model.card.window else None)
    return model.p_safe(model.differences(encoded), encoded)


def load_memgym(folder: Path, *, base: str | None = None, window: int = WINDOW) -> MemRM:
    """Load a published adapter: the folder itself, or its ``checkpoint-500``.

    ``base`` stands in for the base model that the adapter names. Needs torch, transformers and peft. Raises
    CheckpointError when it cannot be used.
    """
    from .torch_runner import TransformersRunner, load_adapter

    inner = folder / ADAPTER_FOLDER
    place = inner if inner.is_dir() else folder
    model = load_adapter(place, base=base)
    named = base or str(model.peft_config["default"].base_model_name_or_path)
    tokens = read_tokens(_tokenizer_of(place, named))
    return MemRM(TransformersRunner(model, (tokens.safe, tokens.harmful)), tokens, ModelCard(window=window))


def _tokenizer_of(place: Path, base: str) -> Path:
    for folder in (place, place.parent, Path(base)):
        if (folder / TOKENIZER).is_file():
            return folder / TOKENIZER
    try:
        return fetched(base, TOKENIZER, kind="model")
    except HubError as error:
        raise CheckpointError(f"{place}: has no {TOKENIZER}, and {base!r} none to be had: {error}") from None


def write_memgym(path: Path, rows: Iterable[Row]) -> int:
    """Write our rows in MemGym's format; they have no actions. Return how many cannot be judged, and are left out."""
    left_out = 0

    def readable() -> Iterator[MemGymRow]:
        nonlocal left_out
        for row in rows:
            if unreadable(row.event) is None:
                yield _as_memgym(row)
            else:
                left_out += 1

    write_rows(path, readable())
    return left_out


def _as_memgym(row: Row) -> MemGymRow:
    text = whole_prompt(row.event)
    target = " Y" if row.label == "SAFE" else " N"
    name = re.sub(r"\W+", "-", f"{row.task}_{row.policy}")
    evicted = [{"role": message.role, "content": message.content} for message in row.evicted]
    return MemGymRow.model_validate(
        {
            "trajectory_id": name,
            "instance_id": row.task,
            "fork_event_id": f"{name}_{row.write}_none",
            "source_dir": "",
            "source_model": "",
            "step": row.write,
            "perturbation": "none",
            "label": int(row.label == "SAFE"),
            "completion": target,
            "target": target,
            "messages": evicted,
            "prompt": text,
            "input": text,
            "diverged": row.label == "HARMFUL",
            "n_compactions_active": 1,
            "active_summary_chars": sum(map(len, row.after)),
            "n_messages_in_view": len(row.evicted),
            "original_msgs": len(row.evicted),
            "filtered_msgs": 0,
            "provenance": {"written_by": "mnemotune", "policy": row.policy, "stage": row.stage},
        }
    )
