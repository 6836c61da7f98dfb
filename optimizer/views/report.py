"""The report of a run: one self-contained HTML page, made from the study alone."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from markupsafe import Markup, escape

from ...data.whole_files import write_whole
from ...env import Summary
from ...env.statistics import nan_mean, paired_difference
from ...env.summary import UNSCORED
from ...policies.files import WINDOW, dump_policy
from ...policies.lm.ledger import merged
from ...policies.lm.prices import Prices
from ..config import dump_config
from ..models import embedder_remark, price_of
from ..objectives import Objective, dollars
from ..search.front import NEARLY_ALL, Placed, cheaper, placed
from ..search.listener import Listener
from ..search.origin import origins_of
from ..search.outcome import Outcome
from ..search.screen import screened
from ..search.sealed import EVOLVED, SEED, SealedTest
from ..study import Trial
from .changes import compare_knobs, compare_prompts
from .ending import not_over
from .failed_checks import packed_failed_checks
from .importance import BEST, raced_numbers
from .lineage import Lineage
from .page import against, environment, source
from .pictures import pictures_of
from .slices import group_rows, slice_rows
from .table import (
    Rows,
    bound_notes,
    cost_cells,
    number,
    over_window,
    readers_of,
    reply_notes,
    train_cell,
    unscored_note,
    usd_cell,
    with_interval,
)

RIVALS = {SEED: "the seed policy", WINDOW: f"the {WINDOW}"}
"""What an evolved policy has to be better than."""
ENDS = (
    "not new or not valid",
    "screened out",
    "lost the race",
    "led and were not looked at",
    "not confirmed on validation",
    "accepted",
)
"""How far a candidate comes."""
MOST_BYTES = 4_900_000
"""Of the whole page; the failed checks get what the rest of it leaves."""
ROLES = {
    "user": "the simulated user speaks",
    "reply": "the assistant replies to a message",
    "write": "the assistant writes memories",
    "answer": "the assistant answers a check",
    "probe": "the assistant is asked for a fact that a check needs, which tells the kinds of failure apart",
    "upper_bound": "a check is answered with exactly the facts that it needs: the ceiling",
    "propose": "a proposer edits prompts",
    "generate": "users are made up",
    "judge": "a model says whether a free answer is right",
    "embed": "texts become vectors",
}
"""What calls of a role are for."""
BASELINE_WORDS = {
    "native": "Nothing is written: the assistant sees the messages themselves, as many as fit.",
    "rag": "Messages are kept as they are, and the most similar to the message at hand are brought back.",
    "awe": "The assistant writes facts, and the most similar to the message at hand are brought back.",
    "awi": "The assistant writes a profile of label and text, all of which is in the prompt.",
}
"""What the baselines that ship do."""
PROPOSER_WORDS = {
    "known": "the presets, and strategies with a name",
    "spread": "points from all over the space, far from those before",
    "reflective": "a model edits prompts and numbers of a good trial after reading its failures",
    "merge": "two good trials are crossed",
    "gp": "a Gaussian process picks numbers near good ones",
    "tpe": "Optuna's TPE picks numbers",
    "random": "random numbers",
    "amemgym": "AMemGym's way to rewrite prompts",
    "gepa": "GEPA's way to rewrite prompts",
}
"""What the proposers that ship do."""


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
    pages = environment()
    pages.filters |= {"p": _p, "linked": _linked, "coded": _coded, "train_cell": train_cell}
    pages.filters["mean"] = lambda scores: nan_mean(list(scores.values()))
    template = pages.get_template("report.html")
    config, test, track, trials = outcome.config, outcome.test, outcome.track, outcome.study.trials
    best, aim = outcome.study.best if trials else None, config.search.aim
    policy = None if best is None else best.policy
    lineage = Lineage.of(trials, config.templates)
    spent, price = merged([outcome.search_spend, outcome.test_spend]), price_of(config.model, config)
    paid = price is None or price.input + price.output > 0 or spent.total.cost_usd != 0
    page = partial(
        template.render,
        style=source("plots.css"),
        name=outcome.folder.name,
        config=config,
        agent=track.agent,
        noun=track.noun,
        stage_noun=track.stage_noun,
        remark=embedder_remark(config),
        stand_ins=[name for name, model in config.provided.items() if model.stand_in],
        test=test,
        verdict=against(test.difference),
        not_over=not_over(outcome),
        untested=outcome.untested,
        against=against,
        sealed=outcome.sealed_source,
        rows=score_rows(test.rows, price, paid=paid),
        reworded=any(row.reworded_by_group for row in test.rows.values()),
        best=best,
        aim=aim,
        best_number=next((trial.number for trial in trials if trial.policy == policy), None),
        front=outcome.front,
        recommended=None
        if best is None
        else recommended(placed(trials), best, trials[0], aim=aim, noun=track.noun, test=test),
        seed=SEED,
        evolved=EVOLVED,
        window=WINDOW,
        turn=track.turn,
        turns=_has_turns(test.rows),
        paid=paid,
        ended=outcome.ended,
        plots=pictures_of(outcome, best),
        plots_script=source("plots.js"),
        trials=trials,
        counts=_counts(trials),
        screening=screened(trials),
        proposers=_proposers(trials),
        failures_script=source("failed_checks.js"),
        lacking=_lacking(test.rows),
        knobs=[] if policy is None else compare_knobs(config.seed_policy, policy),
        readers=readers_of(test.rows),
        reader_rows=reader_rows(test.rows),
        unscored=unscored_note(test.rows, track),
        bounds=bound_notes(outcome.at_bounds, context_tokens=config.context_tokens),
        prompts=[]
        if policy is None
        else compare_prompts(config.seed_policy, policy, config.templates, owner="the seed policy's"),
        generations=lineage.generations,
        line=[] if best is None else lineage.line_to(best),
        best_policy="" if policy is None else dump_policy(policy),
        ledger=spent,
        roles=ROLES,
        slices=slice_rows(outcome.slices),
        groups=group_rows(test.rows),
        raced=len(raced_numbers(trials)),
        good=BEST,
        origins=origins_of(outcome.study),
        proposer_words=PROPOSER_WORDS,
        baseline_words=BASELINE_WORDS,
        replies=reply_notes(outcome.replies),
        settings=dump_config(config),
    )
    failures = packed_failed_checks(outcome.folder, most=0)
    if failures is None:
        return page(failures=None)
    empty = replace(failures, text="", groups=failures.left_out)  # the most digits that its counts can have
    room = MOST_BYTES - len(page(failures=empty).encode())
    return page(failures=packed_failed_checks(outcome.folder, most=max(0, room)))


def _lacking(rows: Mapping[str, Summary]) -> dict[str, bool | list[str]]:
    """Return what the sealed test does not tell of the two policies: all of one, or the groups that one has lost."""
    both = [rows[name] for name in (SEED, EVOLVED) if name in rows]
    groups = {group for row in both for group in (*row.by_group, *row.failures)}
    lacking = {name: sorted(groups - rows[name].by_group.keys()) if name in rows else True for name in (SEED, EVOLVED)}
    return {name: lacks for name, lacks in lacking.items() if lacks}


def _linked(text: str) -> Markup:
    """Return a text in which each trial that it names leads there."""
    linked = re.sub(r"\b[Tt]rials? (\d+)", r'<a href="#trial-\1">\g<0></a>', str(escape(text)))
    return Markup(linked)  # noqa: S704 - escaped above


def _coded(text: str) -> Markup:
    """Return a text in which commands look like such."""
    coded = re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text)))
    return Markup(coded)  # noqa: S704 - escaped above


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


def recommended(
    places: Sequence[Placed], best: Trial, seed: Trial, *, aim: Objective, noun: str, test: SealedTest
) -> str:
    """Say which policy to take where tokens count; nothing where that is not known, or the seed policy is the best.

    Nothing is recommended that the sealed test does not show to be better than the seed policy and the window.
    """
    beyond = test.evidence_beyond if aim.by_evidence else test.difference_from
    unsure = [words for other, words in RIVALS.items() if not beyond(other).low > 0]
    if unsure and best.policy != seed.policy:
        rivals, shown = " and ".join(unsure), "does not show" if test.done else "has not shown yet"
        return f"No policy is recommended: the sealed test {shown} that the evolved one is better than {rivals}."
    less, known = cheaper(places, best, seed), next((p for p in places if p.trial.policy == best.policy), None)
    if known is None or best.policy == seed.policy:
        return ""
    where = f"on train {noun}s at {known.cost:,.0f} tokens a turn"
    whole = f"trial {known.trial.number}, the evolved policy ({number(known.score)} {where})"
    if less is None:
        return f"Recommended: {whole}. No cheaper policy keeps {NEARLY_ALL:.0%} of its gain over the seed policy."
    lead = paired_difference(less.trial.train, known.trial.train)
    return (
        f"Where tokens count, take trial {less.trial.number}: {number(less.score)} at {less.cost:,.0f} tokens a turn. "
        f"Else take {whole}. Their difference in {aim.compared} is {with_interval(lead)}, paired. "
        f"No sealed test has seen trial {less.trial.number}."
    )


def _has_turns(rows: Rows) -> bool:
    return any(row.per_turn is not None for row in rows.values())


def _turn_cells(row: Summary, price: Prices | None, *, paid: bool) -> tuple[str, ...]:
    """Return calls, tokens and, where they are paid, dollars of a turn; the dollars are those of 1,000."""
    if not paid:
        return tuple(cost_cells(row.per_turn))
    usd = "-" if row.per_turn is None else usd_cell(dollars(row.per_turn, price), times=1000)
    return (*cost_cells(row.per_turn), usd)


def _p(value: float) -> str:
    return "-" if math.isnan(value) else "<0.0001" if value < 1e-4 else f"{value:.2g}"


def _counts(trials: tuple[Trial, ...]) -> dict[str, int]:
    """Count the candidates by how far they came."""
    ends = Counter(_end_of(trial, trials) for trial in trials if trial.kind == "candidate")
    return {"proposed": ends.total(), **{end: ends[end] for end in ENDS}}


def _end_of(trial: Trial, trials: tuple[Trial, ...]) -> str:
    """Say how far a candidate came, looks at it later on included."""
    refused, screened, lost, led, looked_at, accepted = ENDS
    if trial.decided_at in {"check", "screen"}:
        return refused if trial.decided_at == "check" else screened
    twins = [twin for twin in trials if twin.policy == trial.policy]
    if any(twin.accepted for twin in twins):
        return accepted
    if any(twin.look for twin in twins):
        return looked_at
    return led if any(twin.ahead or twin.led for twin in twins) else lost


def _proposers(trials: tuple[Trial, ...]) -> dict[str, list[int]]:
    """Count what came of each proposer's candidates."""
    counts, accepted = {}, {trial.policy for trial in trials if trial.accepted}
    for name in dict.fromkeys(trial.proposer for trial in trials if trial.kind == "candidate"):
        proposed = [trial for trial in trials if trial.proposer == name]
        counts[name] = [
            len(proposed),
            sum(trial.finished_race for trial in proposed),
            sum(trial.led for trial in proposed),
            len(accepted.intersection(trial.policy for trial in proposed if trial.decided_at != "check")),
            sum(trial.ledger.total.calls for trial in proposed),
        ]
    return counts
