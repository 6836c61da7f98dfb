"""A run whose candidates listen to recorded talks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mnemotune.env.dialogue.transcript import read_transcripts
from mnemotune.optimizer.config import Config, ConfigError
from running import TRIAL_2, Screen, Stop, go, go_on


def test_off_policy_candidates_listen_to_recorded_talks_and_the_sealed_test_talks(
    configured: Callable[..., Config], runs: Path
) -> None:
    config = configured("search.off_policy=true")
    with pytest.raises(Stop):
        go(config, runs / "off", Screen(TRIAL_2))
    recorded = (runs / "off" / "talks" / "episodes.jsonl").read_bytes()
    outcome = go_on(runs / "off")
    assert (runs / "off" / "talks" / "episodes.jsonl").read_bytes() == recorded, "talks are recorded once"
    talks = read_transcripts(runs / "off" / "talks")
    assert len(talks) == 6, "train and validation users, and nobody else"
    assert not talks.keys() & outcome.test.rows["seed"].by_group.keys()
    assert outcome.test.rows["evolved"].spend.by_role["reply"].calls > 0
    rounds = sum(len(list(stage.heard)) for talk in talks.values() for stage in talk.stages)
    assert outcome.search_spend.by_role["reply"].calls <= rounds, "nothing else was replied to"
    again = go(config, runs / "whole")
    assert [trial.train for trial in again.study.trials] == [trial.train for trial in outcome.study.trials]


def test_where_train_users_decide_only_their_talks_are_recorded(configured: Callable[..., Config], runs: Path) -> None:
    config = configured("search.off_policy=true", "search.acceptance=train", "search.generations=0")
    outcome = go(config, runs / "off")
    assert read_transcripts(runs / "off" / "talks").keys() == outcome.study.trials[0].train.keys()


def test_a_budget_that_ends_while_talks_are_recorded_says_so_and_a_larger_one_goes_on(
    configured: Callable[..., Config], runs: Path
) -> None:
    config = configured("search.off_policy=true", "search.generations=0", "search.budget={tokens: 20000}")
    with pytest.raises(ConfigError, match=r"^search\.budget: too small even for the seed policy's talks .*--resume"):
        go(config, runs / "off")
    assert go_on(runs / "off", "search.budget.tokens=null").test.done


def test_a_run_cannot_begin_on_policy_and_go_on_off_policy(stopped: Path) -> None:
    with pytest.raises(ConfigError, match=r"search\.off_policy cannot change"):
        go_on(stopped, "search.off_policy=true")


@pytest.mark.parametrize("override", ["search.objective=evidence-alone", "search.most_stored={bytes: 9}"])
def test_a_run_cannot_go_on_where_its_trials_would_be_judged_in_two_ways(stopped: Path, override: str) -> None:
    with pytest.raises(ConfigError, match=rf"so {override.partition('=')[0]} cannot change"):
        go_on(stopped, override)
