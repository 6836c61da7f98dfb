"""``mnemotune evaluate``: what scripts rely on, from now on."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from mlflow import MlflowClient

from mnemotune.env import DialogueTrack, Summary
from mnemotune.optimizer.cli.evaluate import _remarks
from mnemotune.policies.prompts import Templates

SAMPLE = Path(__file__).parents[3] / ".." / "shared" / "data" / "amemgym_sample.json"
KEEPS = {"write": {"mode": "verbatim"}, "update_every": 2, "buffer_size": 2, "store": "external", "top_k": 3}
NOTES = {"write": {"mode": "profile"}, "update_every": 2, "buffer_size": 2, "store": "context"}

Cli = Callable[..., Any]


def counted(told: Any, kind: str) -> int:
    return sum(spend[kind] for spend in told["spend"].values())


@pytest.fixture
def keeps(tmp_path: Path) -> Path:
    path = tmp_path / "keeps.yaml"
    path.write_text(yaml.safe_dump(KEEPS), encoding="utf-8")
    return path


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes.json"
    path.write_text(json.dumps(NOTES), encoding="utf-8")
    return path


@pytest.fixture
def endpoint(server: Any, tmp_path: Path) -> Callable[..., Path]:
    """Write a config that points to the server."""

    def written(**more: Any) -> Path:
        path = tmp_path / "endpoint.yaml"
        path.write_text(yaml.safe_dump({"endpoint": {"base_url": server.url, "attempts": 1, **more}}), encoding="utf-8")
        return path

    return written


def episodes(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "episodes.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.usefixtures("two_cores")
def test_json_is_one_object_with_the_promised_fields(cli: Cli, people: Path, check_evaluation: Any) -> None:
    told = cli("evaluate", "native", "--data", people, "--json").succeeded().json
    check_evaluation(told, users=8)
    assert told["policy"] == "native"
    assert told["cost_usd"] == 0
    assert all(spend["cached"] == 0 for spend in told["spend"].values())


def test_json_is_all_that_a_real_process_prints(start: Any, people: Path, check_evaluation: Any) -> None:
    process = start("evaluate", "native", "--data", people, "--users", "user-1-000,user-1-001", "--json")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    check_evaluation(json.loads(out), users=2)
    assert len(out.splitlines()) == 1
    assert err == ""


def test_without_json_a_table_is_printed(cli: Cli, people: Path, plain: Any) -> None:
    done = cli("evaluate", "awi", "--data", people).succeeded()
    assert "8 users, model: embedded" in done.out
    assert "awi by reader, named after the model that it was fitted to: claude-sonnet-4 2.000, deepseek" in plain(
        done.err
    )
    assert "policy memory score window racy dence write read util. /turn /turn" in plain(done.out)
    assert "awi" in done.out


@pytest.mark.parametrize("preset", ["native", "rag", "awe", "awi"])
def test_every_preset_can_be_evaluated(cli: Cli, people: Path, preset: str, check_evaluation: Any) -> None:
    told = cli("evaluate", preset, "--data", people, "--users", "user-1-000,user-1-001", "--json").succeeded().json
    check_evaluation(told, users=2)
    assert told["policy"] == preset


def test_a_policy_can_be_a_yaml_or_a_json_file(cli: Cli, people: Path, keeps: Path, notes: Path) -> None:
    for path in (keeps, notes):
        told = cli("evaluate", path, "--data", people, "--users", "user-1-000", "--json").succeeded().json
        assert told["policy"] == str(path)
        assert told["spend"]["answer"]["calls"] == 6


def test_equal_evaluations_are_equal_but_for_the_time_they_took(cli: Cli, people: Path, keeps: Path) -> None:
    first, second = (
        cli("evaluate", keeps, "--data", people, "--json", "--no-window").succeeded().json for _ in range(2)
    )
    assert {**first, "wall_s": 0} == {**second, "wall_s": 0}


def test_the_seed_changes_nothing_but_is_kept(cli: Cli, people: Path) -> None:
    one, other = (cli("evaluate", "native", "--data", people, "--seed", s, "--json").json for s in ("1", "2"))
    assert (one["seed"], other["seed"]) == (1, 2)
    assert {**one, "wall_s": 0, "seed": 0} == {**other, "wall_s": 0, "seed": 0}


def test_a_policy_that_remembers_beats_one_that_forgets(cli: Cli, people: Path, keeps: Path, tmp_path: Path) -> None:
    forgets = tmp_path / "forgets.yaml"
    forgets.write_text("{write: {mode: none}, update_every: 2, buffer_size: 0}", encoding="utf-8")
    scores = [cli("evaluate", p, "--data", people, "--json").json["memory_score"] for p in (forgets, keeps)]
    assert scores[0] < scores[1]


@pytest.mark.parametrize("users", ["user-1-003", "user-1-003,user-1-001", "user-1-001, user-1-003"])
def test_only_the_users_asked_for_take_part_in_the_order_of_the_data(
    cli: Cli, people: Path, users: str, tmp_path: Path
) -> None:
    cli("evaluate", "native", "--data", people, "--users", users, "--out", tmp_path / "out").succeeded()
    want = sorted(user.strip() for user in users.split(","))
    assert [episode["task"] for episode in episodes(tmp_path / "out")] == want
    alone = cli("evaluate", "native", "--data", people, "--users", users, "--json").json
    every = cli("evaluate", "native", "--data", people, "--json").json
    for figures in ("readers", "by_group"):
        assert alone[figures] == {user: every[figures][user] for user in want}, "each user has the same reader always"


def test_one_user_alone_has_a_score_and_no_interval(cli: Cli, people: Path) -> None:
    told = cli("evaluate", "native", "--data", people, "--users", "user-1-000", "--json").succeeded().json
    assert told["memory_score"] is not None
    assert told["interval"] == [None, None]


def test_data_can_be_a_folder_a_bundled_set_or_generated(
    cli: Cli, people: Path, tmp_path: Path, check_evaluation: Any
) -> None:
    (tmp_path / "folder").mkdir()
    shutil.copy(people, tmp_path / "folder" / "data.json")
    told = cli("evaluate", "native", "--data", tmp_path / "folder", "--json").succeeded().json
    check_evaluation(told, users=8)
    told = cli("evaluate", "native", "--data", "generated:1@3", "--json").succeeded().json
    check_evaluation(told, users=1, periods=11)
    told = cli("evaluate", "native", "--data", "base", "--users", first_user(cli, "base"), "--json").succeeded().json
    check_evaluation(told, users=1, periods=11)


def first_user(cli: Cli, data: str) -> str:
    user: str = cli("data", "check", data).succeeded().out.split(":")[0]
    return user


@pytest.mark.skipif(not SAMPLE.is_file(), reason="the real sample is no part of the repository")
def test_a_real_user_of_amemgym_is_evaluated_with_the_same_command(cli: Cli, check_evaluation: Any) -> None:
    told = cli("evaluate", "native", "--data", SAMPLE, "--json").succeeded().json
    check_evaluation(told, users=1, periods=len(told["stages"]["accuracy"]))
    assert len(told["stages"]["accuracy"]) > 5


def test_out_gets_an_episode_for_each_user_with_everything_that_was_said(
    cli: Cli, people: Path, notes: Path, tmp_path: Path
) -> None:
    out = tmp_path / "some" / "folder"
    cli("evaluate", notes, "--data", people, "--users", "user-1-000,user-1-001", "--out", out).succeeded()
    found = episodes(out)
    rows = {row["id"]: row for row in json.loads(people.read_text(encoding="utf-8"))}
    assert [episode["task"] for episode in found] == ["user-1-000", "user-1-001"]
    for episode in found:
        row = rows[episode["task"]]
        assert episode["failure"] is None
        assert len(episode["stages"]) == 2
        for period, asked in zip(episode["stages"], row["periods"], strict=True):
            turns = [event for event in period["events"] if event["kind"] == "say"]
            openings = {turn["step"]: turn["seen"][0]["content"] for turn in reversed(turns)}
            assert sorted(openings) == list(range(len(asked["sessions"])))
            assert all(session["query"] in openings[s] for s, session in enumerate(asked["sessions"]))
            assert all([m["role"] for m in turn["seen"]] == ["user", "assistant"] for turn in turns)
            assert all(message["content"] for turn in turns for message in turn["seen"])
            assert len(period["answers"]) == len(period["probes"]) == len(row["qas"]) == 3
            assert all(answer["raw"] for answer in period["answers"])
            assert all(probe["raw"] for probe in period["probes"])
        writes = [event["write"] for period in episode["stages"] for event in period["events"] if "write" in event]
        assert writes
        assert all(write["evicted"] and write["raw"] for write in writes)
        assert any(write["added"] for write in writes)


def test_what_out_says_is_what_was_printed(cli: Cli, people: Path, notes: Path, tmp_path: Path) -> None:
    told = cli("evaluate", notes, "--data", people, "--out", tmp_path / "out", "--json").succeeded().json
    kept = json.loads((tmp_path / "out" / "result.json").read_text(encoding="utf-8"))
    assert kept == told
    answers = [answer for e in episodes(tmp_path / "out") for p in e["stages"] for answer in p["answers"]]
    scored = [answer["score"] for answer in answers if answer["score"] is not None]
    assert told["accuracy"] == pytest.approx(sum(scored) / len(scored), abs=1e-6)


def test_the_config_gives_rounds_and_texts(cli: Cli, people: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts.yaml"
    texts.write_text(
        "answer: 'Choose wisely! {query} {choices}'\nreply_context: 'Mine: {memories}'\n", encoding="utf-8"
    )
    config = tmp_path / "config.yaml"
    config.write_text(f"{{rounds: {{init: 1, update: 3}}, templates: {texts}}}", encoding="utf-8")
    one = ["evaluate", "awi", "--data", people, "--users", "user-1-000", "--no-window", "--json"]
    usual, longer = cli(*one).json, cli(*one, "--config", config).succeeded().json
    assert usual["key"] != longer["key"], "the policy's own prompts start from the texts too"
    assert longer["spend"]["user"]["calls"] == 2 * usual["spend"]["user"]["calls"] > 0


def test_off_policy_the_talks_of_another_evaluation_are_replayed(
    cli: Cli, people: Path, check_evaluation: Any, tmp_path: Path
) -> None:
    one = ["--data", people, "--users", "user-1-000,user-1-001", "--json"]
    talked = cli("evaluate", "native", *one, "--out", tmp_path / "native").succeeded().json
    own = cli("evaluate", "native", *one, "--off-policy", tmp_path / "native").succeeded().json
    assert own["by_group"] == talked["by_group"]
    assert own["spend"].keys().isdisjoint({"reply", "user"})
    other = cli("evaluate", "awi", *one, "--off-policy", tmp_path / "native").succeeded().json
    assert other["off_policy"] == str(tmp_path / "native")
    assert other["groups"] == 2
    told = cli("evaluate", "awi", "--data", people, "--off-policy", tmp_path / "native").refused()
    assert "no episode is recorded" in told
    assert "has no recorded talks" in cli("evaluate", "awi", *one, "--off-policy", tmp_path).refused()


def test_amemgyms_result_files_are_written_beside_ours(cli: Cli, people: Path, tmp_path: Path) -> None:
    one = ["--data", people, "--users", "user-1-000", "--json", "--export", tmp_path / "theirs"]
    told = cli("evaluate", "awi", *one).succeeded().json
    overall = json.loads((tmp_path / "theirs" / "awi" / "user-1-000" / "overall_metrics.json").read_text())
    flat = [score for period in overall["accuracy"] for score in period]
    assert sum(flat) / len(flat) == pytest.approx(told["accuracy"], abs=1e-6)
    assert (tmp_path / "theirs" / "embedded" / "utilization_metrics.json").is_file()
    listened = cli("evaluate", "native", *one[:-2], "--off-policy", tmp_path / "theirs" / "awi").succeeded().json
    assert listened["groups"] == 1


def test_a_config_that_is_made_for_a_search_does_for_an_evaluation(cli: Cli, people: Path, tiny: Path) -> None:
    told = cli("evaluate", "native", "--data", people, "--config", tiny, "--users", "user-1-000", "--json").json
    assert told["groups"] == 1


def test_an_endpoint_is_asked_for_everything_and_scores_as_the_model_behind_it(
    cli: Cli, people: Path, notes: Path, endpoint: Any, server: Any, check_evaluation: Any
) -> None:
    told = (
        cli(
            "evaluate",
            notes,
            "--data",
            people,
            "--config",
            endpoint(),
            "--model",
            "openai:tiny",
            "--no-window",
            "--json",
        )
        .succeeded()
        .json
    )
    check_evaluation(told, users=8)
    assert counted(told, "calls") == len(server.asked)
    assert {body["model"] for _, body in server.asked} == {"tiny"}
    direct = cli("evaluate", notes, "--data", people, "--model", "embedded:gpt-4.1-mini", "--json").json
    for name in ("accuracy", "memory_score", "shares", "stages", "by_group"):
        assert told[name] == direct[name], name
    for kind in ("calls", "input_tokens", "output_tokens"):
        assert counted(told, kind) == counted(direct, kind)
    assert told["cost_usd"] is None, "an unknown price is not zero"
    assert told["model"] == "openai:tiny"


def test_prices_make_costs(cli: Cli, people: Path, endpoint: Any) -> None:
    config = endpoint(prices={"tiny": {"input": 2.0, "output": 8.0, "date": "2026-10-01"}})
    one = ["evaluate", "native", "--data", people, "--users", "user-1-000", "--config", config]
    told = cli(*one, "--model", "openai:tiny", "--json").succeeded().json
    tokens = [counted(told, kind) for kind in ("input_tokens", "output_tokens")]
    assert told["cost_usd"] == pytest.approx((2 * tokens[0] + 8 * tokens[1]) / 1e6)


def test_a_second_evaluation_into_the_same_folder_is_answered_from_the_cache(
    cli: Cli, people: Path, notes: Path, endpoint: Any, server: Any, tmp_path: Path
) -> None:
    command = ["evaluate", notes, "--data", people, "--config", endpoint(), "--model", "openai:tiny", "--json"]
    command += ["--no-window", "--out", tmp_path / "out"]
    first = cli(*command).succeeded().json
    asked = len(server.asked)
    assert asked == counted(first, "calls") - counted(first, "cached")
    again = cli(*command).succeeded().json
    assert len(server.asked) == asked, "nothing is paid twice"
    assert counted(again, "cached") == counted(again, "calls") == counted(first, "calls")
    assert again["cost_usd"] == 0
    for name in ("accuracy", "memory_score", "shares", "stages", "per_turn"):
        assert again[name] == first[name], name


def test_another_seed_asks_the_endpoint_anew(
    cli: Cli, people: Path, endpoint: Any, server: Any, tmp_path: Path
) -> None:
    command = ["evaluate", "native", "--data", people, "--users", "user-1-000", "--config", endpoint(), "--json"]
    command += ["--model", "openai:tiny", "--out", tmp_path / "out"]
    first = cli(*command).succeeded().json
    asked = len(server.asked)
    other = cli(*command, "--seed", "1").succeeded().json
    assert len(server.asked) == 2 * asked
    assert counted(other, "cached") == counted(first, "cached")


def test_the_cache_can_be_left_out(cli: Cli, people: Path, endpoint: Any, server: Any, tmp_path: Path) -> None:
    command = ["evaluate", "native", "--data", people, "--users", "user-1-000", "--config", endpoint(cache=False)]
    for _ in range(2):
        cli(*command, "--model", "openai:tiny", "--out", tmp_path / "out").succeeded()
    assert len(server.asked) % 2 == 0
    assert not (tmp_path / "out" / "cache.db").exists()
    bodies = [json.dumps(body, sort_keys=True) for _, body in server.asked]
    assert sorted(bodies[: len(bodies) // 2]) == sorted(bodies[len(bodies) // 2 :])


def test_an_endpoint_without_schemas_is_asked_for_objects_and_a_resumed_run_asks_nothing(
    cli: Cli, people: Path, endpoint: Any, server: Any, tmp_path: Path
) -> None:
    server.no_format = "json_schema"
    command = ["evaluate", "awi", "--data", people, "--users", "user-1-000", "--config", endpoint(), "--no-window"]
    told = cli(*command, "--model", "openai:tiny", "--out", tmp_path / "out").succeeded()
    note = "replies that are read were asked for by json_object (answer, probe, upper_bound, write)"
    assert note in told.out + told.err
    asked = [body.get("response_format", {}).get("type") for _, body in server.asked]
    assert "json_schema" in asked
    assert asked.count("json_object") > 20
    server.asked.clear()
    assert (
        note
        in (again := cli(*command, "--model", "openai:tiny", "--out", tmp_path / "out").succeeded()).out + again.err
    )
    assert not server.asked


def test_the_longest_reply_of_the_config_is_asked_of_the_endpoint(
    cli: Cli, people: Path, endpoint: Any, server: Any
) -> None:
    config = endpoint(max_tokens=300)
    command = ["evaluate", "native", "--data", people, "--users", "user-1-000", "--config", config]
    cli(*command, "--model", "openai:tiny").succeeded()
    assert {body.get("max_tokens") for _, body in server.asked} == {300}


def test_the_config_can_name_the_model_and_the_option_comes_before_it(
    cli: Cli, people: Path, server: Any, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"{{model: 'openai:named', endpoint: {{base_url: '{server.url}'}}}}", encoding="utf-8")
    command = ["evaluate", "native", "--data", people, "--users", "user-1-000", "--config", config, "--json"]
    assert cli(*command).succeeded().json["model"] == "openai:named"
    server.asked.clear()
    assert cli(*command, "--model", "embedded").succeeded().json["model"] == "embedded"
    assert server.asked == []


def test_environment_variables_point_to_an_endpoint(
    cli: Cli, people: Path, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sesame")
    cli("evaluate", "native", "--data", people, "--users", "user-1-000", "--model", "openai:tiny").succeeded()
    assert {headers["authorization"] for headers, _ in server.asked} == {"Bearer sesame"}


@pytest.mark.parametrize(
    ("policy", "options", "embedder", "told"),
    [
        ("rag", ["--model", "openai:tiny"], "lexical:1024", True),
        ("awe", ["--model", "openai:tiny", "--embedder", "lexical:16"], "lexical:16", True),
        ("awi", ["--model", "openai:tiny"], "lexical:1024", False),
        ("rag", [], "lexical:1024", False),
        ("rag", ["--embedder", "lexical:64"], "lexical:64", False),
    ],
)
def test_what_searched_a_real_models_memories_by_words_alone_is_said_once(
    cli: Cli, people: Path, endpoint: Callable[..., Path],
    policy: str, options: list[str], embedder: str, told: bool, plain: Any,
) -> None:  # fmt: skip
    command = ["evaluate", policy, "--data", people, "--users", "user-1-000", "--config", endpoint(), *options]
    done = cli(*command, "--json").succeeded()
    assert done.json["embedder"] == embedder
    assert (done.json["remark"] is not None) == told
    assert plain(done.err).count(f"by hashed words ({embedder}) and not by meaning") == told


def test_an_embedder_behind_the_endpoint_is_asked_and_counted(
    cli: Cli, people: Path, server: Any, endpoint: Callable[..., Path]
) -> None:
    command = ["evaluate", "rag", "--data", people, "--users", "user-1-000", "--config", endpoint()]
    here = cli(*command, "--json").succeeded().json
    there = cli(*command, "--embedder", "openai:small", "--out", "kept", "--json").succeeded().json
    assert there["memory_score"] == here["memory_score"]
    spend = there["spend"]["embed"]
    assert spend["calls"] == len(server.asked) + spend["cached"]
    assert (there["embedder"], there["cost_usd"]) == ("openai:small", None)
    server.asked.clear()
    again = cli(*command, "--embedder", "openai:small", "--out", "kept", "--json").succeeded().json
    assert server.asked == []
    assert again["spend"]["embed"] == {**spend, "cached": spend["calls"], "cost_usd": 0}


@pytest.mark.usefixtures("store")
def test_the_scores_can_be_logged_in_mlflow(cli: Cli, people: Path) -> None:
    arguments = ["evaluate", "awe", "--data", people, "--context-tokens", "1000", "--tracking"]
    told = cli(*arguments, "sqlite:///mlflow.db", "--json").succeeded().json
    client = MlflowClient("sqlite:///mlflow.db")
    (run,) = client.search_runs([e.experiment_id for e in client.search_experiments()])
    assert run.info.run_name == "evaluate awe"
    assert run.data.metrics["memory_score"] == round(told["memory_score"], 4)
    assert run.data.metrics["over_window"] == round(told["over_window"]["memory_score"], 4)
    assert (run.data.params["data"], run.data.params["context_tokens"]) == (str(people), "1000")
    Path("study.db").write_bytes(b"not a database at all")
    assert "tracking.uri: MLflow cannot use study.db" in cli(*arguments, "sqlite:///study.db").refused()


@pytest.mark.usefixtures("store")
def test_a_store_that_fails_after_the_work_loses_nothing_of_what_is_printed(cli: Cli, people: Path, plain: Any) -> None:
    store = Path("mlflow.db").resolve()
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'of a later MLflow'")
    arguments = ["evaluate", "native", "--data", people, "--users", "user-1-000", "--tracking", f"sqlite:///{store}"]
    for form, shown in (["--json"], '"policy": "native"'), ([], "native"):
        done = cli(*arguments, *form)
        assert done.code == 1
        assert shown in plain(done.out)
        assert f"tracking.uri: MLflow cannot use sqlite:///{store}" in done.err


def test_a_store_whose_password_is_hidden_has_that_of_the_environment(
    cli: Cli, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://me:secret@127.0.0.1:9/none")
    refused = cli("evaluate", "native", "--data", people, "--tracking", "postgresql://***@127.0.0.1:9/none").refused()
    assert refused.startswith("tracking.uri: MLflow cannot use postgresql://***@127.0.0.1:9/none: ")
    assert "secret" not in refused


def test_nothing_is_written_without_out(cli: Cli, people: Path) -> None:
    cli("evaluate", "native", "--data", people, "--users", "user-1-000").succeeded()
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize(
    ("score", "reason"),
    [(0.1, "fails even when it is given exactly what it needs"), (1.0, "memory is not needed here")],
)
def test_a_ceiling_at_the_floor_is_explained_by_how_high_both_are(score: float, reason: str) -> None:
    row = Summary(policy="rag", floor=score, ceiling=score)
    remarks = list(_remarks({"rag": row}, "rag", model="embedded", track=DialogueTrack(Templates.bundled())))
    assert [remark for remark in remarks if reason in remark] == [remark for remark in remarks if "ceiling" in remark]
    assert any(reason in remark for remark in remarks)
