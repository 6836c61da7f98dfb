"""Parts of a run's report that need no search: how to repeat it, parts of the sealed test, and its size."""

from __future__ import annotations

import math
import random
import re
from pathlib import Path
from typing import Any

import pytest

from html_page import read
from mnemotune.env import Summary
from mnemotune.env.failed_checks import FailedCheck, write_failed_checks
from mnemotune.optimizer.config import dump_config, parse_config
from mnemotune.optimizer.search.origin import note_origin, this_origin
from mnemotune.optimizer.search.outcome import TEST, Outcome, open_run
from mnemotune.optimizer.search.sealed import SealedTest
from mnemotune.optimizer.views.report import render_report
from mnemotune.optimizer.views.slices import group_rows

CONFIG = "{data: made up, splits: {train: 4, validation: 4, test: 12}, seed_policy: native}"


@pytest.fixture
def outcome(make_rig: Any, make_storage: Any, kit: Any) -> Outcome:
    """A run that has its seed policy alone."""
    rig = make_rig(storage=make_storage())
    rig.study.append(kit.trial())
    folder = Path(rig.storage.removeprefix("sqlite:///")).parent
    (folder / "config.yaml").write_text(dump_config(parse_config(CONFIG, where="test")), encoding="utf-8")
    return open_run(folder)


def test_the_report_says_how_to_repeat_the_run_and_which_mnemotune_made_it(outcome: Outcome) -> None:
    before = read(render_report(outcome)).words()
    assert "mnemotune evolve config.yaml" in before
    assert "Which version made this run is not known" in before
    note_origin(outcome.study)
    assert f"Made by {this_origin()}." in read(render_report(outcome)).words()


def test_parts_of_the_sealed_test_are_told_the_worst_first(outcome: Outcome) -> None:
    rows = {
        name: Summary(policy=name, by_group=scores)
        for name, scores in (("seed", {"ann": 0.4, "bob": 0.2}), ("evolved", {"ann": 0.3, "bob": 0.5}))
    }
    outcome.study.note(TEST, SealedTest(rows, done=True).as_json())
    outcome.note_slices("seed", {"topic cycling": {"a": 0.2, "b": 0.4}, "topic boats": {"a": 0.5, "b": 0.7}})
    better = {"topic cycling": {"a": 0.6, "b": 0.9}, "topic boats": {"a": 0.4, "b": 0.5}, "read failures": {"a": 1.0}}
    outcome.note_slices("evolved", better)
    page = read(render_report(outcome))
    (parts,) = [table for table in page.tables if table[0][0] == "part"]
    assert [row[0] for row in parts[1:]] == ["topic boats", "topic cycling"]
    assert parts[2][1:3] == ["0.300", "0.750"]
    assert parts[2][3].startswith("0.450 [")
    assert parts[2][4] == "2"
    (groups,) = [table for table in page.tables if table[0][0] == "user"]
    assert groups[1:] == [["ann", "0.400", "0.300", "-0.100"], ["bob", "0.200", "0.500", "0.300"]]


@pytest.mark.parametrize("order", [["cleo", "ann", "bob", "dan"], ["bob", "cleo", "dan", "ann"]])
def test_groups_without_a_score_are_last(order: list[str]) -> None:
    seed = dict.fromkeys(order, 0.5)
    evolved = {group: {"ann": 0.3, "bob": 0.6, "cleo": math.nan, "dan": 0.1}[group] for group in order}
    rows = {"seed": Summary(policy="seed", by_group=seed), "evolved": Summary(policy="evolved", by_group=evolved)}
    assert [row.name for row in group_rows(rows)] == ["dan", "ann", "bob", "cleo"]


def test_failed_checks_get_what_the_rest_of_the_page_leaves(outcome: Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, most = random.Random(0), len(render_report(outcome).encode()) + 40_000
    for name in ("seed", "evolved"):
        noise = ["".join(str(rng.random()) for _ in range(40)) for _ in range(40)]
        failures = [
            FailedCheck(f"user{i}", "t", 0, "c", 0.0, None, "Which?", text, (), ()) for i, text in enumerate(noise)
        ]
        (outcome.folder / "test" / name).mkdir(parents=True)
        write_failed_checks(outcome.folder / "test" / name, failures)
    whole = len(render_report(outcome).encode())
    monkeypatch.setattr("mnemotune.optimizer.views.report.MOST_BYTES", most)
    html = render_report(outcome)
    assert most - 2_000 < len(html.encode()) <= most < whole
    assert re.search(r"The page has the first \d+ users; \d+ more are in the files", read(html).words())


def test_the_report_says_where_a_fact_was_asked_for_after_the_work(outcome: Outcome) -> None:
    (outcome.folder / "test" / "seed").mkdir(parents=True)
    failure = FailedCheck("user0", "t", 0, "c", 0.0, None, "Which?", "", (), ())
    write_failed_checks(outcome.folder / "test" / "seed", [failure])
    (outcome.folder / "config.yaml").write_text(
        dump_config(parse_config(CONFIG, where="test", overrides=["track=tools:model", "model=openai:x"])),
        encoding="utf-8",
    )
    sentence = "It is asked for the facts once it is done"
    assert sentence in read(render_report(open_run(outcome.folder))).words()
    assert sentence not in read(render_report(outcome)).words()
