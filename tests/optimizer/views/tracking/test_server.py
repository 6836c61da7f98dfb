"""MLflow's server on PostgreSQL, as many machines would share it."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow import MlflowClient

from mlflow_server import serving
from mnemotune.optimizer.config import parse_config
from mnemotune.optimizer.views.tracking.figures import DECIMALS
from people import write_people
from postgresql import Server
from running import go


@pytest.mark.slow
def test_a_run_is_shown_by_a_server_on_postgresql_that_keeps_its_password_to_itself(
    postgresql: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    people = write_people(tmp_path, users=9, periods=2, questions=3)
    with serving(postgresql.new_database(), cwd=tmp_path) as address:
        commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
        assert any(b"uvicorn" in command for command in commands)
        assert not any(b"secret" in command for command in commands)
        settings = (
            f"{{data: {people}, splits: {{train: 2, validation: 4, test: 3}}, baselines: [], seed_policy: native}}"
        )
        search = "search={generations: 1, candidates: 2, broad_start: 0, budget: {calls: 20000}}"
        places = [f"tracking.uri='{address}'", f"storage='{postgresql.new_database()}'"]
        outcome = go(parse_config(settings, where="test", overrides=[search, *places]), tmp_path / "run", views=True)
        assert capfd.readouterr().out == "", "standard output is for the result"
        client = MlflowClient(tracking_uri=address)
        experiment = client.get_experiment_by_name("mnemotune")
        assert experiment is not None
        runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
        assert len(runs) == 1 + len(outcome.study.trials) + len(outcome.test.rows)
        metrics = runs["run"].data.metrics
        assert metrics["test/evolved/memory_score"] == round(outcome.test.rows["evolved"].memory_score.mean, DECIMALS)
        artifacts = {file.path for file in client.list_artifacts(runs["run"].info.run_id)}
        assert {"config.yaml", "best_policy.yaml", "report.html", "result.json"} <= artifacts
