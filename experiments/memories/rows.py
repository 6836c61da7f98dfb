"""Rows of the tables: what came of each memory on each track, kept in a file as they come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...data.row_files import rows_of
from ...env import Summary
from ...policies.files import WINDOW, load_policy
from ...policies.lm.embedded import EmbeddedModel
from ...policies.lm.lexical import LexicalEmbedder
from ...policies.memory import open_memory
from ...policies.memory.packages.process import PackageError
from ...policies.policy import MemoryPolicy
from ...policies.space import PACKAGES
from ..memgym.table import config_of, scored

HERE = Path(__file__).parent
ROWS = HERE / "rows.jsonl"
PRESETS = (WINDOW, "rag", "awe", "awi")
NATIVE = ("mem0", "mem0-g", "a-mem", "ace", "nemori", "letta")
"""Presets after published memories."""
EVOLVED = "evolved"
KEPT = (
    *("policy", "key", "accuracy", "floor", "ceiling", "memory_score", "interval", "shares", "by_group"),
    *("evidence_by_group", "failed_writes", "spend", "context", "wall_s", "failures"),
)
"""Fields of a summary that a row keeps."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where memories are measured."""

    track: str
    source: str
    tokens: int
    """Context tokens."""

    @classmethod
    def usual(cls, track: str, source: str) -> Place:
        """Return a track at its usual budget."""
        return cls(track, source, config_of(track, source)[1].context_tokens or 0)


def contenders() -> dict[str, MemoryPolicy]:
    """Return the policies by name."""
    return {
        **{name: load_policy(name) for name in (*PRESETS, *NATIVE)},
        EVOLVED: load_policy(HERE / "evolved.yaml"),
        **{name: load_policy(HERE / f"{name}.yaml") for name in PACKAGES},
    }


def missing(policy: MemoryPolicy) -> str | None:
    """Return why a policy's memory cannot be opened here; None where it can."""
    try:
        open_memory(policy, EmbeddedModel(), LexicalEmbedder())
    except PackageError as error:
        return str(error)
    return None


class Rows:
    """The rows of a file, which has one line for each; a row that is there is not measured again."""

    def __init__(self, path: Path) -> None:
        """Read the file, where it is there."""
        self.path = path
        self._rows = {_place(row): row for row in rows_of(path)} if path.exists() else {}

    def at(self, place: Place, policies: Mapping[str, MemoryPolicy]) -> dict[str, Summary]:
        """Return what is known of policies at a place, by name."""
        kept = {name: self._rows.get((place, policy.key)) for name, policy in policies.items()}
        return {name: Summary.from_json(row["summary"]) for name, row in kept.items() if row is not None}

    def measure(self, place: Place, policies: Mapping[str, MemoryPolicy]) -> Iterator[tuple[str, str]]:
        """Measure the policies that have no row yet; yield the name of each, and why it has no row, if it has none."""
        known = self.at(place, policies)
        for name, policy in policies.items():
            if name not in known:
                absent = missing(policy)
                if absent is None:
                    self._add(place, _measured(place, name, policy))
                yield name, absent or ""

    def _add(self, place: Place, summary: Summary) -> None:
        values = summary.as_json()
        figures = {name: values[name] for name in KEPT}
        row = {"track": place.track, "source": place.source, "tokens": place.tokens, "summary": figures}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        self._rows[_place(row)] = row


def _place(row: Mapping[str, Any]) -> tuple[Place, str]:
    return Place(row["track"], row["source"], row["tokens"]), row["summary"]["key"]


def _measured(place: Place, name: str, policy: MemoryPolicy) -> Summary:
    track, config = config_of(place.track, place.source)
    config = config.model_copy(update={"context_tokens": place.tokens})
    return asyncio.run(scored(track, config, {name: policy}))[name]


def measured(
    path: Path, place: Place, policies: Mapping[str, MemoryPolicy]
) -> tuple[dict[str, Summary], Sequence[str]]:
    """Return the summaries of policies, measured where they were not; and of those that are left out, why."""
    rows, absent = Rows(path), list[str]()
    for name, why in rows.measure(place, policies):
        if why:
            absent.append(f"{name} is left out: {why}")
        print(f"{place.track}: {name}: {why or 'measured'}", flush=True)
    return rows.at(place, policies), absent
