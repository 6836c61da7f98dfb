"""``mnemotune ablate``: what scripts and people rely on."""

from __future__ import annotations

import html
import json
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from mnemotune.optimizer.search.outcome import open_run

Cli = Callable[..., Any]

pytestmark = pytest.mark.usefixtures("store")
PATIENCE_SECONDS = 60.0


@pytest.fixture
def ablation(tiny: Path, tmp_path: Path) -> Path:
    """Two variants of the tiny search: as it is, and none."""
    path = tmp_path / "parts.yaml"
    variants = {"search": {}, "no search": {"search.generations": 0}}
    told = {"config": str(tiny), "seeds": [0, 1], "variants": variants}
    path.write_text(yaml.safe_dump(told, sort_keys=False), encoding="utf-8")
    return path


def test_variants_are_searched_compared_and_not_searched_again(
    cli: Cli, ablation: Path, plain: Any, tmp_path: Path
) -> None:
    told = cli("ablate", ablation, "--out", "out", "--set", "baselines=[]", "--json").succeeded().json
    assert told == json.loads(Path("out/results.json").read_text(encoding="utf-8"))
    assert (told["groups"], told["seeds"], told["model"]) == (3, [0, 1], "embedded")
    page = html.unescape(Path("out/report.html").read_text(encoding="utf-8"))
    command = shlex.join(["mnemotune", "ablate", str(ablation), "--set", "baselines=[]", "--out", "out"])
    assert f"<pre>{command}</pre>" in page, "what runs it again, not how this process was called"
    whole, none = told["variants"]
    assert (whole["name"], none["name"], whole["difference"]) == ("search", "no search", None)
    assert none["candidates"] == none["accepted"] == 0
    assert 0 < whole["candidates"] <= 2
    for variant in told["variants"]:
        users = [set(search["by_group"]) for search in variant["searches"]]
        assert users[0] == users[1] == set(whole["searches"][0]["by_group"]), "all are tested on the same users"
        for search in variant["searches"]:
            outcome = open_run(Path(search["run"]))
            assert outcome.config.search.seed == search["seed"]
            assert search["periods"] == outcome.as_json()["periods"] > 0
            assert search["calls"] == outcome.search_spend.total.calls
    means = [sum(search["memory_score"] for search in variant["searches"]) / 2 for variant in told["variants"]]
    assert none["difference"]["memory_score"] == pytest.approx(means[1] - means[0], abs=2e-6)

    studies = {path: path.stat().st_mtime_ns for path in Path("out").glob("*/study.db")}
    shown = cli("ablate", ablation, "--out", "out", "--set", "baselines=[]").succeeded()
    assert {path: path.stat().st_mtime_ns for path in Path("out").glob("*/study.db")} == studies
    assert "Sealed tests, 2 seeds: 3 users, model: embedded" in plain(shown.out)
    assert "difference: to search, paired by user and seed" in plain(shown.out)
    assert "4 of 4 searches are done and not run again" in shown.err
    assert "spend" not in shown.err

    refused = cli("ablate", ablation, "--out", "out").refused()
    assert refused.startswith("out/search-0: holds a run with other settings (baselines): choose another --out")

    with_one_more = yaml.safe_load(ablation.read_text(encoding="utf-8"))
    with_one_more["variants"]["also none"] = {"search.generations": 0, "search.racing": False}
    more = tmp_path / "more.yaml"
    more.write_text(yaml.safe_dump(with_one_more, sort_keys=False), encoding="utf-8")
    grown = cli("ablate", more, "--out", "out", "--set", "baselines=[]", "--seeds", "1", "--json").succeeded().json
    assert {path: Path(path).stat().st_mtime_ns for path in studies} == studies
    assert [len(variant["searches"]) for variant in grown["variants"]] == [1, 1, 1]
    assert Path("out/also-none-0/study.db").is_file()
    (warning,) = grown["warnings"]
    assert warning.startswith("'also none' cannot differ from 'no search': search.racing has no effect here")


def test_a_store_that_fails_after_the_work_loses_nothing_of_what_is_printed(
    cli: Cli, ablation: Path, plain: Any
) -> None:
    store = Path("mlflow.db").resolve()
    arguments = ["ablate", ablation, "--out", "out", "--set", "baselines=[]", "--seeds", "1"]
    arguments += ["--set", "search.generations=0", "--set", f"tracking={{uri: 'sqlite:///{store}'}}"]
    cli(*arguments).succeeded()
    Path("out/report.html").unlink()
    with sqlite3.connect(store) as connection:
        connection.execute("ALTER TABLE runs RENAME TO gone")
    for form, shown in (["--json"], '"variants": '), ([], "Sealed tests, 1 seed"):
        done = cli(*arguments, *form)
        assert done.code == 1
        assert shown in plain(done.out)
        assert f"tracking.uri: MLflow cannot use sqlite:///{store}" in done.err
    assert Path("out/report.html").is_file()


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize("command", [("ablate", "parts.yaml"), ("evaluate", "native", "--data", "generated:1@77")])
def test_a_run_s_files_are_not_written_over(cli: Cli, ablation: Path, finished: Path, command: tuple[str, ...]) -> None:
    report = (finished / "report.html").read_bytes()
    told = cli(*(ablation if word == "parts.yaml" else word for word in command), "--out", finished).refused()
    assert f"{finished}: is a run's folder, whose files this would write over" in told
    assert (finished / "report.html").read_bytes() == report


def test_another_program_s_folder_is_no_run_s(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "config.yaml").write_text("model: {name: resnet}\n", encoding="utf-8")
    cli("evaluate", "native", "--data", "generated:1@77", "--no-window", "--out", tmp_path / "out").succeeded()


def test_what_was_stopped_goes_on(cli: Cli, ablation: Path) -> None:
    settings = ["--set", "baselines=[]", "--seeds", "1", "--out", "out"]
    told = cli("ablate", ablation, *settings, "--json").succeeded().json
    stopped = Path("out/search-0")
    before = open_run(stopped).as_json()
    (stopped / "result.json").unlink()
    rest = cli("ablate", ablation, *settings, "--dry-run", "--json").succeeded().json
    assert (rest["searches"], rest["done"]) == (2, 1)
    again = cli("ablate", ablation, *settings, "--json").succeeded()
    assert again.json == told
    assert "1 of 2 searches are done and not run again" in again.err
    assert "2/2  search (variant 1 of 2), seed 0 (1 of 1): memory score" in again.err
    assert open_run(stopped).as_json() == before
    assert (stopped / "result.json").is_file()


@pytest.mark.parametrize("seeds", ["0", "x", "-1", "1,x", "1,,", ",", ""])
def test_seeds_that_are_none_are_refused(cli: Cli, ablation: Path, seeds: str) -> None:
    refused = cli("ablate", ablation, f"--seeds={seeds}").refused()
    assert refused == f"--seeds {seeds}: write how many, for example 5, or which, for example 0,1,2 (one alone: 7,)"


def test_one_seed_alone_can_be_named(cli: Cli, ablation: Path) -> None:
    arguments = ["ablate", ablation, "--out", "out", "--set", "baselines=[]", "--seeds", "7,"]
    assert cli(*arguments, "--dry-run", "--json").succeeded().json["searches"] == 2


def test_a_search_that_cannot_work_is_refused_before_anything_is_spent(cli: Cli, ablation: Path) -> None:
    refused = cli("ablate", ablation, "--out", "out", "--set", "search.budget.calls=10", "--seeds", "1").refused()
    assert "search.budget.calls: 10 is too small" in refused
    assert not list(Path("out").glob("*/study.db"))


def test_a_dry_run_says_what_will_be_spent_and_leaves_nothing_behind(cli: Cli, ablation: Path, plain: Any) -> None:
    there = {*Path().iterdir()}
    told = cli("ablate", ablation, "--dry-run", "--json").succeeded().json
    assert (told["searches"], told["done"], told["limit_calls"], told["warnings"]) == (4, 0, 36_000, [])
    assert 0 < told["left"]["calls"] < 36_000
    shown = cli("ablate", ablation, "--dry-run").succeeded()
    assert f"To spend: about {told['left']['calls']:,} calls" in plain(shown.out)
    assert "$" not in shown.out
    assert {*Path().iterdir()} == there
    assert "is no model" in cli("ablate", ablation, "--dry-run", "--set", "model=nobody").refused()


@pytest.mark.slow
def test_a_killed_command_leaves_no_search_running(ablation: Path) -> None:
    command = [sys.executable, "-m", "mnemotune", "ablate", str(ablation), "--out", "out", "--set", "baselines=[]"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not list(Path("out").glob("*/study.db")) and time.monotonic() < deadline:
            time.sleep(0.05)
        running.send_signal(signal.SIGKILL)
        running.communicate(timeout=PATIENCE_SECONDS)  # what is left running holds its standard output open
    assert list(Path("out").glob("*/study.db"))
    assert not list(Path("out").glob("*/result.json"))
