"""A whole run that screens its candidates with the bundled reward model.

1. What is dropped costs the calls with which it writes while it listens, and no episode; its reason says its place.
2. The budget is never overshot.
3. A run that was stopped and goes on is the run that was not stopped.
4. Where the screen is of no use, every candidate races, and the run says why.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mnemotune.env.memrm.model.checkpoint import CheckpointError, read_model_card, write_model_card
from mnemotune.env.memrm.model.scoring import TINY
from mnemotune.env.memrm.model.tokens import Tokens
from mnemotune.optimizer.config import Config, parse_config
from mnemotune.optimizer.search.outcome import Outcome
from people import write_people
from running import Screen, Stop, go, go_on, smallest_budget


@pytest.fixture(scope="session")
def configured(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Config]:
    """Make the config of a small run: users' lives are cut short."""
    people = write_people(tmp_path_factory.mktemp("people"), users=8, periods=2, questions=3)
    text = (
        f"{{data: {people}, splits: {{train: 2, validation: 3, test: 2}}, baselines: [],"
        " seed_policy: awi, search: {seed: 2, generations: 2, candidates: 4, broad_start: 0,"
        " proposers: [random], screening: {drop: 0.5}, budget: {calls: 20000}}}"
    )
    return lambda *overrides: parse_config(text, where="test", overrides=overrides)


@pytest.fixture(scope="session")
def finished(configured: Callable[..., Config], empty_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    runs = tmp_path_factory.mktemp("runs")
    shutil.copy(empty_store, runs / "mlflow.db")
    return go(configured(), runs / "whole", views=True)


def told(outcome: Outcome) -> list[tuple[object, ...]]:
    return [(t.policy, t.decided_at, t.reason, t.forecast, t.series) for t in outcome.study.trials if t.proposer]


def test_the_worse_half_is_dropped_for_the_calls_that_it_writes_with_invariant_1(finished: Outcome) -> None:
    trials = [trial for trial in finished.study.trials if trial.proposer]
    assert len(trials) == 8
    dropped = [trial for trial in trials if trial.decided_at == "screen"]
    assert 1 <= len(dropped) <= 4
    for trial in dropped:
        assert set(trial.ledger.by_role) <= {"write"}
        assert trial.reason.startswith(f"forecast {trial.forecast:.3f}, ")
        assert not trial.series
        kept = [
            t.forecast for t in trials if t.generation == trial.generation and t.decided_at not in {"screen", "check"}
        ]
        assert trial.forecast <= max(kept)
    raced = [trial for trial in trials if trial.series]
    assert all(0 < trial.forecast < 1 for trial in raced)


def test_the_result_and_the_report_say_what_was_screened(finished: Outcome) -> None:
    result = json.loads((finished.folder / "result.json").read_text(encoding="utf-8"))
    dropped = sum(trial.decided_at == "screen" for trial in finished.study.trials)
    assert result["screening"] == {
        "forecasts": 8,
        "dropped": dropped,
        "measured": 8 - dropped,
        "rank_correlation": None,
    }
    assert f"and {dropped} were dropped before any talk" in (finished.folder / "report.html").read_text(
        encoding="utf-8"
    )


@pytest.mark.exhaustive("more")
@pytest.mark.parametrize("more", [0, 700])
def test_the_budget_is_kept_invariant_2(more: int, configured: Callable[..., Config], runs: Path) -> None:
    calls = smallest_budget(configured, runs / "small") + more
    assert go(configured(f"search.budget.calls={calls}"), runs / "run").consumed.calls <= calls


@pytest.mark.parametrize("trial", [1, 3, 6])
@pytest.mark.exhaustive("trial")
def test_a_run_that_was_stopped_goes_on_to_the_same_end_invariant_3(
    trial: int, finished: Outcome, configured: Callable[..., Config], runs: Path
) -> None:
    with pytest.raises(Stop):
        go(configured(), runs / "run", Screen(f"    {trial}  "))
    again = go_on(runs / "run")
    assert told(again) == told(finished)
    assert again.as_json()["best_policy"]["memory_score"] == finished.as_json()["best_policy"]["memory_score"]


def test_texts_unlike_those_that_it_learned_from_are_not_screened_invariant_4(
    configured: Callable[..., Config], runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tokens, "per_word", lambda self, texts: 9.0)
    screen = Screen()
    outcome = go(configured("search.generations=1"), runs / "run", screen)
    assert "Every candidate races, as tiny learned from texts unlike these users'" in screen.getvalue()
    assert all(math.isnan(trial.forecast) and trial.decided_at != "screen" for trial in outcome.study.trials)


def test_what_another_model_s_memories_taught_is_not_asked_invariant_4(
    configured: Callable[..., Config], runs: Path
) -> None:
    folder, screen = Path(shutil.copytree(TINY, runs / "other")), Screen()
    write_model_card(folder, read_model_card(folder).model_copy(update={"language_model": "openai:other"}))
    outcome = go(configured("search.generations=1", f"search.screening.model={folder}"), runs / "run", screen)
    printed = screen.getvalue().replace("\n", " ")
    assert f"Every candidate races, as {folder} learned from another model's memories" in printed
    assert not (outcome.folder / "talks").exists(), "nothing is recorded for it"
    assert all(math.isnan(trial.forecast) and trial.decided_at != "screen" for trial in outcome.study.trials)


def test_a_checkpoint_that_is_not_there_is_said_before_anything_is_written(
    configured: Callable[..., Config], runs: Path
) -> None:
    with pytest.raises(CheckpointError, match="there is no such folder"):
        go(configured(f"search.screening.model={runs / 'nothing'}"), runs / "run")
    assert not (runs / "run").exists()


def test_what_was_recorded_off_policy_is_listened_to(configured: Callable[..., Config], runs: Path) -> None:
    outcome = go(configured("search.off_policy=true", "search.generations=1"), runs / "run")
    assert any(not math.isnan(trial.forecast) for trial in outcome.study.trials)
