"""``mnemotune memrm eval``: how good a reward model is on labelled writes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

if TYPE_CHECKING:
    from ....env.memrm.evaluation.metrics import Floats, Labels
    from ....env.memrm.evaluation.quality import RewardQuality
    from ....env.memrm.forecasting.ranking import Ranking
    from ....env.memrm.model.blend import AnyMemRM

from .. import options
from ..output import print_json

Part = Literal["train", "groups", "policies", "topics"]
Unit = Literal["group", "policy"]
PLURAL: Mapping[Unit, str] = {"group": "groups", "policy": "policies"}
NAMES = {
    "auroc": "AUROC, HARMFUL positive",
    "ece": "ECE",
    "f1_safe": "F1 of SAFE",
    "f1_harmful": "F1 of HARMFUL",
    "coverage": "coverage",
    "accuracy_covered": "accuracy of the covered",
}


def eval_command(
    data: Annotated[Path, typer.Option("--data", help="Labelled writes, of `mnemotune memrm collect` or of MemGym.")],
    model: Annotated[str, typer.Option("--model", help="`tiny`, or the folder of a checkpoint or adapter.")] = "tiny",
    part: Annotated[
        Part | None, typer.Option("--split", help="Only this split of the data card, DATA.card.json.")
    ] = None,
    by: Annotated[
        Unit, typer.Option("--by", help="What intervals are for new ones of; baselines learn from the others' rows.")
    ] = "group",
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", min=0.5, max=1.0, help="P(safe) or P(harmful) that is sure; else .88."),
    ] = None,
    base: Annotated[str | None, typer.Option("--base", help="Another base model than the adapter names.")] = None,
    torch: Annotated[bool, typer.Option("--torch", help="Run with torch though an ONNX graph is there.")] = False,
    ranked: Annotated[
        bool, typer.Option("--rank", help="Also rank the policies of DATA.shown.jsonl, beside their true scores.")
    ] = False,
    plot: Annotated[Path | None, typer.Option("--plot", help="A file for the reliability diagram, SVG.")] = None,
    as_json: options.Json = False,
) -> None:
    """Judge a reward model on labelled writes: AUROC, calibration, F1, coverage, beside simple baselines.

    Example: mnemotune memrm eval --data rows.jsonl --by policy
    """
    from ....data.whole_files import write_whole
    from ....env.memrm.evaluation.metrics import COVERED
    from ....env.memrm.model.memgym import is_memgym

    sure = COVERED if threshold is None else threshold
    reward = _load(model, base=base, torch=torch)
    ranking = _rank(data, model) if ranked else None
    p_safe, harmful, quality = _evaluate(reward, data, part, by, sure)
    if plot is not None:
        from ...views.plots import reliability_plot  # imported late: it takes a while

        write_whole(plot, reliability_plot(p_safe, harmful) + "\n")
    if as_json:
        given = {"model": model, "data": str(data), "split": part, "by": by, "threshold": sure}
        figures = asdict(quality)
        leads = {name: {"auroc": lead, "interval": interval} for name, (lead, interval) in figures.pop("leads").items()}
        figures |= figures.pop("figures") | {"leads": leads}
        print_json(_plain(given | figures | ({} if ranking is None else {"rank": asdict(ranking)})))
    else:
        _show(quality, sure, ranking, "trajectories" if is_memgym(data) else PLURAL[by])


def _load(model: str, *, base: str | None, torch: bool) -> AnyMemRM:
    from ....env.memrm.model.blend import load_reward
    from ....env.memrm.model.checkpoint import ADAPTER, CARD
    from ....env.memrm.model.memgym import ADAPTER_FOLDER, load_memgym

    folder = Path(model)
    foreign = any((place / ADAPTER).is_file() for place in (folder, folder / ADAPTER_FOLDER))
    if foreign and not (folder / CARD).is_file():
        return load_memgym(folder, base=base)
    return load_reward(model, torch=torch)


def _rank(data: Path, model: str) -> Ranking:
    """Rank policies. Raises RowError or CheckpointError before anything is scored where a file is missing."""
    from ....env.memrm.forecasting.forecast import read_forecast
    from ....env.memrm.forecasting.presence import SharedWords
    from ....env.memrm.forecasting.ranking import rank
    from ....env.memrm.model.scoring import folder_of
    from ....env.memrm.rows.retrievals import read_retrievals, retrievals_file
    from ....env.memrm.rows.row import RowError

    forecast, file = read_forecast(folder_of(model)), retrievals_file(data)
    if not file.is_file():
        raise RowError(f"{file}: there is no such file; `mnemotune memrm collect` writes it beside its rows")
    return rank(list(read_retrievals(file)), SharedWords(), forecast)


def _evaluate(
    reward: AnyMemRM, data: Path, part: Part | None, by: Unit, threshold: float
) -> tuple[Floats, Labels, RewardQuality]:
    """Return scores, labels and the model's quality."""
    from ....env.memrm.evaluation.quality import harmful_rows, quality_on_memgym, quality_on_rows
    from ....env.memrm.model.blend import words_of
    from ....env.memrm.model.memgym import is_memgym, read_memgym, score_prompts
    from ....env.memrm.rows.row import RowError, read_rows
    from ....env.memrm.rows.splits import data_card_file, read_splits

    if is_memgym(data):
        if part is not None:
            raise RowError(f"{data}: has MemGym's rows, which no data card splits: leave --split out")
        given = list(read_memgym(data))
        p_safe = score_prompts(words_of(reward), [row.prompt for row in given])
        return p_safe, harmful_rows(given), quality_on_memgym(p_safe, given, threshold=threshold)
    rows = list(read_rows(data))
    if part is not None:
        splits = read_splits(data_card_file(data))
        rows = [row for row in rows if splits.of(row) == part]
        if not rows:
            raise RowError(f"{data}: has no rows in the split {part!r}")
    p_safe = reward.score([row.event for row in rows])
    return p_safe, harmful_rows(rows), quality_on_rows(p_safe, rows, threshold=threshold, by=by)


def _plain(value: Any) -> Any:
    """Return values as JSON has them: rounded, null where they are not known."""
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 6)
    return value


def _show(quality: RewardQuality, threshold: float, ranking: Ranking | None, units: str) -> None:
    from ....env.memrm.evaluation.quality import MAJORITY
    from ...views.table import number, plain_table, print_table, say

    rows: list[tuple[str, float, Sequence[float]]] = [
        (f"{title} at {threshold:g}" if name == "coverage" else title, quality.figures[name], quality.intervals[name])
        for name, title in NAMES.items()
    ]
    rows += [(f"AUROC of {name}", value, ()) for name, value in quality.baselines.items()]
    leads = {name: lead for name, lead in quality.leads.items() if name != MAJORITY}
    rows += [(f"AUROC above that of {name}", lead, interval) for name, (lead, interval) in leads.items()]
    if ranking is not None:
        title = f"rank correlation over {len(ranking.policies)} policies"
        rows.append((title, ranking.spearman, ranking.interval))
    known = ((title, figure, () if any(map(math.isnan, interval)) else interval) for title, figure, interval in rows)
    cells = ((title, number(figure), " to ".join(map(number, interval))) for title, figure, interval in known)
    console = Console()
    print_table(console, plain_table(("", "figure", "95% interval"), cells, box=None, padding=(0, 1), pad_edge=False))
    unscored = f"; {quality.unscored:,} are not scored" if quality.unscored else ""
    writes = f"{quality.n:,} writes of {quality.clusters:,} {units}, {quality.harmful:,} of them HARMFUL"
    say(console, writes + unscored)
