"""The searches of an ablation at work: beside each other or in turn, and where each of them stands."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import active_children
from multiprocessing.queues import SimpleQueue

from ...data import Splits, heap
from ...data.cores import usable_cores
from ...data.json_files import read_json
from ...env import Summary
from ...policies.lm import Consumed
from ...policies.lm.embedded.pool import begin_child, context_with
from ...policies.space import flat
from ..config import Config, ConfigError
from ..models import pins
from .ablation import Run, naming
from .allowance import dealer
from .listener import Listener, Standing
from .outcome import holds_run, open_run
from .run import evolve, prepare

MakeListeners = Callable[[], Sequence[Listener]]
"""A function of a module, so that another process can call it."""
Deal = Callable[[Config], Splits]
SECONDS_BETWEEN = 0.5
"""Between two positions of a search that says where it stands."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where a search stands, as its process says it to the one that shows it."""

    phase: str
    trials: int
    planned_trials: int
    """0 where nobody plans any."""
    best: float
    """What the best policy so far is compared by, on validation; NaN where that is not known."""
    gone: Consumed
    """By the whole run, what it spent before it was stopped included."""
    calls_ahead: int
    """Calls that the rest of the run is expected to ask for."""


Tell = Callable[[Position], None]
_positions: SimpleQueue[tuple[int, Position]] | None = None
"""Where a process that searches says where it stands."""


def ready(runs: Sequence[Run], *, listeners: MakeListeners, deal: Deal | None = None) -> list[Run]:
    """Return runs with the revisions of their data, and spend nothing; ``deal`` is what a ``dealer`` returns.

    Raises ConfigError, ScenarioError or CheckpointError when a folder holds another run or a variant cannot be run.
    """
    pinned = _with_one_revision(runs)
    for run in pinned:
        _check(run)
    _check_variants([run for run in pinned if not holds_run(run.folder)], listeners(), deal or dealer())
    return pinned


def carry_out(
    runs: Sequence[Run],
    *,
    listeners: MakeListeners,
    finished: Callable[[Run], None],
    stands: Callable[[Run, Position], None] = lambda run, position: None,
) -> None:
    """Carry out the searches that are ``ready`` and not done; stopped ones go on from where they stand.

    ``listeners`` is called for each search, in its own process; ``finished`` hears of each that ends, and ``stands``
    where the others are. Where the models run on this machine, each core has a search; else searches follow each other,
    as each uses all requests that the endpoint allows. Raises what ``evolve`` raises; the other searches end with it.
    """
    left = [run for run in runs if not is_done(run)]
    workers = at_once(left)
    if workers < 2:
        for run in left:
            _search(run, listeners, partial(stands, run))
            finished(run)
        return
    context = context_with(__name__)
    positions: SimpleQueue[tuple[int, Position]] = context.SimpleQueue()
    executor = ProcessPoolExecutor(
        workers,
        mp_context=context,
        max_tasks_per_child=1,
        initializer=_begin_search,
        initargs=(positions, dict(os.environ)),
    )
    others = {*active_children()}
    try:
        under_way = {executor.submit(_search_apart, i, run, listeners): run for i, run in enumerate(left)}
        while under_way:
            over, _ = wait(under_way, timeout=SECONDS_BETWEEN, return_when=FIRST_COMPLETED)
            while not positions.empty():
                number, position = positions.get()
                stands(left[number], position)
            for future in over:
                future.result()
                finished(under_way.pop(future))
    except BaseException:  # nobody would hear the other searches; they go on with the next command
        executor.shutdown(wait=False, cancel_futures=True)
        for process in {*active_children()} - others:
            process.terminate()
        raise
    finally:
        executor.shutdown()


def at_once(runs: Sequence[Run]) -> int:
    """Return how many of these searches run beside each other."""
    return min(len(runs), usable_cores() if all(run.config.per_core for run in runs) else 1)


def is_done(run: Run) -> bool:
    """Tell whether a search is over, its sealed test included."""
    result = read_json(run.folder / "result.json")  # what cannot be read is written again from the study
    row = result.get("best_policy") if isinstance(result, dict) else None
    try:
        return row is not None and not Summary.from_json(row).lost
    except (AttributeError, LookupError, TypeError, ValueError):  # another version's
        return False


def _begin_search(positions: SimpleQueue[tuple[int, Position]], environment: Mapping[str, str]) -> None:
    """Begin a process that ends on Ctrl-C and when its parent is killed; its search can go on later."""
    global _positions
    _positions = positions
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    begin_child(environment)
    heap.collect_seldom()


def _search_apart(number: int, run: Run, listeners: MakeListeners) -> None:
    """Search in a process of its own."""
    positions = _positions
    if positions is None:
        raise RuntimeError("this process was not begun as one that searches")
    _search(run, listeners, lambda position: positions.put((number, position)))


def _search(run: Run, listeners: MakeListeners, tell: Tell) -> None:
    begun = holds_run(run.folder)  # then the folder's config is the same, with the list prices that the run began with
    config = open_run(run.folder).config if begun else run.config
    evolve(config, run.folder, listeners=[*listeners(), _Teller(tell)])


class _Teller(Listener):
    """Tells where its search stands: at once when that changes, and now and then while episodes end."""

    def __init__(self, tell: Tell, *, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` is in seconds."""
        self._tell, self._clock = tell, clock
        self._standing: Standing | None = None
        self._last = clock()

    def stand(self, standing: Standing) -> None:
        """Tell of a change, unless only the calls ahead are fewer."""
        before, self._standing = self._standing, standing
        if before is None or replace(standing, calls_ahead=before.calls_ahead) != before:
            self._say()

    def tick(self) -> None:
        """Tell what is spent by now."""
        if self._clock() - self._last >= SECONDS_BETWEEN:
            self._say()

    def _say(self) -> None:
        standing = self._standing
        if standing is not None:
            self._last, gone = self._clock(), standing.budget.consumed
            trials, planned = standing.trials, standing.planned_trials
            self._tell(Position(standing.phase, trials, planned, standing.best, gone, standing.calls_ahead))


def _check_variants(runs: Sequence[Run], listeners: Sequence[Listener], deal: Deal) -> None:
    """Raise ConfigError naming the variant, ScenarioError or CheckpointError when a variant cannot be run."""
    for variant, config in {run.variant: run.config for run in runs}.items():
        with naming(variant):
            prepare(config, deal(config), listeners)


def _with_one_revision(runs: Sequence[Run]) -> list[Run]:
    """Return runs with the revisions of their common data that those which have begun took, or else the newest."""
    first, known = runs[0].config, [open_run(run.folder).config for run in runs if holds_run(run.folder)]
    begun = next((config for config in known if _same_but_revisions(config, first)), None)
    taken = pins(first) if begun is None else {"data": begun.data, "test_data": begun.test_data}
    return [replace(run, config=run.config.model_copy(update=taken)) for run in runs]


def _same_but_revisions(begun: Config, given: Config) -> bool:
    """Return whether a run that has begun plays the data that are given, each of some revision."""
    pairs = (begun.data, given.data), (begun.test_data, given.test_data)
    return all(old == new or (old and new and old.startswith(f"{new}@")) for old, new in pairs)


def _check(run: Run) -> None:
    """Raise ConfigError when the run's folder holds a run with other settings."""
    if not holds_run(run.folder):
        return
    before = _without_list_prices(open_run(run.folder).config, given=run.config.endpoint.prices)
    values, others = flat(before.model_dump()), flat(run.config.model_dump())
    made_up = {} if run.config.storage is None or run.config.storage.study else {"storage.study"}
    changed = [key for key in values | others if values.get(key) != others.get(key) and key not in made_up]
    if changed:
        raise ConfigError(
            f"{run.folder}: holds a run with other settings ({', '.join(changed)}): choose another --out, "
            "or remove that folder"
        )


def _without_list_prices(config: Config, *, given: Collection[str]) -> Config:
    """Return a config without the prices that a run took from a published list; ``given`` models keep theirs."""
    prices = {name: p for name, p in config.endpoint.prices.items() if p.source is None or name in given}
    return config.model_copy(update={"endpoint": config.endpoint.model_copy(update={"prices": prices})})
