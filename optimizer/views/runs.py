"""Runs side by side and one by one, as tables for a terminal."""

from __future__ import annotations

import difflib
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from ...data.errors import MnemotuneError
from ...env import Summary
from ...env.statistics import Estimate, paired_difference
from ...env.summary import UNSCORED, json_number, score_json
from ...policies.files import WINDOW, dump_policy
from ..config import ConfigError
from ..search.ablation import PLAYED
from ..search.outcome import Outcome, holds_run, open_run
from ..search.sealed import EVOLVED
from ..study import Trial
from .progress import spent_text
from .table import (
    cost_cells,
    count,
    counted,
    number,
    plain_table,
    short,
    signed,
    train_cell,
    usd_cell,
    with_interval,
)

TIGHT: dict[str, Any] = {"padding": 0, "show_edge": False}
LONGEST_NAME = 18
"""Characters of a name that leave the figures their room in 80 columns."""
NARROW = 80
"""Columns of a terminal for which a comparison leaves its names ``LONGEST_NAME``."""
WIDE = 110
"""Columns of a terminal in which a list of runs has room for everything."""
ONLY_WIDE = ("begun", "seed", "trials", "tokens", "cost")


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in a list."""

    folder: Path
    outcome: Outcome | None
    problem: str = ""
    """Why it cannot be read; empty when it can."""

    @property
    def state(self) -> str:
        """How far it came."""
        if self.outcome is None:
            return "unreadable"
        if self.outcome.test.done:
            return "done"
        return "search" if self.outcome.ended is None else "test open"

    @property
    def evolved(self) -> Summary | None:
        """The evolved policy's row of the sealed test; None where it was not tested."""
        return None if self.outcome is None else self.outcome.test.rows.get(EVOLVED)

    @property
    def begun(self) -> datetime:
        """When it began, in the reader's own time; when its config was written where it cannot be read."""
        began = None if self.outcome is None else self.outcome.began
        if began is not None:
            return began.astimezone().replace(tzinfo=None)
        return datetime.fromtimestamp((self.folder / "config.yaml").stat().st_mtime)  # noqa: DTZ006

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        values: dict[str, Any] = {"run": str(self.folder), "state": self.state, "begun": self.begun.isoformat()}
        if self.outcome is None:
            return values | {"problem": self.problem}
        score = UNSCORED if self.evolved is None else self.evolved.memory_score
        consumed = self.outcome.consumed
        return values | {
            "data": self.outcome.config.data,
            "model": self.outcome.config.model,
            "seed": self.outcome.config.search.seed,
            "trials": len(self.outcome.study.trials),
            **score_json(score),
            "calls": consumed.calls,
            "tokens": consumed.tokens,
            "usd": consumed.usd,
        }


def runs_in(folder: Path) -> list[RunRow]:
    """Return the runs of a folder, or the folder itself where it is one, the oldest first.

    Raises ConfigError when there is no such folder.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder; `mnemotune evolve CONFIG` makes runs in runs/")
    candidates = [folder] if (folder / "config.yaml").is_file() else sorted(folder.iterdir())
    rows = [_row(path) for path in candidates if (path / "config.yaml").is_file()]
    return sorted(filter(None, rows), key=lambda row: row.begun)


def _row(folder: Path) -> RunRow | None:
    """Return a run; None where it has not begun."""
    try:
        return RunRow(folder, open_run(folder)) if holds_run(folder) else None
    except MnemotuneError as error:
        return RunRow(folder, None, str(error))


def runs_table(rows: Sequence[RunRow], *, width: int) -> Table:
    """Return a list of runs for a terminal of so many columns; a narrow one has no room for dates, seeds and tokens."""
    cells = [_run_cells(row) for row in rows]
    if all(row.outcome is None or row.outcome.consumed.usd == 0 for row in rows):  # what is free shows no dollars
        cells = [{name: cell for name, cell in row.items() if name != "cost"} for row in cells]
    columns = {name: [row[name] for row in cells] for name in cells[0] if width >= WIDE or name not in ONLY_WIDE}
    left = ("state", "data", "begun", "evolved")
    return plain_table([*columns], [*zip(*columns.values(), strict=True)], left=left, **TIGHT)


def _run_cells(row: RunRow) -> dict[str, str]:
    names = {"run": short(row.folder.name, LONGEST_NAME), "state": row.state}
    begun = f"{row.begun:%Y-%m-%d %H:%M}"
    if row.outcome is None:
        figures = ("data", "seed", "trials", "evolved", "over\nwindow", "calls", "tokens", "cost")
        return names | {"begun": begun} | dict.fromkeys(figures, "-")
    outcome, evolved = row.outcome, row.evolved
    spent = outcome.consumed
    return names | {
        "begun": begun,
        "data": short(outcome.config.data, LONGEST_NAME),
        "seed": str(outcome.config.search.seed),
        "trials": str(len(outcome.study.trials)),
        "evolved": "-" if evolved is None else with_interval(evolved.memory_score),
        "over\nwindow": signed(outcome.test.difference_from(WINDOW).mean),
        "calls": count(spent.calls),
        "tokens": count(spent.tokens),
        "cost": usd_cell(spent.usd),
    }


def trials_table(outcome: Outcome) -> Table:
    """Return every trial of a run, each with its policy and below that why; the best policy's stands out."""
    columns = ("trial", "verdict", "train", "of", "policy, and why")
    trials = outcome.study.trials
    best = str(outcome.study.best.number) if trials else None
    table = plain_table(columns, map(_trial_cells, trials), left=("verdict", "policy, and why"), bold=best, **TIGHT)
    table.columns[-1].no_wrap, table.columns[-1].overflow = False, "fold"
    return table


def run_line(outcome: Outcome) -> str:
    """Return what a run is and how far it came, on one line."""
    trials, config = outcome.study.trials, outcome.config
    accepted = sum(trial.accepted for trial in trials[1:])
    parts = [
        f"{outcome.folder}: {RunRow(outcome.folder, outcome).state}",
        f"data {config.data}",
        f"model {config.model}",
        f"seed {config.search.seed}",
        f"{counted(len(trials), 'trial')}, {accepted:,} accepted",
        spent_text(outcome.consumed),
    ]
    return " · ".join(parts)


def _trial_cells(trial: Trial) -> list[str]:
    label = "not valid" if trial.policy is None else trial.policy.label
    parent = "" if trial.parent is None else str(trial.parent)
    return [str(trial.number), trial.verdict, train_cell(trial), parent, f"{label}\n{trial.reason}"]


def trial_lines(trial: Trial, parent: Trial | None) -> Iterator[str]:
    """Yield what a study says of a trial: verdict, reason, scores, and its policy beside its parent's."""
    yield f"trial {trial.number}: {trial.verdict}, decided at: {trial.decided_at}"
    yield f"why: {trial.reason}"
    origin = "" if parent is None else f", of trial {parent.number}"
    yield f"made by: {trial.proposer or trial.kind}, generation {trial.generation}{origin}"
    if trial.change:
        yield f"change: {trial.change}"
    scores = {"train": trial.train, "validation": trial.validation}
    for split, by_group in scores.items():
        if by_group:
            known = [score for score in by_group.values() if not math.isnan(score)]
            mean = sum(known) / len(known) if known else math.nan
            yield f"{split}: {number(mean)} over {len(known)}"
    spent = trial.ledger.total
    yield f"calls: {spent.calls:,}, tokens: {spent.input_tokens + spent.output_tokens:,}"
    if trial.policy is None:
        return
    text = dump_policy(trial.policy)
    if parent is None or parent.policy is None:
        yield from ("", *text.splitlines())
        return
    before = dump_policy(parent.policy)
    yield f"\nits policy beside that of trial {parent.number} (- theirs, + its own):"
    compared = difflib.ndiff(before.splitlines(), text.splitlines())
    yield from (line for line in compared if not line.startswith("? "))  # which say where in a line


@dataclass(frozen=True, slots=True)
class Comparison:
    """The evolved policies of several runs, against the first."""

    rows: Mapping[str, Summary]
    """The evolved policies' rows of the sealed tests, by run."""
    differences: Mapping[str, Estimate]
    """Each run's memory score minus the first's, paired by the groups that both tests share; NaN without any."""
    why_not: Mapping[str, str]
    """Why a run cannot be paired with the first, by run."""

    @classmethod
    def of(cls, outcomes: Mapping[str, Outcome]) -> Comparison:
        """Compare runs by name. Raises ConfigError naming a run whose evolved policy was not tested."""
        rows = {}
        for name, outcome in outcomes.items():
            row = outcome.test.rows.get(EVOLVED)
            if row is None:
                resumed = f"--resume {shlex.quote(name)}"
                raise ConfigError(f"{name}: its sealed test has no evolved policy yet; go on with {resumed}")
            rows[name] = row
        first, *others = outcomes
        differences, why_not = {}, {}
        for name in others:
            reason = _unpaired(outcomes[first], outcomes[name])
            if reason:
                why_not[name] = reason
            shared = {} if reason else rows[first].by_group
            differences[name] = paired_difference(rows[name].by_group, shared)
        return cls(rows, differences, why_not)

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            name: {
                **score_json(row.memory_score),
                "evidence_recall": json_number(row.evidence.mean),
                "difference": score_json(self.differences[name]) if name in self.differences else None,
                "shared": self.differences[name].users if name in self.differences else None,
                "why_not_paired": self.why_not.get(name),
            }
            for name, row in self.rows.items()
        }


def _unpaired(first: Outcome, other: Outcome) -> str:
    """Return why two runs' tests have nothing in common to pair; empty when they do."""
    sources = [outcome.sealed_source or outcome.config.data for outcome in (first, other)]
    if sources[0] != sources[1]:
        return "other data"
    for name in ("model", "embedder", *PLAYED):
        if getattr(first.config, name) != getattr(other.config, name):
            return f"another {name}"
    if first.config.models["user"] != other.config.models["user"]:
        return "another user_model"
    shared = first.test.rows[EVOLVED].by_group.keys() & other.test.rows[EVOLVED].by_group.keys()
    return "" if shared else "no shared groups"


def comparison_of_runs(comparison: Comparison, *, width: int) -> Table:
    """Return the comparison as a table for a terminal of so many columns."""
    folders = {name: Path(name).name for name in comparison.rows}
    names = folders if len({*folders.values()}) == len(folders) else {name: name for name in folders}
    longest = LONGEST_NAME + max(0, width - NARROW)
    columns = ("run", "memory score", "over the first", "shared", "evi-\ndence", "tok.\n/turn")
    rows = []
    for name, row in comparison.rows.items():
        difference = comparison.differences.get(name)
        told, shared = "", ""
        if difference is not None:
            told = comparison.why_not.get(name) or with_interval(difference)
            shared = str(difference.users) if difference.users else "-"
        cost = cost_cells(row.per_turn)[1]
        score, recall = with_interval(row.memory_score), number(row.evidence.mean)
        rows.append([short(names[name], longest), score, told, shared, recall, cost])
    return plain_table(columns, rows, left=("memory score", "over the first"), **TIGHT)
