"""Where MLflow's pages are: the charts of the experiment that ran last."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from mlflow_server import serving
from mnemotune.optimizer.views.tracking import pages


@contextmanager
def server(experiments: list[str], runs: list[dict[str, Any]]) -> Iterator[str]:
    """Answer as MLflow does, as far as it is asked; yield the address."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.say("OK")

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path.endswith("experiments/search"):
                self.say({"experiments": [{"experiment_id": name} for name in experiments]} if experiments else {})
            else:
                assert self.path.endswith("runs/search")
                assert (asked["experiment_ids"], asked["order_by"]) == (experiments, ["attributes.start_time DESC"])
                self.say({"runs": runs} if runs else {})

        def say(self, what: object) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(what).encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class has it
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()


def test_the_charts_are_those_of_the_newest_run() -> None:
    with server(["0", "3"], [{"info": {"experiment_id": "3"}}]) as address:
        assert pages.answers(address)
        assert pages.charts(address) == f"{address}/#/experiments/3/runs?compareRunsMode=CHART"


@pytest.mark.parametrize("experiments", [[], ["0"]])
def test_without_a_run_it_is_the_front_page(experiments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with server(experiments, []) as address:
        assert pages.charts(address) == address
        pages.main(address, os.getppid(), opens=False)
        assert capsys.readouterr().err == f"MLflow's pages: {address}\n"


def test_it_stops_waiting_when_the_server_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    pages.main("http://127.0.0.1:9", -1, opens=False)
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_the_real_server_says_where_the_charts_are(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    client = MlflowClient(tracking_uri=uri)
    experiment = client.create_experiment("study")
    client.create_run(experiment)
    with serving(uri, cwd=tmp_path) as address:
        told = f"The newest study's charts: {address}/#/experiments/{experiment}/runs?compareRunsMode=CHART"
        give_up = time.monotonic() + 60
        while told not in (tmp_path / "ui.log").read_text():
            assert time.monotonic() < give_up, (tmp_path / "ui.log").read_text()
            time.sleep(0.2)
