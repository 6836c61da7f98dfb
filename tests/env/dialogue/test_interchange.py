"""AMemGym's result files: what is written is read back as the same scores."""

from __future__ import annotations

import json
import math
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mnemotune.data import Scenario
from mnemotune.env import Episode, Evaluation, Protocol
from mnemotune.env.dialogue.compat import DEFECTS
from mnemotune.env.dialogue.interchange import (
    BOUND,
    InterchangeError,
    find_runs,
    find_upper_bound,
    policy_of_run,
    read_results,
    write_results,
)
from mnemotune.env.dialogue.record import period_of
from mnemotune.env.scoring import GroupScore
from mnemotune.policies import load_policy
from staged import evaluator

if TYPE_CHECKING:
    from ..conftest import MakeCast, MakeModel, MakeScenario

AWI = load_policy("awi")
THEIRS = Protocol(compat=frozenset(DEFECTS))


@pytest.fixture
def lives(make_scenario: MakeScenario) -> list[Scenario]:
    changes = {1: {"pet_0": "mid", "flat_1": "high"}, 2: {"flat_1": "mid"}}
    return [make_scenario(user=name, sessions=(4, 2, 2), changes=changes) for name in ("ann", "ben")]


@pytest.fixture
async def written(
    lives: list[Scenario], make_model: MakeModel, make_cast: MakeCast, tmp_path: Path
) -> tuple[Evaluation, Path]:
    """A run with unreadable answers, and its files."""
    counted = iter(range(10_000))
    model = make_model(answer=lambda _: "dunno" if (n := next(counted)) % 5 == 0 else json.dumps({"answer": n % 4}))
    evaluation = await evaluator(make_cast(model, protocol=THEIRS)).evaluate(AWI, lives)
    write_results(tmp_path, evaluation, lives, name="awi", model="m", protocol=THEIRS)
    return evaluation, tmp_path


def read(folder: Path, lives: list[Scenario]) -> Evaluation:
    return read_results(folder / "awi", lives, upper_bound=folder / "m" / BOUND, policy=AWI)


def as_exported(evaluation: Evaluation) -> list[GroupScore]:
    """Return the scores without evidence recall, of which AMemGym's files say nothing."""
    return [
        replace(group, stages=tuple(replace(stage, evidence=0.0) for stage in group.stages))
        for group in evaluation.groups
    ]


def content(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


async def test_what_is_written_is_read_back_as_the_same_scores(
    written: tuple[Evaluation, Path], lives: list[Scenario]
) -> None:
    evaluation, folder = written
    again = read(folder, lives)
    assert as_exported(again) == as_exported(evaluation)
    assert [[list(stage.heard) for stage in e.stages] for e in again.episodes] == [
        [list(stage.heard) for stage in e.stages] for e in evaluation.episodes
    ]
    assert again.bounds == evaluation.bounds
    assert again.extras == evaluation.extras


async def test_metrics_are_aligned_by_user_period_and_question(
    written: tuple[Evaluation, Path], lives: list[Scenario]
) -> None:
    evaluation, folder = written
    for user, episode in enumerate(evaluation.episodes):
        periods = [period_of(episode, p) for p in range(3)]
        overall = content(folder / "awi" / episode.task / "overall_metrics.json")["accuracy"]
        assert overall == [[answer.score for answer in period.answers] for period in periods]
        counts = content(folder / "awi" / episode.task / "diagnosis_metrics.json")
        for p, period in enumerate(periods):
            for q, probe in enumerate(period.probes):
                lost = counts["write_failure"][p][q] + counts["read_failure"][p][q]
                assert lost == sum(not right for right in probe.right.values())
                assert counts["memory_success"][p][q] == (lost == 0)
        chances = content(folder / "random_metrics.json")["accuracy"][user]
        assert [len(row) for row in chances] == [2, 2, 2]
        assert chances[0] == [0.25, 0.25]


async def test_what_is_unscored_is_nan_in_a_metric(
    lives: list[Scenario], make_model: MakeModel, make_cast: MakeCast, tmp_path: Path
) -> None:
    evaluation = await evaluator(make_cast(make_model())).evaluate(AWI, lives)
    write_results(tmp_path, evaluation, lives, name="awi", model="m", protocol=Protocol())
    overall = content(tmp_path / "awi" / "ann" / "overall_metrics.json")["accuracy"]
    assert math.isnan(overall[1][1]), "no choice suits a high flat"
    assert math.isnan(content(tmp_path / "m" / "utilization_metrics.json")["accuracy"][0][1][1])


@pytest.mark.parametrize("place", ["../../x", "..", ".", "/tmp/x"])  # noqa: S108
async def test_no_name_leads_out_of_the_folder(
    place: str, lives: list[Scenario], make_model: MakeModel, make_cast: MakeCast, tmp_path: Path
) -> None:
    evaluation = await evaluator(make_cast(make_model())).evaluate(AWI, lives)
    for names in ({"name": place, "model": "m"}, {"name": "awi", "model": place}):
        with pytest.raises(InterchangeError, match="leads out of"):
            write_results(tmp_path / "out", evaluation, lives, protocol=Protocol(), **names)
    renamed = [life.model_copy(update={"id": place}) for life in lives]
    theirs = await evaluator(make_cast(make_model())).evaluate(AWI, renamed[:1])
    with pytest.raises(InterchangeError, match="leads out of"):
        write_results(tmp_path / "out", theirs, renamed[:1], name="awi", model="m", protocol=Protocol())
    assert set(os.listdir(tmp_path)) <= {"out"}


async def test_a_failed_user_is_left_out(
    lives: list[Scenario], make_model: MakeModel, make_cast: MakeCast, tmp_path: Path
) -> None:
    evaluation = await evaluator(make_cast(make_model())).evaluate(AWI, lives)
    failed = Episode("ann", AWI.key, (), failure="no")
    partly = Evaluation(AWI, evaluation.groups[1:], (failed, evaluation.episodes[1]), bounds=evaluation.bounds)
    write_results(tmp_path, partly, lives, name="awi", model="m", protocol=Protocol())
    assert [path.name for path in (tmp_path / "awi").iterdir() if path.is_dir()] == ["ben"]
    assert read(tmp_path, lives[1:]).groups[0].group == "ben"


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("m/utilization_results.json", None, r"utilization_results\.json: No such file"),
        ("m/utilization_results.json", "[[], []]", r"utilization_results\.json: does not suit the scenarios"),
        ("awi/ann/diagnosis_results.json", "{", r"diagnosis_results\.json: is not JSON"),
        ("awi/ann/overall_results.json", "[]", r"ann: does not suit user ann's scenario"),
        ("awi/ann/overall_results.json", "7", r"ann: does not suit user ann's scenario"),
        ("m/utilization_results.json", "[]", r"utilization_results\.json: has 0 users, and there are 2"),
    ],
)
async def test_a_file_that_cannot_be_used_is_named(
    file: str, text: str | None, said: str, written: tuple[Evaluation, Path], lives: list[Scenario]
) -> None:
    _, folder = written
    (folder / file).unlink()
    if text is not None:
        (folder / file).write_text(text, encoding="utf-8")
    with pytest.raises(InterchangeError, match=said):
        read(folder, lives)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InterchangeError, match=r"there is no NAME/USER/overall_results\.json in it"):
        find_runs(tmp_path)


# Runs that are not whole


async def test_users_without_results_are_left_out_and_the_upper_bound_stays_theirs(
    written: tuple[Evaluation, Path], lives: list[Scenario]
) -> None:
    evaluation, folder = written
    shutil.rmtree(folder / "awi" / "ann")
    again = read(folder, lives)
    assert as_exported(again) == as_exported(evaluation)[1:]


async def test_an_unfinished_user_is_a_failure(written: tuple[Evaluation, Path], lives: list[Scenario]) -> None:
    evaluation, folder = written
    file = folder / "awi" / "ann" / "overall_results.json"
    rows = content(file)
    rows[2][1] = None
    file.write_text(json.dumps(rows), encoding="utf-8")
    again = read(folder, lives)
    assert again.failures == {"ann": "its results are not finished"}
    assert as_exported(again) == as_exported(evaluation)[1:]


async def test_without_diagnosis_there_are_no_shares(written: tuple[Evaluation, Path], lives: list[Scenario]) -> None:
    evaluation, folder = written
    for user in ("ann", "ben"):
        (folder / "awi" / user / "diagnosis_results.json").unlink()
    again = read(folder, lives)
    assert again.by_group == evaluation.by_group
    assert all(math.isnan(again.mean(share)) for share in ("write", "read", "utilisation"))


async def test_without_an_upper_bound_there_is_no_memory_score(
    written: tuple[Evaluation, Path], lives: list[Scenario]
) -> None:
    evaluation, folder = written
    again = read_results(folder / "awi", lives, upper_bound=None, policy=AWI)
    assert again.mean("accuracy") == evaluation.mean("accuracy")
    assert math.isnan(again.memory_score.mean)
    assert again.bounds == {}


async def test_without_recorded_talks_the_scores_are_the_same(
    written: tuple[Evaluation, Path], lives: list[Scenario]
) -> None:
    """AMemGym's evolution leaves none."""
    evaluation, folder = written
    for user in ("ann", "ben"):
        shutil.rmtree(folder / "awi" / user / "interactions")
    assert as_exported(read(folder, lives)) == as_exported(evaluation)


# Finding runs


async def test_runs_are_found_at_any_depth_with_their_policy_and_their_models_upper_bound(
    lives: list[Scenario], make_model: MakeModel, make_cast: MakeCast, tmp_path: Path
) -> None:
    known = evaluator(make_cast(make_model()))
    for name, model in (("awi", "small"), ("rag", "large"), ("awi_complete", "large")):
        evaluation = await known.evaluate(load_policy(name), lives)
        write_results(tmp_path / "deep", evaluation, lives, name=name, model=model, protocol=Protocol())
    runs = find_runs(tmp_path)
    assert list(runs) == ["awi", "awi_complete", "rag"]
    assert {name: policy_of_run(run) for name, run in runs.items()} == {name: load_policy(name) for name in runs}
    bounds = {name: find_upper_bound(tmp_path, run) for name, run in runs.items()}
    assert {name: bound and bound.parent.name for name, bound in bounds.items()} == {
        "awi": "small",
        "awi_complete": "large",
        "rag": "large",
    }


async def test_which_upper_bound_is_a_runs_must_be_clear(
    lives: list[Scenario], make_model: MakeModel, make_cast: MakeCast, tmp_path: Path
) -> None:
    evaluation = await evaluator(make_cast(make_model())).evaluate(AWI, lives)
    for model in ("small", "large"):
        write_results(tmp_path, evaluation, lives, name="awi", model=model, protocol=Protocol())
    (tmp_path / "awi" / "awi.json").unlink()
    with pytest.raises(InterchangeError, match="ran on None, and there are upper bounds of large, small only"):
        find_upper_bound(tmp_path, tmp_path / "awi")
    assert policy_of_run(tmp_path / "awi") == load_policy("native")


def test_two_runs_of_one_name_are_refused(tmp_path: Path) -> None:
    for place in ("one", "two"):
        (tmp_path / place / "awi" / "ann").mkdir(parents=True)
        (tmp_path / place / "awi" / "ann" / "overall_results.json").write_text("[]", encoding="utf-8")
    with pytest.raises(InterchangeError, match="two runs are called awi"):
        find_runs(tmp_path)
