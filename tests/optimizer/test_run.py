"""A whole run with the embedded model: its folder, its honesty, its budget, and how it goes on after a stop.

1. The same config and seed make the same study and the same sealed test.
2. A run that was stopped anywhere and resumed is the run that was not stopped.
3. The budget is never overshot, and the sealed test's share of it is never touched by the search.
4. No user of the sealed test is seen before the search is over.
"""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from mlflow import MlflowClient
from rich.console import Console

from mnemotune.data import load_scenarios, split_by_user
from mnemotune.data.generator import generate_scenarios
from mnemotune.env.transcript import read_transcripts
from mnemotune.optimizer.allowance import Allowance
from mnemotune.optimizer.config import Config, ConfigError, dump_config, load_config, parse_config
from mnemotune.optimizer.loop import LAST_LOOK, Loop
from mnemotune.optimizer.models import priced, protocol_of, told_prices
from mnemotune.optimizer.outcome import Outcome, open_run
from mnemotune.optimizer.run import evolve, refresh, resume
from mnemotune.policies.lm import Completion, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.policy import load_policy

SIZES = {"train": 2, "validation": 4, "test": 3}
FILES = ["best_policy.yaml", "config.yaml", "report.html", "result.json", "study.db"]
TRIAL_2 = "    2  "
"""How the line of trial 2 begins."""
SPEND = {"wall_s", "calls", "cached", "tokens", "cost_usd"}


class Stop(Exception):  # noqa: N818 - whatever ends a run from outside
    """The power is gone."""


class Screen(io.StringIO):
    """What a run prints; pulls the plug when it reads ``until``."""

    def __init__(self, until: str = "\0", plug: type[BaseException] = Stop) -> None:
        super().__init__()
        self.until = until
        self.plug = plug

    def write(self, text: str) -> int:
        if self.until in text:
            raise self.plug
        return super().write(text)


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve generated users whose lives are cut short, so that a run takes a second."""
    rows = [scenario.model_dump(mode="json") for scenario in generate_scenarios(users=12, seed=1)]
    for row in rows:
        row["periods"], row["qas"] = row["periods"][:3], row["qas"][:4]
    path = tmp_path_factory.mktemp("people") / "people.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def configured(people: Path) -> Callable[..., Config]:
    """Make the config of a small run whose seed policy forgets nearly everything."""
    text = (
        f"{{data: {people}, splits: {{train: 2, validation: 4, test: 3}}, baselines: [native],"
        " seed_policy: {write: {mode: none}, update_every: 2, buffer_size: 0},"
        " search: {seed: 2, generations: 2, candidates: 2, broad_start: 0, budget: {calls: 20000}}}"
    )
    return lambda *overrides: parse_config(text, where="test", overrides=overrides)


def go(config: Config, folder: Path, screen: Screen | None = None) -> Outcome:
    return evolve(config, folder, console=Console(file=screen or Screen(), width=200))


def go_on(folder: Path, *overrides: str, screen: Screen | None = None) -> Outcome:
    return resume(folder, overrides=overrides, console=Console(file=screen or Screen(), width=200))


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow database without runs: a copy is there at once, a new one takes seconds."""
    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture(scope="session")
def finished(configured: Callable[..., Config], empty_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A run that nothing disturbed; its folder must not be changed."""
    runs = tmp_path_factory.mktemp("runs")
    shutil.copy(empty_store, runs / "mlflow.db")
    return go(configured(), runs / "whole")


@pytest.fixture(scope="session")
def stopped_once(
    configured: Callable[..., Config], empty_store: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder of runs with one that was stopped when trial 2 was done; it must not be changed."""
    runs = tmp_path_factory.mktemp("stopped")
    shutil.copy(empty_store, runs / "mlflow.db")
    with pytest.raises(Stop):
        go(configured(), runs / "run", Screen(TRIAL_2))
    return runs


@pytest.fixture
def runs(empty_store: Path, tmp_path: Path) -> Path:
    """A folder for runs."""
    folder = tmp_path / "runs"
    folder.mkdir()
    shutil.copy(empty_store, folder / "mlflow.db")
    return folder


@pytest.fixture
def copy(finished: Outcome, runs: Path) -> Path:
    """A copy of the finished run's folder, unknown to MLflow."""
    return Path(shutil.copytree(finished.folder, runs / "copy"))


@pytest.fixture
def stopped(stopped_once: Path, tmp_path: Path) -> Path:
    """A run that was stopped when trial 2 was done, with MLflow's view of it."""
    return Path(shutil.copytree(stopped_once, tmp_path / "stopped")) / "run"


def scores(rows: Any) -> Any:
    """Return evaluations without what a run's speed and its stops may change."""
    return {name: {k: v for k, v in row.items() if k not in SPEND} for name, row in rows.items()}


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a run, the database left out: its bytes are SQLite's affair."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "study.db")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def spent(outcome: Outcome) -> int:
    calls: int = outcome.as_json()["budget"]["spent"]["calls"]
    return calls


def assert_same_study(outcome: Outcome, other: Outcome, kit: Any) -> None:
    both = zip(outcome.study.trials, other.study.trials, strict=True)
    for trial, twin in both:
        assert kit.told(trial, spend=False) == kit.told(twin, spend=False)
    assert outcome.ended == other.ended
    assert scores(outcome.test.rows) == scores(other.test.rows)
    assert outcome.test.done
    assert other.test.done


def no_calls(monkeypatch: pytest.MonkeyPatch, *, after: int = 0, error: type[BaseException] = Stop) -> None:
    """Let the embedded model answer ``after`` calls and fail then."""
    left = iter(range(after))
    complete = EmbeddedModel.complete

    async def answer(self: EmbeddedModel, request: Request) -> Completion:
        if next(left, None) is None:
            raise error
        return await complete(self, request)

    monkeypatch.setattr(EmbeddedModel, "complete", answer)


def test_a_run_leaves_its_files_in_its_folder(finished: Outcome) -> None:
    assert sorted(path.name for path in finished.folder.iterdir() if path.is_file()) == [".lock", *FILES]
    tested = finished.folder / "test"
    assert sorted(str(path.relative_to(tested)) for path in tested.rglob("*.*")) == [
        "evolved/episodes.jsonl", "seed/episodes.jsonl"
    ]  # fmt: skip


def test_the_view_and_its_files_are_beside_the_run_folder(finished: Outcome) -> None:
    assert sorted(path.name for path in finished.folder.parent.iterdir()) == [
        ".mlflow.db.lock",
        "mlartifacts",
        "mlflow.db",
        "whole",
    ]


def test_the_config_in_the_folder_is_the_one_that_ran(finished: Outcome, configured: Callable[..., Config]) -> None:
    assert load_config(finished.folder / "config.yaml") == configured()


def test_the_best_policy_is_the_last_one_accepted(finished: Outcome) -> None:
    accepted = [trial for trial in finished.study.trials if trial.accepted]
    assert len(accepted) > 1, "this run was chosen because its search finds something"
    assert load_policy(finished.folder / "best_policy.yaml") == accepted[-1].policy


def test_the_result_is_strict_json_and_says_what_the_study_says(finished: Outcome) -> None:
    text = (finished.folder / "result.json").read_text(encoding="utf-8")
    told = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert told == finished.as_json()
    gain = told["best_policy"]["memory_score"] - told["seed_policy"]["memory_score"]
    assert told["difference"]["memory_score"] == pytest.approx(gain, abs=1e-5)


def test_every_candidate_has_a_change_a_stage_and_a_reason(finished: Outcome) -> None:
    trials = finished.study.trials
    assert len([trial for trial in trials if trial.change != LAST_LOOK]) == 5
    assert [trial.stage for trial in trials].count("seed") == 1
    assert all(trial.change and trial.reason for trial in trials)


def test_the_episodes_of_the_sealed_test_are_kept_one_line_for_each_user(finished: Outcome) -> None:
    for name in ("seed", "evolved"):
        lines = (finished.folder / "test" / name / "episodes.jsonl").read_text(encoding="utf-8").splitlines()
        episodes = [json.loads(line) for line in lines]
        row = finished.test.rows[name]
        assert [episode["user"] for episode in episodes] == list(row["by_user"])
        assert {episode["policy"] for episode in episodes} == {row["key"]}


def test_no_user_of_the_sealed_test_is_seen_by_the_search_invariant_4(finished: Outcome, people: Path) -> None:
    splits = split_by_user(load_scenarios(people), **SIZES, seed=0)
    train, validation, test = ({user.id for user in part} for part in (splits.train, splits.validation, splits.test))
    raced = {user for trial in finished.study.trials for user in trial.train}
    validated = {user for trial in finished.study.trials for user in trial.validation}
    assert (raced, validated) == (train, validation)
    assert {user for row in finished.test.rows.values() for user in row["by_user"]} == test


def test_no_text_of_the_sealed_test_is_read_by_the_search_invariant_4(
    configured: Callable[..., Config], people: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = split_by_user(load_scenarios(people), **SIZES, seed=0)
    sealed = {s.query for user in splits.test for period in user.periods for s in period.sessions}
    sealed -= {s.query for u in (*splits.train, *splits.validation) for p in u.periods for s in p.sessions}
    screen, complete = Screen(), EmbeddedModel.complete
    read: dict[bool, set[str]] = {False: set(), True: set()}

    async def listen(self: EmbeddedModel, request: Request) -> Completion:
        over = "The search is over" in screen.getvalue()
        read[over] |= {query for query in sealed for m in request.messages[-1:] if query in m.content}
        return await complete(self, request)

    monkeypatch.setattr(EmbeddedModel, "complete", listen)
    go(configured("search.generations=1"), runs / "run", screen)
    assert read[False] == set()
    assert read[True] == sealed


def test_the_same_config_and_seed_make_the_same_run_invariant_1(
    finished: Outcome, configured: Callable[..., Config], runs: Path, kit: Any
) -> None:
    again = go(configured(), runs / "whole")
    assert_same_study(again, finished, kit)
    assert [kit.told(trial) for trial in again.study.trials] == [kit.told(trial) for trial in finished.study.trials]
    without = {"wall_s"}
    for name, row in finished.test.rows.items():
        twin = again.test.rows[name]
        assert {k: v for k, v in twin.items() if k not in without} == {k: v for k, v in row.items() if k not in without}
    ours, theirs = contents(again.folder), contents(finished.folder)
    for name in (
        "best_policy.yaml",
        "config.yaml",
        "report.html",
        "test/seed/episodes.jsonl",
        "test/evolved/episodes.jsonl",
    ):
        assert ours[name] == theirs[name], name


def test_another_seed_searches_elsewhere_and_is_tested_on_the_same_users(
    finished: Outcome, configured: Callable[..., Config], runs: Path
) -> None:
    other = go(configured("search.seed=1"), runs / "run")
    assert [t.policy for t in other.study.trials[1:]] != [t.policy for t in finished.study.trials[1:]]
    assert scores(other.test.rows)["seed"] == scores(finished.test.rows)["seed"]


def test_the_splits_seed_deals_other_users(finished: Outcome, configured: Callable[..., Config], runs: Path) -> None:
    other = go(configured("splits.seed=1", "search.generations=1", "search.candidates=1"), runs / "run")
    assert other.test.rows["seed"]["by_user"].keys() != finished.test.rows["seed"]["by_user"].keys()


def smallest_budget(configured: Callable[..., Config], folder: Path) -> int:
    with pytest.raises(ConfigError) as caught:
        go(configured("search.budget.calls=1"), folder)
    told = re.search(r"the smallest sensible budget is ([\d,]+), or", str(caught.value))
    assert told is not None
    return int(told[1].replace(",", ""))


def test_a_budget_that_is_too_small_is_refused_before_anything_is_written(
    configured: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_calls(monkeypatch)
    smallest = smallest_budget(configured, tmp_path / "runs" / "run")
    assert smallest > 100
    with pytest.raises(ConfigError, match=r"search\.budget\.calls: .* is too small to learn anything"):
        go(configured(f"search.budget.calls={smallest - 1}"), tmp_path / "runs" / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("more", [0, 150])
def test_a_tight_budget_is_kept_and_leaves_the_sealed_test_whole_invariant_3(
    more: int, configured: Callable[..., Config], runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = smallest_budget(configured, runs / "none") + more
    calls_made = watch_calls(monkeypatch)
    outcome = go(configured(f"search.budget.calls={calls}", "search.generations=50"), runs / "run")
    raced, searched, made = calls_made["races"], calls_made["search"], calls_made["all"]
    assert made == spent(outcome) <= calls
    assert "calls is spent" in (outcome.ended or "")
    assert raced == allowance(outcome).races.calls, "the races end at a call that is one too many"
    assert raced < searched == outcome.search_spend.total.calls <= calls - allowance(outcome).reserve
    assert outcome.study.trials[-1].change == LAST_LOOK
    assert outcome.test.rows.keys() == {"native", "seed", "evolved"}
    assert outcome.test.problem == ""


def watch_calls(
    monkeypatch: pytest.MonkeyPatch, *, most_in_last_look: int | None = None, error: type[BaseException] = Stop
) -> dict[str, int]:
    """Count the calls that are made until the races, the search and the run are over; fail at one in the last look."""
    made = {"races": 0, "search": 0, "all": 0}
    complete, look_last = EmbeddedModel.complete, Loop.look_last
    looking = False

    async def count(self: EmbeddedModel, request: Request) -> Completion:
        if looking and made["all"] - made["races"] == most_in_last_look:
            raise error
        made["all"] += 1
        return await complete(self, request)

    async def look(self: Loop) -> None:
        nonlocal looking
        made["races"], looking = made["all"], True
        try:
            await look_last(self)
        finally:
            made["search"], looking = made["all"], False

    monkeypatch.setattr(EmbeddedModel, "complete", count)
    monkeypatch.setattr(Loop, "look_last", look)
    return made


@pytest.mark.parametrize(("share", "taken"), [(0.0, True), (0.99, False)])
def test_a_last_look_that_is_stopped_is_paid_from_its_own_share_alone_invariants_2_3(
    share: float, taken: bool, configured: Callable[..., Config], runs: Path, kit: Any
) -> None:
    """Where too little is left of it, the leader is not looked at; the sealed test has its own share in any case."""
    calls = smallest_budget(configured, runs / "none") + 150
    config = configured(f"search.budget.calls={calls}", "search.generations=50")
    with pytest.MonkeyPatch.context() as patched:
        counted = watch_calls(patched)
        whole = go(config, runs / "whole")
    most = int(share * (counted["search"] - counted["races"]))
    with pytest.MonkeyPatch.context() as patched:
        before = watch_calls(patched, most_in_last_look=most)
        with pytest.raises((Stop, ExceptionGroup)):
            go(config, runs / "run")
    assert before == {"races": counted["races"], "search": counted["races"] + most, "all": counted["races"] + most}
    screen = Screen()
    with pytest.MonkeyPatch.context() as patched:
        after = watch_calls(patched)
        outcome = go_on(runs / "run", screen=screen)
    assert after["races"] == 0, "the races have nothing left"
    assert before["all"] + after["search"] <= calls - allowance(outcome).reserve
    assert before["all"] + after["all"] <= spent(outcome) <= calls
    assert ("The last look could not be finished: the budget of" in screen.getvalue()) is not taken
    assert outcome.test.problem == ""
    kept = whole.study.trials if taken else whole.study.trials[:-1]
    assert [kit.told(t, spend=False) for t in outcome.study.trials] == [kit.told(t, spend=False) for t in kept]


def test_a_last_look_that_was_taken_is_not_taken_again_invariant_2(
    configured: Callable[..., Config], runs: Path, kit: Any
) -> None:
    """Not where the run is stopped before it has noted that its search is over, either."""
    config = configured("search.generations=1", "search.candidates=1")
    whole = go(config, runs / "whole")
    assert whole.study.trials[-1].change == LAST_LOOK, "this run was chosen because its leader is not accepted before"
    look_last = Loop.look_last

    async def look_and_stop(self: Loop) -> None:
        await look_last(self)
        raise Stop

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Loop, "look_last", look_and_stop)
        with pytest.raises(Stop):
            go(config, runs / "run")
    with pytest.MonkeyPatch.context() as patched:
        after = watch_calls(patched)
        outcome = go_on(runs / "run")
    assert after["search"] == 0
    assert_same_study(outcome, whole, kit)


def test_a_search_that_has_nothing_to_propose_says_so_and_goes_on_to_its_test(
    configured: Callable[..., Config], runs: Path
) -> None:
    """The seed policy has no write prompt, and ``amemgym`` rewrites nothing else."""
    screen = Screen()
    outcome = go(configured("search.proposers=[amemgym]"), runs / "run", screen)
    why = "none of the proposers (amemgym) has anything to make a candidate from"
    assert outcome.ended == why
    assert screen.getvalue().splitlines()[-1] == f"The search is over: {why}."
    assert [trial.stage for trial in outcome.study.trials] == ["seed"]
    assert outcome.test.problem == ""


def test_where_train_users_decide_a_run_has_no_last_look(configured: Callable[..., Config], runs: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        made = watch_calls(patched)
        outcome = go(configured("search.acceptance=train", "search.generations=1"), runs / "run")
    assert made["races"] == made["search"]
    assert not any(trial.validation or trial.change == LAST_LOOK for trial in outcome.study.trials)


def allowance(outcome: Outcome) -> Allowance:
    config = outcome.config
    splits = split_by_user(load_scenarios(config.data), **SIZES, seed=config.splits.seed)
    return Allowance.of(config, splits, protocol_of(config))


def test_a_run_without_a_limit_ends_when_its_generations_are_done(
    configured: Callable[..., Config], runs: Path
) -> None:
    outcome = go(configured("search.budget.calls=null", "search.generations=1"), runs / "run")
    assert outcome.ended == "all 1 generations are done"
    assert outcome.test.problem == ""


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.85, 0.999])
def test_a_run_that_fails_at_any_call_goes_on_to_the_same_end_invariant_2(
    share: float, finished: Outcome, configured: Callable[..., Config], runs: Path, kit: Any
) -> None:
    folder = runs / "run"
    with pytest.MonkeyPatch.context() as patched:
        no_calls(patched, after=int(share * spent(finished)))
        with pytest.raises((Stop, ExceptionGroup)):
            go(configured(), folder)
    assert_same_study(go_on(folder), finished, kit)


@pytest.mark.parametrize(
    ("words", "plug"),
    [("where the search starts", KeyboardInterrupt), (TRIAL_2, KeyboardInterrupt), ("The search is over", Stop)],
)
def test_a_run_that_is_stopped_between_trials_goes_on_to_the_same_end_invariant_2(
    words: str, plug: type[BaseException], finished: Outcome, configured: Callable[..., Config], runs: Path, kit: Any
) -> None:
    with pytest.raises(plug):
        go(configured(), runs / "run", Screen(words, plug))
    assert_same_study(go_on(runs / "run"), finished, kit)


def test_a_run_that_is_stopped_again_and_again_gets_there_invariant_2(
    finished: Outcome, configured: Callable[..., Config], runs: Path, kit: Any
) -> None:
    """What a stop costs is the candidate under way: with this patience no candidate is ever given up."""
    folder, stops = runs / "run", 0
    largest = max(trial.ledger.total.calls for trial in finished.study.trials)
    tested = max(sum(row["calls"].values()) for row in finished.test.rows.values())
    for start in (lambda: go(configured(), folder), *[lambda: go_on(folder)] * 12):
        with pytest.MonkeyPatch.context() as patched:
            no_calls(patched, after=max(largest, tested) + 300)
            try:
                outcome = start()
                break
            except (Stop, ExceptionGroup):
                stops += 1
    assert stops >= 2
    assert_same_study(outcome, finished, kit)


def test_what_was_spent_before_a_stop_counts_for_the_budget_invariant_3(
    configured: Callable[..., Config], runs: Path, finished: Outcome
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        no_calls(patched, after=spent(finished) // 3)
        with pytest.raises((Stop, ExceptionGroup)):
            go(configured(), runs / "run")
    before = spent(open_run(runs / "run"))
    assert before >= spent(finished) // 3 - 1
    outcome = go_on(runs / "run")
    assert spent(outcome) >= before + spent(finished) // 2
    assert spent(outcome) <= 20_000


def test_a_tight_budget_is_kept_over_all_parts_of_a_run_that_is_stopped_invariant_3(
    finished: Outcome, configured: Callable[..., Config], runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part is too short for one policy of the sealed test, so that what it did is paid for and lost."""
    calls = smallest_budget(configured, runs / "none")
    config, folder = configured(f"search.budget.calls={calls}"), runs / "run"
    part = min(sum(row["calls"].values()) for row in finished.test.rows.values()) - 5
    left = asked = made = 0
    complete = EmbeddedModel.complete

    async def count(self: EmbeddedModel, request: Request) -> Completion:
        nonlocal left, asked, made
        asked += 1
        if not left:
            raise Stop
        left, made = left - 1, made + 1
        return await complete(self, request)

    monkeypatch.setattr(EmbeddedModel, "complete", count)
    left, outcome = calls // 2, None
    for _ in range(50):
        try:
            outcome = go_on(folder) if made else go(config, folder)
            break
        except (Stop, ExceptionGroup):
            left = part
    assert outcome is not None, "the budget never ended the run"
    assert calls - part <= asked <= calls
    assert spent(outcome) == asked
    assert sum(outcome.as_json()["calls"].values()) == made
    assert "could not be tested: the budget of" in outcome.test.problem
    left = calls
    assert go_on(folder).test == outcome.test, "the sealed test is never opened again"
    assert left == calls
    assert go_on(folder, f"search.budget.calls={3 * calls}").test.done, "a larger budget finishes it"


def test_a_resumed_run_prints_the_trials_that_it_has(stopped: Path) -> None:
    screen = Screen()
    go_on(stopped, screen=screen)
    numbers = [line.split()[0] for line in screen.getvalue().splitlines() if line.startswith("    ")]
    assert numbers == [str(trial.number) for trial in open_run(stopped).study.trials]
    assert len(numbers) >= 5


def test_resuming_a_finished_run_spends_and_changes_nothing(
    copy: Path, finished: Outcome, monkeypatch: pytest.MonkeyPatch, kit: Any
) -> None:
    first = go_on(copy)  # the copy's view is made here
    before = contents(copy)
    no_calls(monkeypatch)
    again = go_on(copy)
    assert_same_study(again, finished, kit)
    assert contents(copy) == before
    assert again.as_json() == first.as_json()
    assert spent(again) == spent(finished)


@pytest.mark.parametrize("missing", ["config.yaml", "study.db"])
def test_only_a_run_folder_can_be_resumed(missing: str, copy: Path) -> None:
    (copy / missing).unlink()
    before = contents(copy)
    with pytest.raises(ConfigError, match=f"is no run folder: it has no {missing}"):
        go_on(copy)
    assert contents(copy) == before
    assert not (copy / missing).exists()


def test_more_generations_can_be_asked_for_when_a_stopped_run_goes_on_invariant_2(
    finished: Outcome, configured: Callable[..., Config], runs: Path, kit: Any
) -> None:
    with pytest.raises(Stop):
        go(configured("search.generations=1"), runs / "run", Screen(TRIAL_2))
    outcome = go_on(runs / "run", "search.generations=2")
    assert_same_study(outcome, finished, kit)
    assert load_config(runs / "run" / "config.yaml").search.generations == 2


@pytest.fixture(scope="session")
def searched_once(
    configured: Callable[..., Config], empty_store: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder of runs with one that was stopped when its search was over; it must not be changed."""
    runs = tmp_path_factory.mktemp("searched")
    shutil.copy(empty_store, runs / "mlflow.db")
    with pytest.raises(Stop):
        go(configured("search.generations=1"), runs / "run", Screen("The search is over"))
    return runs


@pytest.mark.parametrize("override", ["search.objective=score-per-token", "search.generations=3", "search.veto=false"])
def test_a_search_that_is_over_cannot_change_before_its_sealed_test(
    override: str, searched_once: Path, tmp_path: Path
) -> None:
    """It would be told in the results, and nobody would have done it."""
    folder = Path(shutil.copytree(searched_once, tmp_path / "searched")) / "run"
    before = contents(folder)
    with pytest.raises(ConfigError, match=rf"{override.split('=')[0]} cannot change any more; .* start another run"):
        go_on(folder, override)
    assert contents(folder) == before


def test_a_search_that_is_over_leaves_a_larger_budget_to_its_sealed_test(searched_once: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(searched_once, tmp_path / "searched")) / "run"
    trials = len(open_run(folder).study.trials)
    outcome = go_on(folder, "search.budget.calls=30000")
    assert outcome.test.done
    assert len(outcome.study.trials) == trials


def test_a_search_that_is_not_over_goes_further_with_a_larger_budget(
    configured: Callable[..., Config], runs: Path
) -> None:
    calls = smallest_budget(configured, runs / "none")
    config = configured(f"search.budget.calls={calls}", "search.generations=4")
    with pytest.raises(Stop):
        go(config, runs / "run", Screen("where the search starts"))
    outcome = go_on(runs / "run", "search.budget.calls=20000")
    assert outcome.ended == "all 4 generations are done"
    assert outcome.search_spend.total.calls > calls - allowance(outcome).reserve, "more than it was allowed at first"


@pytest.mark.parametrize("override", ["splits.seed=1", "splits.train=3", "seed_policy=native"])
def test_a_run_cannot_go_on_with_other_users_or_another_seed_policy_invariant_4(override: str, stopped: Path) -> None:
    """Users that the search has learned from would be dealt into the sealed test."""
    before = contents(stopped)
    with pytest.raises(ConfigError, match=override.split("=")[0]):
        go_on(stopped, override)
    assert contents(stopped) == before


def test_the_config_of_a_finished_run_stays_the_one_that_it_ran_under(
    copy: Path, configured: Callable[..., Config]
) -> None:
    """More generations are either searched or refused; a config that was not run is never written down."""
    try:
        outcome = go_on(copy, "search.generations=3")
    except ConfigError:
        assert load_config(copy / "config.yaml") == configured()
    else:
        assert len(outcome.study.trials) == 7


def test_a_report_and_results_that_are_lost_are_made_again_from_the_study(copy: Path) -> None:
    refresh(copy, tell=print)
    before = contents(copy)
    for name in ("best_policy.yaml", "report.html", "result.json"):
        (copy / name).unlink()
    refresh(copy, tell=print)
    assert contents(copy) == before


def test_a_run_that_was_stopped_has_a_report_before_it_goes_on(stopped: Path) -> None:
    assert refresh(stopped, tell=print).as_json()["trials"] == 3
    assert "has not been opened yet" in (stopped / "report.html").read_text(encoding="utf-8")


def test_a_run_that_was_stopped_at_once_has_a_report_too(configured: Callable[..., Config], runs: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        no_calls(patched)
        with pytest.raises((Stop, ExceptionGroup)):
            go(configured(), runs / "run")
    refresh(runs / "run", tell=print)
    assert "has not been opened yet" in (runs / "run" / "report.html").read_text(encoding="utf-8")


def views(folder: Path) -> Iterable[str]:
    client = MlflowClient(tracking_uri=open_run(folder).tracking_uri)
    runs = client.search_runs([e.experiment_id for e in client.search_experiments()])
    return [run.info.status for run in runs if "mlflow.parentRunId" not in run.data.tags]


def test_looking_at_a_run_that_was_stopped_does_not_call_it_finished(stopped: Path) -> None:
    assert views(stopped) == ["KILLED"]
    refresh(stopped, tell=print)
    assert views(stopped) == ["KILLED"]
    go_on(stopped)
    assert views(stopped) == ["FINISHED"]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data=nowhere.json", r"data: nowhere\.json: no such file"),
        ("splits.train=100", r"data: .*100 train"),
        ("baselines=[nobody]", "nobody: no such file or preset"),
        ("templates=nowhere.yaml", r"nowhere\.yaml"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(
    override: str, message: str, configured: Callable[..., Config], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        go(configured(override), tmp_path / "runs" / "run")
    assert list(tmp_path.iterdir()) == []


def test_the_first_line_says_who_takes_part_and_what_may_be_spent(
    configured: Callable[..., Config], runs: Path, finished: Outcome
) -> None:
    screen = Screen("trial")
    with pytest.raises(Stop):
        go(configured(), runs / "run", screen)
    reserve = allowance(finished).reserve
    assert (
        screen.getvalue().split()
        == (
            "2 train, 4 validation and 3 sealed test users; at most 20,000 calls, "
            f"{reserve:,} of them kept for the sealed test; model: embedded"
        ).split()
    )


def test_a_run_ends_with_a_line_that_says_why(configured: Callable[..., Config], runs: Path) -> None:
    screen = Screen()
    go(configured("search.generations=1", "search.candidates=1"), runs / "run", screen)
    assert screen.getvalue().splitlines()[-1] == "The search is over: all 1 generations are done."


def test_a_second_process_is_kept_out_of_a_run(stopped: Path) -> None:
    with FileLock(stopped / ".lock"), pytest.raises(ConfigError, match="another process is at work"):
        go_on(stopped)


# Off-policy


def test_off_policy_candidates_listen_to_recorded_talks_and_the_sealed_test_talks(
    configured: Callable[..., Config], runs: Path
) -> None:
    config = configured("search.off_policy=true")
    with pytest.raises(Stop):
        go(config, runs / "off", Screen(TRIAL_2))
    recorded = (runs / "off" / "talks" / "episodes.jsonl").read_bytes()
    outcome = go_on(runs / "off")
    assert (runs / "off" / "talks" / "episodes.jsonl").read_bytes() == recorded, "talks are recorded once"
    talks = read_transcripts(runs / "off" / "talks")
    assert len(talks) == 6, "train and validation users, and nobody else"
    assert not talks.keys() & outcome.test.rows["seed"]["by_user"].keys()
    assert outcome.test.rows["evolved"]["calls"]["reply"] > 0
    rounds = sum(len(session) for talk in talks.values() for period in talk for session in period)
    assert outcome.search_spend.by_role["reply"].calls == rounds, "nothing else was replied to"
    again = go(config, runs / "whole")
    assert [trial.train for trial in again.study.trials] == [trial.train for trial in outcome.study.trials]


def test_where_train_users_decide_only_their_talks_are_recorded(configured: Callable[..., Config], runs: Path) -> None:
    config = configured("search.off_policy=true", "search.acceptance=train", "search.generations=0")
    outcome = go(config, runs / "off")
    assert read_transcripts(runs / "off" / "talks").keys() == outcome.study.trials[0].train.keys()


def test_a_budget_that_ends_while_talks_are_recorded_says_so_and_a_larger_one_goes_on(
    configured: Callable[..., Config], runs: Path
) -> None:
    config = configured("search.off_policy=true", "search.generations=0", "search.budget={tokens: 20000}")
    with pytest.raises(ConfigError, match=r"^search\.budget: too small even for the seed policy's talks .*--resume"):
        go(config, runs / "off")
    assert go_on(runs / "off", "search.budget.tokens=null").test.done


def test_a_run_cannot_begin_on_policy_and_go_on_off_policy(stopped: Path) -> None:
    with pytest.raises(ConfigError, match=r"search\.off_policy cannot change"):
        go_on(stopped, "search.off_policy=true")


def test_a_run_warns_once_at_half_and_at_four_fifths_of_a_limit_also_when_it_goes_on(
    configured: Callable[..., Config], runs: Path
) -> None:
    config, first, second = configured("search.budget={tokens: 3000000}"), Screen(TRIAL_2), Screen()
    with pytest.raises(Stop):
        go(config, runs / "run", first)
    outcome = go_on(runs / "run", screen=second)
    levels = [n for n in (50, 80) if outcome.consumed.tokens >= n / 100 * 3_000_000]
    told = re.findall(r"(\d+)% of 3,000,000 tokens are gone", first.getvalue() + second.getvalue())
    assert levels
    assert [int(n) for n in told] == levels


def test_a_run_says_what_its_models_cost_and_keeps_the_prices_that_it_began_with(
    configured: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    config = priced(configured("model=openai:gpt-4.1-mini", "user_model=openai:nobody-has-it"))
    known, unknown = told_prices(config)
    assert known.startswith("price of gpt-4.1-mini: $")
    assert unknown == "price of nobody-has-it: not known, and so is every cost (set endpoint.prices)"
    assert parse_config(dump_config(config), where="test").endpoint == config.endpoint
    assert priced(configured()) == configured()
