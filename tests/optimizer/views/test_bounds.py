"""An evolved policy with a number at a bound of the search is reported, with what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mnemotune.optimizer.config import parse_config
from mnemotune.optimizer.search.outcome import Outcome
from mnemotune.optimizer.study import Study
from mnemotune.optimizer.views.ending import show
from mnemotune.optimizer.views.report import render_report
from mnemotune.optimizer.views.table import bound_notes
from mnemotune.policies.space import limits_under

CONFIG = "data: base\nsplits: {train: 2, validation: 2, test: 2}\nseed_policy: native\n"
NOTE = "The evolved policy's buffer_size 32 is at the bound of search.space.buffer_size: widen it, and search again."


def outcome(kit: Any, *overrides: str, accepted: bool = True) -> Outcome:
    """Make a run that found a policy at the bound of ``buffer_size``, from a seed policy that is there too."""
    study = Study(None, name="bounds")
    here = {"mode": "verbatim", "update_every": 4, "buffer_size": 32, "store": "context"}
    for number in (0, 1):
        study.append(kit.trial(number, policy=kit.policy(20 + number, **here), accepted=number == 0 or accepted))
    return Outcome(Path("runs/mine"), parse_config(CONFIG, where="test", overrides=overrides), study)


def test_it_is_in_the_result_the_report_and_the_terminal(kit: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run = outcome(kit)
    assert run.as_json()["at_bounds"] == {"buffer_size": 32}
    assert NOTE.replace("'", "&#39;") in render_report(run)
    show(run)
    assert NOTE in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("override", ["search.space.buffer_size=[0, 64]", "search.numbers=false"])
def test_a_wider_space_or_one_that_is_not_searched_has_nothing_to_report(kit: Any, override: str) -> None:
    run = outcome(kit, override)
    assert run.at_bounds == {}
    assert "at the bound" not in render_report(run)


def test_the_seed_policys_own_numbers_are_not_the_searchs(kit: Any) -> None:
    assert outcome(kit, accepted=False).at_bounds == {}


def test_a_larger_budget_is_advised_at_the_bound_that_the_budget_sets_alone() -> None:
    (low,) = bound_notes({"top_k": 2}, context_tokens=1000)
    (high,) = bound_notes({"top_k": limits_under(1000)["top_k"][1]}, context_tokens=1000)
    assert low.endswith("widen it, and search again.")
    assert high.endswith("widen it, or raise context_tokens, and search again.")
