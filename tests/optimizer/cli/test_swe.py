"""``--track swe``: tasks are written and checked without an engine, and playing them says what it needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


def test_tasks_in_a_file_are_those_that_were_made_and_need_no_engine(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{Path.cwd()}/nobody")
    made = ("--track", "swe", "--data", "generated:1@3")
    done = cli("data", "generate", *made, "--out", "tasks.jsonl").succeeded()
    assert done.err.endswith(" bugs written to tasks.jsonl\n")
    both = [cli("data", "check", source, "--track", "swe").succeeded().out for source in ("tasks.jsonl", made[-1])]
    assert both[0] == both[1]
    ended = cli("evaluate", "rag", *made, "--users", "pages")
    assert ended.code == 75
    assert len(ended.err.strip().splitlines()) == 1
    assert "no engine of containers answers" in ended.err
    assert "apt-get install docker.io" in ended.err


@pytest.mark.usefixtures("engine")
def test_a_bug_is_played_and_its_reward_told(cli: Cli) -> None:
    made = ("--track", "swe", "--data", "generated:1@3", "--users", "pages,units")
    values = cli("evaluate", "rag", *made, "--json", "--out", "results").succeeded().json
    assert values["extras"]["agent"] == "planned"
    assert len(values["extras"]["rewards"]) == 2
    assert Path("results/seen.db").exists()
    assert values["floor"] < 0.2 < 0.8 < values["ceiling"]


def test_an_agent_that_plans_by_itself_needs_a_model_that_calls_tools(cli: Cli) -> None:
    assert "needs a model that calls tools" in cli("evaluate", "rag", "--track", "swe:model").refused()
