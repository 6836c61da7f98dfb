"""What hears of a run: progress, MLflow's view, the report, and whatever else wants to."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    """0 where nobody plans any."""
    best: float = math.nan
    """Validation memory score of the best policy so far."""
    calls_ahead: int = 0
    """Calls that the rest of the run is expected to ask for."""


class Listener:
    """Hears of a run as it goes, and changes nothing in it; a subclass overrides what it cares for."""

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
        """Hear of a finished trial; where a run goes on, of those before it too."""

    def finish(self) -> None:
        """Hear that the run is over and ``result.json`` is written."""

    def abort(self) -> None:
        """Hear that the run was stopped before its end; it can go on."""


class Listeners(Listener):
    """Tells each of several listeners, in their order."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        """Tell these."""
        self._each = tuple(listeners)

    def check(self, config: Config) -> None:
        """Check with each."""
        for listener in self._each:
            listener.check(config)

    def begin(self, outcome: Outcome) -> None:
        """Begin with each."""
        for listener in self._each:
            listener.begin(outcome)

    def say(self, text: str) -> None:
        """Say it to each."""
        for listener in self._each:
            listener.say(text)

    def stand(self, standing: Standing) -> None:
        """Tell each."""
        for listener in self._each:
            listener.stand(standing)

    def tick(self) -> None:
        """Tell each."""
        for listener in self._each:
            listener.tick()

    def trial(self, trial: Trial) -> None:
        """Tell each."""
        for listener in self._each:
            listener.trial(trial)

    def finish(self) -> None:
        """Finish with each."""
        for listener in self._each:
            listener.finish()

    def abort(self) -> None:
        """Abort with each."""
        for listener in self._each:
            listener.abort()
