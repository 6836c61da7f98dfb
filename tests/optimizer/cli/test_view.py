"""``mnemotune report``, ``mnemotune ui`` and ``mnemotune --help``."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from mnemotune.optimizer.search.outcome import open_run

Cli = Callable[..., Any]
COMMANDS = ["evolve", "evaluate", "report", "serve", "ui", "data"]
HEAVY = ("aiohttp", "torch", "mlflow", "dspy", "optuna", "litellm", "pandas", "matplotlib", "openai")


def test_a_lost_report_is_made_again_and_its_place_is_printed(cli: Cli, finished: Path) -> None:
    before = (finished / "report.html").read_bytes()
    (finished / "report.html").unlink()
    done = cli("report", finished).succeeded()
    assert done.out == f"{finished / 'report.html'}\n"
    assert (finished / "report.html").read_bytes() == before


def test_a_lost_view_is_made_again_by_a_process_that_knows_nothing_of_it(finished: Path, start: Any) -> None:
    (finished.parent / "mlflow.db").unlink()
    process = start("report", finished)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out == f"{finished / 'report.html'}\n"
    copied = finished.parent / "copy.db"  # this process keeps connections to the old one
    copied.write_bytes((finished.parent / "mlflow.db").read_bytes())
    client = MlflowClient(tracking_uri=f"sqlite:///{copied}")
    runs = client.search_runs([e.experiment_id for e in client.search_experiments()])
    outcome = open_run(finished)
    assert len(runs) == 1 + len(outcome.study.trials) + len(outcome.test.rows), "the study, trials, tested policies"


def test_only_a_run_has_a_report(cli: Cli) -> None:
    assert "nowhere: no such run folder" in cli("report", "nowhere").refused()


def test_pages_without_runs_are_refused_with_what_to_do(cli: Cli) -> None:
    told = cli("ui").refused()
    assert "runs/mlflow.db" in told
    assert "--uri" in told
    told = cli("ui", "--uri", "sqlite:///nowhere/mlflow.db").refused()
    assert told == "nowhere/mlflow.db: no such file; leave --uri out for the runs in `runs`"
    assert not Path("nowhere").exists()


def test_a_port_that_is_taken_is_refused_before_anything_says_where_to_look(cli: Cli, store: None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        told = cli("ui", "--port", str(taken.getsockname()[1])).refused()
    assert "cannot be used (Address already in use)" in told
    assert told.startswith("--host, --port: ")


def test_optunas_dashboard_serves_a_runs_study_and_names_the_objective(finished: Path, start: Any) -> None:
    pytest.importorskip("optuna_dashboard", reason="pip install 'mnemotune[optuna]'")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    server = start("ui", "--optuna", finished.name, "--port", str(port))
    try:
        assert server.stderr.readline() == f"Optuna's dashboard: {address}/dashboard; Ctrl-C ends it\n"
        give_up, study = time.monotonic() + 60, None
        while study is None:
            assert time.monotonic() < give_up
            with (
                contextlib.suppress(OSError),
                urllib.request.urlopen(f"{address}/api/studies/1") as reply,  # noqa: S310
            ):
                study = json.load(reply)
            time.sleep(0.1)
    finally:
        server.terminate()
        server.communicate(timeout=20)
    assert (study["name"], study["objective_names"]) == ("evolution", ["train score"])
    assert len(study["trials"]) == len(open_run(finished).study.trials)


def test_optunas_dashboard_needs_a_run(cli: Cli) -> None:
    assert "nowhere: no such run folder" in cli("ui", "--optuna", "nowhere").refused()
    assert "leave --uri and --open out" in cli("ui", "--optuna", "nowhere", "--open").refused()


@pytest.mark.usefixtures("finished")
def test_optunas_dashboard_that_is_not_installed_is_named_and_no_address_is_said(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna_dashboard", None)
    refused = cli("ui", "--optuna", "tiny-001").refused()
    assert refused == "--optuna: Optuna's dashboard is not installed: pip install 'mnemotune[optuna]'"


@pytest.mark.parametrize("command", [[], *[[command] for command in COMMANDS], ["data", "generate"], ["data", "check"]])
def test_every_command_explains_itself(cli: Cli, command: list[str], plain: Any) -> None:
    done = cli(*command, "--help").succeeded()
    assert "Usage: mnemotune" in plain(done.out)
    assert done.err == ""


def test_the_help_names_every_command(cli: Cli) -> None:
    out = cli("--help").succeeded().out
    assert all(f" {command} " in out for command in COMMANDS)


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["evolve", "--help"], ["evaluate", "--help"], ["data", "check", "base"],
     ["evaluate", "native", "--data", "generated:1", "--json"]],
    ids=lambda arguments: " ".join(arguments),
)  # fmt: skip
def test_a_command_imports_no_heavy_library_that_it_has_no_use_for(arguments: list[str]) -> None:
    program = (
        "import sys\nfrom mnemotune.optimizer.cli import main\n"
        f"sys.argv = ['mnemotune', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"


def test_the_package_runs_as_a_module(start: Any) -> None:
    process = start("--help")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "evolve" in out


@pytest.mark.parametrize(
    "arguments", [["evovle"], ["evaluate"], ["evaluate", "native", "--modle", "x"], ["evolve", "--seed", "x"]]
)
def test_a_command_that_was_typed_wrongly_gets_a_hint_and_exit_code_2(cli: Cli, arguments: list[str]) -> None:
    done = cli(*arguments)
    assert done.code == 2
    assert done.out == ""
    assert len(done.err.splitlines()) == 1
    assert "--help`" in done.err
    assert "Traceback" not in done.err
