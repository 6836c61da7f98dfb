"""Splits of rows by user, by policy and by topic."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from ....data.dialogue.scenario import Record
from .row import Row, RowError

RowSplit = Literal["train", "users", "policies", "topics", "mixed"]
HELD_OUT = 0.2


class RowSplits(Record):
    """The users, policies and topics that no row of ``train`` has to do with."""

    seed: int
    users: list[str]
    """Held-out users' ids."""
    policies: list[str]
    """Held-out policies' keys."""
    topics: list[str]
    """Held-out topics: first words of info types."""

    def of(self, row: Row) -> RowSplit:
        """Return the split of a row.

        ``train`` has nothing held out in it; ``users``, ``policies`` and ``topics`` have one thing only; ``mixed``, to
        be left out of all four, more than one. A row's topics are those of its facts: it is of held-out topics when
        all of them are, and mixed when some are. What lies untouched in memory may be of any topic.
        """
        topics = {fact.topic for fact in row.facts}
        strange = topics & set(self.topics)
        if strange and strange != topics:
            return "mixed"
        held: list[RowSplit] = []
        if row.user in self.users:
            held.append("users")
        if row.policy in self.policies:
            held.append("policies")
        if strange:
            held.append("topics")
        if len(held) > 1:
            return "mixed"
        return held[0] if held else "train"


def data_card_file(rows: Path) -> Path:
    """Return where the data card of rows is."""
    return rows.with_name(f"{rows.name}.card.json")


def read_splits(card: Path) -> RowSplits:
    """Read the splits of a data card. Raises RowError when it is none."""
    try:
        return RowSplits.model_validate(json.loads(card.read_bytes())["splits"])
    except OSError as error:
        raise RowError(f"{card}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        raise RowError(f"{card}: is no data card of `mnemotune memrm collect`: {error}") from None


def language_model_of(rows: Path) -> str | None:
    """Return the language model that the data card beside rows names; None where there is no such card."""
    try:
        found = json.loads(data_card_file(rows).read_bytes())["settings"]["model"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None


def hold_out(
    *, users: Iterable[str], policies: Iterable[str], topics: Iterable[str], seed: int, share: float = HELD_OUT
) -> RowSplits:
    """Hold out a share of each, drawn by ``seed``, rounded; the result does not depend on their order."""
    return RowSplits(
        seed=seed,
        users=_drawn(users, f"users:{seed}", share),
        policies=_drawn(policies, f"policies:{seed}", share),
        topics=_drawn(topics, f"topics:{seed}", share / 2),  # a row has several topics, and one held-out one is enough
    )


def _drawn(names: Iterable[str], seed: str, share: float) -> list[str]:
    dealt = sorted(set(names))
    return sorted(random.Random(seed).sample(dealt, round(share * len(dealt))))
