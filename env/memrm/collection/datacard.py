"""The data card of rows: what they are, how many of each kind there are, and how to make them again."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ....policies.policy import MemoryPolicy
from ...statistics import nan_mean
from ...summary import json_number
from ..rows.row import Row
from ..rows.splits import RowSplits
from .collect import CollectedEpisode
from .validity import Outcome, validity

FORMAT = 1
WHAT = (
    "One row for each write of a memory policy: the messages that left its buffer, the memory before and after, and "
    "the facts at stake. A fact counts when a check needs it, each with its newest value. It is at stake when an "
    "evicted message tells it, or else lines of the old memory that the write changed; it is lost when the new memory "
    "does not tell it. A row is HARMFUL when a fact is lost. Which message tells a fact is known. A line tells it "
    "where it has most words of the fact, or of the sentence that told it, and does not where it has none of them; in "
    "between the assistant's language model reads it. The model is asked in several prompts, which are the track's. It "
    "must be right in each of them, or in none. Writes with a fact in between are left out, unless another fact is "
    "lost; so are writes that may be SAFE with a fact that the model cannot read in the evicted message itself. From a "
    "memory the lines are read that were written from messages that tell the fact, in their order, and nothing else: "
    "unrelated lines neither help nor hinder. `predictive_validity` is the share of wrong answers, and of facts that "
    "were not known when they were asked for, after the newest write at which they were at stake lost one, and after "
    "it lost none."
)

EXECUTED = (
    "One row for each damage of a memory: the messages of the newest write, the memory before it, and the damaged "
    "memory. The plan's next step that asks memory for something is carried out with the damaged memory, in a place of "
    "its own. A row is SAFE when the same is observed as with the memory that is whole, else HARMFUL. `controls` are "
    "steps that were carried out again with the memory as it was."
)


def data_card(
    episodes: Sequence[CollectedEpisode],
    policies: Mapping[str, tuple[str, str, MemoryPolicy]],
    splits: RowSplits,
    *,
    settings: Mapping[str, Any],
    digest: str,
) -> dict[str, Any]:
    """Return the card as plain JSON values.

    ``policies`` are name, origin with the kind of prompt, and policy by key; ``settings`` make the rows again.
    """
    rows = [row for episode in episodes for row in episode.rows]
    executed = bool(settings.get("executions"))
    mode = {key: policy.write.mode for key, (_, _, policy) in policies.items()}
    kind = {key: what for key, (_, what, _) in policies.items()}
    return {
        "what": EXECUTED if executed else WHAT,
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
        "predictive_validity": {
            "wrong_answers": _validity(outcome for episode in episodes for outcome in episode.answers),
            "unknown_facts": _validity(outcome for episode in episodes for outcome in episode.facts),
        },
        "writes": {
            "all": sum(episode.labels.writes for episode in episodes),
            "undecided": sum(episode.labels.undecided for episode in episodes),
            "unreadable": sum(episode.labels.failed for episode in episodes),
        },
        **({"executions": _executions(rows, episodes)} if executed else {}),
        "calls": {
            "episodes": sum(episode.calls for episode in episodes),
            "labels": sum(episode.labels.calls for episode in episodes),
        },
        "policies": [
            {
                "key": key,
                "name": name,
                "kind": what,
                "label": policy.label,
                "memory_score": json_number(nan_mean([e.memory_score for e in episodes if e.policy == key])),
                "tasks": sum(e.policy == key and e.failure is None for e in episodes),
                **_balance([row for row in rows if row.policy == key]),
                "policy": policy.model_dump(mode="json", exclude_none=True),
            }
            for key, (name, what, policy) in policies.items()
        ],
        "failures": [
            {"task": e.task, "policy": e.policy, "reason": e.failure} for e in episodes if e.failure is not None
        ],
    }


def _validity(outcomes: Iterable[Outcome]) -> dict[str, float | None] | None:
    found = validity(list(outcomes))
    return None if found is None else {name: json_number(value) for name, value in asdict(found).items()}


def _executions(rows: Sequence[Row], episodes: Sequence[CollectedEpisode]) -> dict[str, Any]:
    """Return how many controls there are and in how many the same was observed, and the rows of each damage."""
    return {
        "controls": sum(episode.labels.controls for episode in episodes),
        "controls_safe": sum(episode.labels.controls_safe for episode in episodes),
        "by_damage": _by(rows, lambda row: [] if row.execution is None else [row.execution.perturbation]),
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
    evicted, held = [f for f in facts if f.message is not None], [f for f in facts if f.message is None]
    return {
        name: {"at_stake": len(group), "lost": sum(fact.lost is True for fact in group)}
        for name, group in (("evicted", evicted), ("in_memory", held))
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
