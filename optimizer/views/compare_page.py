"""Runs side by side as one self-contained page."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ...data.whole_files import write_whole
from ...env.statistics import Estimate
from ...policies.files import WINDOW
from ...policies.policy import MemoryPolicy
from ...policies.space import flat
from ..search.outcome import Outcome
from .changes import Piece, compare_texts
from .page import Scale, against, render, source
from .plots import SHARES, shares_plot, stages_plot
from .runs import Comparison
from .tracking.figures import policy_params
from .vega import picture

LEFT_OUT = ("tracking", "workers", "storage")
"""Settings that do not change what a run finds."""
LONG = ("seed_policy", "search.space", "templates", "endpoint", "generation")
"""Settings that are too long to be shown: only whether they differ is said."""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group that all runs were tested on."""

    name: str
    first: float
    others: tuple[tuple[float, Estimate], ...]
    """Each other run's memory score, and how far it is over the first's; it has no interval."""


@dataclass(frozen=True, slots=True)
class PromptDifference:
    """How one prompt of two policies differs."""

    slot: str
    before: str
    """Whose is the first text, and ``after`` whose is the second."""
    after: str
    pieces: tuple[Piece, ...] = ()
    said: str = ""
    """What is to say where there are no two texts."""


def write_compare_page(comparison: Comparison, outcomes: Mapping[str, Outcome], file: Path) -> None:
    """Write the page of a comparison; it links to the reports of the runs."""
    first, *others = outcomes
    outcome, rows = outcomes[first], comparison.rows
    track, paired = outcome.track, [name for name in others if name not in comparison.why_not]
    policies = {name: run.study.best.policy or run.config.seed_policy for name, run in outcomes.items()}
    stages = {name: row.stages["memory_score"] for name, row in rows.items()}
    consumed = {name: run.consumed for name, run in outcomes.items()}
    by_group = sorted(_by_group(comparison, first, paired), key=_apart, reverse=True)
    page = render(
        "compare.html",
        title="Runs side by side",
        comparison=comparison,
        config=outcome.config,
        sealed=outcome.sealed_source or outcome.config.data,
        noun=track.noun,
        stage_noun=track.stage_noun,
        window=WINDOW,
        stand_ins=sorted({n for run in outcomes.values() for n, m in run.config.provided.items() if m.stand_in}),
        first=first,
        others=paired,
        meanings={name: against(difference) for name, difference in comparison.differences.items()},
        scale=Scale.of(comparison.differences.values()),
        over_window={name: run.test.difference_from(WINDOW) for name, run in outcomes.items()},
        labels={name: policy.label for name, policy in policies.items()},
        links={name: _link(run, file) for name, run in outcomes.items()},
        kinds=[*SHARES],
        ends={name: {"accuracy": row.accuracy, **row.shares} for name, row in rows.items()},
        plots={
            "shares": picture(partial(shares_plot, rows), name="Right answers and failures of each run"),
            "stages": picture(
                partial(stages_plot, rows, stage_noun=track.stage_noun), name=f"Memory score by {track.stage_noun}"
            ),
        },
        plots_script=source("plots.js"),
        stages=stages,
        longest=max(stages.values(), key=len),
        by_group=by_group,
        groups_scale=Scale.of(lead for group in by_group for _, lead in group.others),
        numbers=_differing({name: _numbers(policy) for name, policy in policies.items()}),
        prompts=[change for name in others for change in _prompts(first, policies[first], name, policies[name])],
        settings=_settings_apart(outcomes),
        left_out=LEFT_OUT,
        long=LONG,
        consumed=consumed,
        trials={name: run.study.trials for name, run in outcomes.items()},
        paid=any(spent.usd != 0 for spent in consumed.values()),
    )
    write_whole(file, page)


def _by_group(comparison: Comparison, first: str, others: Sequence[str]) -> Iterator[GroupRow]:
    rows = comparison.rows
    shared = [group for group in rows[first].by_group if others and all(group in rows[o].by_group for o in others)]
    for group in shared:
        score = rows[first].by_group[group]
        leads = [(rows[name].by_group[group], rows[name].by_group[group] - score) for name in others]
        yield GroupRow(group, score, tuple((own, Estimate(lead, math.nan, math.nan, 1)) for own, lead in leads))


def _apart(group: GroupRow) -> float:
    """Return how far the scores of a group are apart."""
    return max((abs(lead.mean) for _, lead in group.others if not math.isnan(lead.mean)), default=0.0)


def _link(run: Outcome, file: Path) -> str:
    """Return the way from the page to a run's report."""
    return quote(Path(os.path.relpath((run.folder / "report.html").resolve(), file.resolve().parent)).as_posix())


def _differing(values: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return, by key, the values of all where they differ; a dash where there is none."""
    keys = dict.fromkeys(key for of_run in values.values() for key in of_run)
    rows = {key: [of_run.get(key, "-") for of_run in values.values()] for key in keys}
    return {key: row for key, row in rows.items() if any(value != row[0] for value in row)}


def _numbers(policy: MemoryPolicy) -> dict[str, Any]:
    """Return a policy's numbers and structure, by name."""
    return {name: value for name, value in policy_params(policy).items() if name != "key"}


def _settings_apart(outcomes: Mapping[str, Outcome]) -> dict[str, list[Any]]:
    """Return, by dotted key, the settings of all runs where they differ; of a long one only whether it does."""
    rows = _differing({name: _settings(run) for name, run in outcomes.items()})
    return {
        key: ["-", *("differs" if value != row[0] else "the same" for value in row[1:])] if key in LONG else row
        for key, row in rows.items()
    }


def _settings(run: Outcome) -> dict[str, Any]:
    """Return the settings that may change what a run finds, by dotted key; a long one is whole."""
    settings: dict[str, Any] = {key: {} for key in LONG}
    for key, value in flat(run.config.model_dump(mode="json", exclude_none=True)).items():
        part = next((part for part in (*LEFT_OUT, *LONG) if key == part or key.startswith(f"{part}.")), None)
        if part is None:
            settings[key] = ", ".join(map(str, value)) if isinstance(value, list) else value
        elif part in LONG:
            settings[part][key] = value
    return settings


def _prompts(first: str, theirs: MemoryPolicy, name: str, own: MemoryPolicy) -> Iterator[PromptDifference]:
    """Yield how a policy's prompts differ from the first's, by slot."""
    slots = dict.fromkeys([*theirs.prompt_kinds, *own.prompt_kinds])
    for slot in slots:
        before, after = (getattr(p.prompts, slot) if slot in p.prompt_kinds else None for p in (theirs, own))
        if before is None or after is None:
            has, lacks = (name, first) if before is None else (first, name)
            yield PromptDifference(slot, first, name, said=f"{has} uses one, and {lacks} none.")
        elif before != after:
            yield PromptDifference(slot, first, name, tuple(compare_texts(before, after)))
