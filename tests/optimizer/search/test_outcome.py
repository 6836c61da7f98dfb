"""What a run leaves behind in its folder."""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mnemotune.env import Summary
from mnemotune.env.cost import TurnCost
from mnemotune.env.statistics import Estimate
from mnemotune.optimizer.config import ConfigError, dump_config, parse_config
from mnemotune.optimizer.search.outcome import (
    CONSUMED,
    ENDED,
    SEARCH_SPEND,
    TEST,
    TEST_SPEND,
    Outcome,
    open_run,
    open_study,
)
from mnemotune.optimizer.search.sealed import SealedTest
from mnemotune.optimizer.study import Study
from mnemotune.policies.lm import Ledger
from mnemotune.policies.lm.ledger import Spend

CONFIG = """
data: base
splits: {train: 1, validation: 2, test: 2}
seed_policy: native
search: {budget: {calls: 5000, usd: 2.5}}
"""


def row(name: str, **by_group: float) -> Summary:
    return Summary(policy=name, memory_score=Estimate(0.5, 0.25, 0.75, len(by_group)), by_group=by_group)


@pytest.fixture
def folder(tmp_path: Path, empty_study: Path) -> Path:
    """A run that has only just begun."""
    run = tmp_path / "runs" / "mine"
    run.mkdir(parents=True)
    shutil.copy(empty_study, run / "study.db")
    (run / "config.yaml").write_text(dump_config(parse_config(CONFIG, where="test")), encoding="utf-8")
    return run


@pytest.fixture
def outcome(folder: Path) -> Outcome:
    return open_run(folder)


def spent(calls: int, *, usd: float | None = 0.5) -> Ledger:
    return Ledger({"answer": Spend(calls, 0, 100 * calls, 10 * calls, usd)})


def test_a_folder_without_a_run_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"is no run folder: it has no config\.yaml") as caught:
        open_run(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_config_alone_is_no_run_and_opening_it_makes_none(folder: Path) -> None:
    (folder / "study.db").unlink()
    with pytest.raises(ConfigError, match=r"it has no study\.db"):
        open_run(folder)
    assert not (folder / "study.db").exists()


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        open_run(tmp_path / "nowhere")


def test_a_run_is_opened_with_its_config(outcome: Outcome) -> None:
    assert outcome.config == parse_config(CONFIG, where="test")


def test_a_run_that_was_killed_after_it_went_on_stopped_with_its_last_trial(outcome: Outcome, kit: Any) -> None:
    assert outcome.stopped is None
    outcome.study.append(kit.trial())
    outcome.note_end()
    noted = outcome.stopped
    assert noted is not None
    assert noted >= outcome.study.trials[0].ended
    outcome.study.append(kit.trial(1))
    assert outcome.stopped == outcome.study.trials[1].ended > noted


def test_a_run_that_has_only_begun_has_nothing_to_tell_yet(outcome: Outcome) -> None:
    told = outcome.as_json()
    assert outcome.test == SealedTest({})
    assert outcome.ended is None
    assert told["seed_policy"] is told["best_policy"] is told["ended"] is told["problem"] is None
    assert told["difference"] == {"memory_score": None, "interval": [None, None]}
    assert told["trials"] == told["accepted"] == 0
    assert told["calls"] == told["baselines"] == {}
    assert told["budget"]["spent"] == {"calls": 0, "tokens": 0, "usd": 0.0, "seconds": 0.0}


def test_the_result_names_the_run_its_policy_its_scores_and_what_it_took(outcome: Outcome, kit: Any) -> None:
    for trial in (kit.trial(), kit.trial(1), kit.trial(2, accepted=True, decided_at="validate")):
        outcome.study.append(trial)
    rows = {"native": row("native"), "seed": row("seed", ann=0.25, bob=0.5), "evolved": row("evolved", ann=0.5, bob=1)}
    outcome.study.note(TEST, SealedTest(rows, "", done=True).as_json())
    outcome.study.note(SEARCH_SPEND, spent(100).as_json())
    outcome.study.note(TEST_SPEND, spent(11).as_json())
    outcome.study.note(CONSUMED, {"calls": 120, "tokens": 13_000, "usd": 1.25, "seconds": 60.5})
    outcome.study.note(ENDED, "all 3 generations are done")
    told = outcome.as_json()
    assert told["run"] == str(outcome.folder)
    assert told["policy_file"] == str(outcome.folder / "best_policy.yaml")
    assert (told["seed_policy"], told["best_policy"]) == (rows["seed"].as_json(), rows["evolved"].as_json())
    assert told["baselines"] == {"native": rows["native"].as_json()}
    assert told["difference"]["memory_score"] == pytest.approx(0.375)
    low, high = told["difference"]["interval"]
    assert low < 0.375 < high
    assert (told["trials"], told["accepted"]) == (3, 1), "the seed is no accepted candidate"
    assert told["calls"] == {"answer": 111}
    assert told["budget"] == {
        "limits": {"calls": 5000, "tokens": None, "usd": 2.5, "seconds": None},
        "spent": {"calls": 120, "tokens": 13_000, "usd": 1.25, "seconds": 60.5},
    }
    assert told["ended"] == "all 3 generations are done"
    json.dumps(told, allow_nan=False)


def test_costs_that_are_not_known_are_not_told_as_zero(outcome: Outcome) -> None:
    outcome.study.note(CONSUMED, {"calls": 110, "tokens": 0, "usd": None, "seconds": 1.0})
    assert outcome.as_json()["budget"]["spent"]["usd"] is None


def test_a_test_that_could_not_be_finished_says_why(outcome: Outcome) -> None:
    outcome.study.note(TEST, SealedTest({}, "evolved could not be tested: no calls left", done=True).as_json())
    assert outcome.as_json()["problem"] == "evolved could not be tested: no calls left"


def test_users_without_a_score_are_left_out_of_the_difference(outcome: Outcome) -> None:
    rows = {"seed": row("seed", ann=0.25, bob=math.nan, cy=0.5), "evolved": row("evolved", ann=0.5, bob=0.9, cy=0.75)}
    outcome.study.note(TEST, SealedTest(rows).as_json())
    assert outcome.as_json()["difference"]["memory_score"] == pytest.approx(0.25)


def test_the_spend_of_a_run_that_was_stopped_counts_the_candidate_under_way_too(outcome: Outcome, kit: Any) -> None:
    outcome.study.append(kit.trial(ledger=spent(300)))
    outcome.study.note(SEARCH_SPEND, spent(420).as_json())
    assert outcome.search_spend.total.calls == 420


def test_mlflows_view_is_kept_beside_the_run_folders_unless_the_config_says_where(outcome: Outcome) -> None:
    assert outcome.tracking_uri == f"sqlite:///{outcome.folder.parent / 'mlflow.db'}"
    config = parse_config(CONFIG, where="test", overrides=["tracking.uri=http://tracking:5000"])
    assert Outcome(outcome.folder, config, outcome.study).tracking_uri == "http://tracking:5000"


def test_everything_is_read_back_from_the_folder(outcome: Outcome, kit: Any) -> None:
    outcome.study.append(kit.trial())
    outcome.study.note(ENDED, "all generations are done")
    outcome.study.note(TEST, SealedTest({"seed": row("seed", ann=0.25)}, "no calls left", done=True).as_json())
    outcome.study.note(TEST_SPEND, spent(11).as_json())
    again = open_run(outcome.folder)
    assert again.as_json() == outcome.as_json()
    assert [kit.told(trial) for trial in again.study.trials] == [kit.told(trial) for trial in outcome.study.trials]


def test_a_study_is_started_where_there_is_none(tmp_path: Path) -> None:
    assert open_study(tmp_path).trials == ()
    assert (tmp_path / "study.db").is_file()


def test_the_front_has_the_validation_score_of_a_look_taken_later(kit: Any, outcome: Outcome) -> None:
    shares = {"write": 0.1, "read": 0.1, "utilisation": 0.3}
    summary = Summary(policy="", shares=shares, per_turn=TurnCost(1.0, 100.0, 10.0))
    raced = {"policy": kit.policy(50), "summary": summary}
    outcome.study.append(kit.trial(0, policy=kit.policy(10)))
    outcome.study.append(kit.trial(1, **raced))
    outcome.study.append(kit.trial(2, **raced, validation={"v": 0.25, "w": 0.75}))
    (only,) = outcome.front
    assert (only.trial, only.validation) == (1, 0.5)


def broken(folder: Path, contents: str) -> None:
    """Put something else in the place of a run's study."""
    file = folder / "study.db"
    file.unlink()
    if contents == "nothing":
        file.touch()
    elif contents == "text":
        file.write_text("mine", encoding="utf-8")
    else:
        with closing(sqlite3.connect(file)) as database:
            database.execute("CREATE TABLE mine (word TEXT)")


@pytest.mark.parametrize("contents", ["nothing", "text", "tables"])
def test_a_database_that_is_no_study_is_refused_and_stays_as_it_is(folder: Path, contents: str) -> None:
    broken(folder, contents)
    before = (folder / "study.db").read_bytes()
    with pytest.raises(ConfigError, match=r"study\.db holds no study") as caught:
        open_run(folder)
    assert str(folder) in str(caught.value)
    assert "start another run" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert (folder / "study.db").read_bytes() == before


def test_a_storage_with_another_programs_studies_is_refused(folder: Path) -> None:
    (folder / "study.db").unlink()
    Study(f"sqlite:///{folder / 'study.db'}", name="somebody's")
    with pytest.raises(ConfigError, match="holds no study named 'evolution'"):
        open_run(folder)


@pytest.mark.parametrize(("version", "advice"), [(None, "start another run"), (1, "start another run"), (99, "update")])
def test_a_study_of_another_version_is_refused_with_what_to_do(
    folder: Path, kit: Any, version: int | None, advice: str
) -> None:
    study = open_study(folder)
    study.append(kit.trial())
    study.note("version", version)
    with pytest.raises(ConfigError, match=f"made by an? (earlier|later) version of mnemotune.*{advice}"):
        open_run(folder)
