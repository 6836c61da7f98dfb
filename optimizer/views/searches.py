"""What an ablation says before and while it searches: a live block on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ...policies.lm import Consumed
from ..search.ablation import Finished, Run
from ..search.ablation_plan import AblationPlan, summed
from ..search.outcome import holds_run, open_run
from ..search.searches import Position, is_done
from .progress import clock_text, spent_text, trial_text
from .table import count, number, plain_table, print_table, say, usd_cell

SECONDS_BETWEEN = 15.0
"""Between two plain lines."""


class SearchesProgress:
    """Shows which searches are over, where the others stand, what is spent and the time left."""

    def __init__(
        self, console: Console, runs: Sequence[Run], plan: AblationPlan, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Write to ``console`` of ``ready`` runs; ``clock`` is in seconds."""
        self.console, self._runs, self._clock = console, runs, clock
        self._variants = list(dict.fromkeys(run.variant for run in runs))
        self._seeds = list(dict.fromkeys(run.seed for run in runs))
        self._expected = {variant.name: float(variant.each.total[:, 0].sum()) for variant in plan.variants}
        self._over = {run.folder for run in runs if is_done(run)}
        self._gone = {run.folder: open_run(run.folder).consumed for run in runs if holds_run(run.folder)}
        self._positions: dict[Path, Position] = {}
        self._calls_before = self._spent.calls
        self._start = self._last_plain = clock()
        self._live = Live(console=console, get_renderable=self._block, refresh_per_second=2, transient=True)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show until the end of the block."""
        if self._over:
            self._print(f"{len(self._over)} of {len(self._runs)} searches are done and not run again")
        with self._live if self.console.is_terminal else nullcontext():
            yield

    def stands(self, run: Run, position: Position) -> None:
        """Hear where a search stands; without a terminal, a line every 15 seconds."""
        self._positions[run.folder] = position
        self._gone[run.folder] = position.gone
        if not self.console.is_terminal and self._clock() - self._last_plain >= SECONDS_BETWEEN:
            self._last_plain = self._clock()
            names = {run.folder: f"{run.variant}, seed {run.seed}" for run in self._runs}
            self._print(" · ".join([self._whole(), *self._under_way(names)]))

    def finished(self, run: Run) -> None:
        """Say what a search found."""
        self._positions.pop(run.folder, None)
        self._over.add(run.folder)
        self._gone[run.folder] = gone = open_run(run.folder).consumed
        done = [run for run in self._runs if run.folder in self._over]
        own = [self._gone[each.folder].calls for each in done if each.variant == run.variant]
        self._expected[run.variant] = sum(own) / len(own)
        found = f"memory score {number(Finished.of(run).mean)}, {gone.calls:,} calls, {gone.seconds:.0f} s"
        self._print(f"{len(done)}/{len(self._runs)}  {self._name(run)}: {found}")

    @property
    def _spent(self) -> Consumed:
        return summed(list(self._gone.values()))

    def _name(self, run: Run) -> str:
        """Name a search, and say how many variants and seeds there are."""
        variant, seed = self._variants.index(run.variant) + 1, self._seeds.index(run.seed) + 1
        return (
            f"{run.variant} (variant {variant} of {len(self._variants)}), seed {run.seed} "
            f"({seed} of {len(self._seeds)})"
        )

    def _block(self) -> Text:
        names = {run.folder: self._name(run) for run in self._runs}
        return Text("\n".join([*self._under_way(names), self._whole()]), overflow="ellipsis", no_wrap=True)

    def _under_way(self, names: Mapping[Path, str]) -> Iterator[str]:
        for folder, name in names.items():
            position = self._positions.get(folder)
            if position is not None:
                trials = trial_text(position.trials, position.planned_trials)
                best = "" if math.isnan(position.best) else f"best on validation {number(position.best)}"
                yield f"{name}: {', '.join(part for part in (position.phase, trials, best) if part)}"

    def _whole(self) -> str:
        done = f"{len(self._over)}/{len(self._runs)} searches done"
        return f"{done} · spent {spent_text(self._spent)} · ETA {self._eta()}"

    def _eta(self) -> str:
        elapsed, made = self._clock() - self._start, self._spent.calls - self._calls_before
        if made <= 0 or elapsed <= 0:
            return "-"
        left = [run for run in self._runs if run.folder not in self._over]
        return clock_text(sum(map(self._calls_left, left)) * elapsed / made)

    def _calls_left(self, run: Run) -> float:
        position = self._positions.get(run.folder)
        if position is not None:
            return position.calls_ahead
        gone = self._gone.get(run.folder, Consumed())
        return max(0.0, self._expected[run.variant] - gone.calls)

    def _print(self, line: str) -> None:
        say(self.console, line)


def show_plan(plan: AblationPlan, console: Console) -> None:
    """Print what each variant's searches take, what is left to spend, and the most that may be spent."""
    left, variants = plan.left, plan.variants
    if not variants:
        say(console, f"All {plan.searches} searches are done: nothing is left to spend.")
        return
    rows = [
        (
            variant.name,
            str(variant.searches),
            str(variant.done) if variant.done else "-",
            f"{round(float(variant.each.total[:, 0].sum())):,}",
            count(round(float(variant.each.total[:, 1:].sum()))),
            usd_cell(variant.each.total_usd),
        )
        for variant in variants
    ]
    columns = ("variant", "searches", "done", "calls each", "tokens each", "cost each")
    shown = len(columns) - (left.usd == 0)  # what costs nothing has no dollars
    title = "About what the searches take"
    print_table(console, plain_table(columns[:shown], [row[:shown] for row in rows], title=title))
    spent = Consumed(left.calls, left.tokens, left.usd)
    begun = any(variant.done or variant.spent.calls for variant in variants)
    say(console, f"{'Left to spend' if begun else 'To spend'}: about {spent_text(spent)}.{_time(plan)} {_limit(plan)}")


def _limit(plan: AblationPlan) -> str:
    if plan.limit is None:
        return "Calls have no limit (search.budget.calls)."
    return f"All searches together may make {plan.limit:,} calls at most (search.budget.calls, each)."


def _time(plan: AblationPlan) -> str:
    if not plan.left.seconds:
        return ""
    beside = f", {plan.beside} searches beside each other" if plan.beside > 1 else ""
    return f" It takes {clock_text(plan.left.seconds)} very roughly, on this machine{beside}."
