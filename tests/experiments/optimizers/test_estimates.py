"""Searches that are estimated, then carried out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from mnemotune.experiments.optimizers.estimates import SEARCHES, SearchRow, compared, planned, table
from mnemotune.optimizer.search.searches import carry_out
from people import write_people


def test_every_search_has_a_folder_of_its_own_and_settings_that_are_read(tmp_path: Path) -> None:
    searches = yaml.safe_load(SEARCHES.read_text(encoding="utf-8"))
    runs = planned(tmp_path, searches)
    assert len({run.folder for run in runs}) == len(searches)
    assert [run.seed for run in runs if "seed 11" in run.variant] == [11]
    assert [run.config.data for run in runs] == [data_of(changes) for changes in searches.values()]


def data_of(changes: Mapping[str, Any]) -> str:
    by_config = {"search.yaml": "base", "quickstart.yaml": "generated:80@4511"}
    return str(changes.get("data", by_config[changes.get("config", "search.yaml")]))


def test_a_search_is_carried_out_once_and_estimated_beside_what_it_spent(tmp_path: Path) -> None:
    people = write_people(tmp_path, users=6, periods=2, questions=4)
    smaller = {
        "config": "quickstart.yaml",
        "data": str(people),
        "splits": {"train": 2, "validation": 2, "test": 2},
        "baselines": ["rag"],
        "search.generations": 0,
        "search.screening": None,
    }
    runs = planned(tmp_path / "out", {"none": smaller})
    carry_out(runs, listeners=list, finished=lambda _: None)
    [row] = map(compared, runs)
    assert (row.name, row.ended_by) == ("none", "generations")
    assert 0.85 < row.calls[0] / row.calls[1] < 1.15
    carry_out(runs, listeners=list, finished=lambda _: None)
    assert [compared(run) for run in runs] == [row]


def test_the_error_is_what_an_estimate_is_above_what_was_spent() -> None:
    [line] = table([SearchRow("a", "calls", (11_000, 10_000), (3_000_000, 4_000_000))]).splitlines()[2:]
    assert line == "| a | calls | 11,000 | 10,000 | +10.0% | 3M | 4M | -25.0% |"
