"""A whole run with the embedded model: its folder, its honesty, and what it says.

1. The same config and seed make the same study and the same sealed test.
2. No user of the sealed test is seen before the search is over.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mnemotune.data import load_scenarios, split_by_group
from mnemotune.data.task import tasks_of
from mnemotune.optimizer.config import Config, dump_config, load_config, parse_config
from mnemotune.optimizer.models import notes, priced
from mnemotune.optimizer.search.outcome import Outcome
from mnemotune.optimizer.views.tracking.traces import failed_traces
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm import Completion, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.prompts import Templates
from running import SIZES, Screen, Stop, allowance, assert_same_study, contents, go, scores

FILES = ["best_policy.yaml", "charges.db", "config.yaml", "deployment.yaml", "report.html", "result.json", "study.db"]


def test_a_run_leaves_its_files_in_its_folder(finished: Outcome) -> None:
    assert sorted(path.name for path in finished.folder.iterdir() if path.is_file()) == [".lock", *FILES]
    tested = finished.folder / "test"
    files = ("calls.json.gz", "episodes.jsonl", "failures.jsonl")
    assert sorted(str(path.relative_to(tested)) for path in tested.rglob("*.*")) == [
        f"{name}/{file}" for name in ("evolved", "seed") for file in files
    ]


def test_the_view_and_its_files_are_beside_the_run_folder(finished: Outcome) -> None:
    assert sorted(path.name for path in finished.folder.parent.iterdir()) == [
        ".mlflow.db.lock",
        "mlartifacts",
        "mlflow.db",
        "whole",
    ]


def test_the_config_in_the_folder_is_the_one_that_ran(finished: Outcome, configured: Callable[..., Config]) -> None:
    assert load_config(finished.folder / "config.yaml") == configured()


def test_the_best_policy_is_the_last_one_accepted(finished: Outcome) -> None:
    accepted = [trial for trial in finished.study.trials if trial.accepted]
    assert len(accepted) > 1, "this run was chosen because its search finds something"
    assert load_policy(finished.folder / "best_policy.yaml") == accepted[-1].policy


def test_the_result_is_strict_json_and_says_what_the_study_says(finished: Outcome) -> None:
    text = (finished.folder / "result.json").read_text(encoding="utf-8")
    told = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert told == finished.as_json()
    gain = told["best_policy"]["memory_score"] - told["seed_policy"]["memory_score"]
    assert told["difference"]["memory_score"] == pytest.approx(gain, abs=1e-5)


def test_every_candidate_has_a_change_a_stage_and_a_reason(finished: Outcome) -> None:
    trials = finished.study.trials
    assert len([trial for trial in trials if trial.kind in {"seed", "candidate"}]) == 5
    assert [trial.decided_at for trial in trials].count("seed") == 1
    assert all(trial.change and trial.reason for trial in trials)


def test_the_episodes_of_the_sealed_test_are_kept_one_line_for_each_user(finished: Outcome) -> None:
    for name in ("seed", "evolved"):
        lines = (finished.folder / "test" / name / "episodes.jsonl").read_text(encoding="utf-8").splitlines()
        episodes = [json.loads(line) for line in lines]
        row = finished.test.rows[name]
        assert [episode["task"] for episode in episodes] == list(row.by_group)
        assert {episode["policy"] for episode in episodes} == {row.key}


def test_failed_checks_of_the_sealed_test_can_be_followed_call_by_call(finished: Outcome) -> None:
    traces = list(failed_traces(finished.folder))
    assert {trace.policy for trace in traces} == {"seed", "evolved"}
    for trace in traces:
        assert [call.role for call in trace.steps[-1].calls] == ["answer", "probe"]
        assert trace.steps[-1].calls[0].reply["content"] == trace.answer
        assert "reply" in {call.role for step in trace.steps[:-1] for call in step.calls}


def test_no_user_of_the_sealed_test_is_seen_by_the_search_invariant_2(finished: Outcome, people: Path) -> None:
    splits = split_by_group(load_scenarios(people), **SIZES, seed=0)
    train, validation, test = ({user.id for user in part} for part in (splits.train, splits.validation, splits.test))
    raced = {user for trial in finished.study.trials for user in trial.train}
    validated = {user for trial in finished.study.trials for user in trial.validation}
    assert (raced, validated) == (train, validation)
    assert {user for row in finished.test.rows.values() for user in row.by_group} == test


def test_a_sealed_test_on_other_data_is_of_its_users_alone(
    configured: Callable[..., Config], people: Path, tmp_path: Path
) -> None:
    others = [user.model_copy(update={"id": f"other {user.id}"}) for user in load_scenarios(people)]
    elsewhere = tmp_path / "others.json"
    elsewhere.write_text(json.dumps([json.loads(user.model_dump_json()) for user in others]), encoding="utf-8")
    run = go(configured("search.generations=1", f"test_data={elsewhere}"), tmp_path / "run")
    raced = {user for trial in run.study.trials for user in (*trial.train, *trial.validation)}
    tested = {user for row in run.test.rows.values() for user in row.by_group}
    assert raced < {user.id for user in load_scenarios(people)}
    assert tested < {user.id for user in others}
    assert len(tested) == SIZES["test"]


def test_no_text_of_the_sealed_test_is_read_by_the_search_invariant_2(
    configured: Callable[..., Config], people: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = split_by_group(load_scenarios(people), **SIZES, seed=0)
    sealed = {s.query for user in tasks_of(splits.test) for period in user.periods for s in period.sessions}
    heard = [s.query for u in tasks_of([*splits.train, *splits.validation]) for p in u.periods for s in p.sessions]
    sealed = {query for query in sealed if not any(query in other for other in heard)}
    screen, complete = Screen(), EmbeddedModel.complete
    read: dict[bool, set[str]] = {False: set(), True: set()}

    async def listen(self: EmbeddedModel, request: Request) -> Completion:
        over = "The search is over" in screen.getvalue()
        read[over] |= {query for query in sealed for m in request.messages[-1:] if query in m.content}
        return await complete(self, request)

    monkeypatch.setattr(EmbeddedModel, "complete", listen)
    go(configured("search.generations=1"), runs / "run", screen)
    assert read[False] == set()
    assert read[True] == sealed


def test_what_the_sealed_test_asks_in_other_words_is_in_no_request_of_the_search(
    configured: Callable[..., Config], runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_words = Templates.bundled().answer_reworded.split("{query}")[1].split("{choices}")[0].strip()
    screen, complete = Screen(), EmbeddedModel.complete
    roles: dict[bool, Counter[str]] = {False: Counter(), True: Counter()}
    asked: Counter[bool] = Counter()

    async def listen(self: EmbeddedModel, request: Request) -> Completion:
        over = "The search is over" in screen.getvalue()
        asked[over] += 1
        roles[over][request.role] += any(other_words in message.content for message in request.messages)
        return await complete(self, request)

    monkeypatch.setattr(EmbeddedModel, "complete", listen)
    outcome = go(configured("search.generations=1"), runs / "run", screen)
    assert asked[False] > 0
    assert +roles[False] == Counter()
    assert (+roles[True]).keys() == {"answer"}
    assert all(row.reworded_by_group.keys() == row.by_group.keys() for row in outcome.test.rows.values())
    assert all(trial.summary is None or not trial.summary.reworded_by_group for trial in outcome.study.trials)


def test_the_same_config_and_seed_make_the_same_run_invariant_1(
    finished: Outcome, configured: Callable[..., Config], runs: Path, kit: Any
) -> None:
    again = go(configured(), runs / "whole", views=True)
    assert_same_study(again, finished, kit)
    assert [kit.told(trial) for trial in again.study.trials] == [kit.told(trial) for trial in finished.study.trials]
    for name, row in finished.test.rows.items():
        assert replace(again.test.rows[name], wall_s=row.wall_s) == row
    ours, theirs = contents(again.folder), contents(finished.folder)
    for name in (
        "best_policy.yaml",
        "config.yaml",
        "report.html",
        "test/seed/episodes.jsonl",
        "test/evolved/episodes.jsonl",
    ):
        assert ours[name] == theirs[name], name


def test_another_seed_searches_elsewhere_and_is_tested_on_the_same_users(
    finished: Outcome, configured: Callable[..., Config], runs: Path
) -> None:
    other = go(configured("search.seed=2"), runs / "run")
    assert [t.policy for t in other.study.trials[1:]] != [t.policy for t in finished.study.trials[1:]]
    assert scores(other.test.rows)["seed"] == scores(finished.test.rows)["seed"]


def test_the_splits_seed_deals_other_users(finished: Outcome, configured: Callable[..., Config], runs: Path) -> None:
    other = go(configured("splits.seed=1", "search.generations=1", "search.candidates=1"), runs / "run")
    assert other.test.rows["seed"].by_group.keys() != finished.test.rows["seed"].by_group.keys()


def test_a_search_that_has_nothing_to_propose_says_so_and_goes_on_to_its_test(
    configured: Callable[..., Config], runs: Path
) -> None:
    """The seed policy has no write prompt, and ``amemgym`` rewrites nothing else."""
    screen = Screen()
    outcome = go(configured("search.proposers=[amemgym]"), runs / "run", screen)
    why = "none of the proposers (amemgym) has anything to make a candidate from"
    assert outcome.ended == why
    assert screen.getvalue().splitlines()[-1] == f"The search is over: {why}."
    assert [trial.decided_at for trial in outcome.study.trials] == ["seed"]
    assert outcome.test.problem == ""


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data=nowhere.json", r"data: nowhere\.json: no such file"),
        ("splits.train=100", r"data: .*100 train"),
        ("baselines=[nobody]", "nobody: no such file or preset"),
        ("templates=nowhere.yaml", r"nowhere\.yaml"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(
    override: str, message: str, configured: Callable[..., Config], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        go(configured(override), tmp_path / "runs" / "run")
    assert list(tmp_path.iterdir()) == []


def test_the_first_line_says_who_takes_part_and_what_may_be_spent(
    configured: Callable[..., Config], runs: Path, finished: Outcome
) -> None:
    screen = Screen("trial")
    with pytest.raises(Stop):
        go(configured(), runs / "run", screen)
    reserve = allowance(finished).reserve
    assert (
        screen.getvalue().split()
        == (
            "2 train, 4 validation and 3 sealed test users; at most 20,000 calls, "
            f"{reserve:,} of them kept for the sealed test; model: embedded, "
            f"embedder: {finished.config.embedder}, no limit on the context"
        ).split()
    )


def test_a_run_ends_with_a_line_that_says_why(configured: Callable[..., Config], runs: Path) -> None:
    screen = Screen()
    go(configured("search.generations=1", "search.candidates=1"), runs / "run", screen)
    assert screen.getvalue().splitlines()[-1] == "The search is over: all 1 generations are done."


def test_a_run_says_what_its_models_cost_and_keeps_the_prices_that_it_began_with(
    configured: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    config = priced(configured("model=openai:gpt-4.1-mini", "user_model=openai:nobody-has-it"))
    known, unknown, *_ = notes(config)
    assert known.startswith("price of gpt-4.1-mini: $")
    assert unknown == "price of nobody-has-it: not known, and so is every cost (set endpoint.prices)"
    assert parse_config(dump_config(config), where="test").endpoint == config.endpoint
    assert priced(configured()) == configured()
