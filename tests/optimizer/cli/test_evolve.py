"""``mnemotune evolve``: what scripts and people rely on."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mnemotune.optimizer.config import load_config
from mnemotune.optimizer.search.outcome import open_charges, open_run
from mnemotune.optimizer.views.table import number, with_interval
from mnemotune.policies.files import load_policy

Cli = Callable[..., Any]
PATIENCE_SECONDS = 60
CONCURRENCY = 16
LONGER = ("--set", "search.generations=50", "--set", "search.budget.calls=900000")
"""So that a run does not end before it is stopped."""


pytestmark = pytest.mark.usefixtures("store")


def test_json_is_one_object_with_the_promised_fields(cli: Cli, tiny: Path, check_evaluation: Any) -> None:
    told = cli("evolve", tiny, "--out", "run", "--json").succeeded().json
    assert told["run"] == "run"
    assert Path(told["policy_file"]).is_file()
    for name in ("seed_policy", "best_policy"):
        check_evaluation(told[name], users=3)
    gain = told["difference"]
    low, high = gain["interval"]
    assert low <= gain["memory_score"] <= high
    means = [told[name]["memory_score"] for name in ("best_policy", "seed_policy")]
    assert gain["memory_score"] == pytest.approx(means[0] - means[1], abs=2e-6)
    assert sum(told["calls"].values()) == told["budget"]["spent"]["calls"] <= 9000
    assert told["budget"]["limits"]["calls"] == 9000
    assert told == json.loads(Path("run/result.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["config.yaml", "best_policy.yaml"])
def test_a_folder_with_a_file_of_somebody_s_is_left_as_it_is(cli: Cli, tiny: Path, name: str) -> None:
    Path("mine").mkdir()
    text = "# mine\n" + tiny.read_text(encoding="utf-8")
    (Path("mine") / name).write_text(text, encoding="utf-8")
    told = cli("evolve", tiny, "--out", "mine").refused()
    assert f"mine/{name}: a run in this folder would write over it: choose another --out" in told
    assert [(path.name, path.read_text(encoding="utf-8")) for path in Path("mine").iterdir()] == [(name, text)]


def test_what_is_stopped_before_it_has_begun_cannot_go_on(
    cli: Cli, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(config: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("mnemotune.optimizer.search.run.splits_of", stopped)
    done = cli("evolve", tiny)
    assert (done.code, done.err.splitlines()[-1]) == (130, "stopped; nothing was begun")
    assert not [*Path("runs").glob("tiny*")]


def test_the_policy_that_was_found_can_be_evaluated_as_it_is(cli: Cli, finished: Path, people: Path) -> None:
    row = json.loads((finished / "result.json").read_text(encoding="utf-8"))["best_policy"]
    users = ",".join(row["by_group"])
    told = cli("evaluate", finished / "best_policy.yaml", "--data", people, "--users", users, "--json").succeeded().json
    assert told["key"] == row["key"]
    assert told["by_group"] == row["by_group"]
    assert told["accuracy"] == row["accuracy"]


def test_a_table_is_printed_and_where_everything_is(cli: Cli, finished: Path, plain: Any) -> None:
    done = cli("evolve", "--resume", finished).succeeded()
    rows = open_run(finished).test.rows
    for name, row in rows.items():
        assert f"{name} {with_interval(row.memory_score)} " in plain(done.out)
        assert f" {number(row.reworded.mean)} {number(row.accuracy)} " in plain(done.out)
    gain = open_run(finished).test.difference
    assert f"evolved - seed: {with_interval(gain)}" in plain(done.out)
    assert "Sealed test: 3 users that the search never saw" in done.out
    assert "the embedded model's" in done.out
    places = dict(
        line.split(maxsplit=1) for line in done.out.splitlines() if line.startswith(("run", "policy ", "report"))
    )
    assert places["run"] == "runs/tiny-001"
    assert Path(places["report"]).is_file()
    assert load_policy(places["policy"])


def printed_view(out: str) -> list[str]:
    (line,) = [line for line in out.splitlines() if line.startswith("MLflow")]
    return line.split()[1:]


def test_the_command_that_opens_mlflow_finds_this_runs_view(cli: Cli, finished: Path) -> None:
    usual = printed_view(cli("evolve", "--resume", finished).succeeded().out)
    assert usual[-1] == "ui", "the view is where `ui` looks for it"
    shutil.move("runs", "elsewhere")
    moved = printed_view(cli("evolve", "--resume", "elsewhere/tiny-001").succeeded().out)
    assert moved[-3:] == ["ui", "--uri", f"sqlite:///{Path.cwd() / 'elsewhere' / 'mlflow.db'}"]


def test_runs_without_a_folder_get_the_next_free_one(cli: Cli, tiny: Path, finished: Path) -> None:
    assert cli("evolve", tiny, "--json").succeeded().json["run"] == "runs/tiny-002"


def test_a_run_that_cannot_start_leaves_no_folder(cli: Cli, tiny: Path) -> None:
    cli("evolve", tiny, "--set", "search.budget.calls=1").refused()
    assert not list(Path().glob("runs/tiny-*"))


def test_settings_and_the_seed_come_before_the_config(cli: Cli, tiny: Path) -> None:
    command = ["evolve", tiny, "--out", "run", "--seed", "7"]
    command += ["--set", "search.candidates=1", "--set", "baselines=[]"]
    told = cli(*command, "--json").succeeded().json
    config = load_config("run/config.yaml")
    assert (config.search.seed, config.search.candidates, config.baselines) == (7, 1, ())
    assert told["trials"] == 3, "the seed, its candidate, and the leader, looked at last"
    assert told["baselines"].keys() == {"window"}


def test_the_run_folder_holds_all_that_is_needed_to_run_it_again(cli: Cli, finished: Path) -> None:
    told = cli("evolve", finished / "config.yaml", "--out", "again", "--json").succeeded().json
    first = json.loads((finished / "result.json").read_text(encoding="utf-8"))
    for name in ("seed_policy", "best_policy"):
        assert {**told[name], "wall_s": 0} == {**first[name], "wall_s": 0}
    assert told["calls"] == first["calls"]


def test_a_folder_with_a_run_is_not_written_over(cli: Cli, tiny: Path, finished: Path) -> None:
    before = (finished / "study.db").read_bytes(), (finished / "config.yaml").read_bytes()
    told = cli("evolve", tiny, "--out", finished, "--seed", "9").refused()
    assert f"--resume {finished}" in told
    assert ((finished / "study.db").read_bytes(), (finished / "config.yaml").read_bytes()) == before


def test_resuming_a_finished_run_prints_the_same_result(cli: Cli, finished: Path) -> None:
    cli("evolve", "--resume", finished)
    before = (finished / "result.json").read_text(encoding="utf-8")
    told = cli("evolve", "--resume", finished, "--json").succeeded().json
    assert told == json.loads(before)
    assert (finished / "result.json").read_text(encoding="utf-8") == before


def stop_after(process: subprocess.Popen[str], words: str, number: signal.Signals) -> str:
    """Send a signal when the process says ``words``; return what it says on standard error."""
    said = ""
    assert process.stderr is not None
    for line in process.stderr:
        said += line
        if words in line:
            process.send_signal(number)
    process.wait(PATIENCE_SECONDS)
    return said


@pytest.fixture
def as_finished(finished_once: Path, kit: Any) -> Callable[[Path], None]:
    """Check that a run is as one that nothing has disturbed."""

    def check(folder: Path) -> None:
        whole, other = open_run(finished_once), open_run(folder)
        ours, theirs = ([kit.told(t, spend=False) for t in o.study.trials] for o in (other, whole))
        assert ours == theirs
        for name, row in whole.test.rows.items():
            assert other.test.rows[name].by_group == row.by_group

    return check


def test_two_runs_started_at_once_where_nothing_is_yet_get_a_folder_each(start: Any, tiny: Path) -> None:
    """MLflow's database and its experiment are made by whoever comes first."""
    Path("runs/mlflow.db").unlink()
    settings = ["--set", "baselines=[]", "--set", "search.generations=0", "--set", "tracking={}"]
    both = [start("evolve", tiny, *settings, "--json") for _ in range(2)]
    folders = set()
    for process in both:
        out, err = process.communicate(timeout=2 * PATIENCE_SECONDS)
        assert process.returncode == 0, err
        assert len(out.splitlines()) == 1, "JSON is all that a real process prints on standard output"
        folders.add(json.loads(out)["run"])
        first, *rest = err.splitlines()
        assert first.startswith("2 train, 3 validation and 3 sealed test users; at most 9,000 calls")
        said = [line for line in rest if " · spent " not in line]  # a slow run says how far it is
        assert said[-1] == "The search is over: all 0 generations are done."
        assert "behind" not in err
    assert folders == {"runs/tiny-001", "runs/tiny-002"}
    assert Path("runs/mlflow.db").is_file()


def test_ctrl_c_says_how_to_go_on_and_the_run_goes_on(
    start: Any, cli: Cli, tiny: Path, as_finished: Callable[[Path], None]
) -> None:
    process = start("evolve", tiny, *LONGER, "--out", "run", "--json")
    said = stop_after(process, "where the search starts", signal.SIGINT)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert "--resume" in said
    assert not Path("run/result.json").exists()
    told = cli("evolve", "--resume", "run", "--set", "search.generations=1", "--json").succeeded().json
    assert told["trials"] == 4
    as_finished(Path("run"))


def test_a_run_that_was_killed_goes_on(start: Any, cli: Cli, tiny: Path, as_finished: Callable[[Path], None]) -> None:
    process = start("evolve", tiny, *LONGER, "--out", "run", "--json")
    stop_after(process, "    1  ", signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    cli("evolve", "--resume", "run", "--set", "search.generations=1").succeeded()
    as_finished(Path("run"))


def test_a_run_that_was_killed_has_counted_all_that_the_server_was_asked(start: Any, remote: Path, server: Any) -> None:
    process = start("evolve", remote, "--out", "run", "--set", "endpoint.cache=false", "--json")
    give_up = time.monotonic() + PATIENCE_SECONDS
    while len(server.asked) < 150 and time.monotonic() < give_up and process.poll() is None:
        time.sleep(0.001)
    process.kill()
    process.wait()
    assert len(server.asked) >= 150
    with open_charges(open_run(Path("run"))) as charges:
        charged = charges.ledger().total
    assert len(server.asked) <= charged.calls <= len(server.asked) + CONCURRENCY
    said = sum(len(message["content"]) for _, body in server.asked for message in body["messages"])
    assert charged.input_tokens + charged.output_tokens > said / 4


def test_an_endpoint_is_asked_and_what_it_said_is_never_paid_again(cli: Cli, remote: Path, server: Any) -> None:
    told = cli("evolve", remote, "--out", "run", "--json").succeeded().json
    assert 0 < len(server.asked) == told["budget"]["spent"]["calls"]
    assert told["budget"]["spent"]["usd"] is None
    server.asked.clear()
    shutil.copytree("run", "again", ignore=shutil.ignore_patterns("study.db*", "test", "*.html", "result.json"))
    repeated = cli("evolve", remote, "--out", "again", "--json").succeeded().json
    assert server.asked == []
    assert repeated["calls"] == told["calls"]
    assert repeated["response_formats"] == told["response_formats"]
    assert {*told["response_formats"]["answer"]} == {"json_schema"}
    assert told["cut_replies"] == {}
    assert repeated["budget"]["spent"]["usd"] is None, "it is charged as without the cache"
    assert repeated["best_policy"]["by_group"] == told["best_policy"]["by_group"]


def test_an_endpoint_that_goes_down_stops_the_run_with_one_message_and_it_can_go_on(
    cli: Cli, remote: Path, server: Any
) -> None:
    server.refusal = 401
    done = cli("evolve", remote, "--out", "run", "--json")
    assert done.code == 1
    assert done.out == ""
    assert done.err.count("error: ") == 1
    assert "OPENAI_API_KEY" in done.err
    assert "Traceback" not in done.err
    server.refusal = None
    told = cli("evolve", "--resume", "run", "--json").succeeded().json
    assert told["trials"] >= 2, "the seed and its candidate"
