"""AMemGym's result files: what is written is read back as the same scores."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mnemotune.data import Scenario
from mnemotune.env import Evaluation, Evaluator, Protocol
from mnemotune.env.compat import DEFECTS
from mnemotune.env.interchange import InterchangeError, read_results, write_results
from mnemotune.env.transcript import TranscriptError
from mnemotune.policies import load_policy

if TYPE_CHECKING:
    from .conftest import MakeCast, MakeModel, MakeScenario

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
    evaluation = await Evaluator(make_cast(model, protocol=THEIRS)).evaluate(AWI, lives)
    write_results(tmp_path, evaluation, lives, name="awi", model="m", protocol=THEIRS)
    return evaluation, tmp_path


def read(folder: Path, lives: list[Scenario]) -> Evaluation:
    return read_results(folder, lives, name="awi", model="m", policy=AWI)


def content(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


async def test_what_is_written_is_read_back_as_the_same_scores(
    written: tuple[Evaluation, Path], lives: list[Scenario]
) -> None:
    evaluation, folder = written
    again = read(folder, lives)
    assert again.users == evaluation.users
    assert [[p.sessions for p in e.periods] for e in again.episodes] == [
        [p.sessions for p in e.periods] for e in evaluation.episodes
    ]
    assert again.upper_bounds == evaluation.upper_bounds


async def test_metrics_are_aligned_by_user_period_and_question(
    written: tuple[Evaluation, Path], lives: list[Scenario]
) -> None:
    evaluation, folder = written
    for user, episode in enumerate(evaluation.episodes):
        overall = content(folder / "awi" / episode.user / "overall_metrics.json")["accuracy"]
        assert overall == [[answer.score for answer in period.answers] for period in episode.periods]
        counts = content(folder / "awi" / episode.user / "diagnosis_metrics.json")
        for p, period in enumerate(episode.periods):
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
    evaluation = await Evaluator(make_cast(make_model())).evaluate(AWI, lives)
    write_results(tmp_path, evaluation, lives, name="awi", model="m", protocol=Protocol())
    overall = content(tmp_path / "awi" / "ann" / "overall_metrics.json")["accuracy"]
    assert math.isnan(overall[1][1]), "no choice suits a high flat"
    assert math.isnan(content(tmp_path / "m" / "utilization_metrics.json")["accuracy"][0][1][1])


async def test_a_failed_user_is_left_out(
    lives: list[Scenario], make_model: MakeModel, make_cast: MakeCast, tmp_path: Path
) -> None:
    evaluation = await Evaluator(make_cast(make_model())).evaluate(AWI, lives)
    failed = evaluation.episodes[0].__class__("ann", AWI.key, (), failure="no")
    partly = Evaluation(
        AWI, evaluation.users[1:], (failed, evaluation.episodes[1]), upper_bounds=evaluation.upper_bounds
    )
    write_results(tmp_path, partly, lives, name="awi", model="m", protocol=Protocol())
    assert [path.name for path in (tmp_path / "awi").iterdir()] == ["ben"]
    assert read(tmp_path, lives[1:]).users[0].user == "ben"


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("awi/ann/overall_results.json", None, r"overall_results\.json: No such file"),
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


def test_a_folder_without_a_run_is_refused(tmp_path: Path, lives: list[Scenario]) -> None:
    with pytest.raises(TranscriptError, match="has no recorded talks"):
        read(tmp_path, lives)
