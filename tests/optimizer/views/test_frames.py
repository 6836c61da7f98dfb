"""A run as pandas frames.

Invariants:

1. The frames say what the run's result says.
2. What is written to Parquet is read back as it was.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pandas
import pytest

import mnemotune
from mnemotune.optimizer.config import ConfigError, load_config
from mnemotune.optimizer.search.outcome import open_run
from mnemotune.optimizer.search.run import evolve
from mnemotune.optimizer.views.frames import FRAMES, load_run
from mnemotune.optimizer.views.listeners import unseen_listeners
from people import write_people


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    write_people(folder, users=5, periods=2, questions=1)
    config = folder / "search.yaml"
    search = {"generations": 1, "candidates": 2, "broad_start": 0}
    splits = {"train": 1, "validation": 2, "test": 2}
    settings = {
        "data": str(folder / "people.json"),
        "splits": splits,
        "seed_policy": "awi",
        "baselines": ["native"],
        "tracking": None,
        "search": search,
    }
    config.write_text(json.dumps(settings), encoding="utf-8")
    evolve(load_config(config), folder / "one", listeners=unseen_listeners())
    return folder / "one"


def test_trials_are_those_of_the_study_with_what_their_policies_say_invariant_1(run: Path) -> None:
    trials, study = load_run(run).trials, open_run(run).study
    assert list(trials["trial"]) == [trial.number for trial in study.trials]
    assert list(trials["reason"]) == [trial.reason for trial in study.trials]
    assert trials["write.mode"][0] == "profile"
    assert trials["parent"].isna()[0]


def test_groups_have_the_scores_of_the_sealed_test_invariant_1(run: Path) -> None:
    groups, rows = load_run(run).groups, open_run(run).test.rows
    for name, row in rows.items():
        mine = groups[groups["policy"] == name]
        assert mine["bytes"].mean() == pytest.approx(row.stored["bytes"].mean, nan_ok=True)
        assert dict(zip(mine["group"], mine["memory_score"], strict=True)) == row.by_group
        assert mine["evidence_recall"].mean() == pytest.approx(row.evidence.mean)


def test_checks_have_the_accuracy_of_the_sealed_test_invariant_1(run: Path) -> None:
    frames, rows = load_run(run), open_run(run).test.rows
    asked = frames.checks[~frames.checks["reworded"]]
    for name in ("seed", "evolved"):
        mine = asked[asked["policy"] == name]
        by_stage = mine.groupby(["task", "stage"])["score"].mean().groupby("task").mean()
        assert by_stage.mean() == pytest.approx(rows[name].accuracy, abs=1e-5)
    assert set(frames.episodes["task"]) == set(asked["task"])


def test_spend_is_what_the_run_was_charged_invariant_1(run: Path) -> None:
    spend = load_run(run).spend
    result = open_run(run).as_json()["calls"]
    assert spend.groupby("role")["calls"].sum().to_dict() == result


def test_frames_come_back_from_parquet_invariant_2(run: Path, tmp_path: Path) -> None:
    frames = load_run(run)
    paths = frames.write(tmp_path / "frames")
    assert [path.stem for path in paths] == [*FRAMES]
    for path in paths:
        pandas.testing.assert_frame_equal(pandas.read_parquet(path), getattr(frames, path.stem), check_dtype=False)


def test_a_run_whose_episodes_are_gone_has_no_checks(run: Path, tmp_path: Path) -> None:
    left = tmp_path / "left"
    left.mkdir()
    for name in ("config.yaml", "study.db"):
        (left / name).write_bytes((run / name).read_bytes())
    frames = load_run(left)
    assert (len(frames.checks), len(frames.episodes)) == (0, 0)
    assert not math.isnan(frames.groups["memory_score"].mean())


def test_a_damaged_episode_is_told_by_file_and_line(run: Path, tmp_path: Path) -> None:
    left = tmp_path / "left"
    (left / "test" / "seed").mkdir(parents=True)
    for name in ("config.yaml", "study.db"):
        (left / name).write_bytes((run / name).read_bytes())
    (left / "test" / "seed" / "episodes.jsonl").write_text("{\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"episodes\.jsonl, line 1: is no episode"):
        load_run(left)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no run folder"):
        load_run(tmp_path)


def test_the_package_has_it_by_name() -> None:
    made: Any = mnemotune.load_run
    assert made is load_run
