"""The report of a run: one self-contained HTML page, made from the study alone."""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from ...data.resources import resource
from ...data.whole_files import write_whole
from ...env import Summary
from ...env.statistics import nan_mean, paired_difference
from ...env.summary import UNSCORED
from ...policies.files import WINDOW, dump_policy
from ...policies.lm.ledger import merged
from ...policies.lm.prices import Prices
from ...policies.policy import MemoryPolicy
from ...policies.prompts import Templates
from ..config import dump_config
from ..models import embedder_remark, price_of
from ..objectives import dollars
from ..search.front import NEARLY_ALL, Placed, cheaper, placed
from ..search.listener import Listener
from ..search.outcome import Outcome
from ..search.screen import screened
from ..search.sealed import EVOLVED, SEED
from ..study import Trial
from .failed_checks import packed_failed_checks
from .table import (
    Rows,
    bound_notes,
    cost_cells,
    count,
    number,
    over_window,
    readers_of,
    reply_notes,
    train_cell,
    unscored_note,
    with_interval,
)
from .tracking.figures import policy_params

ENDS = ("not new or not valid", "screened out", "lost the race", "not confirmed on validation", "accepted")
"""How far a candidate comes."""
DIFFERENCES = {"  ": "same", "+ ": "added", "- ": "removed"}
"""Kinds of lines, by what difflib puts before them."""


@dataclass(frozen=True, slots=True)
class PromptChange:
    """How one prompt differs from the text that it started from."""

    slot: str
    origin: str
    """Whose text it started from."""
    lines: tuple[tuple[str, str], ...]
    """Each line's kind, of ``DIFFERENCES``, and its text."""

    @property
    def changed(self) -> bool:
        """Whether it differs at all."""
        return any(kind != "same" for kind, _ in self.lines)


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
    write_whole(path, render_report(outcome))
    return path


def render_report(outcome: Outcome) -> str:
    """Return the report's HTML; it loads nothing from anywhere."""
    from . import plots  # matplotlib takes half a second that most commands do not need

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters |= {"number": number, "interval": with_interval, "count": count, "cost_cells": cost_cells}
    environment.filters["mean"] = lambda scores: nan_mean(list(scores.values()))
    environment.filters |= {"p": _p, "usd": _usd, "train_cell": train_cell}
    environment.tests["known"] = lambda value: not math.isnan(value)
    template = environment.from_string(resource("optimizer", "views", "report.html").read_text(encoding="utf-8"))
    config, test, track, trials = outcome.config, outcome.test, outcome.track, outcome.study.trials
    best, aim = outcome.study.best if trials else None, config.search.aim
    policy = None if best is None else best.policy
    spent, price = merged([outcome.search_spend, outcome.test_spend]), price_of(config.model, config)
    paid = price is None or price.input + price.output > 0 or spent.total.cost_usd != 0
    drawn = {}
    if test.rows:
        drawn["scores"] = plots.scores_plot(test.rows, noun=track.noun)
        drawn["shares"] = plots.shares_plot(test.rows)
        drawn["stages"] = plots.stages_plot(test.rows, stage_noun=track.stage_noun)
    if best is not None:
        drawn["search"] = plots.search_plot(trials, noun=track.noun, compared=aim.compared)
        drawn["front"] = plots.front_plot(placed(trials), best, noun=track.noun, compared=aim.compared)
    return template.render(
        name=outcome.folder.name,
        config=config,
        agent=track.agent,
        noun=track.noun,
        stage_noun=track.stage_noun,
        remark=embedder_remark(config),
        stand_ins=[name for name, model in config.provided.items() if model.stand_in],
        test=test,
        sealed=outcome.sealed_source,
        rows=score_rows(test.rows, price, paid=paid),
        reworded=any(row.reworded_by_group for row in test.rows.values()),
        best=best,
        aim=aim,
        best_number=next((trial.number for trial in trials if trial.policy == policy), None),
        front=outcome.front,
        recommended=None if best is None else recommended(placed(trials), best, trials[0], aim.compared),
        seed=SEED,
        evolved=EVOLVED,
        window=WINDOW,
        turn=track.turn,
        turns=_has_turns(test.rows),
        paid=paid,
        ended=outcome.ended,
        plots=drawn,
        trials=trials,
        counts=_counts(trials),
        screening=screened(trials),
        proposers=_proposers(trials),
        failures=packed_failed_checks(outcome.folder),
        failures_script=resource("optimizer", "views", "failed_checks.js").read_text(encoding="utf-8"),
        numbers=[] if policy is None else _compare_numbers(config.seed_policy, policy),
        readers=readers_of(test.rows),
        reader_rows=reader_rows(test.rows),
        unscored=unscored_note(test.rows, track),
        bounds=bound_notes(outcome.at_bounds, context_tokens=config.context_tokens),
        prompts=[] if policy is None else _compare_prompts(config.seed_policy, policy, config.templates),
        best_policy="" if policy is None else dump_policy(policy),
        ledger=spent,
        replies=reply_notes(outcome.replies),
        settings=dump_config(config),
    )


def score_rows(rows: Rows, price: Prices | None, *, paid: bool = True) -> list[tuple[str, ...]]:
    """Return the cells of the sealed test's table, one row a policy; no dollars where nothing is ``paid``."""
    return [
        (
            name,
            with_interval(row.memory_score),
            with_interval(over),
            number(row.reworded.mean),
            number(row.accuracy),
            number(row.evidence.mean),
            *(number(row.shares[share]) for share in ("write", "read", "utilisation")),
            *(_turn_cells(row, price, paid=paid) if _has_turns(rows) else ()),
        )
        for (name, row), over in zip(rows.items(), over_window(rows).values(), strict=True)
    ]


def reader_rows(rows: Rows) -> dict[str, list[str]]:
    """Return each policy's memory score with each reader of the model's family, in the order of their names."""
    readers = readers_of(rows)
    return {
        name: [with_interval(row.by_reader.get(reader, UNSCORED)) for reader in readers] for name, row in rows.items()
    }


def recommended(places: Sequence[Placed], best: Trial, seed: Trial, compared: str) -> str:
    """Say which policy to take where tokens count; nothing where that is not known, or the seed policy is the best."""
    less, known = cheaper(places, best, seed), next((p for p in places if p.trial.policy == best.policy), None)
    if known is None or best.policy == seed.policy:
        return ""
    whole = f"trial {known.trial.number}, the evolved policy ({number(known.score)} at {known.cost:,.0f} tokens a turn)"
    if less is None:
        return f"Recommended: {whole}. No cheaper policy keeps {NEARLY_ALL:.0%} of its gain over the seed policy."
    lead = paired_difference(less.trial.train, known.trial.train)
    return (
        f"Where tokens count, take trial {less.trial.number}: {number(less.score)} at {less.cost:,.0f} tokens a turn. "
        f"Else take {whole}. Their difference in {compared} is {with_interval(lead)}, paired. No sealed test has seen "
        f"trial {less.trial.number}."
    )


def _has_turns(rows: Rows) -> bool:
    return any(row.per_turn is not None for row in rows.values())


def _turn_cells(row: Summary, price: Prices | None, *, paid: bool) -> tuple[str, ...]:
    """Return calls, tokens and, where they are paid, dollars of a turn; the dollars are those of 1,000."""
    if not paid:
        return tuple(cost_cells(row.per_turn))
    usd = "-" if row.per_turn is None else _usd(dollars(row.per_turn, price), times=1000)
    return (*cost_cells(row.per_turn), usd)


def _usd(usd: float | None, times: int = 1) -> str:
    return "not known" if usd is None else f"${times * usd:.2f}"


def _p(value: float) -> str:
    return "-" if math.isnan(value) else "<0.0001" if value < 1e-4 else f"{value:.2g}"


def _counts(trials: tuple[Trial, ...]) -> dict[str, int]:
    """Count the candidates by how far they came."""
    ends = Counter(_end_of(trial, trials) for trial in trials if trial.kind == "candidate")
    return {"proposed": ends.total(), **{end: ends[end] for end in ENDS}}


def _end_of(trial: Trial, trials: tuple[Trial, ...]) -> str:
    """Say how far a candidate came, looks at it later on included."""
    refused, screened, lost, looked_at, accepted = ENDS
    if trial.decided_at in {"check", "screen"}:
        return refused if trial.decided_at == "check" else screened
    twins = [twin for twin in trials if twin.policy == trial.policy]
    return accepted if any(t.accepted for t in twins) else looked_at if any(t.look for t in twins) else lost


def _proposers(trials: tuple[Trial, ...]) -> dict[str, list[int]]:
    """Count what came of each proposer's candidates."""
    counts, accepted = {}, {trial.policy for trial in trials if trial.accepted}
    for name in dict.fromkeys(trial.proposer for trial in trials if trial.kind == "candidate"):
        proposed = [trial for trial in trials if trial.proposer == name]
        counts[name] = [
            len(proposed),
            sum(trial.finished_race for trial in proposed),
            sum(trial.led for trial in proposed),
            len(accepted.intersection(trial.policy for trial in proposed)),
            sum(trial.ledger.total.calls for trial in proposed),
        ]
    return counts


def _compare_numbers(seed: MemoryPolicy, best: MemoryPolicy) -> list[tuple[str, Any, Any]]:
    before, after = policy_params(seed), policy_params(best)
    return [(name, before.get(name, "-"), after.get(name, "-")) for name in {**before, **after} if name != "key"]


def _compare_prompts(seed: MemoryPolicy, best: MemoryPolicy, templates: Templates) -> list[PromptChange]:
    """Compare each prompt of the best policy with the text that it started from.

    It is the seed's where the best policy uses the same kind, and the template's elsewhere.
    """
    changes = []
    for slot, text in best.prompts.model_dump().items():
        if text is not None and slot in best.prompt_kinds:
            kind, before, origin = best.prompt_kinds[slot], getattr(seed.prompts, slot), "the seed policy's"
            if before is None or seed.prompt_kinds[slot] != kind:
                before, origin = templates.starting(kind), f"the one that {best.write.mode} starts from"
            compared = difflib.ndiff(before.splitlines(), text.splitlines())
            lines = tuple((DIFFERENCES[line[:2]], line[2:]) for line in compared if line[:2] in DIFFERENCES)
            changes.append(PromptChange(slot, origin, lines))
    return changes
