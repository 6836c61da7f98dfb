"""A track of another package: one file and one registration, and every command knows it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mnemotune.data.registry import UnknownPartError
from mnemotune.env.tracks import TRACKS
from mnemotune.optimizer.cli.app import app

CONFIG = """\
track: letters
data: letters:12:3
splits: {train: 4, validation: 4, test: 4}
baselines: [native, awi]
seed_policy: {write: {mode: none}, update_every: 2, buffer_size: 0}
search: {seed: 1, generations: 6, candidates: 2, broad_start: 4, race_block: 2, budget: {calls: 20000}}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Install a package that brings the track along."""
    about = tmp_path_factory.mktemp("site") / "letters-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: letters\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text("[mnemotune.tracks]\nletters = toy:make\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(about.parent)
        yield
    TRACKS.unregister("letters")


@pytest.fixture(scope="module")
def config(installed: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("config") / "letters.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    return path


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def evolved(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a search that is over."""
    folder = tmp_path_factory.mktemp("runs") / "letters"
    run("evolve", config, "--out", folder, "--json")
    return folder


def test_a_track_that_nobody_brings_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(
        UnknownPartError, match=r"no track 'chess'; there are codeqa, conversations, dialogue, .*research, .*tools"
    ):
        TRACKS.get("chess")


def test_it_evaluates(config: Path) -> None:
    found = json.loads(run("evaluate", "native", "--track", "letters", "--data", "letters:3:3", "--json"))
    assert found["groups"] == 3
    assert found["floor"] == 0.25
    assert found["ceiling"] == 1
    assert found["accuracy"] + sum(found["shares"].values()) == pytest.approx(1, abs=1e-5)


def test_it_ranks_on_and_off_policy(config: Path) -> None:
    """Of six letters, the facts that ``awi`` writes are not all found again."""
    found = json.loads(run("ranks", "native", "awi", "--track", "letters", "--data", "letters:2:6", "--json"))
    ranks = [(row["policy"], row["on_rank"], row["off_rank"]) for row in found["policies"]]
    assert ranks == [("native", 1, 1), ("awi", 2, 2)]


def test_it_estimates(config: Path) -> None:
    assert json.loads(run("estimate", config, "--json"))["total"]["calls"] > 0


def test_it_evolves_a_policy_that_remembers(evolved: Path) -> None:
    result = json.loads((evolved / "result.json").read_text(encoding="utf-8"))
    assert result["best_policy"]["memory_score"] > result["seed_policy"]["memory_score"] + 0.1
    assert set(result["best_policy"]["by_group"]) <= {f"writer-{i}" for i in range(12)}


def test_its_report_speaks_of_its_own_groups(evolved: Path) -> None:
    """Prompts and the config are quoted as they are, and ``user`` is also the role of a message."""
    words = re.sub("(?s)<pre>.*?</pre>", "", (evolved / "report.html").read_text(encoding="utf-8"))
    assert "4 sealed test writers" in words
    assert "Intervals are over writers" in words
    assert "left after 2 train writers and 1 of 3 letters" in words
    assert re.findall(r"(?<!roles )(?<!<td>)(?<!text\">)\busers?\b|\bperiods?\b", words) == []


def test_what_is_printed_speaks_of_its_own_groups(config: Path, tmp_path: Path) -> None:
    settings = ["--set", "search.generations=0", "--set", "baselines=[]", "--set", "tracking=none"]
    done = CliRunner().invoke(app, ["evolve", str(config), *settings, "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert done.stderr.startswith("4 train, 4 validation and 4 sealed test writers; at most 20,000 calls")
    assert "Sealed test: 4 writers that the search never saw" in done.stdout
    assert "user" not in done.output


def test_its_candidates_can_be_screened(config: Path, tmp_path: Path) -> None:
    settings = ["--set", "search.screening={drop: 0.5}", "--set", "search.generations=1", "--set", "tracking=none"]
    run("evolve", config, *settings, "--out", tmp_path / "run", "--json")


def test_a_task_with_a_single_stage_races_without_a_first_look(config: Path, tmp_path: Path) -> None:
    settings = ["--set", "data=letters:12:1", "--set", "search.generations=1", "--set", "tracking=none"]
    run("evolve", config, *settings, "--out", tmp_path / "run", "--json")
