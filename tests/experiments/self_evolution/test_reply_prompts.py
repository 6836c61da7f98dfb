"""What reply prompts are worth: each takes one ability of the reader to an end; all are scored on the same users."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mnemotune.env.statistics import estimate
from mnemotune.experiments.self_evolution import reply_prompts
from mnemotune.optimizer.proposers.known import USERS_MESSAGES
from mnemotune.optimizer.views.table import with_interval
from mnemotune.policies.lm.embedded.strengths import strengths_of
from mnemotune.policies.policy import MemoryPolicy
from people import write_people


def test_each_prompt_takes_an_ability_of_the_reader_to_an_end() -> None:
    told = {name: strengths_of(said) for name, said in reply_prompts.SAID.items()}
    assert told["says nothing of memories"]["memories"] == 0
    assert 0 < told["the newest counts a little"]["newest"] < 1
    assert told["the newest counts"]["newest"] >= 1
    assert told["the first counts"]["newest"] <= -1
    assert told["the user's own life counts"]["own"] >= 1
    both = told["own life, and the newest"]
    assert min(both["own"], both["newest"], both["memories"]) >= 1


def test_the_policys_own_prompt_is_one_of_them_and_already_asks_to_use_memories() -> None:
    policy = MemoryPolicy.model_validate(USERS_MESSAGES["users_messages_renewed"])
    assert reply_prompts.prompted(policy)[reply_prompts.OWN_PROMPT] == policy
    assert policy.prompts.reply is not None
    assert strengths_of(policy.prompts.reply)["memories"] >= 1


def test_all_prompts_are_scored_beside_the_default_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    people = write_people(tmp_path, users=2, periods=2, questions=2)
    reply_prompts.main(tmp_path / "out", data=str(people))
    printed = capsys.readouterr().out
    assert printed == (tmp_path / "out" / "reply_prompts.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in printed.splitlines()[2:]]
    prompts = [reply_prompts.OWN_PROMPT, *reply_prompts.SAID]
    assert [tuple(row[:2]) for row in rows] == [(name, said) for name in reply_prompts.STRATEGIES for said in prompts]
    first, *_, last = printed.splitlines()[2:]
    assert first.endswith("|  |  |")
    assert not last.endswith("|  |")


def evaluation(evidence: float, **scores: float) -> Any:
    groups = [SimpleNamespace(evidence=evidence) for _ in scores]
    return SimpleNamespace(by_group=scores, groups=groups, memory_score=estimate(list(scores.values())))


def test_a_row_has_its_score_and_evidence_and_how_far_it_is_over_its_own_prompt_and_over_the_first_row() -> None:
    found = {
        ("first", reply_prompts.OWN_PROMPT): evaluation(0.9, ann=0.1, bob=0.3),
        ("second", reply_prompts.OWN_PROMPT): evaluation(0.8, ann=0.2, bob=0.4),
        ("second", "other"): evaluation(0.7, ann=0.5, bob=0.7),
    }
    first, second, other = reply_prompts.rows_of(found)
    assert first[3:] == ["0.900 [0.900, 0.900]", "", ""]
    assert second[3:] == ["0.800 [0.800, 0.800]", "", "0.100 [0.100, 0.100]"]
    assert other[:3] == ["second", "other", with_interval(estimate([0.5, 0.7]))]
    assert other[3:] == ["0.700 [0.700, 0.700]", "0.300 [0.300, 0.300]", "0.400 [0.400, 0.400]"]


def test_a_policy_of_ones_own_takes_the_place_of_the_strategies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("{write: {mode: verbatim}, update_every: 2, buffer_size: 0, store: external, top_k: 3}")
    people = write_people(tmp_path, users=2, periods=2, questions=2)
    reply_prompts.main(tmp_path / "out", policy=mine, data=str(people))
    rows = capsys.readouterr().out.splitlines()[2:]
    assert [row.split(" | ")[0] for row in rows] == ["| mine"] * (1 + len(reply_prompts.SAID))
