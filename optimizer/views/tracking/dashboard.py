"""How MLflow's pages show a study: which charts, and which columns of the runs."""

from __future__ import annotations

from typing import Any

COLUMNS = (
    "attributes.`Duration`",
    "tags.`verdict`",
    "tags.`reason`",
    "tags.`change`",
    "params.`policy`",
    "metrics.`train_score`",
    "metrics.`validation_score`",
    "metrics.`memory_score`",
    "metrics.`turn/tokens`",
)
SEARCH, COST, TEST = "The search", "Scores and tokens a turn", "Sealed test"
MOST_RUNS = 20
"""Bars of a chart."""


def _line(name: str, *metrics: str) -> dict[str, Any]:
    return _chart(
        "LINE",
        SEARCH,
        name,
        metricKey=metrics[0],
        selectedMetricKeys=list(metrics),
        lineSmoothness=0,
        xAxisScaleType="linear",
        scaleType="linear",
        range={},
        xAxisKey="step",
        selectedXAxisMetricKey="",
        yAxisKey="metric",
        yAxisExpressions=[],
        ignoreOutliers=False,
        useGlobalXaxisKey=True,
        useGlobalLineSmoothing=True,
    )


def _axis(metric: str) -> dict[str, str]:
    return {"key": metric, "type": "METRIC"}


def _chart(kind: str, section: str, name: str, **values: Any) -> dict[str, Any]:
    shown = {"uuid": name, "type": kind, "metricSectionId": section, "displayName": name}
    return {**shown, "runsCountToCompare": MOST_RUNS, "deleted": False, "isGenerated": False, **values}


LAYOUT: dict[str, Any] = {
    "searchFilter": "",
    "orderByKey": "attributes.start_time",
    "orderByAsc": False,
    "startTime": "ALL",
    "lifecycleFilter": "Active",
    "datasetsFilter": [],
    "modelVersionFilter": "All Runs",
    "selectedColumns": list(COLUMNS),
    "columnOrder": [],
    "columnWidths": {},
    "runsExpanded": {},
    "runsPinned": [],
    "runsHidden": [],
    "runsVisibilityMap": {},
    "runsHiddenMode": "SHOWALL",
    "isAccordionReordered": True,
    "compareRunSections": [
        {"uuid": name, "name": name, "display": True, "isReordered": True, "deleted": False, "isGenerated": False}
        for name in (SEARCH, COST, TEST)
    ],
    "compareRunCharts": [
        _line("Best score so far", "best/validation_score", "best/train_score"),
        _line("Calls spent", "spent/calls"),
        _chart("SCATTER", COST, "Train score", xaxis=_axis("turn/tokens"), yaxis=_axis("train_score")),
        _chart("BAR", COST, "Train score of trials", metricKey="train_score"),
        _chart("BAR", TEST, "Memory score", metricKey="memory_score"),
        _chart("BAR", TEST, "Over the window", metricKey="over_window"),
    ],
}
"""How MLflow's pages show an experiment that nobody has laid out yet: the state that they keep in a browser."""
