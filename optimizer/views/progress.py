"""What a run says while it runs: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ...env.statistics import nan_mean
from ...policies.lm import Consumed
from ..search.listener import Listener, Standing
from ..search.outcome import Outcome
from ..study import Trial
from .table import counted, number, train_cell

COLUMNS = "{:>5}  {:<8}  {:>6}  {}"
WIDTH = 120
"""Characters that a row takes at most; what a candidate changed is cut, and stands whole in the report."""
INDENT = len(COLUMNS.format("", "", "", ""))


class Progress(Listener):
    """Shows spend, the best policy so far and the time left."""

    def __init__(self, console: Console, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Write to ``console``; ``clock`` is in seconds."""
        self.console = console
        self._clock = clock
        self._standing: Standing | None = None
        self._start = self._last_plain = clock()
        self._calls_at_start = 0
        self._headed = False
        self._going_on = ""
        self._live = Live(console=console, get_renderable=self._line, refresh_per_second=4, transient=True)

    def begin(self, outcome: Outcome) -> None:
        """Start showing; a run that goes on says once what its best policy so far is."""
        if outcome.study.trials:
            best = outcome.study.best
            label = "" if best.policy is None else f", {best.policy.label}"
            score = number(nan_mean(list(best.validation.values())))
            where = f"trial {best.number}{label}, {score} on validation"
            self._going_on = f"Goes on after {counted(len(outcome.study.trials), 'trial')}; the best so far is {where}"
        if self.console.is_terminal:
            self._live.start()

    def finish(self) -> None:
        """Stop showing."""
        self._live.stop()

    abort = finish

    def stand(self, standing: Standing) -> None:
        """Show where the run stands; another budget begins another phase, with a speed of its own."""
        if self._standing is None or standing.budget is not self._standing.budget:
            self._start, self._calls_at_start = self._clock(), standing.budget.calls
        self._standing = standing
        if self._going_on:  # below the trials so far, which come before
            self.say(self._going_on)
            self._going_on = ""

    def tick(self) -> None:
        """Show that something was finished; without a terminal, a line every 15 seconds."""
        if not self.console.is_terminal and self._clock() - self._last_plain >= 15:
            self._last_plain = self._clock()
            self._print(self._line())

    def trial(self, trial: Trial) -> None:
        """Say what became of a candidate, under a heading: what it changed, and below that why."""
        if not self._headed:
            self._headed = True
            self._print(Text(COLUMNS.format("trial", "", "train", "what it changed, and why"), style="dim"))
        style = "green" if trial.accepted else ""
        row = COLUMNS.format(trial.number, trial.verdict, train_cell(trial), _changed(trial))
        self._print(Text(row if len(row) <= WIDTH else f"{row[: WIDTH - 1]}…", style=style))
        self._print(Text(" " * INDENT + trial.reason, style=style or "dim"))

    def say(self, text: str) -> None:
        """Print one line."""
        self._print(Text(text), wrap=True)

    def _print(self, text: Text, *, wrap: bool = False) -> None:
        """Keep lines whole in files; cut them off at the edge of a terminal."""
        terminal = self.console.is_terminal
        self.console.print(
            text, soft_wrap=not terminal, no_wrap=not wrap or None, overflow="ellipsis" if terminal else "ignore"
        )

    def _line(self) -> Text:
        standing = self._standing
        if standing is None:
            return Text("starting")
        budget = standing.budget
        spend = spent_text(Consumed(budget.calls, budget.tokens, budget.usd))
        best = "-" if math.isnan(standing.best) else f"{standing.best:.3f}"
        trials = trial_text(standing.trials, standing.planned_trials)
        parts = [standing.phase, trials, f"spent {spend}", f"best on validation {best}", f"ETA {self._eta(standing)}"]
        return Text(" · ".join(part for part in parts if part))

    def _eta(self, standing: Standing) -> str:
        elapsed = self._clock() - self._start
        done = standing.budget.calls - self._calls_at_start
        if done <= 0 or elapsed <= 0 or standing.calls_ahead <= 0:
            return "-"
        return clock_text(standing.calls_ahead * elapsed / done)


def _changed(trial: Trial) -> str:
    """Say on one line what a candidate changed, and of which trial."""
    change = " ".join(trial.change.split())
    return change if trial.parent in {None, 0} else f"of trial {trial.parent}: {change}"


def trial_text(trials: int, planned: int) -> str:
    """Say how many trials a search has; nothing where none are planned."""
    return f"trial {trials}/{planned}" if planned else ""


def spent_text(gone: Consumed) -> str:
    """Write calls, tokens and dollars; no dollars where nothing was paid."""
    dollars = ", $ not known" if gone.usd is None else f", ${gone.usd:.2f}" if gone.usd else ""
    return f"{gone.calls:,} calls, {gone.tokens / 1e6:.1f}M tokens{dollars}"


def clock_text(seconds: float) -> str:
    """Write a duration as ``m:ss`` or ``h:mm:ss``."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"
