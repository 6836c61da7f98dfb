"""MLflow's server with a page of its own, which sends a browser on to the charts of the newest study."""

from __future__ import annotations

import json
import os

from mlflow import MlflowClient
from mlflow.server import app as pages
from mlflow.server import constants
from mlflow.server.fastapi_app import app

from .dashboard import LAYOUT
from .store import STUDY_TAG

__all__ = ["app"]

KEPT = 'MLflowLocalStorage-1.1-ExperimentPage-["{experiment}"]-ReactComponentState'
"""Where a browser keeps how MLflow's pages show an experiment."""
PAGE = """<!doctype html><title>mnemotune</title><script>
const {address, kept, study, state} = GIVEN;
// else MLflow's assistant opens over the charts by itself, and its hints over the traces
const seen = ["assistant.fab.autoOpenedOnFirstLoad", "detectIssues.guidanceShown", "flagForReview.guidanceShown"];
for (const name of seen) localStorage.setItem(`mlflow.${name}_v1`, "true");
const mine = JSON.parse(localStorage.getItem(kept) ?? "null") ?? state;  // what somebody has laid out stays
mine.runsExpanded = {...mine.runsExpanded, [study]: true};
if (kept) localStorage.setItem(kept, JSON.stringify(mine));
location.replace(address);
</script>"""


def charts() -> str:
    """Send a browser on to the newest study's charts, or to the front page where there is none."""
    client = MlflowClient(tracking_uri=os.environ["MLFLOW_BACKEND_STORE_URI"])
    ids = [experiment.experiment_id for experiment in client.search_experiments()]
    studies = f"tags.`{STUDY_TAG}` LIKE '%'"
    runs = client.search_runs(ids, studies, order_by=["attributes.start_time DESC"], max_results=1)
    given = {"address": "/", "kept": "", "study": "", "state": {}}
    for run in runs:
        experiment, study = run.info.experiment_id, run.info.run_id
        address = f"/#/experiments/{experiment}/runs?compareRunsMode=CHART"
        given = {"address": address, "kept": KEPT.format(experiment=experiment), "study": study, "state": LAYOUT}
    return PAGE.replace("GIVEN", json.dumps(given))


if uri := os.environ.get("MLFLOW_BACKEND_STORE_URI"):  # what `mlflow server` tells its pages, served without it
    for name, value in (
        (constants.BACKEND_STORE_URI_ENV_VAR, uri),
        (constants.REGISTRY_STORE_URI_ENV_VAR, uri),
        (constants.ARTIFACT_ROOT_ENV_VAR, "mlflow-artifacts:/"),
        (constants.ARTIFACTS_DESTINATION_ENV_VAR, "./mlartifacts"),
        (constants.SERVE_ARTIFACTS_ENV_VAR, "true"),
    ):
        os.environ.setdefault(name, value)

pages.add_url_rule("/charts", view_func=charts)
