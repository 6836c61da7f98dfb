"""Splits of rows by group, by policy and by topic."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, Field, ValidationError

from ....data.json_files import read_json
from ....data.record import Record, first_problem
from .row import Row, RowError

RowSplit = Literal["train", "groups", "policies", "topics", "mixed"]
HELD_OUT = 0.2


class RowSplits(Record):
    """The groups, policies and topics that are held out: no row of ``train`` has to do with any of them."""

    seed: int
    groups: list[str] = Field(validation_alias=AliasChoices("groups", "users"))
    policies: list[str]
    """Policies' keys."""
    topics: list[str]

    def of(self, row: Row) -> RowSplit:
        """Return the split of a row.

        A row of ``train`` has nothing held out in it. A row of ``groups``, ``policies`` or ``topics`` has exactly that
        held out. A row of ``mixed`` has more than one thing held out, and is in no other split. A row's topics are
        those of its facts: it has held-out topics where all of them are, and is mixed where some are. Memories that a
        write leaves untouched may be of any topic.
        """
        topics = {fact.topic for fact in row.facts}
        unseen = topics & set(self.topics)
        if unseen and unseen != topics:
            return "mixed"
        held: dict[RowSplit, bool] = {
            "groups": row.group in self.groups,
            "policies": row.policy in self.policies,
            "topics": bool(unseen),
        }
        out: list[RowSplit] = [name for name, is_out in held.items() if is_out]
        return "mixed" if len(out) > 1 else out[0] if out else "train"


def data_card_file(rows: Path) -> Path:
    """Return where the data card of rows is."""
    return rows.with_name(f"{rows.name}.card.json")


def read_splits(card: Path) -> RowSplits:
    """Read the splits of a data card. Raises RowError when it is no data card."""
    try:
        return RowSplits.model_validate(json.loads(card.read_bytes())["splits"])
    except OSError as error:
        raise RowError(f"{card}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise RowError(f"{card}: splits: {first_problem(error)}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RowError(f"{card}: is no data card of `mnemotune memrm collect`: {error!r}") from None


def language_model_of(rows: Path) -> str | None:
    """Return the language model that the data card beside rows names; None where there is no such card."""
    match read_json(data_card_file(rows)):
        case {"settings": {"model": str(model)}}:
            return model
    return None


def hold_out(*, groups: Iterable[str], policies: Iterable[str], topics: Iterable[str], seed: int) -> RowSplits:
    """Hold out a share of each, drawn by ``seed``, rounded; the result does not depend on their order."""
    return RowSplits(
        seed=seed,
        groups=_drawn(groups, f"users:{seed}", share=HELD_OUT),
        policies=_drawn(policies, f"policies:{seed}", share=HELD_OUT),
        topics=_drawn(topics, f"topics:{seed}", share=HELD_OUT / 2),  # a row has several topics
    )


def _drawn(names: Iterable[str], seed: str, *, share: float) -> list[str]:
    dealt = sorted(set(names))
    return sorted(random.Random(seed).sample(dealt, round(share * len(dealt))))
