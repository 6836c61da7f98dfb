"""The append-only log of one evolution, kept in Optuna's storage: the single source of truth."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import reduce
from typing import Any, ClassVar, Literal, TypeVar
from uuid import uuid4

import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import StorageInternalError
from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial, TrialState
from pydantic import ConfigDict, TypeAdapter
from sqlalchemy.exc import SQLAlchemyError
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from ..data.errors import MnemotuneError
from ..env import Summary
from ..env.episode import Revision
from ..env.scoring import FailureKind
from ..env.statistics import nan_mean, shared_means
from ..policies.lm import Ledger
from ..policies.lm.postgres import PATIENCE_SECONDS, DatabaseSilent
from ..policies.policy import MemoryPolicy
from .looks import Look
from .study_storage import START_ANOTHER, database_of, is_lost, reason_of, remedy, study_of

VERSION = 4
"""Version of what a study keeps; a study of another version cannot be read."""

Kind = Literal["seed", "candidate", "finalist", "last_look", "pick"]
"""What a trial is: the seed policy, a proposal, the leader looked at once more at the end, what train groups cannot
tell from an accepted leader, or the objective's pick."""
Decision = Literal["seed", "check", "screen", "race", "validate"]
"""The step of the loop that decided on a trial."""


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Keep Optuna's notices off the user's screen."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)


@dataclass(frozen=True, slots=True)
class Evidence:
    """One wrong answer, described so that a proposer can learn from it."""

    kind: FailureKind
    text: str
    group: str = ""

    @property
    def labelled(self) -> str:
        """The text under a line that says at which stage of memory's work the answer was lost."""
        return f"Stage: {self.kind}\n{self.text}"


@dataclass(frozen=True, slots=True)
class Played:
    """How a policy did with one user."""

    score: float
    """What it is compared by; NaN when the episode failed."""
    evidence: tuple[Evidence, ...]
    revisions: tuple[Revision, ...] = ()
    """How the policy rewrote its own prompts, in order."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One candidate and what became of it."""

    __pydantic_config__: ClassVar = ConfigDict(arbitrary_types_allowed=True)  # Optuna's distributions

    number: int
    generation: int
    """0 is the seed policy's."""
    policy: MemoryPolicy | None
    """None when the proposal is no valid policy."""
    parent: int | None
    """The number of the trial that it was made from."""
    change: str
    """What the proposer did, in words."""
    decided_at: Decision
    accepted: bool = False
    reason: str = ""
    """Why it was accepted or dropped."""
    train: Mapping[str, float] = field(default_factory=dict)
    """What trials are compared by, usually the memory score, by train user; whole episodes only."""
    series: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The same by train user and period, as far as the race went."""
    validation: Mapping[str, float] = field(default_factory=dict)
    """The same by validation user; empty when it was not looked at."""
    slices: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Scores on parts of what validation users are asked, by user."""
    summary: Summary | None = None
    """Of its evaluation on the train users; None when it was not evaluated on all of them."""
    evidence: tuple[Evidence, ...] = ()
    ledger: Ledger = field(default_factory=Ledger)
    """Its cost, proposing included."""
    calls: int = 0
    """Calls of its race and its look without upper bounds, so that a run that was stopped counts the same."""
    periods: int = 0
    """Periods of episodes that its race and its look ran."""
    kind: Kind = "candidate"
    proposer: str = ""
    """Its proposer's name; empty unless it is a candidate."""
    forecast: float = math.nan
    """The screen's forecast; NaN where there is none."""
    ahead: bool = False
    """Whether it was better than all before it on train users, by the mean."""
    led: bool = False
    """Whether it was clearly so."""
    over: str = ""
    """Which limits it is over, and by what; it cannot lead then. Empty where it keeps them."""
    look: Look | None = None
    """What validation users said of it; None when it was not looked at."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Optuna's view of the numbers and the structure."""
    distributions: Mapping[str, BaseDistribution] = field(default_factory=dict)
    began: datetime | None = field(default=None, compare=False, repr=False)
    """When its race or its look began; None in a study of before these were noted."""
    ended: datetime | None = field(default=None, compare=False, repr=False)
    """When it was written down; None until then."""

    @property
    def score(self) -> float:
        """Mean over the train users; NaN without any."""
        return nan_mean(list(self.train.values()))

    @property
    def verdict(self) -> Literal["accepted", "led", "dropped"]:
        """What became of it; one that led was better on train users than all before, and waited for a look.

        Older studies note only who led clearly.
        """
        return "accepted" if self.accepted else "led" if (self.ahead or self.led) and self.look is None else "dropped"

    @property
    def finished_race(self) -> bool:
        """Whether it was evaluated on every train user."""
        return self.summary is not None

    def as_optuna(self) -> FrozenTrial:
        """Return the trial as Optuna keeps it; its record travels as user attributes."""
        complete = self.finished_race and not math.isnan(self.score)
        state = TrialState.COMPLETE if complete else TrialState.PRUNED if self.series else TrialState.FAIL
        record = _RECORD.dump_python(self, mode="json", exclude={"number", "params", "distributions"})
        frozen = optuna.create_trial(
            state=state,
            value=self.score if complete else None,
            params=dict(self.params),
            distributions=dict(self.distributions),
            intermediate_values={i: v for i, v in enumerate(self.train.values()) if not math.isnan(v)},
            user_attrs={name: json.dumps(value, ensure_ascii=False) for name, value in record.items()},
        )
        frozen.datetime_start, frozen.datetime_complete = map(_local, (self.began or self.ended, self.ended))
        return frozen

    @classmethod
    def from_optuna(cls, frozen: FrozenTrial) -> Trial:
        """Read a trial back from Optuna's storage."""
        record = {name: json.loads(value) for name, value in frozen.user_attrs.items()}
        others = {"number": frozen.number, "params": frozen.params, "distributions": frozen.distributions}
        written = frozen.datetime_complete
        ended = {"ended": None if written is None else written.astimezone(UTC)}
        return _RECORD.validate_python(ended | record | others)


_RECORD = TypeAdapter(Trial)


def _local(moment: datetime | None) -> datetime | None:
    """Return a moment as Optuna keeps it: local time that does not say so."""
    return None if moment is None else moment.astimezone().replace(tzinfo=None)


def raced(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials that were evaluated on every train user: those that can be parents."""
    return [trial for trial in trials if trial.finished_race]


def able(trials: Sequence[Trial]) -> list[Trial]:
    """Return the raced trials that can lead: those within all limits."""
    return [trial for trial in raced(trials) if not trial.over]


def users_won(trials: Sequence[Trial]) -> dict[int, list[str]]:
    """Return the train users for whom each raced trial is best, by its number; ties count for all."""
    won: dict[int, list[str]] = {}
    for user in trials[0].train if trials else ():
        scores = {trial.number: trial.train.get(user, math.nan) for trial in trials}
        best = max((score for score in scores.values() if not math.isnan(score)), default=math.nan)
        for number in (number for number, score in scores.items() if score == best):
            won.setdefault(number, []).append(user)
    return won


def leader(trials: Sequence[Trial]) -> Trial:
    """Return the trial that can lead with the best mean on train users, accepted or not; of equals the first.

    One that lacks most of the users that any trial has a score for does not lead.
    """
    users, candidates = scored_users(trial.train for trial in trials), able(trials)
    whole = [trial for trial in candidates if not lacks_most(trial.train, users)]
    return reduce(lambda first, trial: trial if beats(trial, first) else first, whole, candidates[0])


def scored_users(scores: Iterable[Mapping[str, float]]) -> set[str]:
    """Return the users who have a score anywhere."""
    return {user for each in scores for user, score in each.items() if not math.isnan(score)}


def lacks_most(scores: Mapping[str, float], users: Set[str]) -> bool:
    """Tell whether more than half of these users have no score: the others would tell little."""
    return 2 * sum(math.isnan(scores.get(user, math.nan)) for user in users) > len(users)


def beats(trial: Trial, other: Trial) -> bool:
    """Tell whether a trial's mean is above another's, over the train users that both have a score for.

    A user whose episode failed has none, and a hard one must not be missing on one side alone.
    """
    ours, theirs = shared_means(trial.train, other.train)
    return ours > theirs or (math.isnan(other.score) and not math.isnan(trial.score))


class StudyError(MnemotuneError, ValueError):
    """Say why a database is no study that can be gone on with, or cannot be written to, and what to do."""


T = TypeVar("T")


class Study:
    """Every trial of one evolution, in order; only finished trials are ever written."""

    def __init__(
        self,
        storage: str | None,
        *,
        name: str,
        begun: bool | None = None,
        guard: Callable[[], None] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Open the study of this name in an Optuna storage URL, or start it; None keeps it in memory alone.

        ``begun`` insists that it is there, or that it has no trials. ``guard`` is called before anything is written,
        and waits for a lost database. Raises StudyError when there is no such study, or one of another version.
        """
        self._guard, self.clock = guard, clock
        if guard is not None:
            optuna.logging.set_verbosity(optuna.logging.ERROR)  # it warns of a lost connection in many lines
        try:
            with quiet_optuna():
                self._storage = InMemoryStorage() if storage is None else database_of(storage, begun)
                self._study = study_of(self._storage, name, begun=bool(begun and storage is not None))
            self._id = self._storage.get_study_id_from_name(name)
            frozen, _ = self._storage.get_all_trials(self._id, deepcopy=False), self._study.user_attrs
        except KeyError:
            raise StudyError(f"there is no study named {name!r}; {START_ANOTHER}") from None
        except (SQLAlchemyError, StorageInternalError, RuntimeError) as error:
            reason = reason_of(error)
            raise StudyError(f"the study cannot be used ({reason}); {remedy(reason)}") from error
        if frozen and begun is False:
            raise StudyError(f"a study named {name!r} is there already; --resume its run, or choose another name")
        if not frozen and self.noted("version") is None:
            self.note("version", VERSION)
            with quiet_optuna():
                self._write(lambda: self._study.set_metric_names(["train score"]))
        version = self.noted("version") or 0
        if version < VERSION:
            why = "made by an earlier version of mnemotune: its report.html can still be read"
            raise StudyError(f"{why}; {START_ANOTHER}")
        if version > VERSION:
            raise StudyError("made by a later version of mnemotune: update mnemotune to open it")
        try:
            self._trials = [Trial.from_optuna(trial) for trial in frozen]
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            why = (str(error) or type(error).__name__).splitlines()[0]
            raise StudyError(f"the study is damaged: a trial cannot be read ({why}); {START_ANOTHER}") from error
        if [trial.number for trial in self._trials] != list(range(len(self._trials))):
            raise StudyError(f"the study is damaged: a trial is missing; {START_ANOTHER}")

    @property
    def identity(self) -> str:
        """A name that no other study has, for as long as its storage lives."""
        known = self.noted("identity")
        if known is None:
            known = uuid4().hex
            self.note("identity", known)
        return str(known)

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All trials so far."""
        return tuple(self._trials)

    def append(self, trial: Trial) -> None:
        """Write a finished trial for good, with the moment. Raises ValueError when it is not the next one."""
        if trial.number != len(self._trials):
            raise ValueError(f"trial {trial.number} cannot be appended after {len(self._trials)} trials")
        trial = replace(trial, ended=self.clock())
        frozen, tried = trial.as_optuna(), False

        def write() -> None:
            nonlocal tried
            if self._holds(trial.number):
                if tried and self._stored(trial.number).user_attrs == frozen.user_attrs:
                    return  # it was written before the connection was lost
            elif trial.number == 0 or self._holds(trial.number - 1):
                tried = True
                self._storage.create_new_trial(self._id, template_trial=frozen)  # a study would keep a copy for good
                return
            there = self._storage.get_n_trials(self._id)
            raise ValueError(f"another process has written to this study: it holds {there} trials, not {trial.number}")

        self._write(write)
        self._trials.append(trial)

    def _holds(self, number: int) -> bool:
        """Tell whether a trial is written; to count all of them, Optuna reads them all."""
        try:
            self._storage.get_trial_id_from_study_id_trial_number(self._id, number)
        except KeyError:
            return False
        return True

    def _stored(self, number: int) -> FrozenTrial:
        return self._storage.get_trial(self._storage.get_trial_id_from_study_id_trial_number(self._id, number))

    @property
    def best(self) -> Trial:
        """The policy accepted last: the seed's trial until a better one is accepted."""
        return next(trial for trial in reversed(self._trials) if trial.accepted)

    def note(self, name: str, value: Any) -> None:
        """Keep a JSON value beside the trials, for example the sealed test's result."""
        text = json.dumps(value, ensure_ascii=False)
        self._write(lambda: self._study.set_user_attr(name, text))

    def noted(self, name: str) -> Any:
        """Return a value kept by ``note``; None when there is none."""
        text = self._insist(lambda: self._study.user_attrs).get(name)
        try:
            return None if text is None else json.loads(text)
        except (TypeError, ValueError):
            raise StudyError(f"the study is damaged: its {name} cannot be read; {START_ANOTHER}") from None

    def _write(self, write: Callable[[], None]) -> None:
        """Write as long as this process is the one that may."""

        def guarded() -> None:
            if self._guard is not None:
                self._guard()
            write()

        self._insist(guarded)

    def _insist(self, work: Callable[[], T]) -> T:
        """Do what may be done twice; a database that is lost meanwhile is waited for."""
        lost = retry_if_exception(is_lost)
        waiting = Retrying(retry=lost, stop=stop_after_delay(PATIENCE_SECONDS), wait=wait_fixed(0.5), reraise=True)
        try:
            return waiting(work)
        except (SQLAlchemyError, StorageInternalError) as error:
            kind = DatabaseSilent if is_lost(error) else StudyError
            raise kind(f"the study cannot be used ({reason_of(error)})") from error
