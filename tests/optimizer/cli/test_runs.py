"""``mnemotune runs``, ``show``, ``compare``, ``export`` and ``--version``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas
import pytest

from html_page import read
from mnemotune.optimizer.search.outcome import CONSUMED, ENDED, TEST, open_run, open_study
from mnemotune.optimizer.search.place import alone_in
from mnemotune.optimizer.views.frames import load_run
from mnemotune.policies import load_policy

Cli = Callable[..., Any]


@pytest.fixture
def two(finished: Path) -> tuple[Path, Path]:
    """Two runs with the same sealed users."""
    shutil.copytree(finished, "runs/tiny-002")
    return finished, Path("runs/tiny-002")


def test_runs_are_listed_with_state_score_and_spend(cli: Cli, finished: Path) -> None:
    outcome = open_run(finished)
    out = cli("runs").succeeded().out
    assert "tiny-001" in out
    assert "done" in out
    assert f"{outcome.test.rows['evolved'].memory_score.mean:.3f}" in out
    (run,) = cli("runs", "--json").succeeded().json["runs"]
    assert (run["run"], run["state"], run["trials"]) == ("runs/tiny-001", "done", len(outcome.study.trials))
    assert run["calls"] == outcome.consumed.calls


def test_a_run_that_cannot_be_read_is_listed_with_why(cli: Cli, two: tuple[Path, Path]) -> None:
    (two[1] / "study.db").write_bytes(b"no database at all, but long enough to be looked at")
    done = cli("runs").succeeded()
    assert "unreadable" in done.out
    assert "runs/tiny-002" in done.err
    assert "holds no study" in done.err


def test_a_list_fits_a_narrow_and_a_wide_terminal(cli: Cli, finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for width, there in ((80, False), (130, True)):
        monkeypatch.setenv("COLUMNS", str(width))
        out = cli("runs").succeeded().out
        assert max(map(len, out.splitlines())) <= width
        assert f"{open_run(finished).test.rows['evolved'].memory_score.high:.3f}]" in out
        assert ("begun" in out) is there


def test_a_folder_without_runs_is_refused_with_what_to_do(cli: Cli, tmp_path: Path) -> None:
    assert "mnemotune evolve" in cli("runs", "nowhere").refused()
    assert "holds no run" in cli("runs", tmp_path).refused()


def test_a_run_is_shown_with_every_trials_whole_reason(cli: Cli, finished: Path) -> None:
    out = cli("show", finished).succeeded().out
    squeezed = "".join(out.split())
    for trial in open_run(finished).study.trials:
        for word in trial.reason.split():
            assert word in squeezed
    assert "Sealed test" in out


def test_a_trial_is_shown_with_its_policy_beside_its_parents(cli: Cli, finished: Path) -> None:
    trials = open_run(finished).study.trials
    child = next(trial for trial in trials if trial.parent is not None and trial.policy is not None)
    out = cli("show", finished, child.number).succeeded().out
    assert f"trial {child.number}: " in out
    assert f"why: {child.reason}" in out
    assert f"of trial {child.parent}" in out
    assert any(line.startswith("+ ") for line in out.splitlines())


def test_a_run_is_named_as_it_is_listed_and_a_mistyped_name_is_told_with_the_nearest(
    cli: Cli, two: tuple[Path, Path]
) -> None:
    by_path = cli("compare", *two).succeeded().out
    assert cli("compare", "tiny-001", "tiny-002").succeeded().out == by_path
    assert cli("export", "tiny-001", "--to", "yaml").succeeded().out == (two[0] / "best_policy.yaml").read_text("utf-8")
    assert cli("show", "tiny-01").refused() == "tiny-01: no such run folder; the nearest is runs/tiny-001"
    assert cli("evolve", "--resume", "runs/tny-002").refused().endswith("; the nearest is runs/tiny-002")
    assert "`mnemotune runs` lists" in cli("report", "elsewhere").refused()


def test_a_trial_that_is_not_there_is_refused_with_those_that_are(cli: Cli, finished: Path) -> None:
    last = len(open_run(finished).study.trials) - 1
    assert f"its trials are 0 to {last}" in cli("show", finished, 99).refused()


def test_runs_on_the_same_users_are_compared_in_pairs(cli: Cli, two: tuple[Path, Path]) -> None:
    told = cli("compare", *two, "--json").succeeded().json
    users = open_run(two[0]).test.rows["evolved"].groups
    assert told[str(two[1])]["difference"]["memory_score"] == 0.0
    assert (told[str(two[1])]["shared"], told[str(two[0])]["shared"]) == (users, None)
    out = cli("compare", *two).succeeded().out
    assert "0.000 [0.000, 0.000]" in out


def test_runs_on_other_budgets_are_shown_and_not_paired(cli: Cli, two: tuple[Path, Path]) -> None:
    config = two[1] / "config.yaml"
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace("context_tokens: null", "context_tokens: 77"), encoding="utf-8")
    assert open_run(two[1]).config.context_tokens == 77
    told = cli("compare", *two, "--json").succeeded().json[str(two[1])]
    assert told["why_not_paired"] == "another context_tokens"
    assert told["difference"]["memory_score"] is None


@pytest.mark.parametrize(
    ("before", "now", "why"),
    [
        ("compat: []", "compat: [amemgym]", "another compat"),
        ("user_model: null", "user_model: embedded:gpt-4.1-mini", "another user_model"),
    ],
)
def test_runs_that_play_otherwise_are_not_paired(
    cli: Cli, two: tuple[Path, Path], before: str, now: str, why: str
) -> None:
    config = two[1] / "config.yaml"
    text = config.read_text(encoding="utf-8")
    assert before in text
    config.write_text(text.replace(before, now), encoding="utf-8")
    assert cli("compare", *two, "--json").succeeded().json[str(two[1])]["why_not_paired"] == why


def test_a_run_without_a_trial_is_shown_and_exported(cli: Cli, finished: Path, tmp_path: Path) -> None:
    Path("begun").mkdir()
    shutil.copy(finished / "config.yaml", "begun")
    open_study(Path("begun"))
    assert "has no trial yet: `mnemotune evolve --resume begun` goes on" in cli("show", "begun", "0").refused()
    cli("export", "begun", "--to", "parquet", "--out", tmp_path / "frames").succeeded()
    whole = load_run(finished).trials.columns
    columns = pandas.read_parquet(tmp_path / "frames" / "trials.parquet").columns
    assert list(columns) == list(whole[: len(columns)])


def test_one_run_is_no_comparison(cli: Cli, finished: Path) -> None:
    assert "two or more runs" in cli("compare", finished, finished).refused()


def test_a_run_is_exported_as_policy_result_and_frames(cli: Cli, finished: Path, tmp_path: Path) -> None:
    done = cli("export", finished, "--to", "yaml", "--out", tmp_path / "best.yaml").succeeded()
    assert done.out == f"{tmp_path / 'best.yaml'}\n"
    assert load_policy(tmp_path / "best.yaml") == open_run(finished).study.best.policy
    assert json.loads(cli("export", finished, "--to", "json").succeeded().out) == open_run(finished).as_json()
    done = cli("export", finished, "--to", "mem0", "--out", tmp_path / "mem0.json").succeeded()
    settings = json.loads((tmp_path / "mem0.json").read_text("utf-8"))
    assert {"config", "add", "search", "not_expressed"} == settings.keys()
    assert "mem0 cannot express:" in done.err
    assert all(f"- {line}" in done.err for line in settings["not_expressed"])
    cli("export", finished, "--to", "parquet", "--out", tmp_path / "frames").succeeded()
    assert len(pandas.read_parquet(tmp_path / "frames" / "trials.parquet")) == len(open_run(finished).study.trials)


def test_the_version_is_printed(cli: Cli) -> None:
    assert cli("--version").succeeded().out == f"mnemotune {version('mnemotune')}\n"


def test_what_is_free_shows_no_dollars_and_what_is_paid_does(
    cli: Cli, two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "130")
    for arguments in (["runs"], ["show", str(two[1])], ["compare", *map(str, two), "--out", "page.html"]):
        assert "$" not in cli(*arguments).succeeded().out
    assert "$" not in read(Path("page.html").read_text(encoding="utf-8")).words()
    study = open_run(two[1]).study
    study.note(CONSUMED, study.noted(CONSUMED) | {"usd": 1.5})
    for arguments in (["runs"], ["show", str(two[1])]):
        assert "$1.50" in cli(*arguments).succeeded().out
    cli("compare", *two, "--out", "page.html").succeeded()
    assert "$1.50" in Path("page.html").read_text(encoding="utf-8")
    study.note(CONSUMED, study.noted(CONSUMED) | {"usd": None})
    assert "not known" in cli("runs").succeeded().out


def test_a_run_and_a_comparison_fit_a_narrow_and_a_wide_terminal(
    cli: Cli, two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for width in (80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        trials = cli("show", two[0]).succeeded().out.split("\n\n")[1]
        assert max(map(len, trials.splitlines())) <= width
        out = cli("compare", *two).succeeded().out
        assert max(map(len, out.splitlines())) <= width
        assert "tiny-001" in out


def test_a_run_is_headed_with_what_it_is(cli: Cli, finished: Path) -> None:
    outcome = open_run(finished)
    first = cli("show", finished).succeeded().out.splitlines()[0]
    assert first.startswith(f"{finished}: done · data {outcome.config.data} · model embedded · seed 0 · ")
    assert first.endswith(f"{outcome.consumed.calls:,} calls, {outcome.consumed.tokens / 1e6:.1f}M tokens")


def test_a_sealed_test_that_was_stopped_is_not_shown_as_if_it_were_over(cli: Cli, finished: Path) -> None:
    outcome = open_run(finished)
    rows = {name: row for name, row in outcome.test.rows.items() if name != "window"}
    outcome.study.note(TEST, replace(outcome.test, rows=rows, done=False).as_json())
    lacking = "The sealed test is not over: window could not be tested yet; `mnemotune evolve --resume runs/tiny-001`"
    out = cli("show", finished).succeeded().out
    assert lacking in out
    assert "native, the best baseline so far" in out
    cli("report", finished).succeeded()
    words = read((finished / "report.html").read_text(encoding="utf-8")).words()
    assert lacking.replace("`", "") in words.replace("`", "")
    assert "native, the best baseline so far" in words
    assert json.loads((finished / "result.json").read_text(encoding="utf-8"))["untested"] == ["window"]


def test_what_is_exported_of_a_search_under_way_is_called_the_best_so_far(cli: Cli, finished: Path) -> None:
    outcome = open_run(finished)
    outcome.study.note(ENDED, None)
    done = cli("export", finished, "--to", "yaml").succeeded()
    assert done.out.startswith("write:")
    assert "The search is not over, and the best policy so far is " in done.err
    with alone_in(finished, None):
        assert cli("show", finished).succeeded().out.count("a process is at work on it") == 1
        assert "another process is at work on this run" in cli("report", finished).succeeded().err
        assert "another process is at work on this run" in cli("export", finished, "--to", "mlflow").refused()


def test_a_folder_of_any_name_is_shown_in_mlflow(cli: Cli, finished: Path) -> None:
    named = Path("runs/half-way \u00fcber & <i>1")
    finished.rename(named)
    assert cli("report", named).succeeded().err == ""
    assert "`mnemotune show 'runs/half-way \u00fcber & <i>1' TRIAL`" in cli("show", named).succeeded().out
