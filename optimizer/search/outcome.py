"""A run's folder, read back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ...env import Track
from ...env.cost import TurnCost
from ...env.statistics import nan_mean
from ...env.summary import json_number, score_json
from ...policies.files import WINDOW
from ...policies.lm import Charges, Consumed, Ledger, merged
from ...policies.lm.postgres import Lock, Postgres
from ...policies.space import at_bounds
from ..config import Config, ConfigError, dump_config, load_config
from ..models import embedder_remark, price_of, track_of
from ..objectives import dollars
from ..stores import Storage, default_uri
from ..study import Study, StudyError, users_won
from ..study_storage import START_ANOTHER
from .acceptance import Slices
from .front import front, placed
from .origin import note_origin, origins_of
from .place import check_database, check_tables
from .screen import screened
from .sealed import EVOLVED, SEED, SealedTest

STUDY = "evolution"
CONSUMED, SEARCH_SPEND, TEST_SPEND, TEST, ENDED = "consumed", "search_spend", "test_spend", "test", "ended"
WARNED, SLICES, BEGAN, STOPPED = "warned", "test_slices", "began", "stopped"
"""What the study keeps beside its trials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontRow:
    """A policy that no other beats in both score and cost."""

    trial: int
    policy: str
    train: float
    """What it is compared by on the train groups."""
    validation: float
    """The same on the validation groups; NaN where it was not looked at."""
    per_turn: TurnCost
    usd: float | None
    """US dollars a turn; None where the price is not known."""
    best_for: tuple[str, ...]
    """Train groups for which no policy is better."""

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values; NaN becomes null."""
        return {
            "trial": self.trial,
            "policy": self.policy,
            "train": json_number(self.train),
            "validation": json_number(self.validation),
            "per_turn": self.per_turn.as_json() | {"usd": self.usd},
            "best_for": list(self.best_for),
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run, finished or not; everything is read from its config and its study."""

    folder: Path
    config: Config
    study: Study

    @property
    def study_name(self) -> str:
        """What its study is called in its database."""
        storage = self.config.storage
        return STUDY if storage is None or storage.study is None else storage.study

    @property
    def track(self) -> Track:
        """The run's track. Raises ConfigError when it is not registered any more."""
        return track_of(self.config)

    @property
    def sealed_source(self) -> str | None:
        """Where the sealed test's groups come from, where it is not the data that the search was on."""
        return self.config.test_data or self.track.usual.held_out(self.config.data)

    @property
    def test(self) -> SealedTest:
        """The sealed test, as far as it went."""
        noted = self.study.noted(TEST)
        return SealedTest() if noted is None else SealedTest.from_json(noted)

    @property
    def untested(self) -> list[str]:
        """Policies that the sealed test lacks; empty while the search is not over, and once the test is."""
        test = self.test
        if self.ended is None or test.done:
            return []
        every = dict.fromkeys((EVOLVED, SEED, WINDOW, *self.config.baselines))
        return [name for name in every if name not in test.rows]

    @property
    def slices(self) -> dict[str, Slices]:
        """Scores of the sealed test on parts of what is asked, of the seed policy and of the evolved one."""
        return {**(self.study.noted(SLICES) or {})}

    def note_slices(self, name: str, slices: Slices) -> None:
        """Keep a policy's scores on parts of what the sealed test asks."""
        self.study.note(SLICES, self.slices | {name: slices})

    @property
    def consumed(self) -> Consumed:
        """The spent budget: each request once, and again where a server may have billed it without an answer."""
        noted = self.study.noted(CONSUMED)
        return Consumed() if noted is None else Consumed(**noted)

    @property
    def search_spend(self) -> Ledger:
        """What the search was charged, each request once."""
        return Ledger.from_json(self.study.noted(SEARCH_SPEND) or {})

    @property
    def test_spend(self) -> Ledger:
        """What the sealed test was charged for requests that the search had not made."""
        return Ledger.from_json(self.study.noted(TEST_SPEND) or {})

    @property
    def replies(self) -> Ledger:
        """What the calls of all trials and of the sealed test took, cached ones included, with the forms of replies."""
        rows = [row.spend for row in self.test.rows.values()]
        return merged([*(trial.ledger for trial in self.study.trials), *rows])

    @property
    def ended(self) -> str | None:
        """Why the search ended; None when it has not."""
        noted: str | None = self.study.noted(ENDED)
        return noted

    @property
    def began(self) -> datetime | None:
        """When the run began; None where that was not noted and there is no trial yet."""
        return self._moment(BEGAN) or next((trial.began or trial.ended for trial in self.study.trials[:1]), None)

    @property
    def stopped(self) -> datetime | None:
        """When the run ended, or was stopped last; None where that is not known.

        A run that was killed notes nothing: its last trial says how far it came.
        """
        moments = [self._moment(STOPPED), *(trial.ended for trial in self.study.trials[-1:])]
        return max((moment for moment in moments if moment is not None), default=None)

    def note_begin(self) -> None:
        """Note which mnemotune works on the run and, the first time, when it began."""
        note_origin(self.study)
        if self.study.noted(BEGAN) is None:
            self.study.note(BEGAN, self.study.clock().isoformat())

    def note_end(self) -> None:
        """Note that the run ended, or was stopped."""
        self.study.note(STOPPED, self.study.clock().isoformat())

    def _moment(self, name: str) -> datetime | None:
        noted = self.study.noted(name)
        return None if noted is None else datetime.fromisoformat(noted)

    @property
    def tracking_uri(self) -> str | None:
        """Where MLflow keeps its view of the run; None where there is none."""
        tracking = self.config.tracking
        return None if tracking is None else tracking.whole_uri or default_uri(self.folder.parent)

    @property
    def front(self) -> list[FrontRow]:
        """The raced policies that no other beats in score and tokens a turn, the cheapest first."""
        price = price_of(self.config.model, self.config)
        places = placed(self.study.trials)
        won = users_won([place.trial for place in places])
        validation = {trial.policy: trial.validation for trial in self.study.trials if trial.validation}
        return [
            FrontRow(
                trial=place.trial.number,
                policy="" if place.trial.policy is None else place.trial.policy.label,
                train=place.score,
                validation=nan_mean(list(validation.get(place.trial.policy, {}).values())),
                per_turn=place.per_turn,
                usd=dollars(place.per_turn, price),
                best_for=tuple(won.get(place.trial.number, [])),
            )
            for place in front(places)
        ]

    @property
    def at_bounds(self) -> dict[str, int]:
        """The evolved policy's numbers that lie at a bound of ``search.space``, by key; none of the seed policy's."""
        search, trials = self.config.search, self.study.trials
        best = self.study.best if trials and search.changes_numbers else None
        return {} if best is None or best.number == 0 or best.policy is None else at_bounds(best.policy, search.space)

    def as_json(self) -> dict[str, Any]:
        """Return the run's result as plain JSON values."""
        ledger, test, replies = merged([self.search_spend, self.test_spend]), self.test, self.replies.by_role
        rows = {name: row.as_json() for name, row in test.rows.items()}
        return {
            "run": str(self.folder),
            "policy_file": str(self.folder / "best_policy.yaml"),
            "seed_policy": rows.pop(SEED, None),
            "best_policy": rows.pop(EVOLVED, None),
            "baselines": rows,
            "difference": score_json(test.difference),
            "difference_reworded": score_json(test.difference_from(SEED, reworded=True)),
            "over_window": score_json(test.difference_from(WINDOW)),
            "context_tokens": self.config.context_tokens,
            "model": self.config.model,
            "embedder": self.config.embedder,
            "remark": embedder_remark(self.config),
            "objective": self.config.search.objective,
            "made_by": [asdict(origin) for origin in origins_of(self.study)],
            "front": [row.as_json() for row in self.front],
            "at_bounds": self.at_bounds,
            "trials": len(self.study.trials),
            "periods": sum(trial.periods for trial in self.study.trials),
            "accepted": sum(trial.accepted for trial in self.study.trials[1:]),
            "screening": None if (screening := screened(self.study.trials)) is None else screening.as_json(),
            "ended": self.ended,
            "problem": test.problem or None,
            "untested": self.untested,
            "cut_replies": {role: spend.cut for role, spend in replies.items() if spend.cut},
            "response_formats": {role: s.response_formats for role, s in replies.items() if s.response_formats},
            "calls": {role: spend.calls for role, spend in ledger.by_role.items()},
            "budget": {"limits": self.config.search.budget.model_dump(), "spent": asdict(self.consumed)},
        }


FILES = ("config.yaml", "best_policy.yaml", "deployment.yaml", "report.html", "result.json")
"""What people read of a run, in its folder."""
KEPT = ("cache.db", "charges.db")
"""What else a run keeps there, and another may go on with."""


def holds_run(folder: Path) -> bool:
    """Tell whether a run has begun in a folder."""
    return (folder / "study.db").is_file() or _stored(folder) is not None


def check_no_run(folder: Path) -> None:
    """Raise ConfigError where a folder is a run's, whose files another command would write over."""
    try:
        there = holds_run(folder)
    except ConfigError:  # its config.yaml is another program's
        there = False
    if there:
        raise ConfigError(f"{folder}: is a run's folder, whose files this would write over: choose another --out")


def refuse_files_of_others(folder: Path, config: Config) -> None:
    """Raise ConfigError where a run that is to begin would write over a file that is no run's."""
    if holds_run(folder) or any((folder / name).is_file() for name in KEPT):
        return
    for file in (folder / name for name in FILES):
        begun = file.name == "config.yaml" and file.is_file() and file.read_bytes() == dump_config(config).encode()
        if file.exists() and not begun:
            raise ConfigError(f"{file}: a run in this folder would write over it: choose another --out, or move it")


def open_run(folder: Path) -> Outcome:
    """Open the run in ``folder``. Raises ConfigError when there is none that can be read, and DatabaseError."""
    storage = _stored(folder)
    for name in ("config.yaml",) if storage else ("config.yaml", "study.db"):
        if not (folder / name).is_file():
            raise ConfigError(f"{folder}: is no run folder: it has no {name}")
    study = open_study(folder, storage)  # first: an older version's config may not be read any more, and this says why
    outcome = Outcome(folder, load_config(folder / "config.yaml"), study)
    try:
        _ = outcome.consumed, outcome.search_spend, outcome.test_spend, outcome.test
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ConfigError(f"{folder}: what the study keeps cannot be read ({error!r}); {START_ANOTHER}") from None
    return outcome


def open_study(folder: Path, storage: Storage | None = None, *, lock: Lock | None = None) -> Study:
    """Open the study of the run in ``folder``, or start it.

    Only who holds the ``lock`` of a database starts it there, or waits for the database when it is lost. Raises
    ConfigError when what is there cannot be read, and DatabaseError.
    """
    try:
        if storage is None:
            file = folder / "study.db"
            if file.exists():
                check_database(file, name=STUDY)
            return Study(storage_url(folder, None), name=STUDY)
        with closing(Postgres(storage.whole_url)) as database, database.making():
            begun = lock is None or _stored(folder) is not None
            if not begun:
                check_tables(database)
            guard = None if lock is None else lock.check
            return Study(storage_url(folder, storage), name=str(storage.study), begun=begun, guard=guard)
    except StudyError as error:
        raise ConfigError(f"{folder}: {error}") from None


def study_url(folder: Path) -> str:
    """Return the SQLAlchemy URL of the database that has a run's study. Raises what ``open_run`` does."""
    open_run(folder)
    return storage_url(folder, _stored(folder))


def storage_url(folder: Path, storage: Storage | None) -> str:
    """Return the SQLAlchemy URL of the database that has a run's study."""
    if storage is None:
        return f"sqlite:///{folder / 'study.db'}"
    return storage.whole_url.replace("postgresql://", "postgresql+psycopg://", 1)


def _stored(folder: Path) -> Storage | None:
    """Return the database that has the study of the run in a folder; None where the folder has it, or nothing."""
    file = folder / "config.yaml"
    if (folder / "study.db").is_file() or not file.is_file():
        return None
    return load_config(file).storage


@contextmanager
def open_charges(outcome: Outcome) -> Iterator[Charges]:
    """Open what a run was charged so far. Raises ConfigError when a run that has spent something has lost it."""
    file = outcome.folder / "charges.db"
    if outcome.consumed.calls and not file.is_file():
        raise ConfigError(f"{outcome.folder}: charges.db is gone, which counts what was spent; {START_ANOTHER}")
    with closing(Charges(file)) as charges:
        yield charges
