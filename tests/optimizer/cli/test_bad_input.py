"""What one user's bad data or a server's bad replies do: a stated result or a clear error, and the others' results.

Each test upsets the calls of one user, Ann, and compares the others with a run in which nothing went wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from people import short_lives

Cli = Callable[..., Any]

ANN = "user-1-000"


def rows_of_three() -> list[dict[str, Any]]:
    """Three users with two periods and four questions of four choices, right answers among them."""
    rows = short_lives(users=3, periods=2, questions=4)
    for row in rows:
        for question in row["qas"]:
            states = [[period["state"][info] for info in question["required_info"]] for period in row["periods"]]
            right = [choice for choice in question["answer_choices"] if choice["state"] in states]
            others = [choice for choice in question["answer_choices"] if choice["state"] not in states]
            question["answer_choices"] = (right + others)[:4]
    return rows


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    return rows_of_three()


@pytest.fixture
def evaluate(cli: Cli, server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Evaluate on the server; the rows are those of the file."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    config = tmp_path / "endpoint.yaml"
    config.write_text(yaml.safe_dump({"endpoint": {"base_url": server.url, "attempts": 1}}), encoding="utf-8")

    def run(rows: list[dict[str, Any]], policy: str = "awi") -> Any:
        data = tmp_path / "data.json"
        data.write_text(json.dumps(rows), encoding="utf-8")
        return cli("evaluate", policy, "--data", data, "--model", "openai:m", "--config", config, "--json")

    return run


@pytest.fixture(scope="module")
def wholes() -> dict[str, Any]:
    return {}


@pytest.fixture
def whole(rows: list[dict[str, Any]], evaluate: Callable[..., Any], wholes: dict[str, Any]) -> Callable[..., Any]:
    """Return what an evaluation says in which nothing goes wrong; it is run once."""

    def run(policy: str = "awi") -> Any:
        if policy not in wholes:
            wholes[policy] = evaluate(rows, policy).succeeded().json
        return wholes[policy]

    return run


def anns(rows: list[dict[str, Any]]) -> Callable[[str], bool]:
    """Tell which texts are about Ann."""
    queries = [question["query"] for question in rows[0]["qas"]]
    queries += [session["query"] for period in rows[0]["periods"] for session in period["sessions"]]
    return lambda text: any(query in text for query in queries)


def others(told: Any) -> dict[str, float]:
    return {user: score for user, score in told["by_group"].items() if user != ANN}


@pytest.mark.parametrize(
    "said",
    [
        "I would rather not say.",
        "",
        '{"answer": 5}',
        '{"answer": 0}',
        '{"answer": -1}',
        '{"answer": null}',
        '{"answer": 1.5}',
        "<html>502</html>",
    ],
)
def test_answers_that_are_unparsable_or_out_of_range_are_wrong_and_counted(
    said: str, rows: list[dict[str, Any]], evaluate: Any, server: Any, whole: Any
) -> None:
    before = whole()
    hers = anns(rows)
    server.whim = lambda role, text: said if role == "answer" and hers(text) else None
    done = evaluate(rows).succeeded()
    told = done.json
    assert others(told) == others(before)
    assert told["by_group"][ANN] < 0, "below chance, since no guess is ever right"
    assert told["unparsable"] == 8
    assert "8 answers could not be read, and count as wrong" in done.err
    assert told["failures"] == {}


def test_a_schema_key_that_a_probe_leaves_out_counts_as_unknown(
    rows: list[dict[str, Any]], evaluate: Any, server: Any, whole: Any
) -> None:
    before = whole()
    hers = anns(rows)
    server.whim = lambda role, text: '{"shoe_size": "44"}' if role == "probe" and hers(text) else None
    told = evaluate(rows).succeeded().json
    assert told["by_group"] == before["by_group"], "probes do not change the score"
    assert told["shares"]["write"] > before["shares"]["write"]
    assert sum(told["shares"].values()) == pytest.approx(sum(before["shares"].values()), abs=1e-5)


def test_a_period_without_sessions_is_questioned_all_the_same(
    rows: list[dict[str, Any]], evaluate: Any, whole: Any
) -> None:
    before = whole()
    rows[0]["periods"][1]["sessions"] = []
    told = evaluate(rows).succeeded().json
    assert others(told) == others(before)
    assert told["failures"] == {}
    assert len(told["stages"]["accuracy"]) == 2
    assert told["spend"]["answer"]["calls"] == before["spend"]["answer"]["calls"]


def test_what_comes_after_a_talk_too_long_for_the_model_counts_as_wrong_with_advice(
    rows: list[dict[str, Any]], evaluate: Any, server: Any, whole: Any
) -> None:
    before = whole("native")
    hers = anns(rows)
    too_long = (400, "This model's maximum context length is 8192 tokens.")
    server.whim = lambda role, text: too_long if role == "reply" and hers(text) and len(text) > 1500 else None
    done = evaluate(rows, "native").succeeded()
    told = done.json
    assert told["groups"] == 3
    assert others(told) == others(before)
    assert told["by_group"][ANN] < before["by_group"][ANN]
    assert sum(told["shares"].values()) + told["accuracy"] == pytest.approx(1, abs=1e-5)
    ((failed, reason),) = told["failures"].items()
    assert failed == ANN
    assert "maximum context length is 8192" in reason
    assert "lower the policy's buffer_size" in reason
    assert f"user {ANN} was ended by the policy, and what is missing counts as wrong: " in done.err


def test_a_user_whose_upper_bound_equals_chance_has_no_score_and_is_left_out_of_the_mean(
    rows: list[dict[str, Any]], evaluate: Any, server: Any, whole: Any
) -> None:
    before = whole()
    hers, first = anns(rows), rows[0]["qas"][0]["query"]
    server.whim = lambda role, text: (
        "none" if role == "upper_bound" and hers(text) and first not in text else None
    )  # one question in four is right, and there are four choices
    told = evaluate(rows).succeeded().json
    assert told["by_group"][ANN] is None
    assert others(told) == others(before)
    assert told["groups"] == 3
    assert told["memory_score"] == pytest.approx(sum(others(told).values()) / 2, abs=1e-6)


@pytest.mark.parametrize(("role", "lost"), [("write", False), ("probe", False), ("upper_bound", True), ("user", True)])
def test_a_call_that_is_refused_for_one_user_leaves_the_others_as_they_were(
    role: str, lost: bool, rows: list[dict[str, Any]], evaluate: Any, server: Any, whole: Any
) -> None:
    """What the policy does not ask itself is no fault of its."""
    before = whole()
    hers = anns(rows)
    server.whim = lambda asked, text: (422, "cannot do that") if asked == role and hers(text) else None
    told = evaluate(rows).succeeded().json
    assert list(told["failures"]) == [ANN]
    assert others(told) == others(before)
    assert (ANN in told["by_group"]) != lost


def test_a_user_whose_call_gets_lost_each_time_is_left_out(
    rows: list[dict[str, Any]], evaluate: Any, server: Any, whole: Any
) -> None:
    before = whole()
    hers = anns(rows)
    server.whim = lambda asked, text: (500, "no luck") if asked == "answer" and hers(text) else None
    done = evaluate(rows).succeeded()
    assert done.json["by_group"] == others(before)
    assert f"user {ANN} was lost: " in done.err


def test_a_rewriting_that_cannot_be_read_is_told_and_leaves_the_prompt(
    rows: list[dict[str, Any]], evaluate: Any, server: Any, whole: Any
) -> None:
    server.whim = lambda role, text: "Sorry." if role == "propose" else None
    done = evaluate(rows, "awi_complete").succeeded()
    assert done.json["by_group"] == whole()["by_group"]
    assert "3 rewritten prompts could not be read, and stayed as they were" in done.err


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [
        (["evolve", "quickstart.yaml", "--dry-run", "--set", "search.objective=evidnce"], "evidence"),
        (["evolve", "quickstart.yaml", "--dry-run", "--set", "search.acceptance=validaton"], "validation"),
        (["evolve", "quickstart.yaml", "--dry-run", "--set", "search.proposers=[knwn]"], "known"),
        (["evolve", "quickstart.yaml", "--dry-run", "--set", "baselines=[raag]"], "rag"),
        (["evolve", "quickstrt.yaml"], "quickstart.yaml"),
        (["evaluate", "winow"], "window"),
        (["evaluate", "window", "--model", "embeded"], "embedded"),
        (["evaluate", "window", "--model", "embedded:gpt-4.1-min"], "gpt-4.1-mini"),
        (["evaluate", "window", "--embedder", "lexcal:64"], "lexical"),
        (["evaluate", "window", "--track", "dialoge"], "dialogue"),
        (["evaluate", "window", "--data", "bse"], "base"),
    ],
)
def test_a_value_that_is_mistyped_is_told_with_the_nearest(cli: Cli, arguments: list[str], nearest: str) -> None:
    assert f"; the nearest is {nearest}" in cli(*arguments).refused()
