"""A run as pandas frames: trials, groups, episodes, checks and spend, one row each."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...data.whole_files import replacing
from ...env.episode import EPISODES
from ...env.statistics import nan_mean
from ...env.stored import FIGURES
from ..config import ConfigError
from ..search.outcome import Outcome, open_run
from ..search.sealed import EVOLVED, SEED
from ..study import Trial

if TYPE_CHECKING:
    import pandas

FRAMES = ("trials", "groups", "episodes", "checks", "spend")
"""The frames of a run, by name."""


@dataclass(frozen=True, slots=True)
class RunFrames:
    """What a run has recorded, as pandas frames."""

    trials: pandas.DataFrame
    """One row a trial, by number: verdict, reason, parent, change, scores, calls, and what its policy says, by path."""
    groups: pandas.DataFrame
    """One row a policy and group of the sealed test: memory score, the same reworded, evidence recall, reader, and what
    memory holds at the end: lines, bytes, and the shares of lines that are junk, duplicates or stale, in [0, 1]."""
    episodes: pandas.DataFrame
    """One row a recorded episode of the sealed test (seed and evolved): task, failure, stages, tokens, reward."""
    checks: pandas.DataFrame
    """One row a check of those episodes: stage (0-based), score in [0, 1], whether it is reworded, and how many of the
    facts that it needs were recalled and shown."""
    spend: pandas.DataFrame
    """One row a phase and role: calls, tokens, US dollars."""

    def __repr__(self) -> str:
        return f"RunFrames({', '.join(f'{name}: {len(getattr(self, name)):,} rows' for name in FRAMES)})"

    def write(self, folder: Path) -> list[Path]:
        """Write a Parquet file a frame, and return them."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{name}.parquet" for name in FRAMES]
        for name, path in zip(FRAMES, paths, strict=True):
            with replacing(path) as file:
                file.write(getattr(self, name).to_parquet(index=False))
        return paths


def load_run(folder: str | Path) -> RunFrames:
    """Read a run's folder, finished or not. Raises ConfigError when there is no run, or an episode cannot be read."""
    import pandas

    outcome = open_run(Path(folder))
    episodes = [row for name in (SEED, EVOLVED) for row in _recorded(outcome.folder / "test" / name, name)]
    trials = [_trial_row(trial) for trial in outcome.study.trials]
    return RunFrames(
        trials=pandas.DataFrame(trials, columns=None if trials else TRIAL_COLUMNS).astype({"parent": "Int64"}),
        groups=pandas.DataFrame(_group_rows(outcome), columns=GROUP_COLUMNS),
        episodes=pandas.DataFrame((_episode_row(row) for row in episodes), columns=EPISODE_COLUMNS),
        checks=pandas.DataFrame((check for row in episodes for check in _check_rows(row)), columns=CHECK_COLUMNS),
        spend=pandas.DataFrame(_spend_rows(outcome), columns=SPEND_COLUMNS),
    )


TRIAL_COLUMNS = (
    "trial", "generation", "kind", "proposer", "parent", "verdict", "accepted", "decided_at", "reason", "change",
    "train", "validation", "train_groups", "calls", "tokens", "policy", "key",
)  # fmt: skip
"""The first columns of trials; what their policies say comes after these."""
GROUP_COLUMNS = ("policy", "group", "reader", "memory_score", "reworded", "evidence_recall", *FIGURES, "failure")
EPISODE_COLUMNS = ("policy", "task", "failure", "refused", "stages", "calls", "tokens", "reward")
CHECK_COLUMNS = ("policy", "task", "stage", "check", "reworded", "score", "readable", "facts", "recalled", "shown")
SPEND_COLUMNS = ("phase", "role", "calls", "cached", "input_tokens", "output_tokens", "cost_usd", "cut")


def _trial_row(trial: Trial) -> dict[str, Any]:
    policy = trial.policy
    return {
        "trial": trial.number,
        "generation": trial.generation,
        "kind": trial.kind,
        "proposer": trial.proposer,
        "parent": trial.parent,
        "verdict": trial.verdict,
        "accepted": trial.accepted,
        "decided_at": trial.decided_at,
        "reason": trial.reason,
        "change": trial.change,
        "train": trial.score,
        "validation": nan_mean(list(trial.validation.values())),
        "train_groups": len(trial.train),
        "calls": trial.ledger.total.calls,
        "tokens": trial.ledger.total.input_tokens + trial.ledger.total.output_tokens,
        "policy": "" if policy is None else policy.label,
        "key": "" if policy is None else policy.key,
        **({} if policy is None else {path: _plain(value) for path, value in policy.values.items()}),
    }


def _plain(value: Any) -> Any:
    """Return a value as a cell that Parquet can hold."""
    return value if value is None or isinstance(value, str | int | float | bool) else json.dumps(value)


def _group_rows(outcome: Outcome) -> Iterator[tuple[Any, ...]]:
    for name, row in outcome.test.rows.items():
        for group in {**row.by_group, **row.failures}:
            figures = (row.by_group, row.reworded_by_group, row.evidence_by_group)
            scores = (by_group.get(group, math.nan) for by_group in figures)
            stored = row.stored_by_group.get(group, {})
            held = (stored.get(figure, math.nan) for figure in FIGURES)
            yield (name, group, row.readers.get(group), *scores, *held, row.failures.get(group))


def _recorded(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    file = folder / EPISODES
    if not file.is_file():
        return
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield {"policy": name, **{key: value for key, value in json.loads(line).items() if key != "policy"}}
            except (ValueError, AttributeError) as error:
                raise ConfigError(f"{file}, line {number}: is no episode ({error})") from None


def _episode_row(values: Mapping[str, Any]) -> tuple[Any, ...]:
    spends = values["spend"].values()
    tokens = sum(spend["input_tokens"] + spend["output_tokens"] for spend in spends)
    counts = (len(values["stages"]), sum(spend["calls"] for spend in spends), tokens)
    return (*(values[name] for name in ("policy", "task", "failure", "refused")), *counts, values.get("reward"))


def _check_rows(values: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    for stage, record in enumerate(values["stages"]):
        for kind in ("marks", "reworded"):
            for mark in record[kind]:
                known = [fact is True for fact in mark["recalled"].values()]
                score = math.nan if mark["score"] is None else mark["score"]
                counts = (len(known), sum(known), sum(mark["shown"].values()) if mark["shown"] else None)
                names = (values["policy"], values["task"], stage, mark["check"], kind == "reworded")
                yield (*names, score, mark["readable"], *counts)


def _spend_rows(outcome: Outcome) -> Iterator[tuple[Any, ...]]:
    for phase, ledger in (("search", outcome.search_spend), ("sealed test", outcome.test_spend)):
        for role, spend in sorted(ledger.by_role.items()):
            yield (phase, role, *(getattr(spend, column) for column in SPEND_COLUMNS[2:]))
