"""What hears of a run: progress, MLflow's view, the report, and what other packages add."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...policies.lm import Budget
from ..config import Config
from ..study import Trial
from .outcome import Outcome


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a run stands."""

    phase: str
    budget: Budget
    """The phase's; it goes on counting."""
    trials: int = 0
    planned_trials: int = 0
    """0 where nobody plans any, as in the last look and the sealed test."""
    best: float = math.nan
    """What the best policy so far is compared by, on validation."""
    calls_ahead: int = 0
    """Calls that the rest of the run is expected to ask for."""


class Listener:
    """Hears of a run as it goes, and changes nothing in it; a subclass overrides what it wants to hear."""

    def check(self, config: Config) -> None:
        """Raise ConfigError when a run of this config cannot be followed; nothing is spent yet."""

    def begin(self, outcome: Outcome) -> None:
        """Hear that a run begins, or goes on. Raises ConfigError when it cannot be followed."""

    def say(self, text: str) -> None:
        """Hear one line that is worth reading."""

    def stand(self, standing: Standing) -> None:
        """Hear where the run stands now."""

    def tick(self) -> None:
        """Hear that an episode is over."""

    def trial(self, trial: Trial) -> None:
        """Hear of a finished trial; a run that goes on begins with its earlier trials."""

    def finish(self) -> None:
        """Hear that the run is over and ``result.json`` is written."""

    def abort(self) -> None:
        """Hear that the run was stopped before its end; it can go on."""


class Listeners(Listener):
    """Passes all that it hears on to several listeners, in their order."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        """Pass on to these."""
        for event in (name for name in vars(Listener) if not name.startswith("_")):
            setattr(self, event, _to_all([getattr(listener, event) for listener in listeners]))


def _to_all(hearers: Sequence[Callable[..., None]]) -> Callable[..., None]:
    def hear(*what: object) -> None:
        for hearer in hearers:
            hearer(*what)

    return hear
