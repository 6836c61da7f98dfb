"""The report of a run: one self-contained HTML page, made from the study alone."""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jinja2

from ...data.resources import resource
from ...env import Summary
from ...env.statistics import nan_mean
from ...policies.files import WINDOW, dump_policy
from ...policies.lm.base import Spend, merged
from ...policies.lm.prices import Prices
from ...policies.policy import MemoryPolicy
from ...policies.prompts import Templates
from ..config import dump_config
from ..models import embedder_remark, price_of
from ..objectives import dollars
from ..search.front import placed
from ..search.listener import Listener
from ..search.outcome import FrontRow, Outcome
from ..search.screen import screened
from ..search.sealed import EVOLVED, SEED
from ..study import Look, Trial
from .table import Rows, bound_notes, cost_cells, count, number, over_window, unscored_note, with_interval
from .tracking import policy_params

ENDS = ("not new or not valid", "screened out", "lost the race", "not confirmed on validation", "accepted")
"""How far a candidate comes."""


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a comparison of two texts."""

    kind: str
    """``same``, ``added`` or ``removed``."""
    text: str


@dataclass(frozen=True, slots=True)
class PromptChange:
    """How one prompt differs from the text that it started from."""

    slot: str
    origin: str
    """Whose text it started from."""
    lines: tuple[DiffLine, ...]

    @property
    def changed(self) -> bool:
        """Whether it differs at all."""
        return any(line.kind != "same" for line in self.lines)


class ReportWriter(Listener):
    """Writes the report when a run is over."""

    def begin(self, outcome: Outcome) -> None:
        """Write of this run."""
        self._outcome = outcome

    def finish(self) -> None:
        """Write the report."""
        write_report(self._outcome)


def write_report(outcome: Outcome) -> Path:
    """Write ``report.html`` into the run's folder; return its path."""
    path = outcome.folder / "report.html"
    path.write_text(render_report(outcome), encoding="utf-8")
    return path


def render_report(outcome: Outcome) -> str:
    """Return the report's HTML; it loads nothing from anywhere."""
    from . import plots  # matplotlib takes half a second that most commands do not need

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = environment.from_string(resource("optimizer", "views", "report.html").read_text(encoding="utf-8"))
    trials, test, track = outcome.study.trials, outcome.test, outcome.track
    drawn = {}
    if test.rows:
        drawn = {
            "scores": plots.scores_plot(test.rows, noun=track.noun),
            "shares": plots.shares_plot(test.rows),
            "stages": plots.stages_plot(test.rows, stage_noun=track.stage_noun),
        }
    if trials:
        drawn["search"] = plots.search_plot(trials, noun=track.noun)
        places = placed(trials)
        drawn["front"] = plots.front_plot(places, outcome.study.best, noun=track.noun)
    config = outcome.config
    price = price_of(config.model, config)
    return template.render(
        name=outcome.folder.name,
        config=config,
        noun=track.noun,
        stage_noun=track.stage_noun,
        remark=embedder_remark(config),
        stand_ins=[name for name, model in config.provided.items() if model.stand_in],
        headline=_headline(outcome),
        rows=score_rows(test.rows, price),
        reworded=any(row.reworded_by_group for row in test.rows.values()),
        best_number=str(_first_of(outcome)) if trials else "",
        front=[_front_row(row) for row in outcome.front],
        evolved=EVOLVED,
        window=WINDOW,
        talks=any(row.per_turn is not None for row in test.rows.values()),
        problem=test.problem,
        opened=test.done,
        ended=outcome.ended,
        plots=drawn,
        trials=[_trial_row(trial) for trial in trials],
        counts=_counts(trials),
        screening=_screening(trials),
        proposers=_proposers(trials),
        looks=[_look_row(trial.number, trial.look) for trial in trials if trial.look is not None],
        shrinkage=_shrinkage(outcome),
        numbers=_compare_numbers(outcome),
        unscored=unscored_note(test.rows, stage_noun=track.stage_noun),
        bounds=bound_notes(outcome.at_bounds, context_tokens=config.context_tokens),
        prompts=_compare_prompts(outcome),
        best_policy=dump_policy(best) if trials and (best := outcome.study.best.policy) else "",
        spend=_spend(outcome),
        settings=dump_config(config),
    )


def score_rows(rows: Rows, price: Prices | None) -> list[tuple[str, ...]]:
    """Return the cells of the sealed test's table, one row a policy."""
    return [
        (
            name,
            with_interval(row.memory_score),
            with_interval(over),
            number(row.reworded.mean),
            number(row.accuracy),
            *(number(row.shares[share]) for share in ("write", "read", "utilisation")),
            *cost_cells(row.per_turn),
            _dollars(row, price),
        )
        for (name, row), over in zip(rows.items(), over_window(rows).values(), strict=True)
    ]


def _dollars(row: Summary, price: Prices | None) -> str:
    """Write what 1,000 turns cost."""
    return "-" if row.per_turn is None else _thousand_turns(dollars(row.per_turn, price))


def _first_of(outcome: Outcome) -> int:
    """Return the first trial of the best policy."""
    best = outcome.study.best
    return next(trial.number for trial in outcome.study.trials if trial.policy == best.policy)


def _thousand_turns(usd: float | None) -> str:
    return "not known" if usd is None else f"${1000 * usd:.2f}"


def _front_row(row: FrontRow) -> tuple[str, ...]:
    return (
        str(row.trial),
        row.policy,
        number(row.train),
        number(row.validation),
        *cost_cells(row.per_turn),
        _thousand_turns(row.usd),
        ", ".join(row.best_for) or "nobody",
    )


def _headline(outcome: Outcome) -> dict[str, Any] | None:
    gain, rows = outcome.test.difference, outcome.test.rows
    if math.isnan(gain.mean):
        return None
    best = outcome.test.best_baseline
    return {
        "gain": with_interval(gain),
        "seed": number(rows[SEED].memory_score.mean),
        "evolved": number(rows[EVOLVED].memory_score.mean),
        "sure": gain.low > 0,
        "worse": gain.high < 0,
        "best_baseline": best,
        "over_baseline": None if best is None else with_interval(outcome.test.difference_from(best)),
        "over_window": with_interval(outcome.test.difference_from(WINDOW)),
        "reworded": with_interval(outcome.test.difference_from(SEED, reworded=True)),
    }


def _counts(trials: tuple[Trial, ...]) -> dict[str, int]:
    """Count the candidates by how far they came."""
    ends = Counter(_end_of(trial, trials) for trial in trials if trial.kind == "candidate")
    return {"proposed": ends.total(), **{end: ends[end] for end in ENDS}}


def _screening(trials: tuple[Trial, ...]) -> dict[str, Any] | None:
    screening = screened(trials)
    if screening is None:
        return None
    known = not math.isnan(screening.rank_correlation)
    return asdict(screening) | {"correlation": f"{screening.rank_correlation:.2f}" if known else ""}


def _end_of(trial: Trial, trials: tuple[Trial, ...]) -> str:
    """Say how far a candidate came, looks at it later on included."""
    refused, screened, lost, looked_at, accepted = ENDS
    if trial.decided_at in {"check", "screen"}:
        return refused if trial.decided_at == "check" else screened
    twins = [twin for twin in trials if twin.policy == trial.policy]
    return accepted if any(t.accepted for t in twins) else looked_at if any(t.look for t in twins) else lost


def _proposers(trials: tuple[Trial, ...]) -> list[tuple[str, ...]]:
    """Count what came of each proposer's candidates."""
    rows, accepted = [], {trial.policy for trial in trials if trial.accepted}
    for name in dict.fromkeys(trial.proposer for trial in trials if trial.kind == "candidate"):
        proposed = [trial for trial in trials if trial.proposer == name]
        counts = [
            len(proposed),
            sum(trial.finished_race for trial in proposed),
            sum(trial.led for trial in proposed),
            len(accepted.intersection(trial.policy for trial in proposed)),
            sum(trial.ledger.total.calls for trial in proposed),
        ]
        rows.append((name, *(f"{n:,}" for n in counts)))
    return rows


def _look_row(trial: int, look: Look) -> tuple[str, ...]:
    over_best, over_seed = look.over_best, look.over_seed
    return (
        str(trial),
        with_interval(over_best.gain),
        number(over_best.effect),
        _p(over_best.p),
        with_interval(over_seed.gain),
        _p(over_seed.p),
        _p(look.level),
        ", ".join(look.regressions) or "none",
    )


def _p(value: float) -> str:
    return "-" if math.isnan(value) else "<0.0001" if value < 1e-4 else f"{value:.2g}"


def _shrinkage(outcome: Outcome) -> list[tuple[str, str]]:
    """Tell the evolved policy's score where it was chosen, where it was confirmed and where it was never seen."""
    test, trials = outcome.test, outcome.study.trials
    if not trials or EVOLVED not in test.rows:
        return []
    best = outcome.study.best
    scores = [("train", best.score), ("validation", nan_mean(list(best.validation.values())))]
    return [*((name, number(value)) for name, value in scores), ("test", number(test.rows[EVOLVED].memory_score.mean))]


def _trial_row(trial: Trial) -> dict[str, Any]:
    validation = nan_mean(list(trial.validation.values()))
    return {
        "number": trial.number,
        "generation": trial.generation,
        "parent": "" if trial.parent is None else trial.parent,
        "policy": "not valid" if trial.policy is None else trial.policy.label,
        "decided_at": trial.decided_at,
        "accepted": trial.accepted,
        "train": number(trial.score) if trial.finished_race else "",
        "validation": number(validation),
        "calls": f"{trial.ledger.total.calls:,}",
        "proposer": trial.proposer,
        "change": trial.change,
        "reason": trial.reason,
    }


def _compare_numbers(outcome: Outcome) -> list[tuple[str, Any, Any]]:
    if not outcome.study.trials or outcome.study.best.policy is None:
        return []
    before, after = policy_params(outcome.config.seed_policy), policy_params(outcome.study.best.policy)
    return [(name, before.get(name, "-"), after.get(name, "-")) for name in {**before, **after} if name != "key"]


def _compare_prompts(outcome: Outcome) -> list[PromptChange]:
    """Compare each prompt of the best policy with the text that it started from."""
    if not outcome.study.trials or outcome.study.best.policy is None:
        return []
    seed, best = outcome.config.seed_policy, outcome.study.best.policy
    templates = outcome.config.templates
    changes = []
    for slot, text in best.prompts.model_dump().items():
        if text is not None and slot in best.prompt_kinds:
            before, origin = _origin(slot, seed, best, templates)
            changes.append(PromptChange(slot, origin, tuple(_diff(before, text))))
    return changes


def _origin(slot: str, seed: MemoryPolicy, best: MemoryPolicy, templates: Templates) -> tuple[str, str]:
    """Return the seed's prompt where the best policy uses the same kind, and the template's elsewhere."""
    given: str | None = getattr(seed.prompts, slot)
    if given is not None and seed.prompt_kinds[slot] == best.prompt_kinds[slot]:
        return given, "the seed policy's"
    return templates.starting(best.prompt_kinds[slot]), f"the one that {best.write.mode} starts from"


def _diff(before: str, after: str) -> Iterator[DiffLine]:
    kinds = {"  ": "same", "+ ": "added", "- ": "removed"}
    for line in difflib.ndiff(before.splitlines(), after.splitlines()):
        if line[:2] in kinds:
            yield DiffLine(kinds[line[:2]], line[2:])


def _spend(outcome: Outcome) -> list[tuple[str, ...]]:
    ledger = merged([outcome.search_spend, outcome.test_spend])
    spends: list[tuple[str, Spend]] = [*ledger.by_role.items(), ("total", ledger.total)]
    return [
        (
            role,
            f"{spend.calls:,}",
            f"{spend.cached:,}",
            count(spend.input_tokens),
            count(spend.output_tokens),
            "not known" if spend.cost_usd is None else f"${spend.cost_usd:.2f}",
        )
        for role, spend in spends
    ]
