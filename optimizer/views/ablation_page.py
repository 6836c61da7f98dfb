"""The report of an ablation: one self-contained page over the reports of its searches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ...data.whole_files import write_whole
from ...env.statistics import Estimate, paired_difference
from ...policies.files import WINDOW
from ...policies.lm import Consumed
from ..models import track_of
from ..search.ablation import Ablation, Finished, Run, Variant
from ..search.ablation_plan import summed
from ..search.outcome import open_run
from .page import Scale, against, render
from .table import counted


@dataclass(frozen=True, slots=True)
class SearchRow:
    """A search in the report."""

    variant: str
    found: Finished
    difference: Estimate | None
    """To the first variant's search with the same seed, paired by group; None for the first variant's own."""
    policy: str
    """What its best policy is called."""
    consumed: Consumed
    """By the whole run."""
    files: Mapping[str, str]
    """Links from the report to the run's own files, by what they are."""


def write_ablation_page(
    ablation: Ablation,
    runs: Sequence[Run],
    variants: Sequence[Variant],
    folder: Path,
    *,
    command: str,
    warnings: Sequence[str] = (),
) -> Path:
    """Write ``report.html`` into the ablation's folder; return its path. Its searches are in folders beneath."""
    config = runs[0].config
    track, first = track_of(config), variants[0]
    searches = list(_rows(runs, variants, folder))
    together = summed([search.consumed for search in searches])
    page = render(
        "ablation.html",
        title=f"Ablation: {folder.name}",
        name=folder.name,
        about=ablation,
        changes=ablation.variants,
        config=config,
        seeds=list(dict.fromkeys(run.seed for run in runs)),
        noun=track.noun,
        stage_noun=track.stage_noun,
        window=WINDOW,
        groups=len({group for search in searches for group in search.found.by_group}),
        stand_ins=[name for name, model in config.provided.items() if model.stand_in],
        warnings=warnings,
        first=first.name,
        variants=variants,
        lift=any(variant.over_window.users for variant in variants),
        shown=any(variant.evidence.estimate.users for variant in variants),
        scale=Scale.of(variant.score.difference for variant in variants),
        meanings={name: against(difference) for name, difference in _differences(variants, "score")},
        by_both=config.search.objective == "score-and-evidence",
        meanings_of_both={
            name: against(difference, verb="does") for name, difference in _differences(variants, "both")
        },
        searches=searches,
        together=together,
        paid=together.usd != 0,
        command=command,
        version=version("mnemotune"),
        counted=counted,
    )
    path = folder / "report.html"
    write_whole(path, page)
    return path


def _differences(variants: Sequence[Variant], figure: str) -> Iterator[tuple[str, Estimate]]:
    for variant in variants:
        difference = getattr(variant, figure).difference
        if difference is not None:
            yield variant.name, difference


def _rows(runs: Sequence[Run], variants: Sequence[Variant], folder: Path) -> Iterator[SearchRow]:
    """Yield the searches of each variant in turn."""
    places = {(run.variant, run.seed): run.folder for run in runs}
    theirs = {search.seed: search.by_group for search in variants[0].searches}
    for variant in variants:
        for found in variant.searches:
            place = places[variant.name, found.seed]
            outcome, first = open_run(place), variant is variants[0]
            best = outcome.study.best.policy
            yield SearchRow(
                variant.name,
                found,
                None if first else paired_difference(found.by_group, theirs.get(found.seed, {})),
                "" if best is None else best.label,
                outcome.consumed,
                _files(place, folder),
            )


def _files(place: Path, folder: Path) -> dict[str, Any]:
    """Return links to what a run's folder has."""
    shown = {"report": "report.html", "policy": "best_policy.yaml"}
    beneath = place.relative_to(folder)
    return {label: f"{beneath.as_posix()}/{name}" for label, name in shown.items() if (place / name).is_file()}
