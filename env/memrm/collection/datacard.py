"""The data card: what rows are, how many of each kind there are, and how to make them again."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ....policies.policy import MemoryPolicy
from ...statistics import nan_mean
from ..rows.row import Row
from ..rows.splits import RowSplits
from .collect import CollectedEpisode
from .knowing import FOILS, PROMPTS

FORMAT = 1
WHAT = (
    "One row for each write of a memory policy: the messages that left its buffer, the memory before and after, and "
    "the facts at stake. A fact is the newest value of a state that a question asks for. It is at stake when the "
    "assistant's language model reads it from the evicted message that told it, or else from lines of the old memory "
    "that the write changed; it is lost when the model does not read it from the new memory. A row is HARMFUL when a "
    f"fact is lost. The model is asked {PROMPTS} times: two phrasings, the values in two orders, each time among up "
    f"to {FOILS} values of other states and `not_told`. It must be right each time, or never; writes with a fact in "
    "between are left out, unless another fact is lost. From a memory it reads the lines that were written from "
    "messages that told the state, in their order, and nothing else: unrelated lines neither help nor hinder."
)


def data_card(
    played: Sequence[CollectedEpisode],
    policies: Mapping[str, tuple[str, str, MemoryPolicy]],
    splits: RowSplits,
    *,
    settings: Mapping[str, Any],
    digest: str,
) -> dict[str, Any]:
    """Return the card as plain JSON values.

    ``policies`` are name, origin with the kind of prompt, and policy by key; ``settings`` make the rows again.
    """
    rows = [row for episode in played for row in episode.rows]
    mode = {key: policy.write.mode for key, (_, _, policy) in policies.items()}
    kind = {key: what for key, (_, what, _) in policies.items()}
    return {
        "what": WHAT,
        "format": FORMAT,
        "settings": dict(settings),
        "sha256": digest,
        "rows": _balance(rows),
        "by_mode": _by(rows, lambda row: [mode[row.policy]]),
        "by_kind": _by(rows, lambda row: [kind[row.policy]]),
        "by_topic": _by(rows, lambda row: sorted({fact.topic for fact in row.facts})),
        "by_split": _by(rows, lambda row: [splits.of(row)]),
        "splits": splits.model_dump(mode="json"),
        "facts": _facts(rows),
        "characters": _lengths(rows),
        "writes": {
            "all": sum(one.labelled.writes for one in played),
            "undecided": sum(one.labelled.undecided for one in played),
            "unreadable": sum(one.labelled.failed for one in played),
        },
        "calls": {
            "episodes": sum(one.calls for one in played),
            "labels": sum(one.labelled.calls for one in played),
        },
        "policies": [
            {
                "key": key,
                "name": name,
                "kind": what,
                "label": policy.label,
                "memory_score": _number(nan_mean([one.memory_score for one in played if one.policy == key])),
                "users": sum(one.policy == key and one.failure is None for one in played),
                **_balance([row for row in rows if row.policy == key]),
                "policy": policy.model_dump(mode="json", exclude_none=True),
            }
            for key, (name, what, policy) in policies.items()
        ],
        "failures": [
            {"user": one.user, "policy": one.policy, "reason": one.failure} for one in played if one.failure is not None
        ],
    }


def _balance(rows: Sequence[Row]) -> dict[str, int]:
    labels = Counter(row.label for row in rows)
    return {"rows": len(rows), "SAFE": labels["SAFE"], "HARMFUL": labels["HARMFUL"]}


def _by(rows: Sequence[Row], names: Callable[[Row], Iterable[str]]) -> dict[str, dict[str, int]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        for name in names(row):
            groups.setdefault(name, []).append(row)
    return {name: _balance(groups[name]) for name in sorted(groups)}


def _facts(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    facts = [fact for row in rows for fact in row.facts]
    told, held = [f for f in facts if f.message is not None], [f for f in facts if f.message is None]
    return {
        name: {"at_stake": len(some), "lost": sum(fact.lost is True for fact in some)}
        for name, some in (("told", told), ("in_memory", held))
    }


def _lengths(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """Return how long the parts of rows are, in characters: median, 95th percentile and most."""
    parts: dict[str, list[int]] = {
        "evicted": [sum(len(message.content) for message in row.evicted) for row in rows],
        "before": [sum(map(len, row.before)) for row in rows],
        "removed": [sum(map(len, row.removed)) for row in rows],
        "added": [sum(map(len, row.added)) for row in rows],
    }
    return {name: _spread(sorted(sizes)) for name, sizes in parts.items() if sizes}


def _spread(sizes: Sequence[int]) -> dict[str, int]:
    last = len(sizes) - 1
    return {"median": sizes[last // 2], "p95": sizes[math.ceil(0.95 * last)], "most": sizes[-1]}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 6)
