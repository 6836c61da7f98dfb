"""One evolution run from its config to its report."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, aclosing, asynccontextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...data import Splits
from ...data.json_files import write_json
from ...data.task import Group, tasks_of
from ...data.whole_files import write_whole
from ...env import Episode, Evaluation, Evaluator
from ...env.concurrency import end, start
from ...env.episode import Bounds, write_episodes
from ...env.statistics import nan_mean
from ...env.track import most_calls
from ...env.workers import Pool
from ...policies.deploy.deployment import deployment_settings
from ...policies.files import dump_policy, dump_yaml
from ...policies.lm import Budget, BudgetExhausted, Charges, ChargesError, Consumed, LanguageModelError, Limits, merged
from ..config import Config, ConfigError, Screening, dump_config, load_config
from ..models import MeteredModels, Models, check_objective, notes, open_models, pins, price_of, priced, track_of
from ..proposers.mix import open_proposers
from ..proposers.proposer import Means, Proposer
from ..study import StudyError, Trial
from ..workers import open_pool, runner_of
from .acceptance import slices_of
from .allowance import Allowance, due_warnings, splits_of
from .arena import Arena
from .fixed import hold, refuse_changes, settings_of
from .listener import Listener, Listeners, Standing
from .loop import Loop
from .outcome import (
    CONSUMED,
    ENDED,
    SEARCH_SPEND,
    TEST,
    TEST_SPEND,
    WARNED,
    Outcome,
    open_charges,
    open_run,
    open_study,
    refuse_files_of_others,
)
from .place import alone_in, with_study_named
from .screen import ForecastModel, ForecastScreen, KeepAll, ReplayForecaster, Screen, knows, load_forecast_model
from .sealed import EVOLVED, SEED, SealedTest, open_test, recorded_of, write_tested

DEPLOYMENT_HEADER = "# The policy was searched with these settings: deploy it with the same.\n"
TALKS = "talks"
"""The folder of the recorded talks in a run's folder."""
NOTE_EVERY_SECONDS = 1.0
"""Between two notes of what is spent; what was sent is written down at once."""


def evolve(config: Config, folder: Path, *, listeners: Sequence[Listener] = ()) -> Outcome:
    """Run the config's evolution in ``folder``, or go on with the one that is there.

    Raises ConfigError, ScenarioError, CheckpointError or LanguageModelError before anything is spent when the run
    cannot work.
    """
    config = config.model_copy(update=pins(config))
    splits = splits_of(config)
    config, allowance, judge = prepare(with_study_named(config, folder.name), splits, listeners)
    refuse_files_of_others(folder, config)
    with ExitStack() as stack:
        lock, begun = stack.enter_context(alone_in(folder, config.storage))
        models = stack.enter_context(open_models(config, folder=folder))
        models = models.dealt(splits.train, splits.validation, splits.test)
        study = open_study(folder, config.storage, lock=lock)  # before the config names it
        hold(folder, study, config)
        write_whole(folder / "config.yaml", dump_config(config))
        outcome = Outcome(folder, config, study)
        charges = stack.enter_context(open_charges(outcome))
        run = _Run(outcome, splits, models, allowance, Listeners(listeners), judge, charges)
        return asyncio.run(run.go(begun))


def resume(folder: Path, *, overrides: Sequence[str] = (), listeners: Sequence[Listener]) -> Outcome:
    """Go on with the run in ``folder`` under its own config; ``overrides`` may change how far it goes.

    Raises ConfigError when there is no run, or when the overrides would make it another run.
    """
    before = open_run(folder)
    config = load_config(folder / "config.yaml", overrides=overrides)
    if before.test.done and config != before.config:
        raise ConfigError(f"{folder}: this run is over, and its config stays as it is; start another run")
    then, now = (settings_of(each) | {"storage": each.storage} for each in (before.config, config))
    refuse_changes(folder, then, now)
    now, then = dict(config.search), dict(before.config.search)
    changed = [f"search.{name}" for name in now if now[name] != then[name] and name != "budget"]
    if before.ended is not None and changed:
        raise ConfigError(
            f"{folder}: the search of this run is over and only its sealed test is left, so that {', '.join(changed)} "
            "cannot change any more; --resume it without, or start another run"
        )
    return evolve(config, folder, listeners=listeners)


def prepare(
    config: Config, splits: Splits, listeners: Sequence[Listener]
) -> tuple[Config, Allowance, ForecastModel | None]:
    """Return a config with its prices, how its budget is divided, and who screens.

    Raises ConfigError or CheckpointError when the run cannot work.
    """
    config = priced(config)
    check_objective(config)
    allowance = Allowance.of(config, splits, track_of(config))
    Listeners(listeners).check(config)
    screening = config.search.screening
    return config, allowance, None if screening is None else load_forecast_model(screening.model)


def refresh(folder: Path, *, listeners: Sequence[Listener]) -> Outcome:
    """Write again what is made from a run's study, and let listeners do so too.

    Raises ConfigError when there is no run, or one of them cannot follow it.
    """
    outcome, everybody = open_run(folder), Listeners(listeners)
    everybody.begin(outcome)
    _publish(outcome)
    everybody.finish()
    return outcome


def _publish(outcome: Outcome) -> None:
    """Write the best policy, what it was found with, and the result."""
    best = outcome.study.best.policy if outcome.study.trials else None
    if best is not None:
        write_whole(outcome.folder / "best_policy.yaml", dump_policy(best))
        settings = deployment_settings(outcome.config, outcome.config.context_tokens)
        text = DEPLOYMENT_HEADER + dump_yaml({"policy": "best_policy.yaml", **settings})
        write_whole(outcome.folder / "deployment.yaml", text)
    write_json(outcome.folder / "result.json", outcome.as_json(), indent=2)


@dataclass
class _Run:
    outcome: Outcome
    splits: Splits
    models: Models
    allowance: Allowance
    listeners: Listeners
    judge: ForecastModel | None
    charges: Charges
    replays: Mapping[str, Episode] | None = None
    screen: Screen = field(default_factory=KeepAll)

    def __post_init__(self) -> None:
        self.config, self.study = self.outcome.config, self.outcome.study
        self.search = self.models.within(self._budget(self.allowance.races, SEARCH_SPEND))
        self.standing = Standing("starting", self.search.budget)
        self.track = track_of(self.config)
        self.pool = self._open_pool()

    async def go(self, begun: Callable[[], object]) -> Outcome:
        async with aclosing(self.models), nullcontext() if self.pool is None else aclosing(self.pool):
            if self.pool is not None and not self.outcome.test.done:
                await self.pool.open()
            self.outcome.note_begin()
            self.listeners.begin(self.outcome)
            begun()
            try:
                if self.outcome.ended is None:
                    await self._evolve()
                if not self.outcome.test.done:
                    await self._test()
                _publish(self.outcome)
            except BaseException:
                self.listeners.abort()
                raise
            self.listeners.finish()
            return self.outcome

    async def _evolve(self) -> None:
        search = self.config.search
        introduction = self.allowance.introduction(self.config, self.splits, noun=self.track.noun)
        for line in (introduction, *notes(self.config)):
            self.listeners.say(line)
        for trial in self.study.trials:
            self.listeners.trial(trial)
        self._stand_after_trial(phase="searching", planned_trials=search.planned + 1)
        evaluator = self._evaluator(self.search)
        async with self._noted(self.search):
            try:
                if search.off_policy:
                    looked = self.splits.validation if search.acceptance == "validation" else ()
                    self.replays = await self._recorded(evaluator, [*self.splits.train, *looked])
                arena = self._arena(evaluator)
                if search.screening is not None and self.judge is not None:
                    self.screen = await self._open_screen(search.screening, self.judge, evaluator)
            except BudgetExhausted as end:
                raise ConfigError(
                    f"search.budget: too small even for the seed policy's talks ({end}); raise it and --resume"
                ) from None
            means = Means(search, self.config.templates, self.search.proposer, arena)
            with open_proposers(means) as proposers:
                ended = await self._loop(arena, proposers).run(self.config.seed_policy)
        if not self.study.trials:
            raise ConfigError(f"search.budget: too small even for the seed policy ({ended}); raise it and --resume")
        await self._look_last(evaluator.bounds)
        self.study.note(ENDED, ended)
        self.listeners.say(f"The search is over: {ended}.")

    async def _open_screen(self, screening: Screening, judge: ForecastModel, evaluator: Evaluator) -> Screen:
        """Record the talks that candidates listen to; where they are of no use, nothing is dropped."""
        if not knows(screening.model, self.config.model):
            self.listeners.say(f"Every candidate races, as {screening.model} learned from another model's memories")
            return KeepAll()
        groups = self.splits.train[: screening.users]
        try:
            replays = self.replays or await self._recorded(evaluator, groups)
        except LanguageModelError as error:
            self.listeners.say(f"Every candidate races, as none can be screened: {error}")
            return KeepAll()
        tasks = tasks_of(groups)
        if judge.is_foreign(replays[task.id] for task in tasks):
            self.listeners.say(
                f"Every candidate races, as {screening.model} learned from texts unlike these {self.track.noun}s'"
            )
            return KeepAll()
        forecaster = ReplayForecaster(judge, self.track, tasks, replays, self.search.cast)
        return ForecastScreen(forecaster.forecast, screening.drop, screening.least_correlation, self.config.search.seed)

    async def _recorded(self, evaluator: Evaluator, groups: Sequence[Group]) -> Mapping[str, Episode]:
        """Return the seed policy's episodes with these groups, recorded once.

        Raises LanguageModelError when one cannot be had, and BudgetExhausted.
        """
        folder = self.outcome.folder / TALKS
        if not folder.is_dir():
            tasks = tasks_of(groups)
            recorded = await evaluator.evaluate(self.config.seed_policy, tasks, done=lambda _: self.listeners.tick())
            for group, reason in recorded.failures.items():
                raise LanguageModelError(f"the seed policy's talk with {group} could not be recorded: {reason}")
            unfinished = folder.with_suffix(".unfinished")
            write_episodes(unfinished, recorded.episodes)
            unfinished.rename(folder)
        return self.track.replays(folder)

    async def _look_last(self, bounds: Mapping[str, Bounds]) -> None:
        """Take the last look with what was put aside for it."""
        models = self.models.within(self._budget(self.allowance.search, SEARCH_SPEND))
        self._stand(budget=models.budget, phase=f"last look at the validation {self.track.noun}s", planned_trials=0)
        loop = self._loop(self._arena(self._evaluator(models, bounds=bounds)), {})
        async with self._noted(models):
            try:
                await loop.look_last()
            except BudgetExhausted as end:
                self.listeners.say(f"The last look could not be finished: {end}")

    def _arena(self, evaluator: Evaluator) -> Arena:
        search = self.config.search
        return Arena(
            self.splits,
            evaluator,
            seed=search.seed,
            block=search.race_block,
            racing=search.racing,
            measure=search.aim.measure,
            replays=self.replays,
            done=lambda _: self.listeners.tick(),
        )

    def _loop(self, arena: Arena, proposers: Mapping[str, Proposer]) -> Loop:
        return Loop(
            study=self.study,
            arena=arena,
            screen=self.screen,
            proposers=proposers,
            search=self.config.search,
            tell=self._trial_done,
            limits=self.allowance.races,
            prices=price_of(self.config.model, self.config),
        )

    async def _test(self) -> None:
        best = self.study.best.policy or self.config.seed_policy
        policies = self.config.compared | {SEED: self.config.seed_policy, EVOLVED: best}
        before = self.outcome.test.of(policies)
        final = self.models.within(self._budget(self.allowance.whole, TEST_SPEND))
        untested = [policy for name, policy in policies.items() if name not in before.closed]
        tasks = tasks_of(self.splits.test)
        ahead = most_calls(self.track, tasks, untested, reworded=True)
        phase = f"sealed test on {len(self.splits.test)} {self.track.noun}s"
        self._stand(budget=final.budget, phase=phase, planned_trials=0, calls_ahead=ahead)

        def keep(so_far: SealedTest, names: Sequence[str], evaluation: Evaluation) -> None:
            for name in (name for name in names if name in {SEED, EVOLVED}):
                write_tested(self.outcome.folder / "test" / name, evaluation, tasks, self.track)
                self.outcome.note_slices(name, slices_of(evaluation, tasks, stage_noun=self.track.stage_noun))
            self.study.note(TEST, so_far.as_json())  # last: a policy that is noted is not played again

        async with self._noted(final):
            evaluator = self._evaluator(final, reworded=True, recorded=recorded_of(tasks))
            test = await open_test(policies, tasks, evaluator, before=before, done=self._tested, keep=keep)
        self.study.note(TEST, test.as_json())

    def _open_pool(self) -> Pool | None:
        planned = self.config.search.planned * self.allowance.start // 4 + self.allowance.reserve
        calls = min(planned, self.config.search.budget.calls or math.inf)
        most = max(len(self.splits.train), len(self.splits.test))
        return open_pool(self.config, self.models, folder=self.outcome.folder, calls=calls, most=most)

    def _evaluator(
        self, models: MeteredModels, *, bounds: Mapping[str, Bounds] = MappingProxyType({}), **cast_fields: Any
    ) -> Evaluator:
        """Return who plays a phase of the run under the budget of its models; the fields are of ``Cast``."""
        cast, budget = replace(models.cast, **cast_fields), models.budget
        runner = runner_of(self.pool, self.track, cast, self.config, budget=budget)
        return Evaluator(self.track, cast, runner=runner, joined=budget.join, bounds=bounds)

    def _budget(self, limits: Limits, phase: str) -> Budget:
        """Return a budget that goes on where the run stands."""
        spent, seconds = self.charges.ledger().total, self.outcome.consumed.seconds
        earlier = Consumed(spent.calls, spent.input_tokens + spent.output_tokens, spent.cost_usd, seconds)
        return Budget(limits, earlier=earlier, charges=self.charges, phase=phase)

    @asynccontextmanager
    async def _noted(self, models: MeteredModels) -> AsyncIterator[None]:
        """Note what is spent as time goes by and, whatever happens, at the end."""
        budget = models.budget

        def note() -> None:
            self.charges.save()
            self.study.note(CONSUMED, asdict(budget.consumed))
            self.study.note(budget.phase, budget.ledger.as_json())
            self._warn(budget.consumed)

        async def keep_noting() -> None:
            silent = False
            while True:
                await asyncio.sleep(NOTE_EVERY_SECONDS)
                try:
                    note()
                    silent = False
                except (StudyError, ChargesError, OSError) as error:
                    if not silent:
                        self.listeners.say(f"What is spent could not be noted, which is tried again: {error}")
                    silent = True
                self.listeners.stand(self.standing)

        noting = start(keep_noting())
        try:
            yield
        finally:
            await end([noting])
            note()
            self.outcome.note_end()

    def _warn(self, gone: Consumed) -> None:
        """Say once, over all stops of the run, that a limit comes near."""
        said = self.study.noted(WARNED) or []
        due = due_warnings(gone, self.config.search.budget, said)
        if due:
            self.study.note(WARNED, [*said, *due])
        for warning in filter(None, due.values()):
            self.listeners.say(warning)

    def _tested(self, episode: Episode) -> None:
        self._stand(calls_ahead=max(0, self.standing.calls_ahead - episode.ledger.total.calls))
        self.listeners.tick()

    def _trial_done(self, trial: Trial) -> None:
        self.listeners.trial(trial)
        self._stand_after_trial()

    def _stand_after_trial(self, **changes: Any) -> None:
        """Tell where the search, or the last look, stands."""
        trials, planned = self.study.trials, self.config.search.planned + 1
        best, expected = math.nan, planned * self.allowance.start / 2 + self.allowance.reserve
        if trials:
            best = nan_mean(list(self.study.best.validation.values()))
            mean_calls = merged([trial.ledger for trial in trials]).total.calls / len(trials)
            expected = max(0, planned - len(trials)) * mean_calls + self.allowance.reserve
        limit = self.config.search.budget.calls
        ahead = round(expected if limit is None else min(expected, limit - self.search.budget.calls))
        self._stand(**changes, trials=len(trials), best=best, calls_ahead=ahead)

    def _stand(self, **changes: Any) -> None:
        self.standing = replace(self.standing, **changes)
        self.listeners.stand(self.standing)
